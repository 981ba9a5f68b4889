"""The spread of an evaluation's accuracies over orders, and over positions of the right option."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import find_sealed
from registry.predictions.stored import require_rows
from registry.statistics.spread import Floats, Spread, order_shift, position_bias
from registry.tables import Prediction, Question, QuestionScore


def spread_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Return position bias and order shift of an evaluation, with intervals, over all answers of tested questions.

    position_bias: the standard deviation of recall over the positions of the right option, net of the sampling of
    questions. order_shift: the distance between the accuracies in two randomly chosen orders, also net of sampling. An
    order is a variant, with all its repeats; it is the same order for all questions only if the kind of variants makes
    it so. Each is None for fewer than two positions or orders, else it has `value`, `interval` and the `accuracies`
    that it is computed from.

    Raises NotFoundError, QueueError for an unsealed one, and UsageError if no question has answers in two orders.
    """
    evaluation = find_sealed(session, evaluation_id)
    require_rows(session, evaluation_id)
    p, score = Prediction, QuestionScore
    query = (
        select(p.question_id, p.variant, p.shown, p.correct, Question.answer)
        .join(Question, Question.id == p.question_id)
        .join(score, (score.evaluation_id == p.evaluation_id) & (score.question_id == p.question_id))
        .where(p.evaluation_id == evaluation_id, p.own_options, p.question_shown, score.distinct_prompts > 1)
    )
    rows = session.execute(query).all()
    if not rows:
        raise UsageError(f"evaluation {evaluation_id}: no question was asked in two orders; ask with --variants cyclic")
    questions = [row.question_id for row in rows]
    right = [bool(row.correct) for row in rows]
    times = evaluation.repeats or 1
    positions = [list(row.shown).index(row.answer) for row in rows]
    orders = [row.variant // times for row in rows]
    return {
        "evaluation": evaluation.id,
        "questions": len(set(questions)),
        "position_bias": _describe_spread(position_bias, *_count_by_group(questions, positions, right)),
        "order_shift": _describe_spread(order_shift, *_count_by_group(questions, orders, right)),
    }


def _count_by_group(questions: Sequence[int], groups: Sequence[int], right: Sequence[bool]) -> tuple[Floats, Floats]:
    """Return right answers and all answers of each question in each group, both of shape (questions, groups)."""
    question_ids, row = np.unique(questions, return_inverse=True)
    names, column = np.unique(groups, return_inverse=True)
    counts, hits = np.zeros((2, question_ids.size, names.size))
    np.add.at(counts, (row, column), 1.0)
    np.add.at(hits, (row, column), np.asarray(right, dtype=np.float64))
    return hits, counts


def _describe_spread(
    function: Callable[[Floats, Floats], Spread | None], hits: Floats, counts: Floats
) -> dict[str, Any] | None:
    spread = function(hits, counts)
    if spread is None:
        return None
    return {
        "value": spread.value,
        "interval": None if spread.interval is None else [spread.interval.low, spread.interval.high],
        "accuracies": (hits.sum(axis=0) / counts.sum(axis=0)).tolist(),
    }
