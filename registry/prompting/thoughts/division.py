"""Find the end of the thought in a model's output."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Literal

from registry.prompting.thoughts.markers import Mark, Markers

Finish = Literal["stop", "length", "refused"]
"""Why a model stopped: by itself or at a stop text, at a limit of tokens, or at the provider's filter."""


@dataclass(frozen=True)
class Output:
    """A model's output for one prompt.

    text: the content; local engines keep special tokens that are markers. reasoning: the thought, if a server or
    provider returned it separately. opened: whether the template's generation prompt opened the thought, so that the
    text begins within it. forced: whether the thought was closed at its limit to request the answer; the text then
    contains the end marker that was inserted.
    """

    text: str
    reasoning: str | None = None
    finish: Finish = "stop"
    opened: bool = False
    forced: bool = False


@dataclass(frozen=True)
class Divided:
    """An output divided into two parts, without markers and surrounding blanks.

    thought: None if there is none. answer: None if the thought did not end. marked: whether the answer had markers of
    its own (`<answer>`), so that the text around it is not part of it. cut: index after the thought and its end marker;
    0 if there is no thought, the text's length if the thought did not end. unknown: a text in the answer that looks
    like an unlisted marker, so that the answer may be a thought.
    """

    thought: str | None
    answer: str | None
    marked: bool = False
    cut: int = field(default=0, compare=False)
    unknown: str | None = None


MAX_MARKERS: Final = 10_000
"""A text with more markers repeats itself and is a thought without an end."""


def divide(output: Output, markers: Markers) -> Divided:
    """Divide an output into thought and answer, in time proportional to its length.

    Markers in code are only mentioned: a begin marker in code opens nothing. An end marker closes nothing if it is
    alone between backticks, or if it follows a begin marker in code and is not the last of the text. An end marker in
    code also does not close a thought that was cut off, or if only the end of that code follows.
    """
    parts = _divide(output, markers)
    if parts.answer is None:
        return parts
    if output.finish == "length" and (tag := markers.unclosed(parts.answer)) is not None:
        return replace(parts, unknown=tag)
    marks = list(markers.unknown(parts.answer))
    if not marks:
        return parts
    code = _CodeSpans(parts.answer)
    return replace(parts, unknown=next((mark for at, mark in marks if code.around(at) is None), None))


def _divide(output: Output, markers: Markers) -> Divided:
    text = output.text
    separate = (output.reasoning or "").strip()
    opened = output.opened and not separate
    found = list(islice(markers.find(text), MAX_MARKERS + 1))
    if len(found) > MAX_MARKERS:
        return Divided(_join(separate, text), None, cut=len(text))
    marks = _filter_markers(text, found, cut_off=output.finish == "length")
    start = len(text) - len(text.lstrip())
    open_still, cut = _find_last_end(marks, start, opened=opened, markers=markers)
    if open_still:
        return Divided(_join(separate, _extract_thought(text, marks, start, len(text), markers)), None, cut=len(text))
    if cut is None:
        if not separate:
            return Divided(None, markers.strip_turn_ends(text))
        answer, marked = _read_inside(text, 0, marks, markers)
        return Divided(separate, markers.strip_turn_ends(answer), marked)
    thought = _extract_thought(text, marks, start, cut.start, markers)
    if cut.role == "answer_begin":
        answer, marked = _read_closed(text, cut, marks), False
    else:
        answer, marked = _read_inside(text, cut.end, marks, markers)
    return Divided(_join(separate, thought), markers.strip_turn_ends(answer), marked, cut.end)


OPENED_SHARE: Final = 0.5
"""If it is unknown whether a template opens thoughts, it does if this share of texts ends an unopened thought."""


TAIL: Final = 300
"""Length of the end of a rendered conversation in which a template may open a thought, in characters."""


def opens_thought(rendered: str, markers: Markers) -> bool:
    """Return whether a conversation rendered by a template ends at the beginning of a thought."""
    tail = rendered[-TAIL:]
    last = None
    for last in markers.find(tail):  # noqa: B007 - the last one is wanted
        pass
    return (
        last is not None
        and last.role == "begin"
        and markers.families[last.family].thinks
        and not tail[last.end :].strip()
    )


def closes_only(text: str, markers: Markers) -> bool:
    """Return whether a text closes a thought without having begun one."""
    closes = False
    for marker in markers.find(text) if markers.may_end_thoughts(text) else ():
        if marker.role == "begin":
            return False
        closes |= marker.role == "end"
    return closes


def _filter_markers(text: str, marks: list[Mark], *, cut_off: bool) -> list[Mark]:
    """Return the markers that are not in code, and not in prose.

    Markers made of words begin a thought only at the beginning of the text.
    """
    start = len(text) - len(text.lstrip())
    marks = [
        item
        for item in marks
        if item.role != "begin" or item.start == start or not _consists_of_words(text[item.start : item.end])
    ]
    if not marks or ("`" not in text and "~~~" not in text):
        return marks
    code = _CodeSpans(text)
    ends = [item for item in marks if item.role == "end"]
    around = {item: code.around(item.start) for item in marks}
    written = len(text.rstrip())
    last = around[ends[-1]] if ends else None
    if ends and cut_off and all(around[item] for item in ends):
        dropped = set(ends)
    elif last is not None and last[1] >= written:
        dropped = {item for item in ends if around[item] == last}
    else:
        dropped = set()
    begun = {span for item in marks if item.role == "begin" and (span := around[item]) and span[1] < written}
    for item in ends:
        span = around[item]
        if span is not None and (span in begun or (item.start - span[0], span[1] - item.end) == (1, 1)):
            dropped.add(item)
    return [item for item in marks if item not in dropped and not (item.role == "begin" and around[item])]


