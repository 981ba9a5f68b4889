"""Ranks, rank intervals and tiers."""

import numpy as np
import pytest

from registry.errors import MetricInputError
from registry.statistics.bootstrap import RANK_RESAMPLES, resample_means
from registry.statistics.competition_ranks import ranks
from registry.statistics.ranks import Tier, rank_intervals, tiers

NAN = np.nan


@pytest.mark.parametrize(
    ("values", "better", "expected"),
    [
        ([0.9, 0.8, 0.8, 0.7], "higher", [1, 2, 2, 4]),
        ([0.1, 0.2, 0.2, 0.3], "lower", [1, 2, 2, 4]),
        ([0.5, None, 0.6], "higher", [2, None, 1]),
        ([0.5, 0.5 + 9e-10], "higher", [1, 1]),
        ([0.5, 0.5 + 3e-9], "higher", [2, 1]),
        ([0.1, 0.2], "neither", [None, None]),
        ([], "higher", []),
    ],
)
def test_a_rank_is_one_plus_the_number_of_better_models(values, better, expected):
    assert ranks(values, better) == expected


# Rank intervals


def expect_intervals(samples, better):
    """Compute intervals from the `ranks` of each resample and the definition of a percentile."""
    ranked = [
        ranks([None if np.isnan(value) else value for value in row], better) for row in np.asarray(samples, dtype=float)
    ]
    result = []
    for column in zip(*ranked, strict=True):
        defined = sorted(rank for rank in column if rank is not None)
        if not defined:
            result.append(None)
            continue
        low = next(rank for i, rank in enumerate(defined, 1) if i >= 0.025 * len(defined))
        high = next(rank for i, rank in enumerate(defined, 1) if i >= 0.975 * len(defined))
        result.append((low, high))
    return result


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("seed", range(5))
def test_rank_intervals_are_percentiles_of_the_ranks_in_each_resample(better, seed):
    generator = np.random.default_rng(seed)
    samples = np.round(generator.normal(np.linspace(0, 1, 6), 0.4, (199, 6)), 1)  # rounded, so that there are ties
    samples[generator.random(samples.shape) < 0.1] = NAN
    samples[:, 3] = NAN
    assert rank_intervals(samples, better) == expect_intervals(samples, better)
    assert rank_intervals(samples, better)[3] is None
    samples += generator.integers(0, 3, samples.shape) * 6e-10  # the first as good as the second, and that as the third
    for scale in (1, 1e-3, 1e9):
        assert rank_intervals(samples * scale, better) == expect_intervals(samples * scale, better)


def test_differences_within_the_tolerance_are_ties_in_every_resample():
    samples = np.column_stack([np.full(50, 0.5), np.full(50, 0.5 + 5e-10), np.full(50, 0.4)])
    assert rank_intervals(samples, "higher") == [(1, 1), (1, 1), (3, 3)]


def test_models_that_always_keep_their_distance_have_a_sure_rank():
    # The second has every question right that the first has, and ten more: it is first in every resample.
    first = np.arange(100) < 50
    second = np.arange(100) < 60
    samples = resample_means(np.column_stack([first, second]).astype(float), resamples=RANK_RESAMPLES)
    assert rank_intervals(samples, "higher") == [(2, 2), (1, 1)]
    # Apart, without pairs, their intervals would overlap widely.
    assert samples[:, 0].max() > samples[:, 1].min()


def test_equal_models_share_all_ranks():
    generator = np.random.default_rng(0)
    samples = resample_means((generator.random((300, 4)) < 0.5).astype(float), resamples=RANK_RESAMPLES)
    wide = [high - low for low, high in rank_intervals(samples, "higher")]
    assert max(wide) == 3


def test_without_a_direction_or_resamples_there_are_no_rank_intervals():
    assert rank_intervals(np.zeros((5, 2)), "neither") == [None, None]
    assert rank_intervals(np.zeros((0, 2)), "higher") == [None, None]


# Tiers


def draw_around(*centres, spread=0.01, resamples=RANK_RESAMPLES, seed=0):
    """Draw samples of models whose differences are normal."""
    generator = np.random.default_rng(seed)
    return generator.normal(0, spread, (resamples, len(centres))) + np.array(centres)


def numbers(found):
    return [None if tier is None else tier.number for tier in found]


def test_the_best_opens_a_tier_the_first_beaten_the_next():
    values = [0.50, 0.90, 0.89, 0.52, 0.51]
    grouped = tiers(values, draw_around(*values), "higher")
    assert grouped == [Tier(2, 3), Tier(1, 1), Tier(1, 1), Tier(2, 3), Tier(2, 3)]


def test_a_model_is_compared_with_its_leader_and_not_with_its_neighbour():
    # Steps of 2 standard deviations of a single model, 1.4 of a difference: neighbours cannot be distinguished.
    values = [0.90, 0.88, 0.86, 0.84]
    samples = draw_around(*values)
    assert numbers(tiers(values, samples, "higher")) == [1, 1, 2, 2]


def test_lower_can_be_better():
    values = [0.1, 0.5, 0.11]
    assert numbers(tiers(values, draw_around(*values), "lower")) == [1, 2, 1]


def test_differences_without_spread_are_told_apart_by_their_values():
    samples = np.column_stack([np.ones(100), np.zeros(100), np.ones(100), np.ones(100)])
    values = [1.0, 0.0, 1.0, 1.0 - 1e-12]
    assert numbers(tiers(values, samples, "higher")) == [1, 2, 1, 1]


def test_a_constant_distance_separates_whatever_both_vary_by():
    generator = np.random.default_rng(0)
    shared = generator.normal(0, 1, 500)
    samples = np.column_stack([shared + 0.9, shared + 0.8])
    assert numbers(tiers([0.9, 0.8], samples, "higher")) == [1, 2]


def test_models_without_a_value_are_in_no_tier():
    samples = draw_around(0.9, 0.5, 0.5)
    samples[:, 1] = NAN
    values = [0.9, None, 0.5]
    assert numbers(tiers(values, samples, "higher")) == [1, None, 2]


def test_what_has_no_interval_is_not_told_apart():
    # One question in 200 differs: too few to state an interval.
    first = (np.arange(200) < 100).astype(float)
    second = first.copy()
    second[0] = 0
    samples = resample_means(np.column_stack([first, second]), resamples=RANK_RESAMPLES)
    assert numbers(tiers([0.5, 0.495], samples, "higher")) == [1, 1]


def test_few_questions_tell_nobody_apart():
    values = [0.9, 0.5]
    assert numbers(tiers(values, draw_around(*values), "higher", questions=10)) == [1, 1]


def test_without_a_direction_there_are_no_tiers():
    assert tiers([0.5, 0.6], draw_around(0.5, 0.6), "neither") == [None, None]


def test_samples_of_other_models_are_refused():
    with pytest.raises(MetricInputError, match="for 3 models"):
        tiers([0.1, 0.2, 0.3], draw_around(0.1, 0.2), "higher")
