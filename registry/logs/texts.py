"""Texts as they are compared and distinguished."""

from hashlib import blake2b
from typing import Final

_MARKS: Final = " \t\r\n.,:;!?\"'`*"


def normal(text: str) -> str:
    """Return a text as it is compared: blanks as one, no capitals, no punctuation around it."""
    return " ".join(text.split()).casefold().strip(_MARKS)


def digest(text: str) -> int:
    """Return 64 bits for a text, never 0."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True) or 1
