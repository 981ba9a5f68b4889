"""Reading of labels: the only module that decides which option an answer or a key of a log names.

A log may count digits from 0 or from 1, and a letter may also be an option's text. Each label is therefore read under
every convention of CONVENTIONS; `agreement` chooses the convention that reproduces the log's own scores.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final

from registry.benchmarks.lines import shorten
from registry.logs.rereading import read_scored
from registry.prompting.labels import LETTERS


@dataclass(frozen=True)
class Convention:
    """A convention of reading labels.

    form: "any" takes `b`, `(B)`, `Option B`, `B. text` and an option's text in any case; "case" takes a bare label or
    an option's text in any case; "exact" takes only the label or the text itself; "whole" also takes the answer that a
    whole text states, as metrics do that extract it themselves. first_digit: the number of the first option.
    text_first: an option's text takes precedence over a label that reads the same.
    """

    form: str
    first_digit: int
    text_first: bool

    def describe(self) -> str:
        """Return the convention in words, for messages and provenance."""
        forms = {
            "any": "labels in any form",
            "case": "bare labels in any case",
            "exact": "labels exactly as they were shown",
            "whole": "labels in any form or the answers that whole texts state",
        }
        return (
            f"{forms[self.form]}, digits from {self.first_digit}, "
            f"{'option texts' if self.text_first else 'labels'} first"
        )


CONVENTIONS: Final = (
    *(
        Convention(form, first_digit, text_first)
        for form, first_digit, text_first in product(("any", "case", "exact"), (0, 1), (False, True))
    ),
    Convention("whole", 0, False),
)
"""All conventions, in the order in which they are tried: the first that reproduces a log's scores is used."""
BARE: Final = next(number for number, convention in enumerate(CONVENTIONS) if convention.form == "case")
"""Index in CONVENTIONS of the first convention that reads bare labels only, without words around them."""
WHOLE: Final = len(CONVENTIONS) - 1
"""Index in CONVENTIONS of the convention that reads whole texts."""


@dataclass(frozen=True, slots=True)
class Written:
    """A label as a log writes it.

    positions: shape (len(CONVENTIONS),); the position, from 0, of the option that each convention reads in it; None if
    it reads none.
    """

    value: str
    positions: tuple[int | None, ...]


_LONGEST: Final = 2_000
"""A text with more characters is not a label, and is compared with options only exactly."""
_MARKS: Final = " \t\r\n()[]{}<>.,:;*\"'`$“”‘’。，、：；【】〔〕「」『』《》"
_LEAD: Final = re.compile(
    r"(?:(?:so|thus|therefore|hence),? ?)?(?:my |the )?(?:(?:best|correct|final|right)[ _]?)?"
    r"(?:ans(?:wer)?|option|choice|letter|label|答案|选项|选择|选)(?:[ _](?:is|number|no\.)|[是为])?[\"']?[:=_]? ?"
    r"(?:option |choice )?(?=\W{0,3}(?:[a-z]|\d{1,3})(?:\W{0,4}$|[.):\]*]{1,3} ))",
    re.IGNORECASE,
)
_BOX: Final = re.compile(
    r"\\(?:boxed|text|textbf|mathbf|mathrm)\{([^{}]{1,400})\}|<(?:final_?)?answer>([^<>]{1,400})</(?:final_?)?answer>"
)
_LABELLED: Final = re.compile(r"[(\[*]{0,3}([A-Za-z]|\d{1,2})(?:[.):\]*]{1,3}|(?P<weak>,| ?[-–—])) ")


