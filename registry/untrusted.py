"""What no door lets in, whoever sends it: values that no database holds, and documents made to exhaust a program.

Every door asks here: query strings, paths and forms of the website, JSON bodies, and files that are uploaded or
imported. A name or a number that passes may still be refused by the type that it is read as.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from registry.db import MAX_ROW_ID

MAX_DEPTH: Final = 64
"""Levels of lists and objects in a document."""
MAX_ITEMS: Final = 10_000
"""Items of one list, or keys of one object."""

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# What a document of harmless size must hold before it is worth walking through: 19 digits in a row, or an escape that
# may stand for a character above.
_SUSPECT: Final = re.compile(r"[0-9]{19}|\\u(?:0000|[dD][89a-fA-F])|[\x00\ud800-\udfff]")


class RefusedError(ValueError):
    """Says what of a document is refused, and the remedy."""


class NotJsonError(RefusedError):
    """NaN or an infinity, which JSON has not, although many programs write them."""


class TooDeepError(RefusedError):
    """A document has more levels than any door takes."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is nested too deeply; use at most {MAX_DEPTH} levels")


def problem_of_text(text: str) -> str | None:
    """Why no database holds the text, with the remedy; None where one does."""
    found = _UNSTORABLE.search(text)
    if found is None:
        return None
    if found[0] == "\x00":
        return "contains a NUL character; remove it"
    return "contains half a surrogate pair, which is not UTF-8; repair the text"


def check(document: Any, name: str = "the document", *, items: int = MAX_ITEMS) -> None:
    """Refuses a document of dicts, lists and plain values by the first thing in it that no door lets in.

    name: what a message calls the document itself. items: how many a list or an object may have. Raises RefusedError.
    """
    waiting: list[tuple[str, Any, int]] = [(name, document, 1)]
    while waiting:
        where, value, depth = waiting.pop()
        problem = None
        if isinstance(value, str):
            problem = problem_of_text(value)
        elif isinstance(value, int) and not -MAX_ROW_ID - 1 <= value <= MAX_ROW_ID:
            problem = "is beyond 64-bit integers; give a smaller number"
        elif isinstance(value, float) and math.isinf(value):
            problem = "is too large to be stored; give a finite number"
        elif isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise TooDeepError(where)
            if len(value) > items:
                problem = f"has {len(value):,} items; give at most {items:,}"
            else:
                waiting.extend(_parts(where if depth > 1 else "", where, value, depth + 1))
        if problem is not None:
            raise RefusedError(f"{where} {problem}")


def _parts(inside: str, where: str, value: dict[Any, Any] | list[Any], depth: int) -> Iterator[tuple[str, Any, int]]:
    """What a list or an object holds; a message names the outermost key, which is what its reader knows."""
    if isinstance(value, list):
        yield from ((inside or where, item, depth) for item in value)
        return
    for key, item in value.items():
        yield f"a key of {where}", key, depth
        yield inside or str(key)[:100], item, depth


def decode(text: str, *, items: int = MAX_ITEMS) -> Any:
    """The JSON document that `text` is.

    Raises RefusedError for NaN and infinity, a key given twice, nesting too deep, and all that `check` refuses;
    json.JSONDecodeError for what is no JSON.
    """
    try:
        document = _DECODER.decode(text)
    except RecursionError:
        raise TooDeepError("the document") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise RefusedError("a number has thousands of digits; give a smaller number") from None
        raise
    # A document is walked through where counting says that there may be something to find: most lines have nothing.
    if text.count("[") + text.count("{") > MAX_DEPTH or text.count(",") >= items or _SUSPECT.search(text):
        check(document, items=items)
    return document


def _constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is not a number that can be stored; remove it or give a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        shown = digits if len(digits) <= 40 else f"{digits[:40]}…"
        raise RefusedError(f"{shown} is too large to be stored; give a finite number")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RefusedError(f"key {twice!r} is given twice; keep one")
    return document


# One decoder for all documents: making one costs as much as decoding a short line.
_DECODER: Final = json.JSONDecoder(parse_constant=_constant, parse_float=_finite, object_pairs_hook=_unique)
