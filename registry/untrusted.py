"""Checks of untrusted input: values that no database can store, and documents made to exhaust memory.

Every interface uses this module: query strings, paths and forms of the website, JSON bodies, and files that are
uploaded or imported. A name or a number that passes may still be refused by the type of its field.

The memory of a JSON document is estimated before it is parsed, from the number of values in its text: a list of tiny
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
"""Most nested levels of lists and objects in a document."""
MAX_ITEMS: Final = 10_000
"""Most items of one list, or keys of one object."""
MEMORY: Final = 128 << 20
"""Most bytes of memory for a parsed document and its text: a line, a request's body or an entry of an archive."""

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# Signs that a document is worth checking: 19 digits in a row, or an escape that may stand for a character above. They
# are looked for by plain searches, because a document in another script may consist of escapes and their digits.
_ALL_DIGITS_ZERO: Final = bytes.maketrans(b"0123456789", b"0" * 10)
_LONG_NUMBER: Final = b"0" * 19
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")

# Bytes of memory for each of these characters outside of strings, in Python 3.11: an object with a key, a list, a key
# with its slot, a value with its slot.
_WEIGHTS: Final = {"{": 200, "[": 80, ":": 80, ",": 64}
_PIECE: Final = 1 << 20
"""Characters of a text that are examined at once."""


class RefusedError(ValueError):
    """A document is refused; the message names the part and the remedy."""


class NotJsonError(RefusedError):
    """A document contains NaN or an infinity, which are not JSON although many programs write them."""


class TooDeepError(RefusedError):
    """A document has more than MAX_DEPTH levels."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is nested too deeply; use at most {MAX_DEPTH} levels")


class TooHeavyError(RefusedError):
    """A document would take more memory than its limit. needed: a lower bound, in bytes."""

    def __init__(self, needed: int, memory: int) -> None:
        super().__init__(
            f"the document would take {needed:,} bytes of memory or more, over the limit of {memory:,}; divide it"
        )
        self.needed = needed


def problem_of_text(text: str) -> str | None:
    """Return why no database can store the text, with the remedy; None if it can be stored."""
    match = _UNSTORABLE.search(text)
    if match is None:
        return None
    if match[0] == "\x00":
        return "contains a NUL character; remove it"
    return "contains half a surrogate pair, which is not UTF-8; repair the text"


def check(document: Any, name: str = "the document", *, items: int = MAX_ITEMS, infinite: bool = False) -> None:
    """Raise RefusedError for the first value of a parsed document that no interface accepts.

    name: the document's name in messages. items: most items of a list or an object. infinite: accept infinities.
    """
    # One iterator for each level, so that the check takes hardly any memory.
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
    """Yield (name in messages, part) for the parts of a list or an object; parts are named after the outermost key."""
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

    items: most items of a list or an object. memory: most bytes of the parsed document and its text. exactly: numbers
    with
    a decimal point become Decimal. constants: accept NaN and Infinity.
    Raises TooHeavyError before parsing; RefusedError for NaN and infinity, a repeated key, too many levels, and
    everything that `check` refuses; json.JSONDecodeError for invalid JSON, and UnicodeDecodeError. All are ValueErrors.
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
    # Counting these characters shows that most documents need no check.
    if text.count("[") + text.count("{") > MAX_DEPTH or text.count(",") >= items or _is_suspect(text):
        check(document, items=items, infinite=constants)
    return document


def _is_suspect(text: str) -> bool:
    """Return whether a JSON text may have a number of 19 digits, NUL, or a lone surrogate."""
    if "\\u0000" in text or (("\\ud" in text or "\\uD" in text) and _SURROGATE_ESCAPE.search(text)):
        return True
    if "\x00" in text if text.isascii() else _UNSTORABLE.search(text) is not None:
        return True
    return _LONG_NUMBER in text.encode().translate(_ALL_DIGITS_ZERO)


def decode_answer(content: bytes | str, memory: int = MEMORY) -> Any:
    """Parse a JSON document that another program wrote for other readers: a server's answer, a log under audit.

    It may repeat a key, or contain NaN or a lone surrogate: code that uses a value has to check it. Raises ValueErrors
    as `decode` does, for too much memory, too many levels, and invalid JSON or UTF-8.
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
    """Return an upper bound of the bytes of a parsed JSON document and its text; stop as soon as it exceeds `enough`.

    Characters within strings are left out only if the quick count exceeds `enough`.
    """
    own = 2 * sys.getsizeof(text)
    most = own + _estimate_bytes(text)
    if most <= enough:
        return most
    total, start, within = own, 0, False
    while start < len(text) and total <= enough:
        end = start + _PIECE
        while text[end - 1 : end] == "\\":  # an escape stays in one piece
            end += 1
        parts = text[start:end].replace("\\\\", "").replace('\\"', "").split('"')
        total += _estimate_bytes("".join(parts[within::2]))
        within ^= len(parts) % 2 == 0
        start = end
    return total


def _estimate_bytes(text: str) -> int:
    return sum(bytes_ * text.count(sign) for sign, bytes_ in _WEIGHTS.items())


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is not a number that can be stored; remove it or give a finite number")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        shown = digits if len(digits) <= 40 else f"{digits[:40]}…"
        raise RefusedError(f"{shown} is too large to be stored; give a finite number")
    return number


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RefusedError(f"key {twice[:100]!r} is given twice; keep one")
    return document


@cache
def _decoder(*, exactly: bool, constants: bool) -> json.JSONDecoder:
    """Return a cached decoder: creating one takes as long as decoding a short line."""
    return json.JSONDecoder(
        parse_constant=float if constants else _refuse_constant,
        parse_float=Decimal if exactly else _parse_finite,
        object_pairs_hook=_require_unique_keys,
    )
