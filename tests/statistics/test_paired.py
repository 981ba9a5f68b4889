"""Significant differences of two models, by one rule for comparisons, tiers and ranks."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy.stats import binom, norm
from scipy.stats import t as student

from bench.bench_pairs import EQUALS, SHARES, count_distinguished, simulate
from registry.statistics import paired as module
from registry.statistics.bootstrap import resample_means
from registry.statistics.paired import (
    _sum_answered_tasks,
    _sum_measured_tasks,
    _sum_tasks,
    _sum_whole_tasks,
    adjust,
    as_normal,
    exceed,
    paired,
    quantile,
    squared_differences,
)
from registry.statistics.ranks import are_separated, tiers
from registry.statistics.simultaneous import compare_all
from registry.studies.comparing import metric_differences

QUESTIONS = 120


@pytest.mark.parametrize("questions", [30, 50, 55, 100, 200, 400, 1000])
def test_equal_models_are_distinguished_in_at_most_five_percent(questions):
    assert max(count_distinguished(questions, SHARES)) <= 0.05


@pytest.mark.parametrize("worlds", EQUALS.values(), ids=EQUALS)
def test_equal_models_that_sample_are_told_apart_in_at_most_five_percent(worlds):
    simulated = simulate(worlds, 60, 4, 2, 300, seed=2)
    # 1.64 standard errors of 300 pairs above 5 %.
    assert max(simulated.values()) <= 0.05 + 1.64 * (0.05 * 0.95 / 300) ** 0.5, simulated


def test_three_to_nothing_tells_nothing():
    # (4 − 1)/102 less 1.994 · √(.05 − .0294²)/√102: below 0, as McNemar's p-value of .25 would have it.
    difference, error, slack = (float(part) for part in adjust(*map(np.float64, (3, 0, 100))))
    assert difference - quantile(100) * error - slack == pytest.approx(0.02941 - 1.99416 * 0.02174, abs=1e-4)
    assert difference - quantile(100) * error - slack < 0


def two_models(seed, differing, tilt):
    """Return right or wrong of two models.

    differing: number of questions that differ. tilt: probability that the first is right on such a question.
    """
    generator = np.random.default_rng(seed)
    values = np.repeat(generator.integers(0, 2, (QUESTIONS, 1)), 2, axis=1).astype(float)
    first = generator.random(differing) < tilt
    values[:differing] = np.stack([first, ~first], axis=1)
    return values


@pytest.mark.parametrize("seed", range(40))
def test_comparisons_and_tiers_agree_and_ranks_at_once_claim_no_more(seed):
    generator = np.random.default_rng(seed)
    values = two_models(seed, int(generator.integers(0, QUESTIONS)), generator.random())
    samples = resample_means(values, resamples=2000)
    means = values.mean(axis=0).tolist()
    pairs = paired([[values]], zero_or_one=True)
    separated = are_separated(means, samples, 0, 1, QUESTIONS, pairs)
    low, high = metric_differences({"accuracy": values[:, 0]}, {"accuracy": values[:, 1]})["accuracy"]["interval"]
    assert separated == (not low <= 0 <= high)
    numbers = [tier.number for tier in tiers(means, samples, "higher", QUESTIONS, pairs)]
    assert (len(set(numbers)) == 2) == separated
    at_once = compare_all(means, samples, "higher", QUESTIONS, pairs).told_apart[0, 1]
    assert separated or not at_once
    # Of two models there is one pair, so that both limits are nearly the same.
    error, beyond = pairs.error[0, 1], abs(pairs.ratios()[0, 1])
    assert bool(at_once) == separated or beyond * error < 1.15 * quantile(QUESTIONS) * error


@pytest.mark.parametrize(("differing", "stated"), [(9, False), (10, True)])
def test_other_values_are_resampled_from_ten_differing_questions_on(differing, stated):
    first, second = np.full((2, QUESTIONS), 0.5)
    first[:differing] = np.linspace(0.6, 1, differing)
    difference = metric_differences({"average_accuracy": first}, {"average_accuracy": second})["average_accuracy"]
    assert (difference["interval"] is not None) == stated
    values = np.stack([first, second], axis=1)
    pairs = paired([[values]], zero_or_one=False)
    samples = resample_means(values, resamples=2000)
    means = values.mean(axis=0).tolist()
    assert are_separated(means, samples, 0, 1, QUESTIONS, pairs) == stated
    assert compare_all(means, samples, "higher", QUESTIONS, pairs).told_apart[0, 1] == stated


def test_differing_questions_are_counted_over_all_tasks_with_both_values(monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    generator = np.random.default_rng(3)
    tasks = [generator.integers(0, 3, (40, 4)) / 2 for _ in range(2)]
    tasks[0][:3, 1] = np.nan
    counts = np.zeros((4, 4), dtype=int)
    for task in tasks:
        answered = ~np.isnan(task)
        for one in range(4):
            for other in range(4):
                both = answered[:, one] & answered[:, other]
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
    arguments = tasks, weights, (0.5, 1.0, 0.8)
    expected, actual = asdict(_sum_tasks(*arguments)), asdict(_sum_answered_tasks(*arguments))
    for name, part in actual.items():
        assert part == pytest.approx(expected[name], abs=1e-9 if name == "squares" else 1e-14), name


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 3, 2)])
def test_models_with_all_values_are_compared_as_any_others(weights):
    generator = np.random.default_rng(7)
    tasks = [generator.choice([0.0, 1 / 6, 0.5, 1.0], (size, 9)) for size in (40, 31, 7)]
    for task in tasks:
        task[:, 1] = task[:, 0]
    arguments = tasks, weights, (0.5, 1.0, 0.8), 1.0
    expected, actual = (
        asdict(_sum_measured_tasks(*arguments)),
        asdict(_sum_whole_tasks(*arguments, squared_differences(tasks))),
    )
    for name, part in actual.items():
        assert part == pytest.approx(expected[name], rel=1e-9, abs=1e-12), name
    one = [task[:1] for task in tasks[:1]], weights[:1], (1.0,), 1.0  # a single question, and no small task
    assert _sum_whole_tasks(*one, squared_differences(one[0])).variance == pytest.approx(
        _sum_measured_tasks(*one).variance
    )


def test_deviates_of_both_halves_of_a_table_are_the_same():
    generator = np.random.default_rng(8)
    ratios, freedom = generator.uniform(0, 5, (6, 6)), generator.uniform(3, 900, (6, 6))
    ratios, freedom = ratios + ratios.T, freedom + freedom.T
    ratios[0, 1] = ratios[1, 0] = np.inf
    np.fill_diagonal(ratios, 0)
    deviates = as_normal(ratios, freedom)
    assert (deviates == deviates.T).all()
    assert np.isinf(deviates[0, 1])
    below = student.cdf(-ratios[2, 3] * np.sqrt(freedom[2, 3] / (freedom[2, 3] + 1)), freedom[2, 3])
    assert deviates[2, 3] == pytest.approx(-norm.ppf(below))


@pytest.mark.parametrize("fewest", [0.2, 1.0, 40.0])
def test_pairs_above_a_limit_are_those_whose_deviates_are(fewest):
    generator = np.random.default_rng(9)
    for _ in range(40):
        ratios = np.triu(5 * generator.standard_cauchy((12, 12)), 1)
        ratios[generator.random((12, 12)) < 0.1] = np.inf
        ratios = np.triu(ratios, 1) - np.triu(ratios, 1).T
        freedom = np.triu(fewest * 10 ** generator.uniform(0, 6, (12, 12)))
        freedom = freedom + np.triu(freedom, 1).T
        deviates, left = as_normal(ratios, freedom), generator.random((12, 12)) < 0.8
        for limit in (1.96, 4.9, float(np.median(deviates[np.isfinite(deviates) & (deviates > 0)]))):
            assert (exceed(ratios, freedom, limit, left) == left & (deviates > limit)).all()


def by_definition(tasks, weights, one, other):
    """Return the difference, error and degrees of freedom of two models, computed question by question."""
    differences = [[row[one] - row[other] for row in task if not np.isnan(row[[one, other]]).any()] for task in tasks]
    differences_of_all = [difference for task in differences for difference in task]
    typical = sum(difference**4 for difference in differences_of_all) / sum(
        difference**2 for difference in differences_of_all
    )
    variances = []
    for task, weight in zip(differences, weights, strict=True):
        added = [*task, typical**0.5, -(typical**0.5)]
        variances.append(weight**2 * np.var(added) / len(added))
    middle = sum(weight * sum(task) / (len(task) + 2) for task, weight in zip(differences, weights, strict=True))
    of_each = [variance**2 / (len(task) - 1) for variance, task in zip(variances, differences, strict=True)]
    return middle / sum(weights), sum(variances) ** 0.5 / sum(weights), sum(variances) ** 2 / sum(of_each)


@pytest.mark.parametrize("weights", [(1, 1), (3, 1)])
def test_differences_of_other_values_are_those_of_two_added_questions(weights):
    generator = np.random.default_rng(8)
    tasks = [generator.integers(0, 5, (size, 4)) / 4 for size in (50, 14)]
    tasks[0][:5, 2] = np.nan
    comparison = paired([[task] for task in tasks], zero_or_one=False, weights=weights)
    for one in range(4):
        for other in range(4):
            if one != other:
                expected = by_definition(tasks, weights, one, other)
                parts = (comparison.difference, comparison.error, comparison.freedom)
                assert [part[one, other] for part in parts] == pytest.approx(expected)


def test_right_and_wrong_are_compared_alike_as_values_and_as_counts():
    values = np.random.default_rng(9).integers(0, 2, (80, 5)).astype(float)
    counts, measured = paired([[values]], zero_or_one=True), paired([[values]], zero_or_one=False)
    assert measured.difference == pytest.approx(counts.difference)
    off_diagonal = ~np.eye(5, dtype=bool)
    assert measured.error[off_diagonal] == pytest.approx(counts.error[off_diagonal])


@pytest.mark.parametrize("values", [2, 5])
def test_a_task_of_few_questions_has_the_largest_variance_there_is(values):
    generator = np.random.default_rng(11)
    tasks = [generator.integers(0, values, (size, 2)) / (values - 1) for size in (7, 300)]
    large = paired([[tasks[1]]], zero_or_one=values == 2)
    both = paired([[task] for task in tasks], zero_or_one=values == 2)
    assert both.error[0, 1] ** 2 * 4 == pytest.approx(1 / 9 + large.error[0, 1] ** 2, rel=0.01)
    assert both.freedom[0, 1] > 299


def test_a_small_task_counts_by_its_share_of_the_variance():
    generator = np.random.default_rng(10)
    tasks = [generator.integers(0, 2, (size, 2)).astype(float) for size in (12, 400, 400)]
    few = paired([[task] for task in tasks], zero_or_one=True).freedom[0, 1]
    light = paired([[task] for task in tasks], zero_or_one=True, weights=(1, 20, 20)).freedom[0, 1]
    assert 11 <= few < 15
    assert light > 300


def test_the_size_of_the_bench_is_that_of_all_outcomes():
    # 30 questions that each differ with probability .2: b and c by their joint distribution.
    size = 0.0
    for b in range(31):
        for c in range(31 - b):
            difference, error, slack = (float(part) for part in adjust(*map(np.float64, (b, c, 30))))
            if abs(difference) - slack > quantile(30) * error:
                size += binom.pmf(b + c, 30, 0.2) * binom.pmf(b, b + c, 0.5)
    assert count_distinguished(30, [0.2])[0] == pytest.approx(size, abs=1e-9)
