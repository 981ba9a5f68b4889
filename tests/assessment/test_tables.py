"""Metrics computed on arrays, compared with their definitions for each question."""

import math
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from registry.errors import SealError
from registry.metrics import METRICS, VariantOutcome
from registry.metrics.probability import brier, compute_entropy, renormalise
from registry.prompting.variants import permutation_of_rank
from registry.studies.assessment.orders import DRAWS, SUBSETS, draw_ranks, rank_of, subset_ranks
from registry.studies.assessment.tables import OVER_ORDERS, metric_values, order_tables, question_metrics


@dataclass(frozen=True)
class Row:
    question_id: int
    shown: list[int]
    chosen_option: int | None
    answer_probability: float | None
    brier_score: float | None
    entropy: float | None


def random_rows(random: Random, question_id: int, L: int, answer: int) -> tuple[list[Row], list[VariantOutcome]]:
    """Return all orders of a question, as rows and outcomes; some without an answer or without probabilities."""
    rows, outcomes = [], []
    steady, answered = random.random() < 0.3, random.random() < 0.7
    usual = random.choice([answer, random.randrange(L), None])
    for rank in range(math.factorial(L)):
        order = permutation_of_rank(L, rank)
        option = usual if steady else random.choice([None, answer, *range(L)])
        p = renormalise([random.choice([0.0, 0.5, 1.0, 3.0]) + 0.1 * (x == 0) for x in range(L)])
        if not answered and random.random() < 0.5:
            p = None
        right = order.index(answer)
        rows.append(
            Row(
                question_id,
                list(order),
                option,
                None if p is None else p[right],
                None if p is None else brier(p, right),
                None if p is None else compute_entropy(p),
            )
        )
        outcomes.append(
            VariantOutcome(
                variant=rank,
                option=option,
                answer=answer,
                order=order,
                probabilities=None if p is None else tuple(p),
                original=rank == 0,
            )
        )
    return rows, outcomes


def in_order_of(ranks, outcomes: list[VariantOutcome]) -> list[VariantOutcome]:
    """Return the outcomes for a set of orders, with the set's own ordinals."""
    return [VariantOutcome(**{**vars(outcomes[rank]), "variant": place}) for place, rank in enumerate(ranks)]


@pytest.fixture(scope="module")
def drawn():
    random = Random(7)
    questions, rows, outcomes = [], [], {}
    for number in range(60):
        L = 2 + number % 4
        answer = random.randrange(L)
        questions.append(SimpleNamespace(id=number, external_id=f"q{number}", n_options=L, answer=answer))
        of_question, outcomes[number] = random_rows(random, number, L, answer)
        rows += of_question
    random.shuffle(rows)  # an order is identified by the shown options, not by the position of its row
    return questions, order_tables(questions, rows, 1), outcomes


def ranks_under_test(L: int):
    yield from (subset_ranks(subset, L) for subset in SUBSETS)
    yield range(math.factorial(L))
    yield from draw_ranks("pair", L)[:5]
    yield from draw_ranks("L-tuple", L)[:5]


def test_each_question_has_the_values_of_the_definitions(drawn):
    questions, tables, outcomes = drawn
    compared = undefined = 0
    for table in tables:
        ids = [question.id for question in questions if question.n_options == table.n_options]
        for ranks in ranks_under_test(table.n_options):
            computed = question_metrics(table, ranks)
            assert set(computed) == {*OVER_ORDERS, "retest_accuracy"}
            for name, values in computed.items():
                for row, question_id in enumerate(ids):
                    per_question = METRICS[name].per_question
                    assert per_question is not None
                    selected = in_order_of(ranks, outcomes[question_id])
                    expected = per_question(selected)
                    if name == "average_accuracy" and len(selected) == 1:
                        expected = float(selected[0].correct)
                    if expected is None:
                        assert np.isnan(values[row]), (name, ranks)
                        undefined += 1
                    else:
                        assert values[row] == pytest.approx(expected, abs=1e-12), (name, ranks)
                        compared += 1
    assert compared > 4000
    assert undefined > 500


def test_several_numbers_of_options_have_the_mean_over_all_questions(drawn):
    questions, tables, outcomes = drawn
    for subset in SUBSETS:
        computed = metric_values(tables, lambda L, subset=subset: subset_ranks(subset, L))
        selected = [
            in_order_of(subset_ranks(subset, question.n_options), outcomes[question.id]) for question in questions
        ]
        for name, (value, n) in computed.items():
            of_one_order = subset == "original" and name == "average_accuracy"
            expected, count = METRICS["accuracy" if of_one_order else name].over_questions(selected)
            assert n == count
            assert value == (None if expected is None else pytest.approx(expected, abs=1e-12))


def test_a_sealed_question_that_lacks_orders_is_named():
    question = SimpleNamespace(id=1, external_id="odd one", n_options=3, answer=0)
    rows, _ = random_rows(Random(0), 1, 3, 0)
    with pytest.raises(SealError, match=r"evaluation 9: question odd one lacks 1 of its 6 orders .* verify 9"):
        order_tables([question], rows[1:], 9)


# Orders


def test_subsets_show_the_orders_of_the_contract():
    assert subset_ranks("original", 4) == (0,)
    assert subset_ranks("original-inverse", 4) == (0, 23)
    assert [permutation_of_rank(3, rank) for rank in subset_ranks("cyclic", 3)] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert subset_ranks("random2", 4) == (12, 13)
    assert subset_ranks("randomL", 4) == (12, 13, 1, 8)
    assert rank_of(4)[2, 0, 1, 3] == 12


@pytest.mark.parametrize("L", [2, 3, 4, 5, 6])
def test_a_hundred_sets_of_distinct_orders_are_drawn_beginning_with_random_l(L: int):
    tuples, pairs = draw_ranks("L-tuple", L), draw_ranks("pair", L)
    assert tuples[0] == subset_ranks("randomL", L)
    assert len(tuples) == len(pairs) == DRAWS == 100
    assert all(len(set(draw)) == L for draw in tuples)
    assert all(len(set(draw)) == 2 for draw in pairs)
    assert {rank for draw in pairs for rank in draw} <= set(range(math.factorial(L)))
    assert len(set(pairs)) > 1
