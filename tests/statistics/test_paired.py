"""When two models are told apart: one rule for comparisons, tiers and ranks."""

import numpy as np
import pytest
from scipy.stats import binom

from bench.bench_pairs import SHARES, told_apart
from registry.statistics import paired as module
from registry.statistics.bootstrap import resampled_means
from registry.statistics.paired import _of_tasks, _of_tasks_answered, adjusted, paired, quantile
from registry.statistics.ranks import separated, tiers
from registry.statistics.simultaneous import compare_all
from registry.studies.comparing import metric_differences

QUESTIONS = 120


@pytest.mark.parametrize("questions", [30, 50, 55, 100, 200, 400, 1000])
def test_equal_models_are_told_apart_in_at_most_five_percent_whatever_share_differs(questions):
    assert max(told_apart(questions, SHARES)) <= 0.05


def test_three_to_nothing_tells_nothing():
    # (4 − 1)/102 less 1.994 · √(.05 − .0294²)/√102: below 0, as McNemar's p-value of .25 would have it.
    difference, error, slack = (float(part) for part in adjusted(*map(np.float64, (3, 0, 100))))
    assert difference - quantile(100) * error - slack == pytest.approx(0.02941 - 1.99416 * 0.02174, abs=1e-4)
    assert difference - quantile(100) * error - slack < 0


def two_models(seed, differing, tilt):
    """Right or wrong of two models; so many questions differ, in most of which the first is right."""
    generator = np.random.default_rng(seed)
    values = np.repeat(generator.integers(0, 2, (QUESTIONS, 1)), 2, axis=1).astype(float)
    first = generator.random(differing) < tilt
    values[:differing] = np.stack([first, ~first], axis=1)
    return values


@pytest.mark.parametrize("seed", range(40))
def test_comparisons_and_tiers_agree_and_ranks_at_once_claim_no_more(seed):
    generator = np.random.default_rng(seed)
    values = two_models(seed, int(generator.integers(0, QUESTIONS)), generator.random())
    samples = resampled_means(values, resamples=2000)
    means = values.mean(axis=0).tolist()
    pairs = paired([[values]], zero_or_one=True)
    apart = separated(means, samples, 0, 1, QUESTIONS, pairs)
    low, high = metric_differences({"accuracy": values[:, 0]}, {"accuracy": values[:, 1]})["accuracy"]["interval"]
    assert apart == (not low <= 0 <= high)
    numbers = [tier.number for tier in tiers(means, samples, "higher", QUESTIONS, pairs)]
    assert (len(set(numbers)) == 2) == apart
    at_once = compare_all(means, samples, "higher", QUESTIONS, pairs).told_apart[0, 1]
    assert apart or not at_once
    # Of two models there is one pair, so that both limits are nearly the same.
    error, beyond = pairs.error[0, 1], abs(pairs.ratios()[0, 1])
    assert bool(at_once) == apart or beyond * error < 1.15 * quantile(QUESTIONS) * error


@pytest.mark.parametrize(("differing", "stated"), [(9, False), (10, True)])
def test_other_values_are_resampled_from_ten_differing_questions_on(differing, stated):
    first, second = np.full((2, QUESTIONS), 0.5)
    first[:differing] = np.linspace(0.6, 1, differing)
    found = metric_differences({"average_accuracy": first}, {"average_accuracy": second})["average_accuracy"]
    assert (found["interval"] is not None) == stated
    values = np.stack([first, second], axis=1)
    pairs = paired([[values]], zero_or_one=False)
    samples = resampled_means(values, resamples=2000)
    means = values.mean(axis=0).tolist()
    assert separated(means, samples, 0, 1, QUESTIONS, pairs) == stated
    assert compare_all(means, samples, "higher", QUESTIONS, pairs).told_apart[0, 1] == stated


def test_differing_questions_are_counted_over_all_tasks_and_where_both_have_a_value(monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    generator = np.random.default_rng(3)
    tasks = [generator.integers(0, 3, (40, 4)) / 2 for _ in range(2)]
    tasks[0][:3, 1] = np.nan
    counts = np.zeros((4, 4), dtype=int)
    for task in tasks:
        known = ~np.isnan(task)
        for one in range(4):
            for other in range(4):
                both = known[:, one] & known[:, other]
                counts[one, other] += (task[both, one] != task[both, other]).sum()
    for limit in (counts.max(), counts[0, 1], counts[2, 3] + 1):
        monkeypatch.setattr(module, "DIFFERING", limit)
        assert (paired([[task] for task in tasks], zero_or_one=False).enough == (counts >= limit)).all()


def test_over_several_tasks_the_errors_of_each_add_up():
    generator = np.random.default_rng(5)
    tasks = [generator.integers(0, 2, (size, 2)).astype(float) for size in (60, 200)]
    single = [paired([[task]], zero_or_one=True) for task in tasks]
    both = paired([[task] for task in tasks], zero_or_one=True)
    assert both.difference[0, 1] == pytest.approx(sum(one.difference[0, 1] for one in single) / 2)
    assert both.error[0, 1] == pytest.approx(sum(one.error[0, 1] ** 2 for one in single) ** 0.5 / 2)


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 3, 2)])
def test_where_all_answered_pairs_are_those_of_one_task_after_the_other(weights):
    generator = np.random.default_rng(6)
    tasks = [generator.integers(0, 2, (size, 9)).astype(float) for size in (40, 40, 7)]
    given = tasks, weights, (0.5, 1.0, 0.8)
    for expected, found in zip(_of_tasks(*given), _of_tasks_answered(*given), strict=True):
        assert found == pytest.approx(expected, abs=1e-14)


def test_the_size_of_the_bench_is_that_of_all_outcomes():
    # 30 questions of which each differs with probability .2: b and c by their joint distribution.
    size = 0.0
    for b in range(31):
        for c in range(31 - b):
            difference, error, slack = (float(part) for part in adjusted(*map(np.float64, (b, c, 30))))
            if abs(difference) - slack > quantile(30) * error:
                size += binom.pmf(b + c, 30, 0.2) * binom.pmf(b, b + c, 0.5)
    assert told_apart(30, [0.2])[0] == pytest.approx(size, abs=1e-9)
