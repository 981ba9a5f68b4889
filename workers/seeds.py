"""Seeds of servers: one whole number for each prompt and repeat."""

import hashlib
from typing import Final

_NUMBERS: Final = 2**31 - 100
"""Servers take signed 32-bit numbers, and a prompt is asked at most 100 times."""


def seed_number(seed: int, seed_text: str, repeat: int = 0) -> int:
    """The seed of a prompt's answer number `repeat`. seed_text: what makes the prompt's draws its own.

    Answers to one prompt have consecutive seeds: vLLM, asked for n answers in one request, gives the i-th of them the
    request's seed plus i, so that one request draws what n would.
    """
    digest = hashlib.sha256(f"{seed}:{seed_text}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % _NUMBERS + repeat
