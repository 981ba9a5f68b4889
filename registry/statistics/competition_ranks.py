"""Competition ranks, in a module without numpy, since the web ranks on every page."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

RANK_TOLERANCE: Final = 1e-9
"""A value that is better by no more than this is tied: parallel sums differ in the last bits."""


def ranks(values: Sequence[float | None], better: str) -> list[int | None]:
    """Return competition ranks (1, 2, 2, 4): 1 + the number better by more than RANK_TOLERANCE; None has no rank.

    better: "higher" or "lower"; for any other text nothing has a rank.

    >>> ranks([0.5, 0.25, 0.5, None, 0.75], "higher")
    [2, 4, 2, None, 1]
    """
    ordered = sorted(value for value in values if value is not None)
    if better not in ("higher", "lower"):
        return [None] * len(values)
    return [
        None
        if value is None
        else 1 + len(ordered) - bisect_right(ordered, value + RANK_TOLERANCE)
        if better == "higher"
        else 1 + bisect_left(ordered, value - RANK_TOLERANCE)
        for value in values
    ]
