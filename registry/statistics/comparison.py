"""Tests and correlations between two models or two columns of a table.

Values that agree to 12 decimals are equal, and a difference below that is zero: sums taken in another order differ in
the last bits, and a rank or a zero must not depend on them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError

DIGITS: Final = 12
EXACT_PAIRS: Final = 50
"""Most pairs for which Wilcoxon's distribution is counted exactly, not approximated."""
SMALLEST_VARIANCE: Final = 1e-12
"""Smallest variance that is used as a denominator."""


@dataclass(frozen=True)
class McNemar:
    """The result of McNemar's test: questions that only one of two models has right, and p-values of that split.

    p_value: exact and two-sided, so that equal models fall below .05 in less than 5 % of cases, on few questions in far
    fewer. mid_p: counts half of the probability of this very split, which comes closer to 5 %.
    """

    only_first: int
    only_second: int
    p_value: float
    mid_p: float


@dataclass(frozen=True)
class Wilcoxon:
    """The result of Wilcoxon's signed-rank test.

    statistic: the smaller rank sum W. p_value: two-sided. pairs: number of differences that are not zero.
    """

    statistic: float
    p_value: float
    pairs: int
    method: Literal["exact", "normal"]


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """Test by McNemar's exact test whether one of two models is right more often on questions where they differ.

    first, second: right or wrong, the same questions in the same order.
    The p-value is twice the smaller binomial tail at ½, at most 1; 1 if they never differ. The mid-p value is smaller
    by the probability of the split itself, and 1 for an even split.
    Raises MetricInputError on unequal lengths.
    Source of mid-p: Fagerland, Lydersen and Laake, *The McNemar Test for Binary Matched-Pairs Data* (2013).

    >>> mcnemar([True, True, True, False], [False, False, False, False])
    McNemar(only_first=3, only_second=0, p_value=0.25, mid_p=0.125)
    """
    from scipy.stats import binom, binomtest

    _check_lengths(first, second)
    pairs = list(zip(first, second, strict=True))
    only_first = sum(bool(first_right) and not second_right for first_right, second_right in pairs)
    only_second = sum(bool(second_right) and not first_right for first_right, second_right in pairs)
    differing = only_first + only_second
    p_value = float(binomtest(only_first, differing).pvalue) if differing else 1.0
    even = only_first == only_second
    mid_p = 1.0 if even else p_value - float(binom.pmf(only_first, differing, 0.5))
    return McNemar(only_first, only_second, p_value, mid_p)


def wilcoxon(differences: Sequence[float]) -> Wilcoxon | None:
    """Run Wilcoxon's signed-rank test on paired differences, two-sided.

    Zeros are dropped, ties share their average rank, W is the smaller of both rank sums. Up to 50 pairs p is exact, by
    counting all signs of the ranks as they are, ties included; beyond, normal with the correction for ties and none for
    continuity. None if no pair is left. Raises MetricInputError on a number that is not finite.

    >>> wilcoxon([1, 2, 3])
    Wilcoxon(statistic=0.0, p_value=0.25, pairs=3, method='exact')
    """
    from scipy.stats import norm, rankdata

    values = _check_finite(differences)
    values = values[values != 0]
    pairs = values.size
    if not pairs:
        return None
    ranks = rankdata(np.abs(values))
    positive = float(ranks[values > 0].sum())
    total = pairs * (pairs + 1) / 2
    statistic = min(positive, total - positive)
    if pairs <= EXACT_PAIRS:
        p_value = 2 * _share_of_signs_up_to(statistic, ranks)
        return Wilcoxon(statistic, min(1.0, p_value), pairs, "exact")
    _, ties = np.unique(ranks, return_counts=True)
    variance = pairs * (pairs + 1) * (2 * pairs + 1) / 24 - float((ties**3 - ties).sum()) / 48
    p_value = 2 * float(norm.cdf((statistic - total / 2) / math.sqrt(variance)))
    return Wilcoxon(statistic, min(1.0, p_value), pairs, "normal")


