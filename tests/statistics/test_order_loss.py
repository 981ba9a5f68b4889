"""Statements of order losses: limits, upper bounds, and how often they contain the true loss."""

import numpy as np
import pytest
from scipy.stats import binomtest

from bench.bench_order_loss import World, coverage, losses_of, lowest
from registry.statistics.bootstrap import Interval, UpperBound
from registry.statistics.order_loss import (
    bound_order_loss,
    largest_loss,
    limit_order_loss,
    state_order_loss,
    unseen_loss,
)


@pytest.mark.parametrize("orders", [2, 4, 12])
def test_half_of_the_orders_right_is_the_largest_loss_of_a_question(orders):
    right = np.array([np.arange(orders) < number for number in range(orders + 1)], dtype=float)
    losses, both = losses_of(right, 1)
    assert losses.max() == pytest.approx(largest_loss(orders))
    assert both == pytest.approx(losses)


def test_no_order_loss_is_stated_below_zero_or_below_the_unseen():
    unseen = unseen_loss(100, 4)
    assert unseen == pytest.approx((1 - 0.05**0.01) / 3)
    assert limit_order_loss(Interval(-0.02, 0.05), 100, 4) == Interval(0.0, 0.05)
    assert limit_order_loss(Interval(-0.02, -0.01), 100, 4) == Interval(0.0, unseen)
    assert limit_order_loss(Interval(0.02, 0.05), 100, 4) == Interval(0.02, 0.05)


@pytest.mark.parametrize("disagreeing", [0, 1, 12])
def test_without_an_interval_the_bound_is_the_exact_binomial_one(disagreeing):
    # Two orders, one answer each: a question disagrees or not, and then loses a half.
    losses = np.zeros(60)
    losses[:disagreeing] = 0.5
    loss = state_order_loss(None, losses, np.zeros(60), 2)
    exact = binomtest(disagreeing, 60, alternative="less").proportion_ci(0.95, method="exact").high
    assert isinstance(loss, UpperBound)
    assert (loss.low, loss.high) == (0.0, pytest.approx(exact / 2))


def test_chance_loss_counts_in_the_bound_and_undefined_questions_do_not():
    losses, chance = np.zeros(50), np.full(50, 0.02)
    losses[40:] = np.nan
    loss = state_order_loss(None, losses, chance, 4)
    assert loss.high == pytest.approx(bound_order_loss(0.02, 40, 4))
    assert bound_order_loss(0.02, 40, 4) > bound_order_loss(0.0, 40, 4)


def test_nothing_is_stated_on_few_questions():
    assert state_order_loss(Interval(0.0, 0.1), np.zeros(29), np.zeros(29), 4) is None


def test_where_all_answers_disagree_the_bound_is_the_largest_loss():
    assert bound_order_loss(0.5, 100, 2) == 0.5


@pytest.mark.parametrize(
    ("world", "n", "m", "k"),
    [
        # The cases in which resampling alone failed most often.
        (World(0.97), 400, 4, 2),
        (World(0.99), 1000, 12, 2),
        (World(0.97, "half", 0.02), 50, 24, 2),
        (World(0.9, "half", 0.02), 50, 4, 4),
        (World(1.0, "half", 0.02), 100, 4, 1),
    ],
)
def test_all_that_is_stated_holds_the_true_loss(world, n, m, k):
    shares = coverage(world, n, m, k, 150, seed=1)
    # 1.64 standard errors of the simulation below .93.
    assert shares.all_holding >= 0.93 - 1.64 * (0.93 * 0.07 / 150) ** 0.5


@pytest.mark.long
@pytest.mark.parametrize(("m", "k"), [(4, 1), (4, 2), (12, 2), (4, 4), (24, 2)])
@pytest.mark.parametrize("n", [50, 100, 400])
def test_in_all_worlds_all_that_is_stated_holds_the_true_loss(n, m, k):
    assert lowest(n, m, k, 400)[1] >= 0.90
