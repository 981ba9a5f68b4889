"""Limits the process's memory while many threads answer requests."""

import ctypes
from typing import Final

ARENAS: Final = 2
"""Number of heaps that all threads share. By default glibc gives each thread a heap, which never shrinks again."""
_M_ARENA_MAX: Final = -8


def limit_arenas() -> None:
    """Make all threads share ARENAS heaps; does nothing on systems without glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
