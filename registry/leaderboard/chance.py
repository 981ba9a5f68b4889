"""Accuracy of guessing over an evaluation's questions, and values on the scale from guessing (0) to perfect (1)."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import column as column_of
from sqlalchemy import func, select, table
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.statistics.guessing import correct_for_guessing
from registry.tables import Question, QuestionScore

CORRECTED: Final = ("accuracy",)
"""The metrics that can be shown above chance.

None over several orders, since the result of answering without knowing the question then depends on the manner: with
four orders of four options, drawing again in each order is right in all of them in .004 of cases, and preferring one
content in .25.
"""

_SCOPES: Final = table("evaluation_question_scope", *map(column_of, ("evaluation_id", "question_id", "scope")))


def chances(session: Session, evaluation_ids: Iterable[int], scope: str = "all") -> dict[int, float]:
    """Map each evaluation to the accuracy of guessing, in (0, 1), over the scope's questions in the original order.

    The mean of 1/k over the questions, with k options each. An evaluation without the original order has no entry.
    """
    score = QuestionScore
    found = (
        select(score.evaluation_id, func.avg(1.0 / Question.n_options))
        .join(Question, Question.id == score.question_id)
        .where(is_in(score.evaluation_id, list(evaluation_ids)), score.original_correct.is_not(None))
        .group_by(score.evaluation_id)
    )
    if scope != "all":
        scopes = _SCOPES.c
        member = (scopes.evaluation_id == score.evaluation_id) & (scopes.question_id == score.question_id)
        found = found.join(_SCOPES, member).where(scopes.scope == scope)
    return {evaluation_id: float(chance) for evaluation_id, chance in session.execute(found)}


def compute_above_chance(row: dict[str, Any], guessed: float | None) -> dict[str, dict[str, float | None]]:
    """Map each metric of CORRECTED to `value`, `chance`, `interval_low` and `interval_high` of a leaderboard's row.

    The interval is the metric's on the new scale: guessing is known exactly, so it adds no uncertainty.
    """
    found = {}
    for metric in CORRECTED:
        counts = row["counts"].get(metric, {})
        found[metric] = {
            "value": correct_for_guessing(row.get(metric), guessed),
            "chance": guessed,
            **{end: correct_for_guessing(counts.get(end), guessed) for end in ("interval_low", "interval_high")},
        }
    return found
