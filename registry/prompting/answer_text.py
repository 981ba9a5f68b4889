"""The text of an answer as the rules of `final-answer` read it: plain, in lines."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from registry.prompting.answer_patterns import MAX_READ, Language, find_languages, plain

MAX_LINES: Final = 2_000
"""Maximum number of lines at the end of an answer in which lead-ins are looked for."""
MAX_MATCHES: Final = 20
"""Maximum number of matches of a rule, or in a line, that are examined: the last ones decide."""


@dataclass(frozen=True)
class AnswerText:
    """A plain answer with the start and end of each line.

    cut: whether the answer was cut off at a limit. marked: whether it was between markers of its own.

    raw: the end of the answer with its formatting. languages: the languages with a stem in the answer. last_line:
    number of the last line that is not blank.
    """

    text: str
    lines: tuple[tuple[int, int], ...]
    cut: bool
    marked: bool
    raw: str
    languages: tuple[Language, ...]
    last_line: int | None

    def line_at(self, offset: int) -> int:
        """Return the number of the line with this offset of the text."""
        return bisect_right(self.lines, (offset, len(self.text) + 1)) - 1

    def line(self, number: int) -> str:
        """Return the line with this number, from 0."""
        start, end = self.lines[number]
        return self.text[start:end]


def prepare_text(answer: str, *, cut: bool, marked: bool) -> AnswerText:
    """Return the end of an answer, plain and divided into lines."""
    if len(answer) > MAX_READ:
        answer = answer[-MAX_READ:].partition("\n")[2]
    text = plain(answer)
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append((start, start + len(line)))
        start += len(line) + 1
    last = next((n for n in range(len(lines) - 1, -1, -1) if text[slice(*lines[n])].strip()), None)
    return AnswerText(text, tuple(lines), cut, marked, answer, find_languages(text), last)
