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
"""Metrics that can be shown relative to chance.

Metrics over several orders are left out because their chance level depends on how a model guesses: with four orders of
four options, an independent guess in each order is right in all of them in .004 of cases, and always guessing the same
option in .25.
"""

_SCOPES: Final = table("evaluation_question_scope", *map(column_of, ("evaluation_id", "question_id", "scope")))


def chances(session: Session, evaluation_ids: Iterable[int], scope: str = "all") -> dict[int, float]:
    """Return the accuracy of guessing, in (0, 1), for each evaluation over the questions of a scope.

    It is the mean of 1/k over the questions with an answer in the original order, with k options each. An evaluation
    without such questions has no entry.
    """
    score = QuestionScore
    query = (
        select(score.evaluation_id, func.avg(1.0 / Question.n_options))
        .join(Question, Question.id == score.question_id)
        .where(is_in(score.evaluation_id, list(evaluation_ids)), score.original_correct.is_not(None))
        .group_by(score.evaluation_id)
    )
    if scope != "all":
        scopes = _SCOPES.c
        member = (scopes.evaluation_id == score.evaluation_id) & (scopes.question_id == score.question_id)
        query = query.join(_SCOPES, member).where(scopes.scope == scope)
    return {evaluation_id: float(chance) for evaluation_id, chance in session.execute(query)}


def compute_above_chance(row: dict[str, Any], guessed: float | None) -> dict[str, dict[str, float | None]]:
    """Return the metrics of CORRECTED in a leaderboard row on the scale from guessing (0) to perfect (1).

    Each metric has `value`, `chance`, `interval_low` and `interval_high`. The stored interval is only rescaled:
    guessing is known exactly, so it adds no uncertainty.
    guessed: the accuracy of guessing; None if unknown.
    """
    scaled = {}
    for metric in CORRECTED:
        counts = row["counts"].get(metric, {})
        scaled[metric] = {
            "value": correct_for_guessing(row.get(metric), guessed),
            "chance": guessed,
            **{end: correct_for_guessing(counts.get(end), guessed) for end in ("interval_low", "interval_high")},
        }
    return scaled
