"""Choice sensitivity and NPSQ: Cho et al., *Choices Speak Louder than Questions*.

All of them compare log P(x|Q,C), an option's log-probability with the question, with log P(x|C), the same with the
question replaced by an empty string. They are taken on the original order (where there is none, on the lowest variant
with the question's own options). Arrays run by position; ties go to the lowest. View: question_metrics.
Example: (with|without) = (−1|−4), (−2|−2.5): NPSQ .75 and .2; Δchoice −1.5 against Δquestion 2.5, so not sensitive.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from registry.metrics.outcome import Outcomes, VariantOutcome, original_variant, own_variants


@dataclass(frozen=True)
class ChoiceScores:
    """What one prompt and its counterpart without the question come to; None where undefined."""

    npsq_correct: float | None = None
    npsq_accuracy: bool | None = None
    choice_only_accuracy: bool | None = None
    choice_sensitivity: bool | None = None
    choice_sensitivity_normalized: bool | None = None


def npsq(with_question: float, without_question: float) -> float | None:
    """(log P(x|Q,C) − log P(x|C)) / −log P(x|C), from −∞ to 1; 0 when the question adds nothing.

    None when log P(x|C) is 0, or so near it that the quotient is beyond float64: nothing is left to close.

    >>> npsq(-1, -4), npsq(-2, -2.5)
    (0.75, 0.2)
    """
    if without_question == 0:
        return None
    value = (with_question - without_question) / -without_question
    return value if math.isfinite(value) else None


def highest(values: Sequence[float]) -> int:
    """Position of the highest value; the lowest position on a tie."""
    return max(range(len(values)), key=lambda position: (values[position], -position))


def choice_sensitive(with_question: Sequence[float], without_question: Sequence[float]) -> bool | None:
    """Whether the choices weigh more than the question between the two options that lead; None for fewer than two.

    x₁, x₂ lead by log P(x|Q,C). Δchoice = log P(x₁|C) − log P(x₂|C), Δquestion is the rest of their gap.
    """
    if len(with_question) < 2:
        return None
    first, second = sorted(range(len(with_question)), key=lambda position: (-with_question[position], position))[:2]
    by_choice = without_question[first] - without_question[second]
    by_question = with_question[first] - with_question[second] - by_choice
    return by_choice > by_question


def per_byte(logprobs: Sequence[float], option_bytes: Sequence[int]) -> list[float]:
    """Log-probabilities divided by the options' lengths in UTF-8 bytes."""
    return [logprob / length for logprob, length in zip(logprobs, option_bytes, strict=True)]


def choice_scores(
    with_question: Sequence[float], without_question: Sequence[float], option_bytes: Sequence[int], right: int | None
) -> ChoiceScores:
    """All scores of one prompt with its counterpart; right: position of the answer."""
    values = [npsq(*pair) for pair in zip(with_question, without_question, strict=True)]
    defined = [value for value in values if value is not None]
    return ChoiceScores(
        npsq_correct=None if right is None else values[right],
        npsq_accuracy=highest(defined) == right if len(defined) == len(values) else None,
        choice_only_accuracy=highest(without_question) == right,
        choice_sensitivity=choice_sensitive(with_question, without_question),
        choice_sensitivity_normalized=choice_sensitive(
            per_byte(with_question, option_bytes), per_byte(without_question, option_bytes)
        ),
    )


def _chosen_variant(outcomes: Outcomes) -> VariantOutcome | None:
    return original_variant(outcomes) or next(iter(own_variants(outcomes)), None)


def _metric(name: str) -> Callable[[Outcomes], float | None]:
    def value(outcomes: Outcomes) -> float | None:
        chosen = _chosen_variant(outcomes)
        if chosen is None or chosen.logprobs is None or chosen.logprobs_without_question is None:
            return None
        scores = choice_scores(chosen.logprobs, chosen.logprobs_without_question, chosen.option_bytes, chosen.right)
        result = getattr(scores, name)
        return None if result is None else float(result)

    value.__doc__ = (
        f"{name} of one question, on its original order (its first, where there is none); None without both "
        "log-probabilities."
    )
    return value


npsq_correct = _metric("npsq_correct")
npsq_accuracy = _metric("npsq_accuracy")
choice_only_accuracy = _metric("choice_only_accuracy")
choice_sensitivity = _metric("choice_sensitivity")
choice_sensitivity_normalized = _metric("choice_sensitivity_normalized")


def accuracy_normalized(outcomes: Outcomes) -> float | None:
    """Whether the option with the highest log-probability per byte is right, on the original order; None without."""
    original = original_variant(outcomes)
    if original is None or original.logprobs is None:
        return None
    return float(highest(per_byte(original.logprobs, original.option_bytes)) == original.right)
