"""The answers of a board's models in each order, for what leaving out orders would change."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.fragility import (
    ABSENT,
    NO_ANSWER,
    OF_ORDERS,
    RIGHT,
    Answers,
    TiersWithoutOrders,
    WithoutOrders,
    fewest_orders,
    fewest_orders_of_tiers,
)
from registry.metrics import METRICS
from registry.predictions.stored import require_rows
from registry.scores.asked import first_answers
from registry.tables import Evaluation, Prediction, Variant

KINDS: Final = ("cyclic", "full")
"""Variants that differ in their order and in nothing else, and are the same for all questions of so many options."""

MOST_ANSWERS: Final = 2_000_000
"""Of more answers than these, orders are not left out: reading them would take minutes."""


def without_orders(
    session: Session,
    metric: str,
    evaluations: Sequence[Sequence[Sequence[Evaluation]]],
    question_ids: Sequence[Sequence[Sequence[int]]],
) -> tuple[WithoutOrders | None, TiersWithoutOrders | None, dict[int, str]]:
    """What `fewest_orders` and `fewest_orders_of_tiers` find, and the names of the orders by their numbers.

    evaluations: of each model by task and entry; question_ids: by task and entry. None where the metric depends on more
    than the answers in each order, for other variants than KINDS, and for more than MOST_ANSWERS.
    """
    every = [item for own in evaluations for of_task in own for item in of_task]
    if metric not in OF_ORDERS or any(item.variant_set.kind not in KINDS for item in every):
        return None, None, {}
    if sum(item.prompts for item in every) > MOST_ANSWERS:
        return None, None, {}
    answers = [
        [
            [_answers(session, item.id, ids) for item, ids in zip(of_task, wanted, strict=True)]
            for of_task, wanted in zip(own, question_ids, strict=True)
        ]
        for own in evaluations
    ]
    orders = max(part.shape[1] for own in answers for of_task in own for part in of_task)
    models = [[np.concatenate([_wide(part, orders) for part in of_task]) for of_task in own] for own in answers]
    query = select(Variant.ordinal, Variant.name).where(Variant.variant_set_id == every[0].variant_set_id)
    times = every[0].repeats or 1
    ordered = session.execute(query.order_by(Variant.n_options))
    names = {row.ordinal // times: row.name for row in ordered if row.ordinal % times == 0}
    better = METRICS[metric].better
    return fewest_orders(models, metric, better), fewest_orders_of_tiers(models, metric, better), names


def _wide(answers: Answers, orders: int) -> Answers:
    """With places for so many orders."""
    return np.pad(answers, ((0, 0), (0, orders - answers.shape[1])), constant_values=ABSENT)


def _answers(session: Session, evaluation_id: int, question_ids: Sequence[int]) -> Answers:
    """The answers of an evaluation to some questions."""
    query = select(Prediction.question_id, Prediction.variant, Prediction.correct, Prediction.chosen_option).where(
        Prediction.evaluation_id == evaluation_id,
        Prediction.own_options,
        Prediction.question_shown,
        first_answers(session, evaluation_id),
    )
    places = {question_id: place for place, question_id in enumerate(question_ids)}
    require_rows(session, evaluation_id)
    rows = [row for row in session.execute(query) if row[0] in places]
    times = session.get_one(Evaluation, evaluation_id).repeats or 1
    found = np.full((len(places), 1 + max((row[1] // times for row in rows), default=0)), ABSENT, dtype=np.int16)
    for question_id, variant, correct, option in rows:
        wrong = NO_ANSWER if option is None else 1 + option
        found[places[question_id], variant // times] = RIGHT if correct else wrong
    return found
