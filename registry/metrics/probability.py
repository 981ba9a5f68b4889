"""Metrics over label probabilities: Goliakova et al., Prob, BS and EN.

Probabilities are renormalised over the labels shown. A question is undefined as soon as one of its orders is.
View: question_metrics, from scalars that are stored with each prediction.
"""

import math
from collections.abc import Callable, Sequence

from registry.metrics.outcome import Outcomes, VariantOutcome, own_variants


def renormalise(weights: Sequence[float]) -> list[float] | None:
    """Weights of any sum as probabilities; None when all are zero."""
    total = math.fsum(weights)
    return [weight / total for weight in weights] if total > 0 else None


def brier(probabilities: Sequence[float], right: int) -> float:
    """Σ over positions of (1[position is right] − p)², in [0, 2], as printed.

    >>> round(brier([0.8, 0.2], right=0), 9)
    0.08
    """
    return min(2.0, math.fsum(((position == right) - p) ** 2 for position, p in enumerate(probabilities)))


def normalised_entropy(probabilities: Sequence[float]) -> float | None:
    """−Σ p log₂ p / log₂ L over L positions, in [0, 1], with 0·log 0 = 0; None for fewer than two positions."""
    if len(probabilities) < 2:
        return None
    bits = -math.fsum(p * math.log2(p) for p in probabilities if p > 0)
    return min(1.0, max(0.0, bits / math.log2(len(probabilities))))


def _mean_over_orders(outcomes: Outcomes, value: Callable[[VariantOutcome], float | None]) -> float | None:
    values = [value(outcome) for outcome in own_variants(outcomes)]
    defined = [number for number in values if number is not None]
    return math.fsum(defined) / len(defined) if defined and len(defined) == len(values) else None


def prob_mass(outcomes: Outcomes) -> float | None:
    """Prob: mean probability of the right option, in [0, 1]."""

    def value(outcome: VariantOutcome) -> float | None:
        right = outcome.right
        return None if outcome.probabilities is None or right is None else outcome.probabilities[right]

    return _mean_over_orders(outcomes, value)


def brier_score(outcomes: Outcomes) -> float | None:
    """BS: mean Brier score, in [0, 2].

    Example: two options, the first is right; (.8, .2), then reversed and weights (.4, .4): (.08 + .5) / 2 = .29.
    """

    def value(outcome: VariantOutcome) -> float | None:
        right = outcome.right
        return None if outcome.probabilities is None or right is None else brier(outcome.probabilities, right)

    return _mean_over_orders(outcomes, value)


def entropy(outcomes: Outcomes) -> float | None:
    """EN: mean normalised entropy, in [0, 1]. The example of brier_score gives (.7219 + 1) / 2 = .861."""

    def value(outcome: VariantOutcome) -> float | None:
        return None if outcome.probabilities is None else normalised_entropy(outcome.probabilities)

    return _mean_over_orders(outcomes, value)
