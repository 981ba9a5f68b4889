"""Refusals for any sender: values that no database can store, and documents made to exhaust a program.

Every interface uses this module: query strings, paths and forms of the website, JSON bodies, and files that are
uploaded or imported. A name or a number that passes may still be refused by the type that it is read as.

A document is weighed before it is read: its memory follows from the number of values in its text, and a list of tiny
values takes forty times its own bytes.
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import repeat
from typing import Any, Final, NoReturn

LARGEST: Final = 2**63 - 1
"""The largest integer that a database can store."""
MAX_DEPTH: Final = 64
"""Levels of lists and objects in a document."""
MAX_ITEMS: Final = 10_000
"""Items of one list, or keys of one object."""
MEMORY: Final = 128 << 20
"""Bytes that a document may take once it is read, its text included: a line, a body, an entry of an archive."""

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# Signs that a document is worth checking: 19 digits in a row, or an escape that may stand for a character above.
_SUSPECT: Final = re.compile(r"[0-9]{19}|\\u(?:0000|[dD][89a-fA-F])|[\x00\ud800-\udfff]")

# Bytes in memory for each sign outside of strings in Python 3.11: an object with a key, a list, a key with its place, a
# value with its place.
_WEIGHTS: Final = {"{": 200, "[": 80, ":": 80, ",": 64}
_PIECE: Final = 1 << 20
"""Characters that are weighed at once."""


class RefusedError(ValueError):
    """The refused part of a document, and the remedy."""


class NotJsonError(RefusedError):
    """NaN or an infinity, which JSON has not, although many programs write them."""


class TooDeepError(RefusedError):
    """A document has more levels than any door takes."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is nested too deeply; use at most {MAX_DEPTH} levels")


class TooHeavyError(RefusedError):
    """A document would take more memory than its door allows. needed: bytes, or more."""

    def __init__(self, needed: int, memory: int) -> None:
        super().__init__(
            f"the document would take {needed:,} bytes of memory or more, over the limit of {memory:,}; divide it"
        )
        self.needed = needed


def problem_of_text(text: str) -> str | None:
    """Return why no database can store the text, with the remedy; None if it can."""
    found = _UNSTORABLE.search(text)
    if found is None:
        return None
    if found[0] == "\x00":
        return "contains a NUL character; remove it"
    return "contains half a surrogate pair, which is not UTF-8; repair the text"


def check(document: Any, name: str = "the document", *, items: int = MAX_ITEMS, infinite: bool = False) -> None:
    """Check a document of dicts, lists and plain values; the first value that no interface accepts is an error.

    name: of the document itself in messages. items: limit for a list or an object. infinite: accept infinities. Raises
    RefusedError.
    """
    # One iterator for each level, so that walking through takes no memory of its own.
    levels: list[Iterator[tuple[str, Any]]] = [iter([(name, document)])]
    while levels:
        for where, value in levels[-1]:
            problem = None
            if isinstance(value, str):
                problem = problem_of_text(value)
            elif isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
                problem = "is beyond 64-bit integers; give a smaller number"
            elif isinstance(value, float) and math.isinf(value) and not infinite:
                problem = "is too large to be stored; give a finite number"
            elif isinstance(value, dict | list):
                if len(levels) > MAX_DEPTH:
                    raise TooDeepError(where)
                if len(value) > items:
                    problem = f"has {len(value):,} items; give at most {items:,}"
                else:
                    levels.append(_parts(where, value, outermost=len(levels) == 1))
                    break
            if problem is not None:
                raise RefusedError(f"{where} {problem}")
        else:
            levels.pop()


def _parts(where: str, value: dict[Any, Any] | list[Any], *, outermost: bool) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a list or an object; a message names the outermost key, which its reader recognises."""
    if isinstance(value, list):
        return zip(repeat(where), value)
    return _members(where, value, outermost=outermost)


def _members(where: str, value: dict[Any, Any], *, outermost: bool) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        yield f"a key of {where}", key
        yield str(key)[:100] if outermost else where, item


def decode(
    text: str | bytes, *, items: int = MAX_ITEMS, memory: int = MEMORY, exactly: bool = False, constants: bool = False
) -> Any:
    """Parse a JSON document; bytes are UTF-8.

    items: limit for a list or an object. memory: most bytes of the parsed document, with its text. exactly: numbers
    with a point become Decimal. constants: accept NaN and Infinity.
    Raises TooHeavyError before it is parsed; RefusedError for NaN and infinity, a repeated key, nesting too deep, and
    all that `check` refuses; json.JSONDecodeError for invalid JSON, and UnicodeDecodeError. All are ValueErrors.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    needed = weight(text, memory)
    if needed > memory:
        raise TooHeavyError(needed, memory)
    try:
        document = _decoder(exactly=exactly, constants=constants).decode(text)
    except RecursionError:
        raise TooDeepError("the document") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise RefusedError("a number has thousands of digits; give a smaller number") from None
        raise
    # A document is checked only if counting makes a problem possible: most lines have none.
    if text.count("[") + text.count("{") > MAX_DEPTH or text.count(",") >= items or _SUSPECT.search(text):
        check(document, items=items, infinite=constants)
    return document


def decode_answer(content: bytes | str, memory: int = MEMORY) -> Any:
    """Parse a JSON document that another program wrote for other readers: a server's answer, a log under audit.

    It may name a token twice, or contain half a character or NaN: code that uses a value checks it. Raises ValueErrors
    as `decode`: if it takes more memory, is nested too deeply or is no JSON in UTF-8.
    """
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    needed = weight(text, memory)
    if needed > memory:
        raise TooHeavyError(needed, memory)
    try:
        return json.loads(text)  # noqa: TID251 - weighed above
    except RecursionError:
        raise TooDeepError("the document") from None


def weight(text: str, enough: int) -> int:
    """Return the most bytes that a parsed JSON document takes, with its text; stops as soon as it is over `enough`.

    Signs within strings are not counted if that makes a difference.
    """
    own = 2 * sys.getsizeof(text)
    most = own + _structure(text)
    if most <= enough:
        return most
    total, start, within = own, 0, False
    while start < len(text) and total <= enough:
        end = start + _PIECE
        while text[end - 1 : end] == "\\":  # an escape stays in one piece
            end += 1
        parts = text[start:end].replace("\\\\", "").replace('\\"', "").split('"')
        total += _structure("".join(parts[within::2]))
        within ^= len(parts) % 2 == 0
        start = end
    return total


def _structure(text: str) -> int:
    return sum(bytes_ * text.count(sign) for sign, bytes_ in _WEIGHTS.items())


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
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RefusedError(f"key {twice[:100]!r} is given twice; keep one")
    return document


@cache
def _decoder(*, exactly: bool, constants: bool) -> json.JSONDecoder:
    """Return the decoder of all documents: making it costs as much as decoding a short line."""
    return json.JSONDecoder(
        parse_constant=float if constants else _constant,
        parse_float=Decimal if exactly else _finite,
        object_pairs_hook=_unique,
    )
