"""Intervals that may be looked at while an evaluation runs: repeated confidence intervals at planned looks.

A run that stops when its interval is narrow enough has looked at it many times; an interval that holds at one look
taken for itself need not hold where the run stopped. Here all looks together miss the value with probability
1 − confidence at most (asymptotically in the number of questions; `tests.bench.bench_precision` measures it by replay).
Why not betting: docs/decisions/0054-stopping-at-a-precision.md.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import Interval

Floats = NDArray[np.float64]

INFORMATION: Final = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
"""The information at which a look is taken, as a share of what the stated precision needs."""
SPENDING_EXPONENT: Final = 8
"""How late the error is spent: at half the information (1/2)⁸ of it, so that the last interval is hardly wider than
that of a fixed sample (1.976 standard errors at 95 %, against 1.960)."""
MINIMUM_SAMPLE: Final = 100
"""No look at fewer questions: the intervals are normal approximations."""

_NODES: Final = 400


@dataclass(frozen=True)
class RepeatedInterval(Interval):
    """An interval that holds together with those of all other looks, with this confidence."""

    confidence: float


@dataclass(frozen=True)
class Look:
    """What a look found. information: the share of what the precision needs, 1 at the end."""

    questions: int
    value: float
    standard_error: float
    information: float
    interval: RepeatedInterval

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.interval.high - self.interval.low) / 2


@cache
def critical_values(
    confidence: float = 0.95, information: tuple[float, ...] = INFORMATION, exponent: int = SPENDING_EXPONENT
) -> tuple[float, ...]:
    """Standard errors on either side of the value at each look, so that all intervals hold together.

    information: of the looks, rising to 1. Estimates behave at the looks as Brownian motion W at these times, also
    without replacement, where information is 1 over the estimate's variance. The error spent up to t is α·tᵖ, and the
    k-th critical value zₖ solves P(|W(tⱼ)| < zⱼ√tⱼ for j < k, |W(tₖ)| ≥ zₖ√tₖ) = α·tₖᵖ − α·tₖ₋₁ᵖ, by recursive
    integration.
    Raises MetricInputError unless 0.5 ≤ confidence < 1.
    Sources: Jennison and Turnbull, *Interim analyses: the repeated confidence interval approach* (1989);
    Kim and DeMets, *Design and analysis of group sequential tests based on the type I error spending rate function*
    (1987), the power family; Armitage, McPherson and Rowe, *Repeated significance tests on accumulating data* (1969).

    >>> [round(z, 2) for z in critical_values(0.95, (1.0,))]
    [1.96]
    """
    from scipy.special import ndtr

    if not 0.5 <= confidence < 1:
        raise MetricInputError(f"confidence {confidence:g}: give a number from 0.5 to below 1, such as 0.95")
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    found: list[float] = []
    points, density = np.zeros(1), np.ones(1)  # W(0) = 0
    before = 0.0
    for t in information:
        spent = (1 - confidence) * (t**exponent - before**exponent)
        scale = math.sqrt(t - before)
        low, high = 0.0, 40 * math.sqrt(t)
        for _ in range(100):
            middle = (low + high) / 2
            outside = density @ (ndtr((points - middle) / scale) + ndtr((-middle - points) / scale))
            low, high = (middle, high) if outside > spent else (low, middle)
        found.append(high / math.sqrt(t))
        inside = high * nodes
        step = np.exp(-0.5 * ((inside[:, None] - points) / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
        density = step @ density * weights * high
        points, before = inside, t
    return tuple(found)


def score_interval(value: Floats, standard_error: Floats, questions: int, z: float | Floats) -> tuple[Floats, Floats]:
    """Low and high of an interval for a mean of values in [0, 1]; arrays of any one shape.

    Wilson's score interval on the effective sample size nₑ = v(1−v)/se², which carries stratification, what history
    explains and the finite benchmark: (v + z²/2nₑ ± z√(v(1−v)/nₑ + z²/4nₑ²)) / (1 + z²/nₑ). Unlike v ± z·se it has a
    length where every answer so far was right; nₑ is the number of questions there.
    Source: Wilson, *Probable inference* (1927); Franco, Little, Louis and Slud, *Comparative study of confidence
    intervals for proportions in complex sample surveys* (2019), on the effective sample size.
    """
    v = np.clip(value, 0.0, 1.0)
    variance = v * (1 - v)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where((variance > 0) & (standard_error > 0), variance / standard_error**2, float(questions))
    size = np.maximum(size, 1.0)
    centre = (v + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(variance / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    # Where every answer is wrong, or right, rounding must not leave out that value.
    low, high = np.where(v == 0.0, 0.0, centre - half), np.where(v == 1.0, 1.0, centre + half)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def gathered(value: Floats, standard_error: Floats, questions: int, precision: float, confidence: float) -> Floats:
    """Information as a share of what the precision needs: (precision / half width of the last look's interval)²."""
    low, high = score_interval(value, standard_error, questions, critical_values(confidence)[-1])
    return (2 * precision / (high - low)) ** 2


def look(
    value: float,
    standard_error: float,
    questions: int,
    *,
    of: int,
    seen: float,
    precision: float,
    confidence: float,
    last: bool,
) -> Look | None:
    """The look to take after so many questions, or None where the information for the next one is not there yet.

    of: questions of the benchmark; where all were asked the value is exact. seen: information of the looks so far.
    last: no more questions can be asked, so the remaining error is spent.
    """
    if questions >= of:
        return Look(questions, value, 0.0, 1.0, RepeatedInterval(value, value, confidence))
    values, errors = np.array([value]), np.array([standard_error])
    # Rounded, so that the last bits, which differ between machines, decide nothing.
    share = round(float(gathered(values, errors, questions, precision, confidence)[0]), 9)
    reached = max((level for level in INFORMATION if share >= level), default=0.0)
    if not last and (reached <= seen or questions < MINIMUM_SAMPLE):
        return None
    z = critical_values(confidence)[INFORMATION.index(1.0 if last else reached)]
    low, high = score_interval(values, errors, questions, z)
    interval = RepeatedInterval(float(low[0]), float(high[0]), confidence)
    return Look(questions, value, standard_error, min(share, 1.0), interval)
