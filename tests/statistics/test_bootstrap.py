"""Bootstrap over questions: the draws, the interval, and cases without an interval."""

import numpy as np
import pytest
from scipy import stats

from registry.errors import MetricInputError
from registry.metrics.cora import cora
from registry.statistics import bootstrap
from registry.statistics.bootstrap import (
    MINIMUM_QUESTIONS,
    RESAMPLES,
    Interval,
    combine,
    mean_intervals,
    percentile_interval,
    percentile_intervals,
    resample_means,
    resample_means_reference,
)

NAN = np.nan


def some_values(questions, columns, *, seed=1, undefined=0.2):
    """Return uniform values; every second column has different undefined questions."""
    generator = np.random.default_rng(seed)
    values = generator.random((questions, columns))
    for column in range(0, columns, 2):
        values[generator.random(questions) < undefined, column] = NAN
    return values


def right(count, questions):
    """Return a column with `count` ones and otherwise zeros."""
    return np.arange(questions) < count


# Resampled means


@pytest.mark.parametrize(("questions", "columns"), [(1, 1), (2, 3), (7, 4), (50, 9), (333, 2)])
def test_the_fast_bootstrap_is_the_slow_one(questions, columns):
    values = some_values(questions, columns)
    fast, slow = resample_means(values, resamples=60), resample_means_reference(values, resamples=60)
    assert np.array_equal(np.isnan(fast), np.isnan(slow))
    assert np.nanmax(np.abs(fast - slow), initial=0) < 1e-12


@pytest.mark.parametrize("at_once", [1, 40, 41, 100, 10_000])
def test_chunks_change_nothing(monkeypatch, at_once):
    values = some_values(20, 3)
    expected = resample_means(values, resamples=50)
    monkeypatch.setattr(bootstrap, "DRAWS_AT_ONCE", at_once)
    np.testing.assert_allclose(resample_means(values, resamples=50), expected, rtol=0, atol=1e-15)


def test_a_seed_is_repeatable_and_another_differs():
    values = some_values(30, 2)
    assert np.array_equal(resample_means(values, resamples=20), resample_means(values, resamples=20), equal_nan=True)
    assert not np.array_equal(resample_means(values, resamples=20), resample_means(values, resamples=20, seed=1))


def test_no_questions_and_no_columns():
    assert np.isnan(resample_means(np.empty((0, 2)), resamples=5)).all()
    assert resample_means(np.empty((0, 2)), resamples=5).shape == (5, 2)
    assert resample_means(np.empty((4, 0)), resamples=5).shape == (5, 0)
    assert np.isnan(resample_means_reference(np.empty((0, 2)), resamples=5)).all()


def test_infinite_values_and_wrong_shapes_are_refused():
    with pytest.raises(MetricInputError, match="infinite"):
        resample_means(np.array([[np.inf]]))
    with pytest.raises(MetricInputError, match=r"shape \(3,\)"):
        resample_means(np.zeros(3))


# Intervals of means


@pytest.mark.parametrize("seed", range(4))
def test_intervals_are_close_to_scipys_percentile_intervals(seed):
    generator = np.random.default_rng(seed)
    values = generator.beta(3, 2, 400)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=generator
    ).confidence_interval
    (ours,) = mean_intervals(values[:, None])
    error = values.std() / 20  # the standard error of the mean of 400
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * error)
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * error)


def test_resampled_means_are_distributed_like_scipys():
    values = np.random.default_rng(5).exponential(size=150)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(6))
    ours = resample_means(values[:, None])[:, 0]
    # Two samples of 10,000 from one distribution are this close in 999 of 1,000 cases.
    assert stats.ks_2samp(ours, theirs.bootstrap_distribution).pvalue > 0.001


def test_an_interval_holds_the_value_and_stays_in_range():
    for count in (3, 10, 60, 100, 190, 197):
        (interval,) = mean_intervals(right(count, 200)[:, None].astype(float))
        assert 0 <= interval.low < count / 200 < interval.high <= 1


def test_an_interval_turns_over_with_its_values():
    column = right(40, 200).astype(float)
    (one,), (other,) = mean_intervals(column[:, None]), mean_intervals(1 - column[:, None])
    assert (other.low, other.high) == pytest.approx((1 - one.high, 1 - one.low), abs=1e-12)


def by_distinct_values(samples, questions):
    """Compute the same interval from the whole mid-distribution with NumPy's interpolation."""
    defined = samples[~np.isnan(samples)]
    values, counts = np.unique(np.round(defined, 12), return_counts=True)
    if len(defined) < 0.99 * len(samples) or len(values) == 1 or abs(stats.skew(defined)) > bootstrap.LARGEST_SKEWNESS:
        return None
    below = (np.cumsum(counts) - counts / 2) / len(defined)
    shift = 2 * stats.norm.ppf(np.interp(defined.mean(), values, below))
    z = np.sqrt(questions / (questions - 1)) * stats.t.ppf(0.025, questions - 1)
    return Interval(*np.interp(np.round(stats.norm.cdf([shift + z, shift - z]), 7), below, values).tolist())


