"""Metrics over a set of orders: Goliakova et al., Eq. 1 to 9, Gupta et al., Eq. 1, and SCORE (Nowak et al., Eq. 2).

Papers: *Metric assessment protocol in the context of answer fluctuation on MCQ tasks*; *Changing Answer Order Can
Decrease MMLU Accuracy*; *ABCD: All Biases Come Disguised*.

Each function takes the outcomes of **all expected variants of one question** and returns a value, or None where it is
undefined. A question with variants still missing is not passed in: unscored is never wrong. View: question_metrics.
Examples: four options, the right one is 1, and the cyclic orders are answered 1, 1, 1, 2.

>>> from registry.metrics import VariantOutcome
>>> E = [VariantOutcome(j, option, answer=1, original=j == 0) for j, option in enumerate([1, 1, 1, 2])]
"""

from collections import Counter

from registry.metrics.outcome import Outcomes, original_variant, own_variants


def accuracy(outcomes: Outcomes) -> float | None:
    """Whether the original order is answered right: 0 or 1; None without the original.

    The original is the lowest variant that shows the question as the benchmark has it.
    """
    original = original_variant(outcomes)
    return None if original is None else float(original.correct)


def average_accuracy(outcomes: Outcomes) -> float | None:
    """AAcc: share of orders answered right, in [0, 1]; None without orders. E: 0.75."""
    own = own_variants(outcomes)
    return sum(outcome.correct for outcome in own) / len(own) if own else None


def worst_accuracy(outcomes: Outcomes) -> float | None:
    """WAcc: 1 if every order is answered right, else 0; None without orders. E: 0."""
    own = own_variants(outcomes)
    return float(all(outcome.correct for outcome in own)) if own else None


def best_accuracy(outcomes: Outcomes) -> float | None:
    """BAcc: 1 if some order is answered right, else 0; None without orders. E: 1."""
    own = own_variants(outcomes)
    return float(any(outcome.correct for outcome in own)) if own else None


def sensitivity_gap(outcomes: Outcomes) -> float | None:
    """SensG: best minus worst accuracy, 0 or 1; None without orders. E: 1."""
    best, worst = best_accuracy(outcomes), worst_accuracy(outcomes)
    return None if best is None or worst is None else best - worst


def strong_accuracy(outcomes: Outcomes) -> float | None:
    """SAcc: if the first order is answered right, the share of orders with the same answer, else 0. E: 0.75.

    The first order counts itself, as Eq. 3 is printed. In [0, 1]; None without orders.
    """
    own = own_variants(outcomes)
    if not own:
        return None
    if not own[0].correct:
        return 0.0
    return sum(outcome.option == own[0].option for outcome in own) / len(own)


def fluctuation_rate(outcomes: Outcomes) -> float | None:
    """FR: 0 if every order gets the same answer as the first, else 1; None for fewer than two orders. E: 1.

    A missing answer equals nothing, not even another missing answer. Untested is not stable, hence None for one order.
    """
    own = own_variants(outcomes)
    if len(own) < 2:
        return None
    first = own[0].option
    return float(first is None or any(outcome.option != first for outcome in own))


def retest_accuracy(outcomes: Outcomes) -> float | None:
    """*Our metric* of Gupta et al.: right on the original, times the share of the other orders answered right. E: 2/3.

    In [0, 1]; None without the original or without other orders.
    """
    original = original_variant(outcomes)
    if original is None:
        return None
    others = [outcome for outcome in own_variants(outcomes) if outcome is not original]
    return original.correct * sum(outcome.correct for outcome in others) / len(others) if others else None


def score(outcomes: Outcomes) -> float | None:
    """SCORE: share of unordered pairs of orders with the same answer, in [0, 1]; None for fewer than two. E: 0.5.

    Missing answers agree with nothing but count among the orders.
    """
    own = own_variants(outcomes)
    M = len(own)
    if M < 2:
        return None
    counts = Counter(outcome.option for outcome in own if outcome.option is not None)
    return sum(n * (n - 1) // 2 for n in counts.values()) / (M * (M - 1) // 2)