def _share_of_signs_up_to(statistic: float, ranks: NDArray[np.float64]) -> float:
    """Return the share of the 2^n ways to sign the ranks with a positive sum of at most the statistic."""
    # Average ranks are halves, so doubled ranks are whole; 2^50 ways are counted exactly by float64.
    doubled = np.rint(2 * ranks).astype(np.int64)
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1
    for rank in doubled:
        ways[rank:] = ways[rank:] + ways[:-rank]
    return float(ways[: round(2 * statistic) + 1].sum()) / 2.0**ranks.size


def cohens_d(differences: Sequence[float]) -> float | None:
    """Return Cohen's d of paired differences: their mean over their sample standard deviation (n − 1).

    None for fewer than two differences, or if they are all equal. Raises MetricInputError on a number that is not
    finite.

    >>> cohens_d([1, 2, 3])
    2.0
    """
    values = _check_finite(differences)
    if _is_constant(values):
        return None
    return float(values.mean() / values.std(ddof=1))


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Spearman's ρ with average ranks, in [−1, 1]; None for fewer than two points or if either is constant.

    Raises MetricInputError on unequal lengths or a number that is not finite.

    >>> spearman([1, 2, 3], [1, 3, 2])
    0.5
    """
    from scipy.stats import rankdata

    points = _check_points(x, y)
    return None if points is None else _pearson(rankdata(points[0]), rankdata(points[1]))


def kendall(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Kendall's τ-b, in [−1, 1]; None for fewer than two points or if either is constant.

    Raises MetricInputError on unequal lengths or a number that is not finite.

    >>> round(kendall([1, 2, 3], [1, 3, 2]), 3)
    0.333
    """
    from scipy.stats import kendalltau

    points = _check_points(x, y)
    return None if points is None else float(kendalltau(*points, variant="b").statistic)


def r_squared(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return R², the squared Pearson correlation, in [0, 1]; None for fewer than two points or if either is constant.

    Raises MetricInputError on unequal lengths or a number that is not finite.
    Source: Goliakova et al., *Metric assessment protocol in the context of answer fluctuation on MCQ tasks*, §4.

    >>> round(r_squared([0, 1, 2], [0, 1, 1]), 12)
    0.75
    """
    points = _check_points(x, y)
    return None if points is None else _pearson(*points) ** 2


def geometric_mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean of ratios; None for none at all, or if any is None or 0.

    Raises MetricInputError on a negative or infinite number.
    Source: Nowak et al., *ABCD: All Biases Come Disguised*, Table 1.

    >>> geometric_mean([0.25, 4.0])
    1.0
    """
    defined = [value for value in values if value is not None]
    if any(not 0 <= value < math.inf for value in defined):
        raise MetricInputError(f"a geometric mean of {defined}; give finite numbers that are not negative")
    if not defined or len(defined) < len(values) or 0 in defined:
        return None
    return math.exp(fmean(map(math.log, defined)))


def variance_ratio(numerator_variance: float | None, denominator_variance: float | None) -> float | None:
    """Divide the variance under one protocol by that under another.

    None if either is None or the denominator is below 1e-12.
    Source: Nowak et al., *ABCD: All Biases Come Disguised*, Eq. 3 and 4 (matched and dashed over selected and
    lettered).

    >>> variance_ratio(2.0, 8.0)
    0.25
    """
    if numerator_variance is None or denominator_variance is None or denominator_variance < SMALLEST_VARIANCE:
        return None
    return numerator_variance / denominator_variance


def _pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    # Scale first, since the squares of large numbers overflow.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip((x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum()), -1, 1))


def _check_points(x: Sequence[float], y: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    _check_lengths(x, y)
    first, second = _check_finite(x), _check_finite(y)
    return None if _is_constant(first) or _is_constant(second) else (first, second)


def _is_constant(values: NDArray[np.float64]) -> bool:
    return values.size < 2 or bool((values == values[0]).all())


def _check_finite(values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise MetricInputError(f"a non-finite number among {array.size} to compare; leave out undefined ones")
    return np.round(array, DIGITS)


def _check_lengths(first: Sequence[object], second: Sequence[object]) -> None:
    if len(first) != len(second):
        raise MetricInputError(f"{len(first)} values and {len(second)}; give pairs")
