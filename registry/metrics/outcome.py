"""What one prompt came to, as the metrics see it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class VariantOutcome:
    """The outcome of one variant of one question.

    variant: its ordinal. answer: ordinal of the right option.
    option: ordinal of the chosen option; None = asked, but no valid answer: wrong, and equal to nothing.
    order: option shown at each position. Arrays run along it ("by position"):
    probabilities: renormalised over the labels shown; None where there are none.
    logprobs, logprobs_without_question: log P(x|Q,C) and log P(x|C) in nats; None where there are none.
    option_bytes: length of each option in UTF-8 bytes.
    original: the question exactly as the benchmark has it. question_shown: False without the question.
    own_options: exactly the question's own options, in any order.
    prompt: what tells the prompts of a question apart, equal for repeats of one; None: the order does.
    question: external id of the question, for metrics that tell questions apart.
    repeat: how often the same prompt of the question was asked before, by `repeats`. The papers' metrics take the first
    answer alone, so that asking more often does not change what they mean.
    copied: another variant shows the same prompt, and the draw that answered that one answered this one, too.
    sampled: whether the model draws its answers at random; False: asked again it gives the same answer; None: unknown.
    """

    variant: int
    option: int | None
    answer: int
    order: tuple[int, ...] = ()
    probabilities: tuple[float, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    logprobs_without_question: tuple[float, ...] | None = None
    option_bytes: tuple[int, ...] = ()
    original: bool = False
    question_shown: bool = True
    own_options: bool = True
    prompt: Hashable = None
    question: str = ""
    repeat: int = 0
    copied: bool = False
    sampled: bool | None = None

    @property
    def correct(self) -> bool:
        """Whether the chosen option is the answer."""
        return self.option == self.answer

    @property
    def right(self) -> int | None:
        """Position of the answer; None where it is not shown."""
        return self.order.index(self.answer) if self.answer in self.order else None


Outcomes = Sequence[VariantOutcome]


def own_variants(outcomes: Outcomes) -> list[VariantOutcome]:
    """The set R of Goliakova et al.: the question with exactly its own options, in order of the variants' ordinals.

    Of a prompt that `repeats` asks again, the first answer.
    """
    own = (outcome for outcome in shown_variants(outcomes) if outcome.own_options)
    return sorted(own, key=lambda outcome: outcome.variant)


def shown_variants(outcomes: Outcomes) -> list[VariantOutcome]:
    """Every variant that shows the question, whatever its options: what the CoRA family counts.

    Of a prompt that `repeats` asks again, the first answer.
    """
    return [outcome for outcome in outcomes if outcome.question_shown and not outcome.repeat]


def every_answer(outcomes: Outcomes) -> list[VariantOutcome]:
    """The question with exactly its own options, by ordinal: all answers that were drawn by themselves, repeats too."""
    drawn = (outcome for outcome in outcomes if outcome.own_options and outcome.question_shown and not outcome.copied)
    return sorted(drawn, key=lambda outcome: outcome.variant)


def prompt_of(outcome: VariantOutcome) -> Hashable:
    """What tells the prompts of one question apart."""
    return outcome.order if outcome.prompt is None else outcome.prompt


def distinct_prompts(outcomes: Outcomes) -> int:
    """How many different prompts show the question."""
    return len({prompt_of(outcome) for outcome in outcomes if outcome.question_shown})


def as_asked(outcomes: Outcomes, repeats: int | None, samples: bool | None = None) -> list[VariantOutcome]:
    """Return the outcomes of a question with the facts about how its evaluation was asked.

    repeats: of the evaluation: how often each prompt is asked, so that the remainder of a variant's ordinal is the
    number of the answer. With 1, two variants that show one prompt have one answer, copied; None: each was drawn by
    itself. samples: as `VariantOutcome.sampled`.
    """
    if repeats is None:
        return [replace(outcome, sampled=samples) for outcome in outcomes]
    found, drawn = [], set()
    for outcome in sorted(outcomes, key=lambda outcome: outcome.variant):
        number = outcome.variant % repeats
        draw = (prompt_of(outcome), number) if outcome.own_options and outcome.question_shown else None
        found.append(replace(outcome, repeat=number, copied=draw in drawn, sampled=samples))
        if draw is not None:
            drawn.add(draw)
    return found


def tested(outcomes: Outcomes, variants: Sequence[VariantOutcome]) -> list[VariantOutcome]:
    """`variants` where the question was asked in at least two distinct prompts, else none of them.

    Untested is not robust: a question that was asked once, or in one prompt again and again, says nothing of how its
    answer holds up. Where orders and repeats mix, every variant counts.
    """
    return list(variants) if distinct_prompts(outcomes) > 1 else []


def original_variant(outcomes: Outcomes) -> VariantOutcome | None:
    """The lowest variant that shows the question as the benchmark has it; None where there is none."""
    return min((outcome for outcome in outcomes if outcome.original), key=lambda outcome: outcome.variant, default=None)