def read_label(value: Any, options: Sequence[str], *, right: int | None = None) -> Written:
    """Read a label under every convention.

    options: the texts shown, by position. right: the position that a text of several equal options means, if the log
    marks the right one. Whole numbers are indices; letters, digits as text and option texts are labels.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, bool | float):
        return Written(shorten(value, 60) if value is not None else "", _repeat_position(None))
    if isinstance(value, int):
        return Written(str(value), _read_number(value, len(options)))
    text = (value if isinstance(value, str) else str(value)).strip()
    if len(text) > _LONGEST:
        return _intern_written(
            shorten(text, 60), _repeat_position(_find_option(text, tuple(options), right, exact=True))
        )
    return _intern_written(shorten(text, 60), _read_positions(text, tuple(options), right))


@lru_cache(maxsize=50_000)
def _intern_written(value: str, positions: tuple[int | None, ...]) -> Written:
    """Return one object for all equal labels: a table has a label in each cell."""
    return Written(value, positions)


def certain(value: Any, position: int | None) -> Written:
    """Return a label whose position the log states unambiguously."""
    return Written(shorten(value, 60), _repeat_position(position))


@lru_cache(maxsize=1_000)
def _repeat_position(position: int | None) -> tuple[int | None, ...]:
    return (position,) * len(CONVENTIONS)


@lru_cache(maxsize=1_000)
def _read_number(value: int, n_options: int) -> tuple[int | None, ...]:
    return tuple(_check_range(value - convention.first_digit, n_options) for convention in CONVENTIONS)


def _check_range(index: int, n_options: int) -> int | None:
    return index if 0 <= index < n_options else None


@lru_cache(maxsize=20_000)
def _read_positions(text: str, options: tuple[str, ...], right: int | None) -> tuple[int | None, ...]:
    if not text:
        return _repeat_position(None)
    if len(text) == 1 and text in LETTERS and text.casefold() not in _fold_options(options):
        return _repeat_position(_check_range(LETTERS.index(text), len(options)))  # all conventions agree
    positions = []
    for convention in CONVENTIONS:
        label = _read_bare_label(text, convention, options)
        words = _find_option(text, options, right, exact=convention.form == "exact")
        first, second = (words, label) if convention.text_first else (label, words)
        positions.append(second if first is None else first)
    return _repeat_position(positions[0]) if len(set(positions)) == 1 else tuple(positions)


def _read_bare_label(text: str, convention: Convention, options: tuple[str, ...]) -> int | None:
    n_options = len(options)
    bare = text if convention.form == "exact" else unicodedata.normalize("NFKC", text).strip()
    if convention.form in ("any", "whole"):
        bare = _strip_marks(bare, options)
    if len(bare) == 1 and (letter := bare if convention.form == "exact" else bare.upper()) in LETTERS:
        return _check_range(LETTERS.index(letter), n_options)
    if bare.isdecimal() and len(bare) < 4:
        return _check_range(int(bare) - convention.first_digit, n_options)
    return None


def _strip_marks(text: str, options: tuple[str, ...]) -> str:
    """Return a text without brackets, marks and a leading `Option`; only its label if its option's words follow."""
    text = _unbox(text)
    bare = " ".join(text.split()).strip(_MARKS + "\\")
    if (lead := _LEAD.match(bare)) is not None:
        bare = bare[lead.end() :].strip(_MARKS)
    labelled = _LABELLED.match(f"{bare} ") if len(bare) > 2 else None
    if labelled is None:
        return bare
    rest, own = _fold(bare[labelled.end() :]), LETTERS.find(labelled[1].upper())
    # The text was taken out of its boxes, and so is each option.
    folded, unboxed = _fold_options(options), _fold_options(tuple(map(_unbox, options)))
    its_own = own >= 0 and rest in (*folded[own : own + 1], *unboxed[own : own + 1])
    # "A. Oslo", with Oslo as option B, names two options; "A - Oslo" is a label only before its own option.
    if its_own or (not labelled["weak"] and (own < 0 or rest not in (*folded, *unboxed))):
        return labelled[1]
    return bare


def _unbox(text: str) -> str:
    """Return a text without boxes, fonts of LaTeX and tags of answers around its parts."""
    while ("\\" in text or "<" in text) and (inside := _BOX.sub(r"\1\2", text)) != text:
        text = inside
    return text


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold().strip(_MARKS)


@lru_cache(maxsize=20_000)  # several models answer each question of a benchmark, one model after another
def _fold_options(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_fold(option[:_LONGEST]) for option in options)


def _find_option(text: str, options: tuple[str, ...], right: int | None, *, exact: bool) -> int | None:
    """Return the position of the option with this text; if several are equal, of the right one, else of the first."""
    same = [position for position, option in enumerate(options) if option.strip() == text]
    if not same and not exact and (folded := _fold(text)):
        same = [position for position, option in enumerate(_fold_options(options)) if option == folded]
    if not same:
        return None
    return right if right in same else same[0]


def names_by_text(label: Written, options: Sequence[str], order: Sequence[int | str] | None = None) -> bool | None:
    """Return whether a label is an option's text rather than another form; None if conventions read it differently.

    order: the options or names of inserted ones by position, if `options` are in another order.
    """
    position = label.positions[0]
    if position is None or label.positions.count(position) < len(CONVENTIONS):
        return None
    if position >= len(options if order is None else order):
        return None
    if len(label.value) == 1:
        return False
    item = position if order is None else order[position]
    text = item if isinstance(item, str) else options[item]
    return shorten(text.strip(), 60).casefold() == label.value.casefold()


def are_one(labels: Sequence[Written]) -> bool:
    """Return whether labels name one option under some convention, such as `B`, `(b)` and the option's text."""
    by_convention = zip(*(label.positions for label in labels), strict=True)
    return any(None not in positions and len(set(positions)) == 1 for positions in by_convention)


INVALID: Final = "[invalid]"
"""The value that a filter of lm-evaluation-harness writes if it extracted nothing."""
_SHORTEST_TEXT: Final = 12
"""Fewest characters of a text in which a metric may have searched for an answer."""


def answer_label(
    value: Any, options: Sequence[str], keyed: Written | None = None, stated: float | None = None
) -> Written:
    """Return an answer as a label. If it fits several equal options and is scored as right, it means the right one.

    A whole text without a label is read again, for metrics that extract the answer themselves.
    """
    key = None if keyed is None else keyed.positions[0]
    label = read_label(None if value == INVALID else value, options, right=key if stated == 1 else None)
    if not isinstance(value, str) or len(value) < _SHORTEST_TEXT or set(label.positions) != {None}:
        return label
    at = read_scored(value, options, key, stated)
    return _intern_written(label.value, (*label.positions[:WHOLE], at))
