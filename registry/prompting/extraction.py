r"""Extract an answer from a model's text: Nowak et al., *ABCD: All Biases Come Disguised*, and Cavalin et al.

A protocol tries its rules in turn. The first rule that matches gives the answer, by its last match (`last`) or its
first (`first`). Without a match there is no valid answer, never a random one. The rules are the printed regular
expressions:

    match   answer-is      `answer is (?!.*answer is ).+`                 the rest of the line
            answer-colon   `.*[aA]nswer:\s*(?!.*[aA]nswer:\s*).+`         the rest of the line
            option         an option's text word for word: the latest to end, among these the longest
            last-sentence  `([^.!?]+[.!?]*$)`
    select  answer-is      `answer is \(?([A-J])\)?`
            answer-colon   `.*[aA]nswer:\s*([A-J])`
            letter         `\b[A-J]\b`
    first-letter           the first letter or digit, if it is a label

with the labels that were shown in place of A to J. Emphasis around a label (`**B**`) is skipped after "answer is". As
printed, the expressions with `.*` take time that grows with the square of a line's length, so they are rewritten here
as searches that scan the text once. Blanks around the output and around a match are dropped, and an empty match does
not count. If a rule has one match in a line, `first` takes the first line with a match.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final


@dataclass(frozen=True)
class Extracted:
    """The result of a rule. position: of the option that a label names; None if the text must still be matched."""

    rule: str
    text: str
    position: int | None = None


Rule = Callable[[str, Sequence[str]], Iterable[str]]
"""(output, labels or option texts by position) → the matches, in order."""


def extract(definition: Mapping[str, Any], output: str, answers: Sequence[str]) -> Extracted | None:
    """Return the answer in a model's output; None if no rule matches.

    definition: of a protocol that generates. answers: labels or option texts by position, as in Prompt.answers. The
    time is proportional to the output's length.
    """
    text = output.strip()
    by_label = definition["answer"] == "label"
    rules = _LABEL_RULES if by_label else _TEXT_RULES
    for name in definition["extraction"]["rules"]:
        matches = filter(None, map(str.strip, rules[name](text, answers)))
        wanted = matches if definition["extraction"]["match"] == "first" else deque(matches, 1)
        answer = next(iter(wanted), None)
        if answer is not None:
            return Extracted(name, answer, list(answers).index(answer) if by_label else None)
    return None


# Answers in the words of the options

_ANSWER_IS: Final = "answer is "
_ANSWER_COLON: Final = re.compile(r"[aA]nswer:")
_BLANKS: Final = re.compile(r"\s*")
_ALPHANUMERIC: Final = re.compile(r"[^\W_]")


def _find_after_answer_is(text: str, _options: Sequence[str]) -> Iterator[str]:
    """Yield the text after the last "answer is " of each line."""
    for line in text.split("\n"):
        _, lead_in, rest = line.rpartition(_ANSWER_IS)
        if lead_in:
            yield rest


def _find_after_answer_colon(text: str, _options: Sequence[str]) -> Iterator[str]:
    """Yield the text after the last "Answer:" of each line, on that line or else on the next line that is not blank.

    The next line does not count if it has its own "Answer:".
    """
    last_of_line = {line: match.end() for line, match in _find_answer_colons(text)}
    for after in last_of_line.values():
        start = _skip_blanks(text, after)
        end = _end_of_line(text, start)
        if start < len(text) and last_of_line.get(end, after) == after:
            yield text[start:end]


def _find_answer_colons(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield (end of its line, match) for each "Answer:"."""
    line = -1
    for match in _ANSWER_COLON.finditer(text):
        if match.end() > line:
            line = _end_of_line(text, match.end())
        yield line, match


def _skip_blanks(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    assert match is not None
    return match.end()


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _find_option(text: str, options: Sequence[str]) -> Iterator[str]:
    """Yield the option that starts first, then the option that ends last; the longest of several."""
    wanted = list(dict.fromkeys(stripped for option in options if (stripped := option.strip())))
    # Searching the reversed text finds the last match in linear time; `rfind` can take the product of both lengths.
    mirrored = text[::-1]
    starts = {option: start for option in wanted if (start := text.find(option)) >= 0}
    if starts:
        yield min(starts, key=lambda option: (starts[option], -len(option)))
        ends = {option: len(text) - mirrored.find(option[::-1]) for option in starts}
        yield max(ends, key=lambda option: (ends[option], len(option)))


def _find_last_sentence(text: str, _options: Sequence[str]) -> Iterator[str]:
    """Yield the text after the last full stop, exclamation or question mark that does not end the text."""
    body = text.rstrip(".!?")
    start = max(body.rfind(mark) for mark in ".!?") + 1
    if body[start:]:
        yield text[start:]


_TEXT_RULES: Final[Mapping[str, Rule]] = {
    "answer-is": _find_after_answer_is,
    "answer-colon": _find_after_answer_colon,
    "option": _find_option,
    "last-sentence": _find_last_sentence,
}


# Answers by label


def _label_pattern(labels: Sequence[str]) -> str:
    """Return a regular expression that matches any label, the longest first."""
    return "(" + "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True)) + ")"


def _find_label_after_answer_is(text: str, labels: Sequence[str]) -> Iterator[str]:
    for match in re.finditer(rf"answer is [*`]{{0,3}}\(?[*`]{{0,3}}{_label_pattern(labels)}\)?", text):
        yield match[1]


def _find_label_after_answer_colon(text: str, labels: Sequence[str]) -> Iterator[str]:
    """Yield the label after the last "Answer:" of each line; blanks and line ends may come between.

    Matches do not overlap: a label may be the first letter of the next "Answer:".
    """
    label = re.compile(_label_pattern(labels))
    taken = 0
    pending: tuple[int, re.Match[str]] | None = None
    for line, match in _find_answer_colons(text):
        if pending is not None and pending[0] != line:
            yield pending[1][0]
            taken = pending[1].end()
            pending = None
        following = label.match(text, _skip_blanks(text, match.end()))
        if following is not None and match.start() >= taken:
            pending = (line, following)
    if pending is not None:
        yield pending[1][0]


def _find_separate_label(text: str, labels: Sequence[str]) -> Iterator[str]:
    return map(itemgetter(1), re.finditer(rf"(?<!\w){_label_pattern(labels)}(?!\w)", text))


def _find_first_alphanumeric(text: str, labels: Sequence[str]) -> Iterator[str]:
    """Yield the label whose only letter or digit is the first letter or digit of the output."""
    first = _ALPHANUMERIC.search(text)
    for label in labels:
        if first is not None and _ALPHANUMERIC.findall(label) == [first[0]]:
            yield label


_LABEL_RULES: Final[Mapping[str, Rule]] = {
    "answer-is": _find_label_after_answer_is,
    "answer-colon": _find_label_after_answer_colon,
    "letter": _find_separate_label,
    "first-alphanumeric": _find_first_alphanumeric,
}
