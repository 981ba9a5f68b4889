"""Signs that a model was trained on a benchmark: whether the order that was published stands out among all orders.

Of the answers that an evaluation has anyway; the test is `registry.statistics.original_order`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.lookups import find_sealed
from registry.results.asked import first_answers
from registry.results.readable import readable
from registry.statistics.bootstrap import SEED
from registry.statistics.original_order import LEVEL, Asked, compare_with_other_orders
from registry.tables import Prediction, Question

Order = tuple[int, ...]
Answer = tuple[float, float | None]

MEASURES: Final = {"accuracy": "Accuracy", "key_logprob": "Log-probability of the key (nats)"}
"""The share of right answers, and how probable the key is among the options, with their labels."""
LEAST_PROBABILITY: Final = 1e-12
"""Below it one probability is as low as another: a single question must not outweigh all others."""


@dataclass(frozen=True)
class AllOrders:
    """The questions that were asked in all orders, or in all rotations, and how many others there are.

    with_logprobs: whether they have the second measure. flagged: asked so, but with options that refer to each other or
    are sorted numbers, whose published order is special to any model. other: not asked so.
    """

    questions: list[Asked]
    with_logprobs: bool
    flagged: int
    other: int


def contamination_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Whether the published order is an outlier in an evaluation's answers, as JSON.

    `p_value` is exact for all measures together; `outlier` whether it is at most `level`. Both are None, and `why` says
    why, where the orders that were asked cannot tell. Raises NotFoundError, and QueueError where it is not sealed.
    """
    evaluation = find_sealed(session, evaluation_id)
    asked = all_orders(session, evaluation.id)
    found = compare_with_other_orders(asked.questions)
    p_value = None if found is None else found.p_value
    return {
        "evaluation": evaluation.id,
        "questions": len(asked.questions),
        "flagged": asked.flagged,
        "other": asked.other,
        "level": LEVEL,
        "seed": SEED,
        "p_value": p_value,
        "outlier": None if p_value is None else p_value <= LEVEL,
        "why": _why(asked, drawn=found is not None) if p_value is None else None,
        "measures": {
            name: {"label": label, **asdict(measure)}
            for (name, label), measure in zip(MEASURES.items(), found.measures, strict=False)
        }
        if found is not None
        else {},
    }


def _why(asked: AllOrders, *, drawn: bool) -> str:
    if drawn:
        return "the order changes no answer"
    if asked.questions:
        return "the keys of all questions stand at the same position"
    if asked.flagged:
        return "the options of every question refer to each other or are sorted numbers"
    return "no question was asked in all rotations or all orders of its options: use the variants cyclic or full"


def all_orders(session: Session, evaluation_id: int) -> AllOrders:
    """The answers of an evaluation by question and order."""
    readable(session, [evaluation_id])
    query = (
        select(
            Prediction.question_id,
            Question.external_id,
            Question.answer,
            Question.n_options,
            Question.refers_to_options | Question.sorted_numeric,
            Prediction.shown,
            Prediction.correct,
            Prediction.answer_probability,
        )
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.own_options, Prediction.question_shown)
        .where(first_answers(session, evaluation_id))
        .order_by(Prediction.question_id, Prediction.variant)
    )
    answers: dict[int, dict[Order, list[Answer]]] = {}
    of_question: dict[int, tuple[str, int, int, bool]] = {}
    for question_id, name, key, options, flagged, shown, correct, probability in session.execute(query):
        of_question[question_id] = (name, key, options, bool(flagged))
        logprob = None if probability is None else math.log(max(probability, LEAST_PROBABILITY))
        answers.setdefault(question_id, {}).setdefault(tuple(shown), []).append((float(correct), logprob))
    # By name, so that the same draws are made in every registry.
    ordered = sorted(of_question.items(), key=lambda item: item[1])
    complete = {number: of for number, of in ordered if _all_asked(answers[number], of[2])}
    kept = {number: key for number, (_, key, _, flagged) in complete.items() if not flagged}
    known = [logprob for number in kept for given in answers[number].values() for _, logprob in given]
    with_logprobs = bool(known) and None not in known
    return AllOrders(
        [_asked(answers[number], key, with_logprobs=with_logprobs) for number, key in kept.items()],
        with_logprobs,
        len(complete) - len(kept),
        len(of_question) - len(complete),
    )


def _all_asked(orders: Mapping[Order, object], options: int) -> bool:
    """Whether these are all orders, or all rotations: whichever of them was published, the others would be the same."""
    rotations = {tuple((place + step) % options for place in range(options)) for step in range(options)}
    return options > 1 and (len(orders) == math.factorial(options) or orders.keys() == rotations)


def _asked(answers: Mapping[Order, Sequence[Answer]], key: int, *, with_logprobs: bool) -> Asked:
    """Orders with the key at one position stand in the order of their options, so that every question's are alike."""
    orders = sorted(answers, key=lambda order: (order.index(key), order))
    size = len(next(iter(answers)))
    measures = 2 if with_logprobs else 1
    means = np.array([[_mean([answer[m] for answer in answers[order]]) for order in orders] for m in range(measures)])
    place = orders.index(tuple(range(size)))
    others = len(orders) // size
    return Asked(means.reshape(measures, size, others), *divmod(place, others))


def _mean(values: Sequence[float | None]) -> float:
    return math.fsum(value for value in values if value is not None) / len(values)
