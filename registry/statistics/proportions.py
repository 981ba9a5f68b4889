"""Intervals of shares, and the number of questions that an interval of a given length needs."""

import math

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import MINIMUM_QUESTIONS
from registry.statistics.paired import quantile

Floats = NDArray[np.float64]


def score_interval(value: Floats, standard_error: Floats, questions: int, z: float | Floats) -> tuple[Floats, Floats]:
    """Return low and high of an interval for a mean of values in [0, 1]; arrays of any one shape.

    Wilson's score interval on the effective sample size nₑ = v(1−v)/se²:
    (v + z²/2nₑ ± z√(v(1−v)/nₑ + z²/4nₑ²)) / (1 + z²/nₑ). Unlike v ± z·se it does not shrink to a point if every answer
    was right; nₑ is then the number of questions.
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
    # If every answer is wrong, or right, rounding must not leave out that value.
    low, high = np.where(v == 0.0, 0.0, centre - half), np.where(v == 1.0, 1.0, centre + half)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def half_width(variance: float, questions: int, drawn_from: int) -> float:
    """Return half the length of the 95 % interval of a mean over a sample of questions; 0 if all were drawn.

    variance: population variance of the questions' values. drawn_from: number of all questions.

    >>> round(half_width(0.25, 500, 12_032), 4)
    0.0431
    """
    return quantile(questions) * math.sqrt(variance / questions * (1 - questions / drawn_from))


def sample_for(variance: float, precision: float, drawn_from: int) -> int:
    """Return the smallest sample whose interval reaches at most `precision` to either side.

    drawn_from: number of all questions. The sample has at least MINIMUM_QUESTIONS, since fewer have no interval, or all
    questions if there are no more.

    >>> sample_for(0.25, 0.02, 12_032), sample_for(0.25, 0.001, 12_032)
    (2005, 11884)
    """
    low, high = min(MINIMUM_QUESTIONS, drawn_from), drawn_from
    while low < high:
        middle = (low + high) // 2
        if half_width(variance, middle, drawn_from) <= precision:
            high = middle
        else:
            low = middle + 1
    return low
