"""Read an output: separate its thought, and apply a protocol's rules to its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from registry.prompting.extraction import Extracted, extract
from registry.prompting.final_answer import final_answer
from registry.prompting.thoughts import Divided, Output, divide, markers_of, reads_apart, thinking_of

State = Literal["answered", "unread", "unfinished", "empty", "refused"]

STATES: Final[tuple[State, ...]] = ("answered", "unread", "unfinished", "empty", "refused")
"""answered: a rule found an answer. unread: there is text, but no rule found an answer in it.

unfinished: the thought did not end, or the limit was reached before an answer. empty: nothing follows the thought.
refused: by the provider's filter. Only `answered` is a valid answer.
"""


@dataclass(frozen=True)
class Reading:
    """The result of reading an output by a protocol.

    rule: the rule that found the answer; None unless answered. position: of the chosen option; None unless answered,
    and also if the answer is in free text that must still be matched. text: the text that the rule found. divided: the
    thought and the answer. remark: why there is no answer, if more is known than the state.
    """

    state: State
    divided: Divided
    rule: str | None = None
    text: str | None = None
    position: int | None = None
    remark: str | None = None

    @property
    def to_match(self) -> bool:
        """Return whether the text must still be matched with the options."""
        return self.state == "answered" and self.position is None

    def matched(self, position: int) -> "Reading":
        """Return a copy of the reading, with the position of the option that its text means."""
        return replace(self, position=position)


NOTHING: Final = "no rule found an answer"
IN_THE_THOUGHT: Final = (
    "thinking was off, but the server returned all of the text as a thought (reasoning_content), so the answers are in "
    "the thoughts; serve the model without a reasoning parser"
)


def read(
    definition: Mapping[str, Any],
    output: Output,
    answers: Sequence[str],
    options: Sequence[str],
    divided: Divided | None = None,
) -> Reading:
    """Read an output by a protocol that generates, in time proportional to its length.

    answers: labels or option texts by position, as in Prompt.answers; options: option texts by position. divided:
    thought and answer of the output, if it was already divided with the same markers. A refused output is not read, and
    a thought is read only if the protocol's `thoughts` is in-text.
    """
    divided = divide(output, markers_of(definition)) if divided is None else divided
    if output.finish == "refused":
        return Reading("refused", divided)
    cut_off = output.finish == "length"
    reads_answer = reads_apart(definition)
    if not reads_answer:
        text = "\n".join(part for part in (output.reasoning, output.text) if part)
    elif divided.answer is None:
        return Reading("unfinished", divided)
    elif divided.unknown is not None:
        return Reading("unread", divided, remark=f"unknown marker {divided.unknown}; add it to SHUFFLEBOARD_MARKERS")
    else:
        text = divided.answer
    extracted = _extract(definition, text, answers, options, cut_off=cut_off, marked=divided.marked and reads_answer)
    if isinstance(extracted, Extracted):
        return Reading("answered", divided, extracted.rule, extracted.text, extracted.position)
    if cut_off:
        return Reading("unfinished", divided)
    if text.strip():
        return Reading("unread", divided, remark=extracted)
    off = thinking_of(definition["generation"]).thinking == "off"
    return Reading("empty", divided, remark=IN_THE_THOUGHT if off and divided.thought else None)


def _extract(
    definition: Mapping[str, Any],
    text: str,
    answers: Sequence[str],
    options: Sequence[str],
    *,
    cut_off: bool,
    marked: bool,
) -> Extracted | str:
    """Return the answer, or the reason why there is none."""
    if not definition["format"].startswith("final-answer"):
        return extract(definition, text, answers) or NOTHING
    by_label = definition["answer"] == "label"
    rules, labels = definition["extraction"]["rules"], answers if by_label else ()
    claim = final_answer(rules, text, labels, options, cut=cut_off, marked=marked)
    return claim if isinstance(claim, str) else Extracted(claim.rule, claim.text, claim.position)
