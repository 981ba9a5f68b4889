"""Metrics over label probabilities: Goliakova et al., Prob, BS and EN.

Probabilities are renormalised over the labels shown. A question is undefined as soon as one of its orders is.
View: question_metrics, from scalars that are stored with each prediction.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from registry.metrics import examples
from registry.metrics.averaging import MeanOverQuestions
from registry.metrics.entry import ORDERS, Example, Metric
from registry.metrics.outcome import Outcomes, VariantOutcome, own_variants
from registry.metrics.papers import goliakova


def renormalise(weights: Sequence[float]) -> list[float] | None:
    """Rescale weights of any sum to probabilities; None if all are zero."""
    total = math.fsum(weights)
    return [weight / total for weight in weights] if total > 0 else None


def brier(probabilities: Sequence[float], right: int) -> float:
    """Return Σ over positions of (1[position is right] − p)², in [0, 2], as printed.

    >>> round(brier([0.8, 0.2], right=0), 9)
    0.08
    """
    return min(2.0, math.fsum(((position == right) - p) ** 2 for position, p in enumerate(probabilities)))


def compute_entropy(probabilities: Sequence[float], log2: Callable[[float], float] = math.log2) -> float | None:
    """Return −Σ p log₂ p / log₂ L over L positions, in [0, 1], with 0·log 0 = 0; None for fewer than two positions."""
    if len(probabilities) < 2:
        return None
    bits = -math.fsum(p * log2(p) for p in probabilities if p > 0)
    return min(1.0, max(0.0, bits / log2(len(probabilities))))


def _mean_over_orders(outcomes: Outcomes, value: Callable[[VariantOutcome], float | None]) -> float | None:
    values = [value(outcome) for outcome in own_variants(outcomes)]
    defined = [number for number in values if number is not None]
    return math.fsum(defined) / len(defined) if defined and len(defined) == len(values) else None


def prob_mass(outcomes: Outcomes) -> float | None:
    """Return Prob: mean probability of the right option, in [0, 1]."""

    def value(outcome: VariantOutcome) -> float | None:
        right = outcome.right
        return None if outcome.probabilities is None or right is None else outcome.probabilities[right]

    return _mean_over_orders(outcomes, value)


def brier_score(outcomes: Outcomes) -> float | None:
    """Return BS: mean Brier score, in [0, 2].

    Example: two options, the first is right; (.8, .2), then reversed and weights (.4, .4): (.08 + .5) / 2 = .29.
    """

    def value(outcome: VariantOutcome) -> float | None:
        right = outcome.right
        return None if outcome.probabilities is None or right is None else brier(outcome.probabilities, right)

    return _mean_over_orders(outcomes, value)


def entropy(outcomes: Outcomes) -> float | None:
    """Return EN: mean normalised entropy, in [0, 1]. The example of brier_score gives (.7219 + 1) / 2 = .861."""

    def value(outcome: VariantOutcome) -> float | None:
        return None if outcome.probabilities is None else compute_entropy(outcome.probabilities)

    return _mean_over_orders(outcomes, value)


_PROBABILITIES: Final = f"{ORDERS} All with probabilities of the labels."
_KNOWN: Final = "question_score.variants > 0 and question_score.probability_variants = question_score.variants"
_UNKNOWN: Final = "variants missing, or an order without probabilities"

METRICS: Final = (
    Metric(
        name="prob_mass",
        label="Probability mass",
        better="higher",
        summary="Probability of the right option, averaged over the orders.",
        formulas=(r"\text{Prob} = \frac{1}{|R|} \sum_{j=1}^{|R|} p_j(a)",),
        sources=(goliakova("Eq. 1–9, Prob"),),
        needs=_PROBABILITIES,
        example=Example(examples.TWO_ORDERS, "(.8 + .5)/2.", "0.65"),
        averaging=MeanOverQuestions(
            prob_mass, "question_score.answer_probability_sum / question_score.variants", _KNOWN
        ),
        undefined=_UNKNOWN,
    ),
    Metric(
        name="brier_score",
        label="Brier score",
        better="lower",
        summary="Squared distance of the probabilities from the right answer, averaged over the orders.",
        formulas=(r"\text{BS} = \frac{1}{|R|} \sum_{j=1}^{|R|} \sum_{x=1}^{L} ([ x = a ] - p_j(x))^2",),
        sources=(goliakova("Eq. 1–9, BS"),),
        needs=_PROBABILITIES,
        example=Example(examples.TWO_ORDERS, "((.2² + .2²) + (.5² + .5²))/2 = (.08 + .5)/2.", "0.29"),
        high=2.0,
        unit="squared probability",
        differs="A footnote has 1 − BS in 0 … 1. BS as printed reaches 2, so that 1 − BS spans −1 … 1; correlations "
        "are the same.",
        averaging=MeanOverQuestions(brier_score, "question_score.brier_score_sum / question_score.variants", _KNOWN),
        undefined=_UNKNOWN,
    ),
    Metric(
        name="entropy",
        label="Entropy",
        better="lower",
        summary="How evenly the probability is spread over the options, averaged over the orders.",
        formulas=(
            (
                r"\text{EN} = - \frac{1}{|R|} \sum_{j=1}^{|R|} "
                r"\frac{1}{\log_2 L} \sum_{x=1}^{L} p_j(x) \cdot \log_2 p_j(x)"
            ),
        ),
        sources=(goliakova("Eq. 1–9, EN"),),
        needs=f"{_PROBABILITIES} 0 · log 0 is 0.",
        example=Example(
            examples.TWO_ORDERS,
            "−.8 log₂ .8 − .2 log₂ .2 = .7219 bits, and 1 bit for .5 and .5; log₂ 2 = 1: (.7219 + 1)/2.",
            "0.861",
        ),
        averaging=MeanOverQuestions(entropy, "question_score.entropy_sum / question_score.variants", _KNOWN),
        undefined=_UNKNOWN,
    ),
)