@pytest.mark.parametrize("resamples", [50, 333, 2000])
def test_intervals_of_many_rows_are_those_of_each_to_the_last_digit(resamples):
    generator = np.random.default_rng(resamples)
    shares = np.concatenate([generator.random(60), [0.01, 0.03, 0.99]])
    values = (generator.random((40, 63)) < shares).astype(float)
    samples = resample_means(values, resamples=resamples).T
    samples[:20][generator.random((20, resamples)) < 0.004] = NAN
    samples[20:30] = generator.normal(size=(10, resamples))
    intervals = percentile_intervals(samples, [40] * 63)
    assert intervals == [by_distinct_values(row, 40) for row in samples]
    assert 0 < intervals.count(None) < 40


def test_an_interval_scales_with_its_values():
    samples = resample_means(some_values(200, 1, undefined=0))[:, 0]
    one, other = percentile_interval(samples, 200), percentile_interval(100 * samples - 7, 200)
    assert (other.low, other.high) == pytest.approx((100 * one.low - 7, 100 * one.high - 7))


def test_fewer_questions_widen_the_same_samples():
    samples = np.random.default_rng(0).normal(size=10_000)
    widths = [interval.high - interval.low for interval in (percentile_interval(samples, n) for n in (30, 100, None))]
    assert widths[0] > widths[1] > widths[2]
    # √(30/29) · t of 29 degrees over the normal percentile: 2.080 / 1.960.
    assert widths[0] / widths[2] == pytest.approx(1.061, abs=0.02)


def test_last_bits_change_nothing():
    samples = resample_means(right(70, 200)[:, None].astype(float))[:, 0]
    noise = np.random.default_rng(0).choice([-1e-16, 0, 1e-16], samples.size)
    one, other = percentile_interval(samples, 200), percentile_interval(samples + noise, 200)
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1 + 0.2])
def test_there_is_no_interval_where_all_questions_are_alike(value):
    assert mean_intervals(np.full((500, 1), value)) == [None]


def test_there_is_no_interval_on_few_questions():
    values = some_values(MINIMUM_QUESTIONS, 1, undefined=0)
    assert mean_intervals(values) != [None]
    assert mean_intervals(values[1:]) == [None]


def test_questions_that_are_undefined_do_not_count():
    values = some_values(100, 1, undefined=0)
    values[MINIMUM_QUESTIONS - 1 :] = NAN
    assert mean_intervals(values) == [None]


@pytest.mark.parametrize("questions", [200, 1000, 14_042])
def test_an_interval_takes_three_of_the_rarer_outcome(questions):
    counts = [1, 2, 3, questions - 3, questions - 2, questions - 1]
    columns = np.stack([right(count, questions) for count in counts], axis=1).astype(float)
    assert [interval is not None for interval in mean_intervals(columns)] == [False, False, True, True, False, False]


def test_there_is_no_interval_where_many_resamples_are_undefined():
    samples = np.random.default_rng(0).normal(size=1000)
    samples[:10] = NAN
    assert percentile_interval(samples) is not None
    samples[10] = NAN
    assert percentile_interval(samples) is None
    assert percentile_interval(np.full(10, NAN)) is None
    assert percentile_interval(np.empty(0)) is None


# Values computed from several means


def test_cora_is_combined_resample_by_resample():
    generator = np.random.default_rng(0)
    original = generator.random(300) < 0.7
    consistent = original & (generator.random(300) < 0.8)
    means = resample_means(np.column_stack([original, consistent]).astype(float))
    samples = combine(lambda mcqa, bmca: mcqa * (1 - (mcqa - bmca)), means[:, 0], means[:, 1])
    assert samples[17] == pytest.approx(cora(means[17, 0], means[17, 1]))
    interval = percentile_interval(samples, 300)
    assert interval.low < cora(original.mean(), consistent.mean()) < interval.high


def test_a_combined_value_that_is_undefined_is_dropped():
    accuracy, retest = np.array([0.5, 0.0, 0.25]), np.array([0.25, 0.0, 0.25])
    drop = combine(lambda a, r: 100 * (a - r) / a, accuracy, retest)
    assert drop[[0, 2]].tolist() == [50, 0]
    assert np.isnan(drop[1])
    assert np.isnan(combine(lambda a: 1 / a, np.zeros(1)))[0]


def test_an_interval_is_plain_numbers():
    (interval,) = mean_intervals(right(60, 100)[:, None].astype(float))
    assert isinstance(interval, Interval)
    assert type(interval.low) is float
    assert type(interval.high) is float
