"""The smallest difference that a number of questions can detect, and the number that a difference needs.

For the paired difference of two models on the same questions. They are distinguished if the interval of the difference
excludes 0; its width is Student's (`registry.statistics.bootstrap`), so that on many questions the power is that of the
paired t-test. For metrics that are 0 or 1 and few questions it is also summed over the possible outcomes.
Source: Miller, *Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations* (2024), §5; Cohen,
*Statistical Power Analysis for the Behavioral Sciences* (1988), ch. 2.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import LARGEST_SKEWNESS, MINIMUM_QUESTIONS, RANK_RESAMPLES, share_below

Counts = NDArray[np.int64]

POWER: Final = 0.8
"""Probability of detecting a true difference; the convention since Cohen."""
LEAST_POWER: Final = 0.5
MOST_POWER: Final = 0.999
MOST_QUESTIONS: Final = 10**9
"""If more questions are needed, no number is returned."""
ONE_PAIR: Final = 1.959963984540054
"""Ratio of a difference to its standard error that must be exceeded to differ from 0 at 95 %, on many questions."""
MANY_DIFFERING: Final = 2000
"""Expected number of differing questions from which on Student's distribution is exact enough."""
NO_DOUBT: Final = 20.0
"""A difference of more standard errors than this is certainly detected, without the noncentral distribution."""


@cache
def critical_of(models: int) -> float:
    """Return the critical ratio, like ONE_PAIR, for comparing all pairs of this many models at once.

    From Tukey's studentised range, for models whose differences all vary equally, at the level that boards compare at.
    Source: Tukey, *The Problem of Multiple Comparisons* (1953). Raises MetricInputError for fewer than two models.

    >>> round(critical_of(2), 4), round(critical_of(30), 2)
    (1.96, 3.81)
    """
    from scipy.stats import studentized_range

    if models < 2:
        raise MetricInputError(f"{models} model(s) to compare; give at least 2")
    share = share_below(RANK_RESAMPLES)
    return ONE_PAIR if models == 2 else float(studentized_range.ppf(share, models, math.inf)) / math.sqrt(2)


def power_of(difference: float, spread: float, questions: int, *, critical: float = ONE_PAIR) -> float:
    """Return the probability that a true difference is distinguished from 0.

    spread: standard deviation of the difference of one question; for 0/1 metrics see `spread_of_differing`.
    critical: a ratio like ONE_PAIR, from `critical_of` or a board's own; it is widened for few questions.
    Raises MetricInputError for a spread that is not positive, or fewer than MINIMUM_QUESTIONS.

    >>> round(power_of(0.1, 0.5, 200), 2)
    0.8
    """
    from scipy.special import nctdtr

    _check_spread(spread)
    limit = _widen(critical, questions)
    effect = abs(difference) * math.sqrt(questions) / spread
    if effect > NO_DOUBT:
        return 1.0
    # A detected difference of the wrong sign has a notable probability only if the true difference is small.
    wrong = nctdtr(questions - 1, effect, -limit) if effect < 3 else 0.0
    return float(1 - nctdtr(questions - 1, effect, limit) + wrong)


def spread_of_differing(differing: float, difference: float = 0.0) -> float:
    """Return the standard deviation over questions of the difference between two models in a 0/1 metric.

    differing: share of questions on which the models differ, in (0, 1], and at least |difference|. σ² = differing −
    difference².
    Raises MetricInputError otherwise.

    >>> spread_of_differing(0.25)
    0.5
    """
    if not 0 < differing <= 1 or abs(difference) > differing:
        raise MetricInputError(
            f"models that differ on {differing:g} of the questions and by {difference:g}; give a share above 0, up to "
            "1, that is not below the difference"
        )
    return math.sqrt(differing - difference**2)


def smallest_difference(spread: float, questions: int, *, power: float = POWER, critical: float = ONE_PAIR) -> float:
    """Return the difference that is distinguished from 0 with the given probability, in the units of the metric.

    spread: as for `power_of`, whatever the difference is.

    >>> round(smallest_difference(0.5, 200), 3)
    0.1
    """
    _check_spread(spread)
    return _effect(questions, power, critical) * spread / math.sqrt(questions)


def power_of_differing(difference: float, differing: float, questions: int, *, critical: float = ONE_PAIR) -> float:
    """Compute `power_of` for a 0/1 metric, more exactly on few questions.

    differing: as for `spread_of_differing`. Up to MANY_DIFFERING questions on which the two differ, the power is summed
    over the possible numbers of questions that only one of them has right; beyond, it is that of the t-test.

    >>> round(power_of_differing(0.1, 0.3, 200), 2)
    0.74
    """
    from scipy.stats import binom

    spread = spread_of_differing(differing, difference)
    if questions * differing > MANY_DIFFERING:
        return power_of(difference, spread, questions, critical=critical)
    limit = _widen(critical, questions)
    fewest, most = binom.ppf([1e-9, 1 - 1e-9], questions, differing)
    differ = np.arange(max(int(fewest), 1), int(most) + 1)
    least = _fewest_right(differ, questions, limit, pair=critical == ONE_PAIR)
    first = (1 + abs(difference) / differing) / 2
    detected = binom.sf(least - 1, differ, first) + binom.cdf(differ - least, differ, first)
    return float((binom.pmf(differ, questions, differing) * detected).sum())


