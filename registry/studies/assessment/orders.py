"""Orders as 0-based lexicographic ranks among the L! orders of L options, as `full` shows them."""

import math
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Final, Literal

from registry.prompting.variants import VARIANT_KINDS, QuestionShape

SUBSETS: Final = ("original", "original-inverse", "cyclic", "random2", "randomL")
"""The sets that are assessed against `full`: variant kinds, whose own functions define their orders."""

ORIGINAL: Final = 0
"""Rank of the benchmark's own order."""

DRAWS: Final = 100
SEED: Final = 0

DrawSize = Literal["pair", "L-tuple"]
DRAW_SIZES: Final[tuple[DrawSize, ...]] = ("pair", "L-tuple")


def _orders(kind: str, L: int) -> tuple[tuple[int, ...], ...]:
    """Return the orders of a kind of variants in sequence; they are the same for every question of L options."""
    return tuple(variant.order for variant in VARIANT_KINDS[kind].variants(QuestionShape("", L, 0)))


@cache
def rank_of(L: int) -> Mapping[tuple[int, ...], int]:
    """Map each order of L options (option shown at each position) to its rank."""
    return {order: rank for rank, order in enumerate(_orders("full", L))}


@cache
def subset_ranks(subset: str, L: int) -> tuple[int, ...]:
    """Return the ranks of the orders in which `subset` shows a question of L options, in sequence."""
    return tuple(rank_of(L)[order] for order in _orders(subset, L))


@cache
def draw_ranks(size: DrawSize, L: int) -> tuple[tuple[int, ...], ...]:
    """Return DRAWS random sets of distinct orders: two of them, or L.

    One Python Random(SEED) for each L and size, and `sample(range(L!), size)` DRAWS times in a row from it; every
    question and model gets the same draws. The first L-tuple is `randomL`.
    """
    random = Random(SEED)  # noqa: S311 - no secret
    orders = range(math.factorial(L))
    return tuple(tuple(random.sample(orders, 2 if size == "pair" else L)) for _ in range(DRAWS))