def _consists_of_words(marker: str) -> bool:
    """Return whether a marker consists of words, such as "Here is my thought process:"."""
    return marker[0].isalpha() and " " in marker


_FENCE: Final = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})(.*)")
_MARK: Final = re.compile("`|~~~")
_INLINE: Final = re.compile(r"`[^`\n]+`")


class _CodeSpans:
    """The parts of a text that are code."""

    def __init__(self, text: str) -> None:
        self._spans = _find_code(text) if "`" in text or "~~~" in text else []
        self._starts = [start for start, _ in self._spans]

    def around(self, at: int) -> tuple[int, int] | None:
        """Return the span of code that contains a position; None if none does."""
        number = bisect_right(self._starts, at) - 1
        return self._spans[number] if number >= 0 and at < self._spans[number][1] else None


def _find_code(text: str) -> list[tuple[int, int]]:
    """Return the spans of code: between closed fences, and between backticks on one line."""
    spans: list[tuple[int, int]] = []
    inline: list[tuple[int, int]] = []
    opening: tuple[int, str] | None = None
    for at, line in _iterate_code_lines(text):
        fence = _FENCE.match(line)
        if fence is None:
            inline += [(at + match.start(), at + match.end()) for match in _INLINE.finditer(line)]
        elif opening is None:
            opening = (at, fence[1])
        elif fence[2].strip():
            opening = (at, fence[1])  # a fence with a language begins code, so the one before was never closed
        elif fence[1].startswith(opening[1]):
            spans.append((opening[0], at + len(line)))
            while inline and inline[-1][0] >= opening[0]:
                inline.pop()
            opening = None
    return sorted(spans + inline)


def _iterate_code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (start, line) for each line that may contain code, since a text may have a million other lines."""
    at = 0
    while (mark := _MARK.search(text, at)) is not None:
        at = max(at, text.rfind("\n", at, mark.start()) + 1)
        end = text.find("\n", mark.end()) + 1 or len(text)
        for line in text[at:end].splitlines(keepends=True):
            yield at, line
            at += len(line)


def _find_last_end(marks: list[Mark], start: int, *, opened: bool, markers: Markers) -> tuple[bool, Mark | None]:
    """Return whether a thought is still open at the end, and the last marker that ended a thought.

    An end marker closes the last opening of its family, and everything that was opened after it; without such an
    opening it closes everything. start: index of the first character that is not blank.
    """
    default = next((number for number, family in enumerate(markers.families) if family.thinks), -1)
    open_families = [default] if opened else []
    last: Mark | None = None
    for item in marks:
        if item.role == "begin":
            if opened and item.start == start:
                open_families.clear()  # a thought that the template opened and the model opens again is one thought
            if item.family not in open_families:
                open_families.append(item.family)
        elif item.role == "end" or (item.role == "answer_begin" and markers.families[item.family].thinks):
            if item.family in open_families:
                del open_families[open_families.index(item.family) :]
            else:
                open_families.clear()
            last = item
    return bool(open_families), last


def _extract_thought(text: str, marks: list[Mark], start: int, end: int, markers: Markers) -> str:
    """Return the text up to `end`, without the marker that opens it and without end markers at its end."""
    before = [item for item in marks if item.start < end]
    if before and before[0].role == "begin" and before[0].start == start:
        start = before[0].end
    while before and before[-1].start >= start and before[-1].role == "end" and not text[before[-1].end : end].strip():
        end = before.pop().start
    return markers.strip_turn_ends(text[start:end])


def _read_inside(text: str, start: int, marks: list[Mark], markers: Markers) -> tuple[str, bool]:
    """Return the text after `start`, or between the last answer markers there; and whether there were any."""
    begins = [
        item
        for item in marks
        if item.start >= start and item.role == "answer_begin" and not markers.families[item.family].thinks
    ]
    if not begins:
        return text[start:], False
    line = text.rfind("\n", 0, begins[-1].start)
    first = next(item for item in begins if item.start > line)
    answer = _read_closed(text, begins[-1], marks)
    if _read_closed(text, first, marks).strip() != answer.strip():
        # With two answers on one line, neither counts: the text includes both.
        answer = text[first.end : begins[-1].end + len(answer)]
    return answer, True


def _read_closed(text: str, begin: Mark, marks: list[Mark]) -> str:
    """Return the text between an answer's begin marker and its end marker, or the end of the text."""
    ends = (item.start for item in marks if item.role == "answer_end" and item.family == begin.family)
    return text[begin.end : next((start for start in ends if start >= begin.end), len(text))]


def _join(separate: str, thought: str) -> str | None:
    return "\n\n".join(part for part in (separate, thought) if part) or None
