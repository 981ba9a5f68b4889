"""What guessing gives over an evaluation's questions, and values on the scale on which guessing is 0 and perfect 1."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import case, func, or_, select, table
from sqlalchemy import column as column_of
from sqlalchemy.orm import Session

from registry.db import among
from registry.results.errata import RESCORED, left_out
from registry.statistics.guessing import corrected
from registry.tables import Evaluation, Question, QuestionScore

CORRECTED: Final = ("accuracy", "worst_accuracy")
"""The metrics that are shown above chance where that is asked for."""

_SCOPES: Final = table("evaluation_question_scope", *map(column_of, ("evaluation_id", "question_id", "scope")))


def chances(session: Session, evaluation_ids: Iterable[int], scope: str = "all") -> dict[int, dict[str, float | None]]:
    """Evaluation to what guessing gives in each metric of CORRECTED, in [0, 1), over the scope's questions.

    scope: one of RESCORED stands for the newest errata of each benchmark.

    Means over the questions that have the metric, of k options and M orders: 1/k for accuracy, 1/k^M for worst
    accuracy, since each prompt is a guess of its own. None where no question has it.
    """
    score = QuestionScore
    counted = (
        select(
            score.evaluation_id,
            Question.n_options,
            # Of a question that was asked until it was decided, all variants count.
            case((Evaluation.stopped_for.is_(None), score.variants), else_=score.expected).label("guesses"),
            score.original_correct.is_not(None).label("has_original"),
            or_(score.distinct_prompts > 1, Evaluation.stopped_for.is_not(None)).label("tested"),
            func.count().label("questions"),
        )
        .join(Question, Question.id == score.question_id)
        .join(Evaluation, Evaluation.id == score.evaluation_id)
        .where(among(score.evaluation_id, list(evaluation_ids)))
        .group_by(score.evaluation_id, Question.n_options, "guesses", "has_original", "tested")
    )
    if scope in RESCORED:
        counted = counted.where(score.question_id.not_in(left_out(scope)))
    elif scope != "all":
        of = _SCOPES.c
        member = (of.evaluation_id == score.evaluation_id) & (of.question_id == score.question_id)
        counted = counted.join(_SCOPES, member).where(of.scope == scope)
    sums: dict[int, dict[str, tuple[float, int]]] = {}
    for evaluation_id, k, variants, has_original, tested, questions in session.execute(counted):
        has = {"accuracy": (has_original, 1), "worst_accuracy": (tested and variants > 0, variants)}
        found = sums.setdefault(evaluation_id, dict.fromkeys(CORRECTED, (0.0, 0)))
        for metric, (defined, prompts) in has.items():
            if defined:
                total, n = found[metric]
                found[metric] = (total + questions / k**prompts, n + questions)
    return {
        evaluation_id: {metric: total / n if n else None for metric, (total, n) in found.items()}
        for evaluation_id, found in sums.items()
    }


def above_chance(row: dict[str, Any], chance: dict[str, float | None]) -> dict[str, dict[str, float | None]]:
    """Metric of CORRECTED to `value`, `chance`, `interval_low` and `interval_high` of a leaderboard's row.

    The interval is that of the metric on the new scale: guessing is known exactly, so it adds no uncertainty.
    """
    found = {}
    for metric in CORRECTED:
        counts, guessed = row["counts"].get(metric, {}), chance.get(metric)
        found[metric] = {
            "value": corrected(row.get(metric), guessed),
            "chance": guessed,
            **{end: corrected(counts.get(end), guessed) for end in ("interval_low", "interval_high")},
        }
    return found
