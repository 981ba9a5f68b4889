"""Exact stopping inside a question gives what all orders give, from fewer prompts."""

import numpy as np
import pytest

from registry.statistics.stopping import (
    MISSING,
    fluctuation_stopped,
    soonest_fluctuation,
    soonest_worst,
    worst_accuracy_stopped,
)
from tests.bench.bench_precision import medqa_answers


@pytest.mark.parametrize("model", [0, 1])
def test_real_answers_come_to_the_same_values_whatever_the_order_of_asking(model):
    chosen, right = medqa_answers()[model]
    others = medqa_answers()[1 - model]
    for order in (list(range(12)), list(range(11, -1, -1)), soonest_worst(others[1][None])):
        found, asked = worst_accuracy_stopped(right, order)
        assert found.tolist() == right.all(axis=1).tolist()
        assert asked.mean() < 6
    for order in (list(range(12)), soonest_fluctuation(others[0][None])):
        found, asked = fluctuation_stopped(chosen, order)
        expected = (chosen != chosen[:, :1]).any(axis=1) | (chosen == MISSING).any(axis=1)
        assert found.tolist() == expected.tolist()
        assert asked.mean() < 6


def test_what_was_left_out_can_change_nothing():
    generator = np.random.default_rng(0)
    chosen = generator.integers(-1, 3, (200, 6))
    right = chosen == 0
    order = [3, 0, 5, 1, 2, 4]
    for question, (worst, asked) in enumerate(zip(*worst_accuracy_stopped(right, order), strict=True)):
        for rest in (False, True):
            row = right[question].copy()
            row[order[asked:]] = rest
            assert row.all() == worst
    for question, (differs, asked) in enumerate(zip(*fluctuation_stopped(chosen, order), strict=True)):
        row = chosen[question].copy()
        row[order[asked:]] = row[order[0]]
        assert ((row != row[0]).any() or MISSING in row) == differs


def test_the_order_that_decides_most_questions_is_asked_first():
    right = np.ones((3, 100, 4), dtype=bool)
    right[:, :50, 2] = False
    right[:, 40:70, 1] = False
    assert soonest_worst(right) == [2, 1, 0, 3]
    chosen = np.zeros((3, 100, 4), dtype=np.int64)
    chosen[:, :50, 2] = 1
    chosen[:, 40:70, 1] = 2
    assert set(soonest_fluctuation(chosen)[:2]) == {1, 2}
