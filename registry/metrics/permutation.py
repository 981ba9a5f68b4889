"""Metrics over a set of orders, after Goliakova et al., Eq. 1 to 9.

Paper: *Metric assessment protocol in the context of answer fluctuation on MCQ tasks*.

Each function takes the outcomes of **all expected variants of one question** and returns a value, or None where it is
undefined. A question with variants still missing is not passed in: unscored is never wrong. View: question_metrics.
"""

from registry.metrics.outcome import Outcomes, own_variants


def accuracy(outcomes: Outcomes) -> float | None:
    """Whether the original order is answered right: 0 or 1; None without the original.

    The original is the lowest variant that shows the question as the benchmark has it.
    """
    originals = [outcome for outcome in outcomes if outcome.original]
    if not originals:
        return None
    return float(min(originals, key=lambda outcome: outcome.variant).correct)


def average_accuracy(outcomes: Outcomes) -> float | None:
    """AAcc: share of orders answered right, in [0, 1]; None without orders.

    >>> from registry.metrics import VariantOutcome
    >>> average_accuracy([VariantOutcome(j, chosen, answer=1) for j, chosen in enumerate([1, 1, 1, 2])])
    0.75
    """
    own = own_variants(outcomes)
    return sum(outcome.correct for outcome in own) / len(own) if own else None


def worst_accuracy(outcomes: Outcomes) -> float | None:
    """WAcc: 1 if every order is answered right, else 0; None without orders."""
    own = own_variants(outcomes)
    return float(all(outcome.correct for outcome in own)) if own else None


def fluctuation_rate(outcomes: Outcomes) -> float | None:
    """FR: 0 if every order gets the same answer as the first, else 1; None for fewer than two orders.

    A missing answer equals nothing, not even another missing answer. Untested is not stable, hence None for one order.
    """
    own = own_variants(outcomes)
    if len(own) < 2:
        return None
    first = own[0].option
    return float(first is None or any(outcome.option != first for outcome in own))
