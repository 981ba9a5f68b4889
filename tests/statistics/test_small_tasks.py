"""Boards with a small task among large ones: rank intervals, intervals of means, and the task that is reported."""

import numpy as np
import pytest

from bench.bench_small_tasks import board, column_of, rank
from registry.boards.standings import Precision
from registry.verdicts.table import judge_uncertainty


def columns_of(sizes, models=3, seed=0, metric="accuracy"):
    generator = np.random.default_rng(seed)
    right = np.linspace(0.3, 0.8, models)
    return [
        column_of((generator.random((size, models)) < right).astype(float), number, f"task-{number}", metric)
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("small", [5, 12, 20])
def test_ranks_hold_with_a_small_task_and_distinguish_first_from_last(small):
    generator = np.random.default_rng(small)
    boards = [board(generator, (small, 400, 400, 400, 400), np.linspace(-2, 2, 26)) for _ in range(4)]
    assert all(result.ranks_hold and result.ends_apart for result in boards)


def test_equal_models_are_not_told_apart_beside_a_small_task():
    generator = np.random.default_rng(1)
    boards = [board(generator, (12, 200, 200, 200), np.zeros(26)) for _ in range(12)]
    assert sum(not result.ranks_hold for result in boards) <= 2  # 5 % of 12 boards, and two standard errors


def test_intervals_are_stated_if_all_tasks_together_have_thirty_degrees_of_freedom():
    stated, _ = rank(columns_of((20, *(400,) * 13)))
    assert all(row.interval is not None for row in stated)
    refused, _ = rank(columns_of((12, *(400,) * 4)))
    assert all(row.interval is None for row in refused)
    large, _ = rank(columns_of((40, 400)))
    assert all(row.interval is not None for row in large)


def test_one_task_rests_on_its_questions_and_small_ones_on_fewer():
    def count(shares, units):
        by_task = np.array([shares]).T
        return Precision(by_task, by_task, np.ones(1)).questions([units])

    assert count([1.0], [50]) == [50]
    # Two equal shares of 11 degrees each are 22 together.
    assert count([0.5, 0.5], [12, 12]) == [23]
    assert count([0.7, 0.3], [12, 10_000]) == [int(11 / 0.49 + 1)]
    assert count([0.0, 0.0], [12, 10_000]) == [10_012]


def test_the_small_task_that_carries_most_of_the_uncertainty_is_named():
    _, together = rank(columns_of((400, 400, 12, 400)))
    uncertainty = together.document()["uncertainty"]
    assert (uncertainty["task"], uncertainty["questions"]) == ("task-2", 12)
    # Variances of .25/12 and three times .25/400, with two added questions: .9 or so.
    assert 0.85 < uncertainty["share"] < 0.95
    assert judge_uncertainty({"uncertainty": uncertainty}) == (
        f"task-2 (12 questions) carries {100 * uncertainty['share']:.0f}\u202f% of the uncertainty."
    )


@pytest.mark.parametrize("sizes", [(400, 400, 400), (400, 300), (400,)])
def test_tasks_of_like_sizes_are_not_named(sizes):
    _, together = rank(columns_of(sizes))
    assert together.document()["uncertainty"] is None


@pytest.mark.parametrize("metric", ["accuracy", "right_twice_across_orders"])
def test_a_small_task_that_all_have_right_widens_the_interval(metric):
    few = columns_of((20, *(400,) * 13), metric=metric)
    few[0] = column_of(np.ones((20, 3)), 0, "task-0", metric)
    many = [column_of(np.ones((400, 3)), 0, "task-0", metric), *few[1:]]
    lengths = [[high - low for low, high in (row.interval for row in rank(tasks)[0])] for tasks in (few, many)]
    assert all(short < long for long, short in zip(*lengths, strict=True))


@pytest.mark.long
def test_hundreds_of_models_are_ranked_beside_a_small_task():
    result = board(np.random.default_rng(2), (12, *(400,) * 13), np.linspace(-3, 3, 571))
    assert result.ranks_hold
    assert result.ends_apart
