"""What one prompt came to, as the metrics see it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class VariantOutcome:
    """The outcome of one variant of one question.

    option: ordinal of the chosen option; None = asked, but no valid answer: wrong, and equal to nothing.
    original: the question exactly as the benchmark has it.
    own_options: the question's own options, in any order, and the question was shown.
    """

    variant: int
    option: int | None
    answer: int
    original: bool = False
    own_options: bool = True

    @property
    def correct(self) -> bool:
        """Whether the chosen option is the answer."""
        return self.option == self.answer


Outcomes = Sequence[VariantOutcome]


def own_variants(outcomes: Outcomes) -> list[VariantOutcome]:
    """The set R of Goliakova et al.: variants with exactly the question's own options, by ordinal."""
    return sorted((outcome for outcome in outcomes if outcome.own_options), key=lambda outcome: outcome.variant)
