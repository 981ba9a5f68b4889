"""Hostile values in JSON and TOML, and the places in a document where tests put them."""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

MARK: Final = "\ue000here\ue000"
"""Placeholder for a hostile value in a document."""
Place = tuple[str | int, ...]

DEEP: Final = 100_000
JSON_VALUES: Final[dict[str, str]] = {
    "1,000 lists": "[" * 1000 + "]" * 1000,
    "100,000 lists": "[" * DEEP + "]" * DEEP,
    "1,000 objects": '{"a":' * 1000 + "1" + "}" * 1000,
    "65 lists": "[" * 65 + "]" * 65,
    "a number of 5,000 digits": "9" * 5000,
    "5,000 digits as text": f'"{"9" * 5000}"',
    "10^30": "1" + "0" * 30,
    "-10^30": "-1" + "0" * 30,
    "2^63": str(2**63),
    "2^63 - 1": str(2**63 - 1),
    "2^31": str(2**31),
    "32768": "32768",
    "-1": "-1",
    "1e400": "1e400",
    "1e308": "1e308",
    "1e-400": "1e-400",
    "a number with 5,000 decimals": "0." + "3" * 5000,
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "half a surrogate pair": '"a\\ud800b"',
    "half a pair as a key": '{"\\udc00": 1}',
    "half a pair in a list": '["\\udfff"]',
    "NUL": '"a\\u0000b"',
    "NUL as a key": '{"\\u0000": 1}',
    "1 MB": f'"{"x" * 2**20}"',
    "other digits": '"\u0661\u0662"',
    "a digit that is none": '"²"',
    "nothing": "null",
    "true": "true",
    "an empty text": '""',
    "an empty list": "[]",
    "an empty object": "{}",
    "a list of lists": "[[]]",
    "a key given twice": '{"a": 1, "a": 2}',
}
TOML_VALUES: Final[dict[str, str]] = {
    "1,000 lists": "[" * 1000 + "]" * 1000,
    "100,000 lists": "[" * DEEP + "]" * DEEP,
    "1,000 tables": "{a=" * 1000 + "1" + "}" * 1000,
    "a key of 1,000 parts": "{" + ".".join("a" * 1000) + "=1}",
    "a number of 5,000 digits": "9" * 5000,
    "2^63": str(2**63),
    "1e400": "1e400",
    "nan": "nan",
    "inf": "-inf",
    "half a surrogate pair": '"a\\ud800b"',
    "NUL": '"a\\u0000b"',
    "300 KB": f'"{"x" * 300_000}"',
    "a date": "2026-11-21",
    "a time": "2026-11-21T13:00:00Z",
    "true": "true",
    "an empty text": '""',
    "an empty list": "[]",
    "an empty table": "{}",
}


def places(document: Any, *, most: int = 3) -> Iterator[Place]:
    """Yield every place in a document: each value, but only the first items of a list."""
    yield ()
    parts: Sequence[tuple[str | int, Any]] = ()
    if isinstance(document, dict):
        parts = list(document.items())
    elif isinstance(document, list):
        parts = list(enumerate(document))[:most]
    for key, value in parts:
        yield from ((key, *rest) for rest in places(value, most=1))


def mark(document: Any, place: Place) -> Any:
    """Return the document with the mark at a place."""
    if not place:
        return MARK
    changed = copy.deepcopy(document)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = MARK
    return changed


def with_value(document: Any, place: Place, value: str) -> str:
    """Return the document as JSON, with the text of a value at a place."""
    return json.dumps(mark(document, place)).replace(json.dumps(MARK), value)
