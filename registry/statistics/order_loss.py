"""Intervals and upper bounds of order losses.

Order losses of questions are mostly 0 with a long tail: a few questions may depend on the order and nearly all others
not. If none of those few is in the sample, resampling cannot find them, and its interval is too short, or lies wholly
below 0, although an order loss is never negative. So

- the lower end is at least 0;
- the upper end is raised if the mean's distribution is skewed to the right: percentiles of resamples move by a sixth of
  the skewness times z² − 1 standard errors, and the end of an interval that covers by twice z² + 1 (Johnson 1978);
- the upper end is at least the loss of the questions that the sample can have missed: if a share of up to 1 − .05^(1/n)
  of all questions had the largest possible loss, n questions would have none of them with a probability of 5 %;
- if the bootstrap states no interval, there is an upper bound. A question's order loss and chance loss together are
  half of the share of pairs of answers, in two different orders, that disagree. Their mean bounds the order loss, since
  the chance loss is not below 0, and has itself the exact binomial bound (Clopper and Pearson 1934).

To measure how often these intervals and bounds cover the true order loss: `python -m bench order_loss`.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import MINIMUM_QUESTIONS, Interval, UpperBound

Floats = NDArray[np.float64]

MISSED: Final = 0.05
"""Probability that a sample has none of the questions that the upper end allows for."""
BEYOND: Final = 0.05
"""Largest probability that the order loss exceeds its upper bound."""
Z: Final = 1.96
"""Standard errors on either side of an estimate in a 95 % interval."""
FEWEST_ORDERS: Final = 2
"""A question can lose most with two orders, so that bounds for two are valid for any number."""


def largest_loss(orders: int = FEWEST_ORDERS) -> float:
    """Return the largest order loss of a question: half of its orders are always answered right, the others never.

    >>> largest_loss(), round(largest_loss(4), 4)
    (0.5, 0.3333)
    """
    return orders / (4 * (orders - 1))


def unseen_loss(questions: int, orders: int = FEWEST_ORDERS) -> float:
    """Return the order loss of the questions that a sample of this many questions can have missed.

    >>> round(unseen_loss(100, 4), 4)
    0.0098
    """
    return largest_loss(orders) * float(1 - MISSED ** (1 / questions))


def lift_of_means(means: Floats) -> float:
    """Return how far the upper end is raised for the skewness of resampled means, shape (resamples,); at least 0."""
    deviations = means[~np.isnan(means)]
    deviations = deviations - deviations.mean()
    return _lift(float((deviations**2).mean()), float((deviations**3).mean()))


def lift_of_losses(losses: Floats) -> float:
    """Return the same lift, computed from the losses of the questions, shape (questions,)."""
    deviations, questions = losses - losses.mean(), len(losses)
    return _lift(float((deviations**2).mean()) / questions, float((deviations**3).mean()) / questions**2)


def _lift(variance: float, third: float) -> float:
    return max(0.0, third / variance) * (Z**2 + 2) / 6 if variance > 0 else 0.0


def limit_order_loss(resampled: Interval, questions: int, orders: int = FEWEST_ORDERS, lift: float = 0.0) -> Interval:
    """Return the bootstrap's interval with a lower end of at least 0, and a raised upper end, at least `unseen_loss`.

    lift: from `lift_of_means` or `lift_of_losses`.

    >>> limit_order_loss(Interval(-0.02, -0.01), 100, 2)
    Interval(low=0.0, high=0.014756524803519966)
    """
    high = max(resampled.high + lift, unseen_loss(questions, orders))
    return Interval(min(max(0.0, resampled.low), high), high)


def bound_order_loss(both: float, questions: int, orders: int = FEWEST_ORDERS) -> float:
    """Return the upper bound that the order loss does not exceed, with 95 % confidence, in [0, 0.5].

    both: the mean over the questions of the sum of order loss and chance loss.

    >>> round(bound_order_loss(0.0, 100, 4), 4), round(bound_order_loss(0.03, 400, 4), 4)
    (0.0098, 0.039)
    """
    from scipy.special import betaincinv

    largest = largest_loss(orders)
    disagreeing = min(max(both, 0.0) / largest, 1.0) * questions
    if disagreeing >= questions:
        return largest
    return largest * float(betaincinv(disagreeing + 1, questions - disagreeing, 1 - BEYOND))


def state_order_loss(
    resampled: Interval | None, losses: Floats, chance_losses: Floats | None, orders: int = FEWEST_ORDERS
) -> Interval | None:
    """Return the interval of an order loss or its UpperBound; None for fewer than MINIMUM_QUESTIONS.

    resampled: the bootstrap's interval; None if none is stated. losses, chance_losses: for each question, shape
    (questions,), NaN if undefined; without chance losses there is no bound. orders: the fewest orders of any question.
    """
    defined = ~np.isnan(losses)
    questions = int(np.count_nonzero(defined))
    if questions < MINIMUM_QUESTIONS:
        return None
    if resampled is not None:
        return limit_order_loss(resampled, questions, orders, lift_of_losses(losses[defined]))
    if chance_losses is None:
        return None
    both = float((losses[defined] + chance_losses[defined]).mean())
    return UpperBound(0.0, bound_order_loss(both, questions, orders))
