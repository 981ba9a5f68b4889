"""Normal forms and digests of texts, for comparison."""

from hashlib import blake2b
from typing import Final

_MARKS: Final = " \t\r\n.,:;!?\"'`*"


def normal(text: str) -> str:
    """Return a text in the form for comparison: single blanks, no capitals, no punctuation at its ends."""
    return " ".join(text.split()).casefold().strip(_MARKS)


def digest(text: str) -> int:
    """Return a 64-bit digest of a text, never 0."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True) or 1
