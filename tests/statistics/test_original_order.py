"""Whether a published order is an outlier: exact levels, models that like a position, and models that saw it."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from registry.scores.contamination import standardised
from registry.statistics.original_order import CLEAR, DRAWS, FIRST_DRAWS, Asked, compare_with_other_orders
from tests.contaminated import (
    LIKES_FIRST,
    MOSTLY_FIRST,
    Liking,
    OnOptions,
    is_outlier,
    is_outlier_of_any_order,
    made_up,
)
from tests.marks import long_but


def asked(values, key, others=0):
    return Asked(np.array(values, dtype=float)[None, :, None], key, others)


def test_the_p_value_is_the_share_of_all_exchanges_of_keys_that_do_as_well():
    generator = np.random.default_rng(3)
    values, keys = generator.random((5, 5)), [0, 1, 2, 3, 4]
    found = compare_with_other_orders([asked(row, key) for row, key in zip(values, keys, strict=True)])
    sums = [values[range(5), order].mean() for order in permutations(keys)]
    (measure,) = found.measures
    assert measure.observed == pytest.approx(values[range(5), keys].mean())
    assert measure.expected == pytest.approx(np.mean(sums))
    exact = np.mean(np.array(sums) >= measure.observed - 1e-12)
    assert found.p_value == measure.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / FIRST_DRAWS))


def test_the_orders_of_the_other_options_are_drawn_where_they_were_asked():
    # The key stands first in both questions; only the first of six orders of the others is answered.
    values = np.zeros((1, 4, 6))
    values[0, 0, 0] = 1
    found = compare_with_other_orders([Asked(values, 0, 0), Asked(values, 0, 0)])
    assert found.measures[0].expected == pytest.approx(1 / 6)
    assert found.p_value == pytest.approx(1 / 36, abs=4 * np.sqrt(1 / 36 / DRAWS))


def test_nothing_is_said_where_nothing_else_could_be_drawn_or_everything_is_alike():
    assert compare_with_other_orders([asked([1, 0], 0), asked([0, 1], 0)]) is None
    same = compare_with_other_orders([asked([1, 1], 0), asked([0, 0], 1)])
    assert (same.p_value, same.measures[0].p_value) == (None, None)


@pytest.mark.parametrize("others", long_but([1], [1, 6]))
def test_a_model_that_likes_a_position_is_no_outlier_though_the_keys_stand_there_and_one_that_saw_the_order_is(others):
    generator = np.random.default_rng(0)
    untouched = [made_up(generator, others=others, shares=MOSTLY_FIRST) for _ in range(100)]
    assert sum(map(is_outlier, untouched)) <= 4  # 1 expected, 5 or more in 0.3 % of such hundreds
    assert sum(is_outlier_of_any_order(generator, benchmark) for benchmark in untouched) > 90
    seen = [made_up(generator, others=others, shares=MOSTLY_FIRST, seen=0.3) for _ in range(20)]
    assert sum(map(is_outlier, seen)) >= 18


def test_a_liking_alone_explains_all_of_itself():
    # Every question answers by the position alone, as in a model that never reads it.
    benchmark = [asked(LIKES_FIRST, key) for key in (0, 0, 0, 1, 2)]
    assert compare_with_other_orders(benchmark).p_value is None


def test_a_liking_for_lengths_and_their_squares_explains_all_of_itself():
    # The key stands where its question's lengths suit the model best.
    generator = np.random.default_rng(2)
    benchmark = []
    for _ in range(60):
        lengths = standardised(generator.choice(100, 3, replace=False))
        of_places = np.array([np.roll(lengths, place) for place in range(3)])[:, None]
        values = (of_places[..., 0] + of_places[..., 1] ** 2)[None]
        benchmark.append(Asked(values, int(values.argmax()), 0, of_places))
    assert compare_with_other_orders([replace(one, lengths=None) for one in benchmark]).p_value < 0.001
    assert compare_with_other_orders(benchmark).p_value is None


def test_simulations_of_many_models_have_the_p_values_of_each():
    generator = np.random.default_rng(4)
    options = [["a" * length for length in generator.integers(1, 40, 4)] for _ in range(80)]
    made = OnOptions(options, generator.integers(4, size=80).tolist())
    answers = made.answers(generator, 6, Liking(position=2, length=1, seen=0.1))
    for of_model, p_values in zip(answers, made.p_values(answers), strict=True):
        found = compare_with_other_orders(made.asked(of_model))
        errors = [4 * np.sqrt(p / (FIRST_DRAWS if p > CLEAR else DRAWS)) for p in p_values]
        assert [one.p_value for one in found.measures] == [
            pytest.approx(p, abs=error) for p, error in zip(p_values, errors, strict=True)
        ]
