"""Differences between the accuracies of groups of answers, net of the sampling of questions.

Groups are the orders of all questions' options, or the positions of the right option. Their accuracies differ also
because each is measured on a sample of questions. With rⱼ the accuracy of group j of G, and M the
covariance of the rⱼ around their mean, estimated from the questions, the net variance is

    V = Σ(rⱼ − r̄)²/G − tr M/G.

It is unbiased, and 0 in expectation if all groups are answered equally well. Its interval inverts the noncentral χ²
distribution that Σ(rⱼ − r̄)² has for normal rⱼ, with (tr M)²/tr M² degrees of freedom.

Source: Searle, Casella and McCulloch, *Variance Components* (1992), ch. 3; Box, *Some Theorems on Quadratic Forms
Applied in the Study of Analysis of Variance Problems* (1954), for the degrees of freedom.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import MINIMUM_QUESTIONS, Interval
from registry.statistics.exact import TAIL

Floats = NDArray[np.float64]

SMALLEST: Final = 1e-15
"""A variance below this is only rounding error."""


@dataclass(frozen=True)
class Spread:
    """A standard deviation or distance net of sampling, in [0, 1], with its numbers of groups and questions.

    interval: at 95 %; None if none is stated.
    """

    value: float
    interval: Interval | None
    groups: int
    questions: int


def position_bias(hits: Floats, counts: Floats) -> Spread | None:
    """Return the standard deviation of recall over the positions of the right option, net of sampling.

    hits: how often each question was answered right with its right option at each position, shape (questions,
    positions). counts: how often each question was shown in that way. The result is 0 if all positions are answered
    equally well; None for fewer than two positions or questions.

    >>> always_first = np.array([[1.0, 0.0]] * 50)
    >>> position_bias(always_first, np.ones((50, 2))).value
    0.5
    """
    return _net(hits, counts, lambda variance, _: math.sqrt(variance))


def order_shift(hits: Floats, counts: Floats) -> Spread | None:
    """Return how far apart the accuracies in two randomly chosen orders are, net of sampling.

    hits: how often each question was answered right in each order, shape (questions, orders); counts: how often it was
    shown in it. The result is the root of the mean square of the difference, which is √2 times the standard deviation
    of orders, with G − 1 in its denominator. It is 0 if the order does not change the accuracy, even if it changes
    answers: questions that gain and lose in one order cancel out. None for fewer than two orders or questions.

    >>> one_order_better = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]] * 20)
    >>> round(order_shift(one_order_better, np.ones((80, 2))).value, 3)
    0.497
    """
    return _net(hits, counts, lambda variance, groups: math.sqrt(2 * variance * groups / (groups - 1)))


def _net(hits: Floats, counts: Floats, in_units: Callable[[float, int], float]) -> Spread | None:
    """Return the net spread. in_units: converts a variance over a number of groups to the metric's units."""
    if hits.shape != counts.shape or hits.ndim != 2 or (hits > counts).any() or (hits < 0).any():
        raise MetricInputError(
            f"hits of shape {hits.shape} for counts of shape {counts.shape}; give hits from 0 to the counts, one row "
            "per question"
        )
    shown = counts.sum(axis=0) > 0
    hits, counts = hits[:, shown], counts[:, shown]
    answered = counts.sum(axis=1) > 0
    hits, counts = hits[answered], counts[answered]
    questions, groups = hits.shape
    if questions < 2 or groups < 2:
        return None
    totals = counts.sum(axis=0)
    shares = hits.sum(axis=0) / totals
    # How much each question moves each accuracy, around the mean of the accuracies.
    moved = (hits - shares * counts) / totals
    moved -= moved.mean(axis=1, keepdims=True)
    noise = moved.T @ moved * questions / (questions - 1)
    squares = float(((shares - shares.mean()) ** 2).sum())
    trace = float(np.trace(noise))
    value = in_units(max(0.0, squares - trace) / groups, groups)
    interval = None
    if questions >= MINIMUM_QUESTIONS and trace > SMALLEST:
        freedom = trace**2 / float((noise**2).sum())
        low, high = (squared * trace / freedom / groups for squared in _noncentral(squares * freedom / trace, freedom))
        interval = Interval(in_units(low, groups), in_units(high, groups))
    return Spread(value, interval, groups, questions)


def _noncentral(observed: float, freedom: float) -> tuple[float, float]:
    """Return the noncentralities of χ² that put the observed value at the upper, and at the lower, 2.5 % limit."""
    from scipy.special import chndtr, chndtrinc

    ends = []
    for level in (1 - TAIL, TAIL):
        below = float(chndtr(observed, freedom, 0.0)) <= level
        ends.append(0.0 if below else float(chndtrinc(observed, freedom, level)))
    return ends[0], ends[1]
