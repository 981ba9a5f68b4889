"""How small a difference so many questions can tell, and how many questions a difference needs.

For the paired difference of two models on the same questions: the test is that of the interval which excludes 0, whose
width is Student's (`registry.statistics.bootstrap`), so its power is that of the paired t-test.
Source: Miller, *Adding Error Bars to Evals: A Statistical Approach to Language Model Evaluations* (2024), §5; Cohen,
*Statistical Power Analysis for the Behavioral Sciences* (1988), ch. 2.
"""

import math
from bisect import bisect_left
from functools import cache
from statistics import NormalDist
from typing import Final

from registry.errors import MetricInputError
from registry.statistics.bootstrap import CONFIDENCE, MINIMUM_QUESTIONS

POWER: Final = 0.8
"""How often a difference is to be found. Convention since Cohen."""
LEAST_POWER: Final = 0.5
MOST_POWER: Final = 0.999
MOST_QUESTIONS: Final = 10**9
"""More questions than that are as good as no number at all."""
ONE_PAIR: Final = 1.959963984540054
"""What a difference over its standard error has to exceed to be told from 0 at 95 %, on many questions."""
NO_DOUBT: Final = 40.0
"""A difference of so many standard errors is found with certainty; the noncentral distribution is not asked beyond."""


@cache
def critical_of(models: int) -> float:
    """What the ratio of ONE_PAIR is where all pairs of so many models are compared at once.

    Of Tukey's studentised range, for models whose differences all vary alike.
    Source: Tukey, *The Problem of Multiple Comparisons* (1953). Raises MetricInputError for fewer than two models.

    >>> round(critical_of(2), 4), round(critical_of(30), 2)
    (1.96, 3.75)
    """
    from scipy.stats import studentized_range

    if models < 2:
        raise MetricInputError(f"{models} model(s) to compare; give at least 2")
    return ONE_PAIR if models == 2 else float(studentized_range.ppf(CONFIDENCE, models, math.inf)) / math.sqrt(2)


def power_of(difference: float, spread: float, questions: int, *, critical: float = ONE_PAIR) -> float:
    """The probability that a true difference is told from 0.

    spread: standard deviation of the difference of one question; of 0/1 metrics see `spread_of_differing`.
    critical: as ONE_PAIR is, or of `critical_of` or a board's own; it is widened for few questions.
    Raises MetricInputError for a spread that is not positive, or fewer than MINIMUM_QUESTIONS.

    >>> round(power_of(0.1, 0.5, 200), 2)
    0.8
    """
    from scipy.special import nctdtr

    _check_spread(spread)
    limit = _widened(critical, questions)
    effect = abs(difference) * math.sqrt(questions) / spread
    if effect > NO_DOUBT:
        return 1.0
    # The wrong side matters only while there is hardly a difference.
    wrong = nctdtr(questions - 1, effect, -limit) if effect < 3 else 0.0
    return float(1 - nctdtr(questions - 1, effect, limit) + wrong)


def spread_of_differing(differing: float, difference: float = 0.0) -> float:
    """Standard deviation of a question's difference, for 0/1 metrics of which one alone is 1 on a share of questions.

    differing: that share, in (0, 1], and at least |difference|. σ² = differing − difference².
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
    """The difference that is told from 0 with the given probability, in the units of the metric.

    spread: as for `power_of`, whatever the difference is.

    >>> round(smallest_difference(0.5, 200), 3)
    0.1
    """
    _check_spread(spread)
    return _effect(questions, power, critical) * spread / math.sqrt(questions)


def smallest_difference_of_differing(
    differing: float, questions: int, *, power: float = POWER, critical: float = ONE_PAIR
) -> float | None:
    """What `smallest_difference` is for a 0/1 metric; None where even the largest, `differing`, is not told.

    differing: as for `spread_of_differing`; its standard deviation depends on the difference itself.
    """
    spread_of_differing(differing)
    # δ = k √((ψ − δ²) / n)
    effect = _effect(questions, power, critical)
    found = effect * math.sqrt(differing / (questions + effect**2))
    return found if found <= differing else None


def questions_needed(
    difference: float, spread: float, *, power: float = POWER, critical: float = ONE_PAIR
) -> int | None:
    """The smallest number of questions on which a difference is told from 0 with the given probability.

    At least MINIMUM_QUESTIONS, below which no interval is stated. None for no difference, or above MOST_QUESTIONS.
    """
    _check_spread(spread)
    check_power(power)
    if difference == 0:
        return None
    # On many questions; Student's distribution asks for a few more.
    many = ((critical + NormalDist().inv_cdf(power)) * spread / difference) ** 2
    if many > MOST_QUESTIONS:
        return None
    low, step = max(MINIMUM_QUESTIONS, int(many)) - 1, 1
    while power_of(difference, spread, low + step, critical=critical) < power:
        low, step = low + step, 2 * step
    return (
        low
        + 1
        + bisect_left(
            range(low + 1, low + step),
            power,
            key=lambda questions: power_of(difference, spread, questions, critical=critical),
        )
    )


def _effect(questions: int, power: float, critical: float) -> float:
    """The difference over its standard error that is told from 0 with the given probability."""
    from scipy.special import nctdtrinc

    check_power(power)
    return float(nctdtrinc(questions - 1, 1 - power, _widened(critical, questions)))


def check_power(power: float) -> None:
    """Raises MetricInputError for what is no power: nobody plans to miss most differences, or none."""
    if not LEAST_POWER <= power <= MOST_POWER:
        raise MetricInputError(f"power {power:g}; give a probability from {LEAST_POWER} to {MOST_POWER}")


def _widened(critical: float, questions: int) -> float:
    """A ratio's limit on so many questions, where it is as improbable as `critical` is on many."""
    from scipy.special import ndtr, stdtrit

    if questions < MINIMUM_QUESTIONS:
        raise MetricInputError(f"{questions} questions tell no models apart; give at least {MINIMUM_QUESTIONS}")
    return -float(stdtrit(questions - 1, ndtr(-critical)))


def _check_spread(spread: float) -> None:
    if not 0 < spread < math.inf:
        raise MetricInputError(f"a standard deviation of {spread:g}; give a positive number")