def _fewest_right(differ: Counts, questions: int, limit: float, *, pair: bool) -> Counts:
    """Return how many of the differing questions one model must have right to be distinguished.

    If no number suffices, the result is larger than `differ`. Both have the shape (numbers of differing questions,).
    """
    low, high = differ // 2, differ + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        distinguished = _is_distinguished(middle, differ, questions, limit, pair=pair)
        low, high = np.where(distinguished, low, middle), np.where(distinguished, middle, high)
    return high


def _is_distinguished(right: Counts, differ: Counts, questions: int, limit: float, *, pair: bool) -> NDArray[np.bool_]:
    """Return whether a model is shown to be better if it alone is right on `right` of the `differ` questions.

    A single pair is tested by its bias-corrected percentile interval, from the cumulants of the bootstrap's draws
    (Cornish and Fisher 1938); all pairs at once are tested by the difference over its standard deviation.
    """
    ahead = 2.0 * right - differ
    mean, square = ahead / questions, differ / questions
    variance = square - mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = (mean - 3 * mean * square + 2 * mean**3) / variance**1.5 / math.sqrt(questions)
        fourth = square - 4 * mean**2 + 6 * mean**2 * square - 3 * mean**4
        excess = (fourth / variance**2 - 3) / questions
        ratio = mean * math.sqrt(questions) / np.sqrt(variance)
    limit *= math.sqrt(questions / (questions - 1))
    end = np.full(ratio.shape, -limit)
    if pair:
        level = skewness / 3 - limit
        end = level + skewness * (level**2 - 1) / 6
        end += excess * (level**3 - 3 * level) / 24 - skewness**2 * (2 * level**3 - 5 * level) / 36
    return np.asarray((variance == 0) | ((ratio + end > 0) & (np.abs(skewness) <= LARGEST_SKEWNESS)))


def smallest_difference_of_differing(
    differing: float, questions: int, *, power: float = POWER, critical: float = ONE_PAIR
) -> float | None:
    """Compute `smallest_difference` for a 0/1 metric; None if even the largest, `differing`, is not distinguished.

    differing: as for `spread_of_differing`; its standard deviation depends on the difference itself.
    """
    from scipy.optimize import brentq

    check_power(power)

    def surplus(difference: float) -> float:
        return power_of_differing(difference, differing, questions, critical=critical) - power

    largest = min(differing, 1 - 1e-9)
    return float(brentq(surplus, 0.0, largest, xtol=1e-7)) if surplus(largest) >= 0 else None


def questions_needed(
    difference: float, spread: float, *, power: float = POWER, critical: float = ONE_PAIR
) -> int | None:
    """Return the smallest number of questions that distinguishes a difference from 0 with the given probability.

    At least MINIMUM_QUESTIONS, below which no interval is stated. None for no difference, or above MOST_QUESTIONS.
    """
    _check_spread(spread)
    return _fewest_questions(
        difference, spread, power, critical, lambda n: power_of(difference, spread, n, critical=critical)
    )


def questions_needed_of_differing(
    difference: float, differing: float, *, power: float = POWER, critical: float = ONE_PAIR
) -> int | None:
    """Compute `questions_needed` for a 0/1 metric; differing: as for `spread_of_differing`."""
    spread = spread_of_differing(differing, difference)
    return _fewest_questions(
        difference, spread, power, critical, lambda n: power_of_differing(difference, differing, n, critical=critical)
    )


def _fewest_questions(
    difference: float, spread: float, power: float, critical: float, power_on: Callable[[int], float]
) -> int | None:
    check_power(power)
    if difference == 0:
        return None
    # The approximation for many questions; the search begins at half of it.
    many = ((critical + NormalDist().inv_cdf(power)) * spread / difference) ** 2
    if many > MOST_QUESTIONS:
        return None
    low, step = max(MINIMUM_QUESTIONS - 1, int(many / 2)), max(1, int(many / 2))
    while power_on(low + step) < power:
        low, step = low + step, 2 * step
    return low + 1 + bisect_left(range(low + 1, low + step), power, key=power_on)


def _effect(questions: int, power: float, critical: float) -> float:
    """Return the ratio of a difference to its standard error that is detected with the given probability."""
    from scipy.special import nctdtrinc

    check_power(power)
    return float(nctdtrinc(questions - 1, 1 - power, _widen(critical, questions)))


def check_power(power: float) -> None:
    """Raise MetricInputError for an unreasonable power: nobody plans to miss most differences, or none."""
    if not LEAST_POWER <= power <= MOST_POWER:
        raise MetricInputError(f"power {power:g}; give a probability from {LEAST_POWER} to {MOST_POWER}")


def _widen(critical: float, questions: int) -> float:
    """Return the limit of a ratio on this many questions that is as improbable as `critical` is on many."""
    from scipy.special import ndtr, stdtrit

    if questions < MINIMUM_QUESTIONS:
        raise MetricInputError(f"{questions} questions tell no models apart; give at least {MINIMUM_QUESTIONS}")
    return -float(stdtrit(questions - 1, ndtr(-critical)))


def _check_spread(spread: float) -> None:
    if not 0 < spread < math.inf:
        raise MetricInputError(f"a standard deviation of {spread:g}; give a positive number")
