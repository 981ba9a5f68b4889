"""Effect of an adversarial distractor: Cho et al., *Choices Speak Louder than Questions*.

The last distractor of a question is replaced by a text that tries to attract the model, and the prediction is compared
with the prediction on the original, under each scoring: the answer as the protocol reads it, the highest log P(x|Q,C)
per byte, and the highest NPSQ. If the options alone decide a scoring, it loses its predictions to the inserted text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from registry.metrics.npsq import highest, npsq, per_byte
from registry.metrics.outcome import VariantOutcome

SCORINGS: Final = ("accuracy", "accuracy_normalized", "npsq_accuracy")
"""Scorings that choose an option, each named by the metric that counts its right choices."""


@dataclass(frozen=True)
class AdversarialEffect:
    """The effect of one distractor under one scoring, over the questions for which both choices are defined.

    flipped: share of these questions whose choice is the inserted option. original, altered: share whose choice is
    right, without and with the distractor. All fractions in [0, 1]; None if no question counts.
    """

    distractor: str
    scoring: str
    questions: int
    flipped: float | None
    original: float | None
    altered: float | None

    @property
    def change(self) -> float | None:
        """Return altered − original, in [−1, 1]: below 0 if the distractor costs right answers."""
        return None if self.altered is None or self.original is None else self.altered - self.original


def choice(outcome: VariantOutcome, scoring: str) -> tuple[bool, int | None]:
    """Return whether an outcome defines a choice under a scoring, and the chosen option.

    Without a valid answer the choice is defined and None. Undefined: per byte without log-probabilities; NPSQ without
    both kinds of log-probabilities, or if NPSQ is undefined for an option.
    """
    if scoring == "accuracy":
        return True, outcome.option
    if outcome.logprobs is None:
        return False, None
    if scoring == "accuracy_normalized":
        return True, outcome.order[highest(per_byte(outcome.logprobs, outcome.option_bytes))]
    if outcome.logprobs_without_question is None:
        return False, None
    values = [npsq(*pair) for pair in zip(outcome.logprobs, outcome.logprobs_without_question, strict=True)]
    defined = [value for value in values if value is not None]
    return (True, outcome.order[highest(defined)]) if len(defined) == len(values) else (False, None)


def adversarial_effect(
    distractor: str, pairs: Sequence[tuple[VariantOutcome, VariantOutcome]], scoring: str
) -> AdversarialEffect:
    """Return the effect of one distractor under a scoring.

    pairs: for each question, its original outcome and its outcome with the distractor.
    Source: Cho et al., the adversarial test. View: adversarial_effects.

    >>> from registry.metrics.outcome import VariantOutcome
    >>> before = VariantOutcome(0, 1, answer=1, order=(0, 1, 2))
    >>> after = VariantOutcome(1, -1, answer=1, order=(0, 1, -1))
    >>> adversarial_effect("simple", [(before, after), (before, before)], "accuracy").flipped
    0.5
    """
    counted = []
    for original, altered in pairs:
        (defined, before), (defined_too, after) = choice(original, scoring), choice(altered, scoring)
        if defined and defined_too:
            counted.append((before == original.answer, after == altered.answer, after is not None and after < 0))
    if not counted:
        return AdversarialEffect(distractor, scoring, 0, None, None, None)
    right_before, right_after, flips = (sum(column) / len(counted) for column in zip(*counted, strict=True))
    return AdversarialEffect(distractor, scoring, len(counted), flips, right_before, right_after)
