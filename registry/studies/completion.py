"""Whether a model completes a benchmark's options verbatim more often in the order that was published than in others.

A model that was trained on a question as it was published may write on from any place among its options as they stood
there. A fluent one completes much of any text, so that the share completed says nothing alone: the control is the same
question with the key in its place and the other options in another order. Authors may have put the options into the
order that is easiest for any fluent model; so a second control is a model of its kind.
What that assumes, and what it finds: docs/decisions/0081-completing-options-verbatim.md.
Sources: Xu et al., *Benchmarking Benchmark Leakage in Large Language Models* (2024), whose measure is n-gram accuracy;
Ni et al., *Training on the Benchmark Is Not All You Need* (2024), whose control is another order of the options.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from registry.digests import sha256_text
from registry.prompting.labels import letter
from registry.prompting.prompts import QuestionText, question_text
from registry.prompting.variants import seeded_order
from registry.queue.evaluations import select_questions
from registry.statistics.bootstrap import SEED
from registry.statistics.original_order import DRAWS, LEVEL, Asked, Measure, compare_with_other_orders
from registry.tables import BenchmarkVersion

NGRAM: Final = 5
"""Tokens that are to be completed from each place."""
ORDERS: Final = 6
"""Orders of a question that are compared, at most: all orders of three options, with a fourth in its place."""

Order = tuple[int, ...]


@dataclass(frozen=True)
class Texts:
    """Texts of questions, in several orders of their options each, the published one at `published`.

    flagged: questions whose options refer to each other or are sorted numbers, whose published order is special to any
    model. other: questions of which the key and one option more are all there is.
    """

    orders: list[tuple[str, ...]]
    published: list[int]
    flagged: int
    other: int


def texts_in_orders(session: Session, version: BenchmarkVersion, limit: int, *, seed: int = SEED) -> Texts:
    """The texts of so many questions of a benchmark version, which are drawn by their names."""
    questions = sorted(select_questions(session, version), key=lambda row: sha256_text(f"{seed}:{row.external_id}"))[
        :limit
    ]
    orders, published = [], []
    flagged = other = 0
    for row in questions:
        if row.refers_to_options or row.sorted_numeric:
            flagged += 1
        elif len(row.options) < 3:
            other += 1
        else:
            question = question_text(row)
            compared = compared_orders(question.external_id, len(question.options), question.answer, seed=seed)
            orders.append(tuple(published_text(question, order) for order in compared))
            published.append(compared.index(tuple(range(len(question.options)))))
    return Texts(orders, published, flagged, other)


def compared_orders(question_id: str, options: int, key: int, *, seed: int = SEED) -> list[Order]:
    """The published order and others that have the key at the same position: all, or ORDERS of them, sorted.

    The others are drawn without looking at the published one, so that any of these is as likely to have been it.
    """
    rest = [option for option in range(options) if option != key]

    def with_key(order: Sequence[int]) -> Order:
        return (*order[:key], key, *order[key:])

    if math.factorial(len(rest)) <= ORDERS:
        return [with_key(order) for order in itertools.permutations(rest)]
    found = {tuple(range(options))}
    for draw in itertools.count():
        if len(found) == ORDERS:
            return sorted(found)
        found.add(with_key(seeded_order(rest, seed=seed, kind="completion", question_id=question_id, variant=draw)))
    raise AssertionError


def published_text(question: QuestionText, order: Order) -> str:
    """A question with its options in an order, as benchmarks are commonly printed; without an answer."""
    lines = [f"{letter(position)}. {question.options[option]}" for position, option in enumerate(order)]
    return "\n".join([*([question.context] if question.context else []), question.text, *lines])


Shares = Sequence[Sequence[float] | None]
"""Of the places among a question's options, how many a model completes verbatim, by order; None where the question is
too long or too short to ask."""


def completion_document(texts: Texts, shares: Shares, reference: Shares | None = None) -> dict[str, Any]:
    """Whether the published order is an outlier among those compared, as JSON.

    shares: of the model; reference: of a model of its kind, over which it is tested by how much more the model
    completes. `completed` is the mean over questions as published, `expected` that of all orders; `reference` has the
    same of the other. `outlier`: whether `p_value` is at most `level`; both None, with `why`, where nothing can be
    told: without a reference, because the order that authors chose may be the easiest for any fluent model.
    """
    both = [
        (np.array(own), np.array(own if other is None else other), place)
        for own, other, place in zip(shares, reference or shares, texts.published, strict=True)
        if own is not None and (reference is None or other is not None)
    ]
    found = _compared([(own - other if reference else own, place) for own, other, place in both])
    # Only a p-value needs draws.
    plain = _compared([(own, place) for own, _, place in both], draws=0)
    others = _compared([(other, place) for _, other, place in both], draws=0) if reference else None
    p_value = found.p_value if found is not None and reference else None
    if found is None or found.p_value is None:
        why = "the order changes nothing that the model completes" if both else _why_none(texts)
    else:
        why = NO_REFERENCE
    return {
        "n": NGRAM,
        "questions": len(both),
        "flagged": texts.flagged,
        "other": texts.other + len(shares) - len(both),
        "level": LEVEL,
        "seed": SEED,
        "completed": None if plain is None else plain.observed,
        "expected": None if plain is None else plain.expected,
        "reference": None if others is None else {"completed": others.observed, "expected": others.expected},
        "p_value": p_value,
        "outlier": None if p_value is None else p_value <= LEVEL,
        "why": why if p_value is None else None,
    }


NO_REFERENCE: Final = (
    "the published order may be the easiest for any fluent model; name a model of its kind that did not see the "
    "benchmark, with --reference"
)


def _compared(values: Sequence[tuple[NDArray[np.float64], int]], draws: int = DRAWS) -> Measure | None:
    asked = [Asked(of_orders.reshape(1, 1, -1), 0, place) for of_orders, place in values]
    found = compare_with_other_orders(asked, draws=draws)
    return None if found is None else found.measures[0]


def _why_none(texts: Texts) -> str:
    if texts.orders:
        return "every question is too long for the model, or too short"
    if texts.flagged:
        return "the options of every question refer to each other or are sorted numbers"
    return "no question has three options or more, so that there is no other order with the key in its place"
