"""Noise in the text of a question or its options: what a careless typist does, drawn by hashing.

A text has **places** that a type of noise may alter, and the rate is the share of them that it alters. Of n places,
rate · n are taken; what is left of that product beyond whole places is the probability of one more, so that the share
over many texts is the rate. Which are taken, and how each is altered, is drawn by SHA-256 of the question's id, the
variant, the seed and the place.

The right option is never altered, and options that differ go on to differ: an altered option that reads like another is
put back. Words that turn a question round, such as "not" and "except", are never altered, nor are numbers, formulas and
abbreviations.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

TARGETS: Final = ("question", "options", "both")

_KEPT: Final = frozenset(
    (
        *("not", "no", "nor", "never", "none", "neither", "cannot", "without", "unless"),
        *("except", "excepting", "excluding", "contrary"),
        *("most", "least", "fewest", "only", "all", "true", "false", "incorrect", "wrong"),
    )
)
"""Words whose misreading would turn a question round."""

_NEIGHBOURS: Final[Mapping[str, str]] = {
    letter: "".join(row[i] for i in (place - 1, place + 1) if 0 <= i < len(row))
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for place, letter in enumerate(row)
}
"""Each key's neighbours in its row of a QWERTY keyboard."""

# A word of letters that stands alone: not in a formula, a command or an identifier, nor beside a digit.
_WORD: Final = re.compile(r"(?<![\w\\$^{}'’])[^\W\d_]{2,}(?![\w\\$^{}'’])")
_SPACE: Final = re.compile(r"(?<=\S) (?=\S)")
_MARKS: Final = ",;:.?!"

Place = tuple[int, int]
"""Start and end of what is replaced."""


@dataclass(frozen=True)
class Noise:
    """What alters a text. rate: percent of the places; key: what the draws are made from; target: one of TARGETS."""

    what: str
    rate: int
    key: str
    target: str

    def question(self, text: str) -> str:
        """The question's text with noise, or as it is."""
        return text if self.target == "options" else self.altered(text, "question")

    def options(self, options: Sequence[str], answer: int) -> tuple[str, ...]:
        """The options' texts with noise, or as they are; the right one always is."""
        if self.target == "question":
            return tuple(options)
        found = list(options)
        for ordinal, option in enumerate(options):
            if ordinal == answer:
                continue
            altered = self.altered(option, f"option {ordinal}")
            others = {_read(other) for place, other in enumerate(found) if place != ordinal}
            if _read(altered) not in others:
                found[ordinal] = altered
        return tuple(found)

    def altered(self, text: str, part: str) -> str:
        """`text` with the share `rate` of its places altered; part: which text of a question it is, for the draws."""
        kind = TYPES[self.what]
        for start, end in reversed(self.taken(text, part)):
            draw = _draw(f"{self.key}:{part}:{start}:edit")
            text = text[:start] + kind.edit(text, start, end, draw) + text[end:]
        return text

    def taken(self, text: str, part: str) -> list[Place]:
        """The places that are altered, in order."""
        places = TYPES[self.what].places(text)
        whole, rest = divmod(len(places) * self.rate, 100)
        number = whole + (_draw(f"{self.key}:{part}:more") % 100 < rest)
        return sorted(sorted(places, key=lambda place: _draw(f"{self.key}:{part}:{place[0]}"))[:number])


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _read(text: str) -> str:
    """What a reader who overlooks case, spacing and punctuation reads; the text itself where nothing else is there."""
    return "".join(letter for letter in text.casefold() if letter.isalnum()) or text


def _words(text: str, shortest: int) -> list[Place]:
    """The words that may be altered: of a script with capitals, no abbreviation, none in _KEPT."""
    return [
        match.span()
        for match in _WORD.finditer(text)
        if len(match[0]) >= shortest
        and match[0].lower() != match[0].upper()
        and not match[0][1:].isupper()
        and match[0].lower() not in _KEPT
    ]


def _mistyped(text: str, start: int, end: int, draw: int) -> str:
    """One letter after the first swapped with the next, left out, doubled, or mistaken for its neighbour's key."""
    word = text[start:end]
    place = 1 + draw // 4 % (len(word) - 1)
    before, letter, after = word[:place], word[place], word[place + 1 :]
    near = _NEIGHBOURS.get(letter, letter)
    edits = (
        before + after[:1] + letter + after[1:],
        before + after,
        before + letter * 2 + after,
        before + near[draw // 256 % len(near)] + after,
    )
    return next(edit for edit in edits[draw % 4 :] + edits if edit != word)


def _case_edits(word: str) -> list[str]:
    """The word in other cases, as long as it was: "ß" has no capital of one letter, and many scripts have no case."""
    edits = (word.upper(), word[:1] + word[1:].swapcase(), word.swapcase(), word.lower(), word.capitalize())
    return [edit for edit in edits if edit != word and len(edit) == len(word)]


def _case_changed(text: str, start: int, end: int, draw: int) -> str:
    word = text[start:end]
    edits = (word.upper(), word[:1] + word[1:].swapcase(), word.swapcase(), word.lower(), word.capitalize())
    possible = _case_edits(word)
    return next(edit for edit in edits[draw % 5 :] + edits if edit in possible)


def _spaced(text: str, start: int, end: int, draw: int) -> str:  # noqa: ARG001
    return " " * (2 + draw % 2)


def _ends(text: str) -> list[Place]:
    """A mark after a word, or the nothing before the space that follows one."""
    found = []
    for _, end in _words(text, 2):
        after = text[end : end + 2]
        if after[:1] and after[0] in _MARKS and (len(after) == 1 or after[1].isspace()):
            found.append((end, end + 1))
        elif after[:1] == " ":
            found.append((end, end))
    return found


def _punctuated(text: str, start: int, end: int, draw: int) -> str:  # noqa: ARG001
    return "" if end > start else ","


@cache
def synonyms() -> Mapping[str, str]:
    """Word to the word that may stand for it."""
    listed = files("registry.prompting").joinpath("synonyms.txt").read_text(encoding="utf-8").splitlines()
    return dict(tuple(line.split()) for line in listed if line and not line.startswith("#"))  # type: ignore[misc]


def _listed(text: str) -> list[Place]:
    return [(start, end) for start, end in _words(text, 2) if text[start:end].lower() in synonyms()]


def _replaced(text: str, start: int, end: int, draw: int) -> str:  # noqa: ARG001
    word = text[start:end]
    found = synonyms()[word.lower()]
    return found.capitalize() if word[0].isupper() else found


@dataclass(frozen=True)
class NoiseType:
    """places: what may be altered in a text. edit: what stands there then, from the text, the place and a draw."""

    places: Callable[[str], list[Place]]
    edit: Callable[[str, int, int, int], str]


TYPES: Final[Mapping[str, NoiseType]] = {
    "typos": NoiseType(lambda text: _words(text, 4), _mistyped),
    "case": NoiseType(
        lambda text: [(start, end) for start, end in _words(text, 2) if _case_edits(text[start:end])], _case_changed
    ),
    "spacing": NoiseType(lambda text: [match.span() for match in _SPACE.finditer(text)], _spaced),
    "punctuation": NoiseType(_ends, _punctuated),
    "synonyms": NoiseType(_listed, _replaced),
}
