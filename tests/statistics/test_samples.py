"""Intervals from samples of a benchmark's questions, which are for the value over all questions.

The simulation in the documentation is `python -m bench.bench_sample`.
"""

import numpy as np
import pytest

from bench.bench_sample import coverage, mmlu_pro
from registry.statistics.bootstrap import mean_intervals, percentile_interval, resample_means, sampling_factor
from registry.statistics.paired import adjust, paired
from registry.statistics.proportions import half_width, sample_for, score_interval
from registry.studies.comparing import metric_differences


def right(share: float, number: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(number) < share).astype(float)


def test_an_interval_has_a_length_where_every_answer_was_right():
    low, high = score_interval(np.array([1.0, 0.0]), np.zeros(2), 100, 1.96)
    assert low[0] == pytest.approx(100 / (100 + 1.96**2))
    assert high.tolist() == pytest.approx([1.0, 1.96**2 / (100 + 1.96**2)])
    # Whatever the rounding: of these sizes some had an end of 10⁻¹⁸.
    for questions in range(100, 300):
        low, high = score_interval(np.array([1.0, 0.0]), np.zeros(2), questions, 3.0)
        assert (high[0], low[1]) == (1.0, 0.0)


def test_resamples_are_drawn_towards_the_estimate_by_the_factor():
    values = np.stack([right(0.3, 200), np.where(right(0.5, 200, 1) == 1, np.nan, right(0.6, 200, 2))], axis=1)
    plain, drawn = resample_means(values, resamples=500), resample_means(values, resamples=500, factor=0.5)
    means = np.nanmean(values, axis=0)
    assert drawn - means == pytest.approx(0.5 * (plain - means))
    assert resample_means(values, resamples=500, factor=1.0).tolist() == plain.tolist()


@pytest.mark.parametrize(("asked", "of"), [(500, 12_032), (500, 1_000), (900, 1_000)])
def test_intervals_of_a_sample_are_shorter_by_the_finite_population_factor(asked: int, of: int):
    values = np.stack([right(0.4, asked), np.random.default_rng(3).random(asked)], axis=1)
    factor = sampling_factor(asked, of)
    assert factor == pytest.approx(np.sqrt(1 - asked / of))
    for complete, part in zip(mean_intervals(values), mean_intervals(values, factor=factor), strict=True):
        assert part.high - part.low == pytest.approx(factor * (complete.high - complete.low), rel=1e-6)


def test_a_sample_of_all_questions_leaves_nothing_uncertain():
    assert sampling_factor(100, 100) == 0.0
    assert percentile_interval(resample_means(right(0.4, 100)[:, None], factor=0.0)[:, 0], 100) is None
    assert half_width(0.25, 100, 100) == 0.0


def test_paired_errors_are_multiplied_whether_or_not_a_value_is_missing():
    answers = np.stack([right(0.4, 300, seed) for seed in range(3)], axis=1)
    lacking = answers.copy()
    lacking[0, 0] = np.nan
    for table in (answers, lacking):
        tasks = [[table], [table[:100]]]
        plain = paired(tasks, zero_or_one=True, weights=[1, 2])
        factors = paired(tasks, zero_or_one=True, weights=[1, 2], factors=[0.5, 0.5])
        assert factors.error == pytest.approx(0.5 * plain.error)
        assert factors.difference == pytest.approx(plain.difference)
        assert factors.slack == pytest.approx(plain.slack)
        mixed = paired(tasks, zero_or_one=True, weights=[1, 2], factors=[0.5, 1.0])
        errors = []
        for (of_task,), weight, factor in zip(tasks, (1, 2), (0.5, 1.0), strict=True):
            both = ~np.isnan(of_task[:, 0]) & ~np.isnan(of_task[:, 1])
            one, other = of_task[both, 0], of_task[both, 1]
            counts = (np.float64((one > other).sum()), np.float64((other > one).sum()), np.float64(both.sum()))
            errors.append(weight * factor * adjust(*counts)[1])
        assert mixed.error[0, 1] == pytest.approx(np.hypot(*errors) / 3)


def test_differences_of_two_models_on_one_sample_have_shorter_intervals():
    one, other = right(0.6, 400, 1), right(0.4, 400, 2)
    for name, pair in (("accuracy", (one, other)), ("average_accuracy", (one * 0.7, other * 0.9))):
        plain, sampled = (
            metric_differences({name: pair[0]}, {name: pair[1]}, factor=factor)[name]["interval"]
            for factor in (1.0, 0.25)
        )
        assert sampled[1] - sampled[0] == pytest.approx(0.25 * (plain[1] - plain[0]), rel=1e-3)


@pytest.mark.parametrize(("variance", "precision", "of"), [(0.25, 0.02, 12_032), (0.1, 0.05, 400), (0.25, 0.25, 20)])
def test_the_smallest_sample_that_reaches_a_precision(variance: float, precision: float, of: int):
    size = sample_for(variance, precision, of)
    assert half_width(variance, size, of) <= precision
    assert size == min(30, of) or half_width(variance, size - 1, of) > precision


def test_the_predicted_half_width_is_that_of_the_interval():
    values = right(0.4, 2005, 5)
    (interval,) = mean_intervals(values[:, None])
    factor = sampling_factor(2005, 12_032)
    assert half_width(values.var(), 2005, 12_032) == pytest.approx(
        factor * (interval.high - interval.low) / 2, rel=0.03
    )


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_intervals_of_samples_cover_the_value_of_all_questions(share: float):
    """Check a tenth and half of 1,203 questions, with 100 seeds each: the standard error is 2.2 points."""
    values = right(share, 1_203, 7)
    for sample in (120, 600):
        assert 0.88 <= coverage(values, sample, range(100), resamples=1_000) <= 1.0


@pytest.mark.long
def test_500_sampled_questions_of_mmlu_pro_cover_real_models_values():
    """Check three models and 200 seeds: a standard error is 1.5 points of one model, .9 of their mean."""
    covered = [coverage(mmlu_pro()[:, model], 500, range(200), resamples=2_000) for model in (0, 10, 20)]
    assert 0.93 <= np.mean(covered) <= 0.97
