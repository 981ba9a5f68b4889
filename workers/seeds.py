"""Seeds for servers: one whole number for each prompt and repeat."""

import hashlib
from typing import Final

_NUMBERS: Final = 2**31 - 100
"""Number of seeds: servers accept signed 32-bit numbers, and a prompt has at most 100 repeats."""


def seed_number(seed: int, seed_text: str, repeat: int = 0) -> int:
    """Return the seed of a prompt's answer with the number `repeat`. seed_text: makes the prompt's draws its own.

    Answers to one prompt have consecutive seeds: for a request with n answers, vLLM gives the i-th answer the request's
    seed plus i, so that one request draws the same as n requests.
    """
    digest = hashlib.sha256(f"{seed}:{seed_text}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % _NUMBERS + repeat
