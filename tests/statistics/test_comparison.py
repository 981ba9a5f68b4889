"""Tests and correlations, compared with scipy, statsmodels and their definitions."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from registry.errors import MetricInputError
from registry.statistics.comparison import (
    EXACT_PAIRS,
    McNemar,
    cohens_d,
    geometric_mean,
    kendall,
    mcnemar,
    r_squared,
    spearman,
    variance_ratio,
    wilcoxon,
)

EXAMPLES = settings(max_examples=100, deadline=None)
WITH_TIES = st.lists(st.integers(-4, 4), min_size=1, max_size=12)
PAIRS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=20)


# McNemar


@EXAMPLES
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60))
def test_mcnemar_is_statsmodels_exact_test(pairs):
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    table = [[sum(pair == (one, other) for pair in pairs) for other in (True, False)] for one in (True, False)]
    result = mcnemar(first, second)
    assert (result.only_first, result.only_second) == (table[0][1], table[1][0])
    assert result.p_value == pytest.approx(min(1, statsmodels_mcnemar(table, exact=True).pvalue), abs=1e-12)


def test_mcnemar_of_models_that_never_differ_is_one():
    assert mcnemar([True, False], [True, False]) == McNemar(0, 0, 1.0, 1.0)
    assert mcnemar([], []) == McNemar(0, 0, 1.0, 1.0)


def test_mcnemar_counts_by_hand():
    # 5 to 1: 2 · (1 + 6) / 2^6, and half as much of the 6.
    first = [True] * 5 + [False] + [True] * 10
    second = [False] * 5 + [True] + [True] * 10
    result = mcnemar(first, second)
    assert (result.only_first, result.only_second, result.p_value) == (5, 1, 14 / 64)
    assert result.mid_p == pytest.approx(8 / 64)


def test_mcnemar_of_many_questions_stays_exact():
    first, second = [True] * 600 + [False] * 400, [False] * 600 + [True] * 400
    assert mcnemar(first, second).p_value == pytest.approx(stats.binomtest(400, 1000).pvalue, rel=1e-9)


def test_mcnemar_refuses_models_of_different_questions():
    with pytest.raises(MetricInputError, match="2 values and 1"):
        mcnemar([True, False], [True])


# Wilcoxon


def all_signs(differences):
    """Compute W and p by definition, from every way to sign the ranks of the differences that are not zero."""
    values = [value for value in differences if value]
    ranks = stats.rankdata(np.abs(values))
    positive = sum(rank for rank, value in zip(ranks, values, strict=True) if value > 0)
    statistic = min(positive, ranks.sum() - positive)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in product((0, 1), repeat=len(values))
    ]
    return statistic, min(1.0, 2 * sum(total <= statistic + 1e-9 for total in sums) / len(sums))


@EXAMPLES
@given(WITH_TIES)
def test_wilcoxon_counts_all_signs_ties_and_zeros_included(differences):
    result = wilcoxon(differences)
    if not any(differences):
        assert result is None
        return
    assert (result.statistic, result.p_value) == pytest.approx(all_signs(differences), abs=1e-12)
    assert result.pairs == sum(value != 0 for value in differences)
    assert result.method == "exact"


@pytest.mark.parametrize("pairs", [1, 2, 5, 13, 30, EXACT_PAIRS])
def test_wilcoxon_without_ties_is_scipys_exact_test(pairs):
    differences = np.random.default_rng(pairs).normal(0.2, 1, pairs)
    theirs = stats.wilcoxon(differences, method="exact")
    result = wilcoxon(differences.tolist())
    assert (result.statistic, result.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert result.method == "exact"


@pytest.mark.parametrize(("pairs", "digits"), [(EXACT_PAIRS + 1, 15), (80, 0), (80, 1), (400, 0), (400, 15)])
def test_wilcoxon_of_many_pairs_is_scipys_normal_test_without_continuity(pairs, digits):
    differences = np.round(np.random.default_rng(pairs).normal(0.2, 3, pairs), digits)
    theirs = stats.wilcoxon(differences, method="asymptotic", correction=False, zero_method="wilcox")
    result = wilcoxon(differences.tolist())
    assert (result.statistic, result.p_value) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert result.pairs == np.count_nonzero(differences)
    assert result.method == "normal"


def test_wilcoxon_counts_pairs_after_zeros_are_dropped():
    differences = [*range(1, EXACT_PAIRS + 1), 0.0, 0.0, 0.0]
    assert wilcoxon(differences).method == "exact"
    assert wilcoxon([*differences, 60.0]).method == "normal"


def test_wilcoxon_is_not_moved_by_last_bits():
    # .3 − .1 − .2 is 5.5e-17 and not a pair; .1 + .2 and .3 are tied.
    assert wilcoxon([0.3 - 0.1 - 0.2]) is None
    assert wilcoxon([0.1 + 0.2, -0.3]).statistic == 1.5


def test_wilcoxon_without_pairs_is_undefined():
    assert wilcoxon([]) is None
    assert wilcoxon([0.0, 0.0]) is None


# Cohen's d


def test_cohens_d_is_the_mean_over_the_sample_deviation():
    differences = np.random.default_rng(0).normal(1, 2, 20)
    assert cohens_d(differences.tolist()) == pytest.approx(differences.mean() / differences.std(ddof=1))
    assert cohens_d([1.0, 2.0, 3.0]) == 2


@pytest.mark.parametrize("differences", [[], [1.0], [0.5, 0.5], [0.1 + 0.2, 0.3, 0.3]])
def test_cohens_d_without_spread_is_undefined(differences):
    assert cohens_d(differences) is None


# Correlations


@EXAMPLES
@given(PAIRS)
def test_correlations_are_scipys(pairs):
    x, y = [float(one) for one, _ in pairs], [float(other) for _, other in pairs]
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert (spearman(x, y), kendall(x, y), r_squared(x, y)) == (None, None, None)
        return
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert kendall(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert r_squared(x, y) == pytest.approx(stats.pearsonr(x, y).statistic ** 2, abs=1e-12)


def test_correlations_are_not_moved_by_last_bits():
    x, y = [0.1 + 0.2, 0.3, 0.5], [1.0, 2.0, 3.0]
    assert spearman(x, y) == pytest.approx(spearman([0.3, 0.3, 0.5], y))
    assert kendall(x, y) == pytest.approx(kendall([0.3, 0.3, 0.5], y))
    assert r_squared([0.1 + 0.2, 0.3, 0.3], y) is None


@pytest.mark.parametrize("correlation", [spearman, kendall, r_squared])
def test_a_correlation_needs_two_points_that_differ(correlation):
    assert correlation([], []) is None
    assert correlation([1.0], [2.0]) is None
    assert correlation([1.0, 1.0], [1.0, 2.0]) is None
    assert correlation([1.0, 2.0], [3.0, 3.0]) is None
    assert correlation([1.0, 2.0], [5.0, 9.0]) == pytest.approx(1)


@pytest.mark.parametrize("correlation", [spearman, kendall, r_squared])
def test_a_correlation_refuses_what_is_not_paired_or_not_finite(correlation):
    with pytest.raises(MetricInputError, match="2 values and 1"):
        correlation([1.0, 2.0], [1.0])
    with pytest.raises(MetricInputError, match="non-finite"):
        correlation([1.0, math.nan], [1.0, 2.0])


@pytest.mark.parametrize("test", [wilcoxon, cohens_d])
def test_differences_must_be_finite(test):
    with pytest.raises(MetricInputError, match="non-finite"):
        test([1.0, math.inf])


# Ratios of variances


def test_a_variance_ratio_is_undefined_without_a_denominator():
    assert variance_ratio(3.0, 4.0) == 0.75
    assert variance_ratio(0.0, 4.0) == 0
    assert variance_ratio(3.0, 1e-12) == pytest.approx(3e12)
    assert variance_ratio(3.0, 0.99e-12) is None
    assert variance_ratio(3.0, 0.0) is None
    assert variance_ratio(None, 1.0) is None
    assert variance_ratio(1.0, None) is None


def test_a_geometric_mean_is_undefined_with_a_zero_or_a_gap():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4)
    assert geometric_mean([5.0]) == pytest.approx(5)
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, None]) is None
    assert geometric_mean([1.0, 0.0]) is None
    with pytest.raises(MetricInputError, match="-1"):
        geometric_mean([1.0, -1.0])
    with pytest.raises(MetricInputError, match="inf"):
        geometric_mean([math.inf])


def test_a_geometric_mean_is_scipys():
    values = np.random.default_rng(0).lognormal(size=30)
    assert geometric_mean(values.tolist()) == pytest.approx(stats.gmean(values))
