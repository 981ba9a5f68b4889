"""Products of variant kinds: every variant of one kind under every variant of the others, or a sample of these cells.

A cell's ordinal counts through all combinations, the last factor fastest, so that 0 is the first variant of each. It
does not depend on which cells are asked. How products are stored: docs/decisions/0068-products-of-variant-kinds.md.
"""

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from registry.errors import VariantError

if TYPE_CHECKING:
    from registry.prompting.variants import VariantShown

TIMES: Final = "*"
SAMPLE: Final = "sample"
VERSION: Final = 1
"""Rises when the same factors come to other cells."""
MAX_CELLS: Final = 10_000
"""Cells of one question: a full product of more is a mistake of whoever asks for it."""


@dataclass(frozen=True)
class Sample:
    """So many cells of each question, drawn for it with a seed."""

    cells: int
    seed: int

    @property
    def name(self) -> str:
        """Canonical spelling."""
        return f"{SAMPLE}:cells={self.cells},seed={self.seed}"

    def specification(self) -> dict[str, Any]:
        """As the last of a product's factors."""
        return {"kind": SAMPLE, "version": VERSION, "parameters": {"cells": self.cells, "seed": self.seed}}


@dataclass(frozen=True)
class Cells:
    """The combinations of the variants of a product's factors, for one question.

    Raises VariantError where there are more than MAX_CELLS.
    """

    factors: "tuple[tuple[VariantShown, ...], ...]"
    n_options: int

    def __post_init__(self) -> None:
        """Counts the cells before any is made."""
        if (number := math.prod(map(len, self.factors))) > MAX_CELLS:
            sizes = " × ".join(str(len(factor)) for factor in self.factors)
            raise VariantError(
                f"{sizes} variants make {number:,} cells of a question of {self.n_options} options; at most "
                f"{MAX_CELLS:,} are allowed: use fewer variants of a kind"
            )

    @cached_property
    def _parts(self) -> "list[tuple[VariantShown, ...]]":
        return list(itertools.product(*self.factors))

    def variants(self) -> "list[VariantShown]":
        """All cells, in order of their ordinals."""
        return [self._combined(ordinal) for ordinal in range(len(self._parts))]

    def levels(self) -> dict[int, tuple[int, ...]]:
        """Ordinal of each cell to the ordinal within each factor."""
        return {ordinal: tuple(part.ordinal for part in parts) for ordinal, parts in enumerate(self._parts)}

    def sampled(self, sample: Sample, question_id: str) -> "list[VariantShown]":
        """The cells that are asked of a question: `sample.cells` of them, or all where there are fewer.

        Every level of a factor is asked as often as every other of it, give or take one: cells are taken along the
        diagonals of the product, whose levels are put in an order drawn by hashing.
        """
        sizes = [len(factor) for factor in self.factors]
        drawn = [
            sorted(range(size), key=lambda level: _hash(f"{sample.seed}:{SAMPLE}:{question_id}:{place}:{level}"))
            for place, size in enumerate(sizes)
        ]
        chosen = []
        for step in range(min(sample.cells, math.prod(sizes))):
            ordinal = 0
            for levels, index in zip(drawn, _diagonal(step, sizes), strict=True):
                ordinal = ordinal * len(levels) + levels[index]
            chosen.append(ordinal)
        return [self._combined(ordinal) for ordinal in sorted(chosen)]

    def _combined(self, ordinal: int) -> "VariantShown":
        """What all parts change, together: at most one of them changes each thing."""
        parts = self._parts[ordinal]
        identity = tuple(range(self.n_options))
        return replace(
            parts[0],
            ordinal=ordinal,
            name=" × ".join(part.name for part in parts),
            order=next((part.order for part in parts if part.order != identity), identity),
            question_shown=all(part.question_shown for part in parts),
            labels=_given([part.labels for part in parts]),
            examples_position=_given([part.examples_position for part in parts]),
            template=_given([part.template for part in parts]),
            paraphrase=_given([part.paraphrase for part in parts]),
            noise=_given([part.noise for part in parts]),
            repeat=max(part.repeat for part in parts),
        )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _diagonal(step: int, sizes: Sequence[int]) -> list[int]:
    """The indices that a walk along the diagonals of a grid has reached after so many steps; it meets each cell once.

    >>> [_diagonal(step, [2, 4]) for step in range(8)]
    [[0, 0], [1, 1], [0, 2], [1, 3], [0, 1], [1, 2], [0, 3], [1, 0]]
    """
    *smaller, size = sizes
    if not smaller:
        return [step]
    before = math.prod(smaller)
    return [*_diagonal(step % before, smaller), (step + step // math.lcm(before, size)) % size]


def _given(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)
