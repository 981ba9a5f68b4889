"""Seeds of servers: one whole number for each prompt and repeat."""

import hashlib
from typing import Final

_NUMBERS: Final = 2**31 - 100
"""Servers accept signed 32-bit numbers, and a prompt has at most 100 repeats."""


def seed_number(seed: int, seed_text: str, repeat: int = 0) -> int:
    """Return the seed of a prompt's answer number `repeat`. seed_text: makes the prompt's draws its own.

    Answers to one prompt have consecutive seeds: in a request for n answers, vLLM gives the i-th the request's seed
    plus i, so that one request draws the same as n.
    """
    digest = hashlib.sha256(f"{seed}:{seed_text}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % _NUMBERS + repeat
