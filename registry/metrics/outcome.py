"""The outcome of one prompt, as the metrics use it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class VariantOutcome:
    """The outcome of one variant of one question.

    variant: its ordinal. answer: ordinal of the right option.
    option: ordinal of the chosen option; None without a valid answer, which is wrong and equal to no other answer.
    order: option shown at each position. Arrays "by position" follow it.
    probabilities: renormalised over the labels shown; None if there are none.
    logprobs, logprobs_without_question: log P(x|Q,C) and log P(x|C) in nats; None if there are none.
    option_bytes: length of each option in UTF-8 bytes.
    original: whether the question is exactly as the benchmark has it. question_shown: False without the question.
    own_options: whether the options are exactly the question's own, in any order.
    prompt: a key that is equal for repeats of one prompt of a question; if None, the order is the key.
    question: external id of the question, for metrics that distinguish questions.
    repeat: the number of earlier answers to the same prompt of the question, by `repeats`. The papers' metrics use only
    the first answer, so that repeats do not change their meaning.
    copied: whether another variant has the same prompt, and one draw answered both.
    sampled: whether the model draws its answers at random. If False, a repeat gives the same answer; None: unknown.
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
        """Return whether the chosen option is the answer."""
        return self.option == self.answer

    @property
    def right(self) -> int | None:
        """Return the position of the answer; None if it is not shown."""
        return self.order.index(self.answer) if self.answer in self.order else None


Outcomes = Sequence[VariantOutcome]


def own_variants(outcomes: Outcomes) -> list[VariantOutcome]:
    """Return the variants with exactly the question's own options, by ordinal: the set R of Goliakova et al.

    If `repeats` repeats a prompt, only its first answer counts.
    """
    selected = (outcome for outcome in filter_shown(outcomes) if outcome.own_options)
    return sorted(selected, key=lambda outcome: outcome.variant)


def filter_shown(outcomes: Outcomes) -> list[VariantOutcome]:
    """Return every variant that shows the question, whatever its options: the CoRA family counts these.

    If `repeats` repeats a prompt, only its first answer counts.
    """
    return [outcome for outcome in outcomes if outcome.question_shown and not outcome.repeat]


def every_answer(outcomes: Outcomes) -> list[VariantOutcome]:
    """Return all independently drawn answers to the question with exactly its own options, repeats too, by ordinal."""
    drawn = (outcome for outcome in outcomes if outcome.own_options and outcome.question_shown and not outcome.copied)
    return sorted(drawn, key=lambda outcome: outcome.variant)


def prompt_of(outcome: VariantOutcome) -> Hashable:
    """Return the key that distinguishes the prompts of one question."""
    return outcome.order if outcome.prompt is None else outcome.prompt


def distinct_prompts(outcomes: Outcomes) -> int:
    """Count the different prompts that show the question."""
    return len({prompt_of(outcome) for outcome in outcomes if outcome.question_shown})


def as_asked(
    outcomes: Outcomes, repeats: int | None, samples: bool | None = None, *, recorded: bool = False
) -> list[VariantOutcome]:
    """Return a question's outcomes with `repeat`, `copied` and `sampled` set from its evaluation's prompts.

    repeats: how often the evaluation sends each prompt; the number of an answer is the remainder of its variant's
    ordinal. With 1, variants that show the same prompt share one answer, marked as copied. None: each answer was drawn
    independently. samples: as `VariantOutcome.sampled`. recorded: whether the answers were imported, so that none is a
    copy.
    """
    if repeats is None:
        return [replace(outcome, sampled=samples) for outcome in outcomes]
    completed, drawn = [], set()
    for outcome in sorted(outcomes, key=lambda outcome: outcome.variant):
        number = outcome.variant % repeats
        draw = (prompt_of(outcome), number) if outcome.own_options and outcome.question_shown else None
        completed.append(replace(outcome, repeat=number, copied=draw in drawn and not recorded, sampled=samples))
        if draw is not None:
            drawn.add(draw)
    return completed


def require_two_prompts(outcomes: Outcomes, variants: Sequence[VariantOutcome]) -> list[VariantOutcome]:
    """Return `variants` if the question has at least two distinct prompts, otherwise none.

    Untested is not robust: a question with one prompt, however often repeated, does not show how stable its answer is.
    If orders and repeats are mixed, every variant counts.
    """
    return list(variants) if distinct_prompts(outcomes) > 1 else []


def original_variant(outcomes: Outcomes) -> VariantOutcome | None:
    """Return the lowest variant that shows the question as the benchmark has it; None if there is none."""
    return min((outcome for outcome in outcomes if outcome.original), key=lambda outcome: outcome.variant, default=None)
