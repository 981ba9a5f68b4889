"""Reading an output: its thought is set aside, and a protocol's rules are applied to its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from registry.prompting.extraction import Extracted, extract
from registry.prompting.final_answer import final_answer
from registry.prompting.thoughts import Divided, Output, divide, markers_of, reads_apart

State = Literal["answered", "unread", "unfinished", "empty", "refused"]

STATES: Final[tuple[State, ...]] = ("answered", "unread", "unfinished", "empty", "refused")
"""answered: a rule found an answer. unread: there is an answer, in which no rule found one. unfinished: the thought did
not end, or the limit was reached before an answer. empty: nothing was written after the thought. refused: the
provider's filter. All but the first are no valid answer."""


@dataclass(frozen=True)
class Reading:
    """What a protocol reads in an output.

    rule: what found the answer; None unless answered. position: of the option that is chosen; None unless answered,
    and in an answer in the words of an option that is still to be matched. text: what the rule found.
    divided: the thought and the answer.
    """

    state: State
    divided: Divided
    rule: str | None = None
    text: str | None = None
    position: int | None = None

    @property
    def to_match(self) -> bool:
        """Whether the text has still to be matched with the options."""
        return self.state == "answered" and self.position is None

    def matched(self, position: int) -> "Reading":
        """The same reading, whose text means the option at `position`."""
        return replace(self, position=position)


def read(definition: Mapping[str, Any], output: Output, answers: Sequence[str], options: Sequence[str]) -> Reading:
    """What a protocol that generates reads in an output. Takes time in proportion to the output's length.

    answers: labels or option texts by position, as Prompt.answers has them; options: option texts by position.
    A refused output is not read, and a thought is not read unless the protocol reads thoughts in-text.
    """
    divided = divide(output, markers_of(definition))
    if output.finish == "refused":
        return Reading("refused", divided)
    cut_off = output.finish == "length"
    apart = reads_apart(definition)
    if apart:
        if divided.answer is None:
            return Reading("unfinished", divided)
        text = divided.answer
    else:
        text = "\n".join(part for part in (output.reasoning, output.text) if part)
    found = _extracted(
        definition, text, answers, options, cut_off=cut_off, marked=divided.marked and reads_apart(definition)
    )
    if found is not None:
        return Reading("answered", divided, found.rule, found.text, found.position)
    if cut_off:
        return Reading("unfinished", divided)
    return Reading("unread" if text.strip() else "empty", divided)


def _extracted(
    definition: Mapping[str, Any],
    text: str,
    answers: Sequence[str],
    options: Sequence[str],
    *,
    cut_off: bool,
    marked: bool,
) -> Extracted | None:
    if not definition["format"].startswith("final-answer"):
        return extract(definition, text, answers)
    by_label = definition["answer"] == "label"
    rules, labels = definition["extraction"]["rules"], answers if by_label else ()
    claim = final_answer(rules, text, labels, options, cut=cut_off, marked=marked)
    return None if claim is None else Extracted(claim.rule, claim.text, claim.position)
