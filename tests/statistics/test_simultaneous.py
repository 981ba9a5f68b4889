"""All pairs of models compared at once: rank intervals, tiers and p-values. The full study is bench/bench_ranks.py."""

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from bench.bench_ranks import SETTINGS, study
from registry.errors import MetricInputError
from registry.statistics.bootstrap import RANK_RESAMPLES, resample_means
from registry.statistics.simultaneous import (
    _Blocks,
    _family,
    _largest,
    _upper_quantile,
    compare_all,
)

NAN = np.nan


def draw_around(values, spread, resamples=RANK_RESAMPLES, seed=0):
    """Draw samples around values.

    spread: of each model, or covariances of shape (models, models).
    """
    generator = np.random.default_rng(seed)
    return np.asarray(values) + generator.normal(0, 1, (resamples, len(values))) * spread


def expect(values, samples):
    """Return the pairs (winner, loser), step by step as defined by Mogstad et al.; higher is better."""
    centred = samples - samples.mean(axis=0)
    models = range(len(values))
    spread = {(j, k): (centred[:, j] - centred[:, k]).std() for j in models for k in models if j != k}
    left, beats = set(spread), set()
    while left:
        maxima = np.sort([max((row[j] - row[k]) / spread[j, k] for j, k in left) for row in centred])
        share = 0.95 * len(samples)
        critical = maxima[int(np.ceil(share + 1.96 * np.sqrt(share * 0.05))) - 1]
        distinguished = {(j, k) for j, k in left if (values[j] - values[k]) / spread[j, k] > critical}
        if not distinguished:
            break
        beats |= distinguished
        left -= distinguished
    return beats


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_distinguished_stepwise_by_the_largest_remaining_ratio(seed):
    values = list(np.random.default_rng(seed).normal(0, 1, 6))
    samples = draw_around(values, np.linspace(0.1, 0.5, 6), resamples=400, seed=seed)
    compared = compare_all(values, samples, "higher")
    beats = expect(values, samples)
    assert {(int(j), int(k)) for j, k in np.argwhere(compared.beats)} == beats
    for model, (best, worst) in enumerate(compared.rank_intervals()):
        assert best == 1 + sum(loser == model for _, loser in beats)
        assert worst == 6 - sum(winner == model for winner, _ in beats)
    mirrored = compare_all([-value for value in values], -samples, "lower")
    assert (mirrored.beats == compared.beats).all()


@pytest.mark.parametrize("shared", [0, 3])
@pytest.mark.parametrize("models", [17, 70])
def test_computing_in_blocks_leaves_the_critical_value_unchanged(models, shared):
    generator = np.random.default_rng(models + shared)
    makers = generator.normal(0, shared, (400, 7))[:, generator.integers(0, 7, models)]
    samples = makers + generator.normal(0, 1, (400, models)) * generator.uniform(0.2, 2, models)
    samples[:, 3], samples[:, 5] = samples[:, 4], samples[:, 6] + generator.normal(0, 1e-3, 400)
    family = _family(list(samples.mean(axis=0)), samples, "higher", 300, None)
    blocks, pairs = _Blocks(family), family.compared & (family.spread > 0)
    left = pairs
    for share in (1, 0.999, 0.5, 0.02, 0.002):
        left = left & (generator.random(pairs.shape) < share)
        left[0, 1] = True
        assert blocks.critical_value(left) == _upper_quantile(_largest(family, left)[0])
    one_way = np.triu(pairs)
    assert _Blocks(family).critical_value(one_way) == _upper_quantile(_largest(family, one_way)[0])
    alone = np.zeros_like(pairs)
    alone[6, 0] = True
    assert _Blocks(family).critical_value(alone) == _upper_quantile(_largest(family, alone)[0])


@pytest.mark.long
def test_all_rank_intervals_hold_at_once_where_the_marginal_ones_do_not():
    # A standard error is 4 points here; bench/bench_ranks.py has it to .3.
    equal, spread, groups = (study(SETTINGS[number], 30, seed=3) for number in (0, 2, 3))
    assert equal.simultaneous >= 26
    assert equal.simultaneous_split <= 4
    assert equal.marginal <= 4
    assert equal.marginal_split >= 22
    assert spread.simultaneous >= 27
    assert groups.simultaneous >= 27
    assert groups.marginal < groups.simultaneous


def test_holm_is_that_of_statsmodels():
    values = list(np.linspace(0.5, 0.6, 8))
    compared = compare_all(values, draw_around(values, 0.01), "higher", questions=300)
    own, corrected = compared.p_values(*np.triu_indices(8, 1))
    assert corrected == pytest.approx(multipletests(own, method="holm")[1], abs=1e-12)
    assert corrected.min() < 0.05 < corrected.max() == 1
    assert (compared.p_values(*np.triu_indices(8, 1)[::-1])[1] == corrected).all()


def test_p_values_are_those_of_students_test_of_the_differences():
    from scipy.stats import ttest_rel

    generator = np.random.default_rng(1)
    scores = generator.normal([0.5, 0.53, 0.6], 0.2, (400, 3))
    compared = compare_all(list(scores.mean(axis=0)), resample_means(scores, resamples=20_000), "higher", 400)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        expected_p = ttest_rel(scores[:, first], scores[:, second]).pvalue
        assert compared.p_values([first], [second])[0] == pytest.approx([expected_p], rel=0.1)


def test_tiers_at_once_need_more_than_tiers_alone():
    values = [0.9, 0.875, 0.4]
    samples = draw_around(values, 0.01 / np.sqrt(2) * 1.2)
    compared = compare_all(values, samples, "higher")
    assert [tier.number for tier in compared.tiers(values, "higher")] == [1, 1, 2]
    assert not compared.told_apart[0, 1]
    assert compared.p_values([0], [1])[0] < 0.05


def test_a_constant_distance_tells_apart_and_equal_models_never_are():
    shared = np.random.default_rng(0).normal(0, 1, 500)
    values = [0.9, 0.8, 0.8]
    compared = compare_all(values, np.column_stack([shared + value for value in values]), "higher")
    assert compared.rank_intervals() == [(1, 1), (2, 3), (2, 3)]
    assert compared.critical_value is None


@pytest.mark.parametrize("case", ["few questions", "neither", "undefined", "no value", "skewed"])
def test_what_has_no_interval_is_not_compared(case):
    values, questions, better = [0.9, 0.5, 0.1], 200, "higher"
    samples = draw_around(values, 0.01)
    if case == "few questions":
        questions = 29
    elif case == "neither":
        better = "neither"
    elif case == "undefined":
        samples[:100, 1] = NAN
    elif case == "no value":
        values, samples[:, 1] = [0.9, None, 0.1], NAN
    else:
        samples[:, 1] = 0.5 + 0.01 * np.random.default_rng(1).exponential(5, RANK_RESAMPLES)
    compared = compare_all(values, samples, better, questions)
    assert np.isnan(compared.p_values([1, 1], [0, 2])).all()
    assert not compared.told_apart[1].any()
    assert compared.rank_intervals()[1] == (1, 3)
    assert compared.told_apart[0, 2] == (case in ("undefined", "no value", "skewed"))


def test_a_value_that_is_rarely_undefined_is_compared():
    samples = draw_around([0.9, 0.5], 0.01)
    samples[:10, 1] = NAN
    assert compare_all([0.9, 0.5], samples, "higher", 200).told_apart[0, 1]


def test_samples_of_other_models_are_refused():
    with pytest.raises(MetricInputError, match="for 3 models"):
        compare_all([0.1, 0.2, 0.3], draw_around([0.1, 0.2], 0.1), "higher")
