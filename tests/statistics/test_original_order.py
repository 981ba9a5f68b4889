"""Whether a published order is an outlier: exact levels, models that like a position, and models that saw it."""

from itertools import permutations

import numpy as np
import pytest

from registry.statistics.original_order import DRAWS, FIRST_DRAWS, Asked, compare_with_other_orders
from tests.contaminated import LIKES_FIRST, MOSTLY_FIRST, is_outlier, is_outlier_of_any_order, made_up
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
