"""Variants: which options a question is shown with, and in which order.

A variant kind is one small pure function of (question, parameters): the same arguments give the same variants, on any
machine, at any time. Nothing here touches the database. Orders hold option ordinals by position; inserted options are
negative. Definitions: Goliakova et al. §3.2 for the permutation sets.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from registry.errors import VariantError

MAX_FULL_OPTIONS: Final = 6
"""`full` asks L! prompts a question: 720 at L = 6, already 5040 at L = 7."""

RANDOM_RANKS: Final[Mapping[int, tuple[int, ...]]] = {
    2: (1, 0),
    3: (3, 5, 0),
    4: (12, 13, 1, 8),
    5: (108, 49, 97, 113, 53),
    6: (394, 430, 41, 265, 523, 497),
    7: (3155, 3445, 331, 2121, 4188, 3980, 3317),
    8: (25247, 27562, 2653, 16968, 33506, 31845, 26537, 19877),
    9: (201979, 220500, 21225, 135746, 268055, 254766, 212302, 159023, 249874),
    10: (3541761, 1615835, 3179091, 1764005, 169803, 1085975, 2144441, 2038128, 1698416, 3287489),
}
"""0-based lexicographic ranks of the orders of `randomL`, drawn once per number of options L and used for every
question and model; `random2` takes the first two. They need not contain the original order."""


@dataclass(frozen=True)
class QuestionShape:
    """What a variant kind may look at: never the texts."""

    external_id: str
    n_options: int
    answer: int


@dataclass(frozen=True)
class VariantShown:
    """One way of showing a question.

    order: option ordinal at each position; inserted options are −1, −2, ….
    question_shown: False where question and context are replaced by an empty string.
    altered: True where anything but the order of the options differs from the benchmark's question.
    """

    ordinal: int
    name: str
    order: tuple[int, ...]
    question_shown: bool = True
    altered: bool = False

    def own_options(self, n_options: int) -> bool:
        """Whether exactly the question's own options are shown."""
        return sorted(self.order) == list(range(n_options))

    def unchanged(self, n_options: int) -> bool:
        """Whether this is the benchmark's question as it stands."""
        return self.question_shown and not self.altered and self.order == tuple(range(n_options))


def permutation_of_rank(n_options: int, rank: int) -> tuple[int, ...]:
    """The order of 0-based lexicographic `rank` among the n_options! orders.

    Raises VariantError when there is no such rank.
    """
    if not 0 <= rank < math.factorial(n_options):
        raise VariantError(f"rank {rank} is outside 0 … {n_options}! − 1")
    remaining = list(range(n_options))
    order = []
    for place in range(n_options - 1, -1, -1):
        index, rank = divmod(rank, math.factorial(place))
        order.append(remaining.pop(index))
    return tuple(order)


def _named(orders: Mapping[str, tuple[int, ...]]) -> list[VariantShown]:
    return [VariantShown(ordinal, name, order) for ordinal, (name, order) in enumerate(orders.items())]


def original(question: QuestionShape) -> list[VariantShown]:
    """The benchmark's own order."""
    return _named({"original": tuple(range(question.n_options))})


def original_inverse(question: QuestionShape) -> list[VariantShown]:
    """The benchmark's order and its reverse."""
    identity = tuple(range(question.n_options))
    return _named({"original": identity, "inverse": identity[::-1]})


def cyclic(question: QuestionShape) -> list[VariantShown]:
    """The L left rotations, identity first: every option stands at every position once."""
    L = question.n_options
    return _named({f"rotation {k}": tuple((position + k) % L for position in range(L)) for k in range(L)})


def random2(question: QuestionShape) -> list[VariantShown]:
    """The first two orders of `randomL`."""
    return _random(question, 2)


def random_l(question: QuestionShape) -> list[VariantShown]:
    """L orders drawn once for every number of options L."""
    return _random(question, question.n_options)


def _random(question: QuestionShape, size: int) -> list[VariantShown]:
    ranks = RANDOM_RANKS.get(question.n_options)
    if ranks is None:
        raise VariantError(
            f"question {question.external_id} has {question.n_options} options; random orders are drawn for 2 to "
            f"{max(RANDOM_RANKS)} only: use cyclic"
        )
    return _named({f"rank {rank}": permutation_of_rank(question.n_options, rank) for rank in ranks[:size]})


def full(question: QuestionShape) -> list[VariantShown]:
    """All L! orders, lexicographic.

    Raises VariantError beyond MAX_FULL_OPTIONS options.
    """
    L = question.n_options
    if L > MAX_FULL_OPTIONS:
        raise VariantError(
            f"question {question.external_id} has {L} options, which makes {math.factorial(L):,} orders; full is "
            f"limited to {MAX_FULL_OPTIONS} options: use cyclic or randomL"
        )
    return _named({f"rank {rank}": order for rank, order in enumerate(itertools.permutations(range(L)))})


@dataclass(frozen=True)
class VariantKind:
    """One line of the registry of kinds: the pure function and the parameters it takes with their defaults.

    version rises when the function's output changes, so that old and new results are never mixed.
    """

    variants: Callable[..., list[VariantShown]]
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    version: int = 1


VARIANT_KINDS: Final[Mapping[str, VariantKind]] = {
    "original": VariantKind(original),
    "original-inverse": VariantKind(original_inverse),
    "cyclic": VariantKind(cyclic),
    "random2": VariantKind(random2),
    "randomL": VariantKind(random_l),
    "full": VariantKind(full),
}


@dataclass(frozen=True)
class VariantSetDefinition:
    """A variant kind with all its parameters, defaults included."""

    kind: str
    parameters: Mapping[str, int | str]

    @property
    def version(self) -> int:
        """Version of the kind's function."""
        return VARIANT_KINDS[self.kind].version

    @property
    def name(self) -> str:
        """Canonical spelling, `kind:key=value,key=value`."""
        listed = ",".join(f"{key}={value}" for key, value in sorted(self.parameters.items()))
        return f"{self.kind}:{listed}" if listed else self.kind

    def specification(self) -> dict[str, Any]:
        """What the digest of the variant set is taken over."""
        return {"kind": self.kind, "version": self.version, "parameters": dict(self.parameters)}

    def variants(self, question: QuestionShape) -> list[VariantShown]:
        """The variants of one question, in order of their ordinals."""
        return VARIANT_KINDS[self.kind].variants(question, **self.parameters)


_SPELLING = re.compile(r"(?P<kind>[A-Za-z0-9-]+)(?::(?P<parameters>.*))?", re.DOTALL)


def parse_variants(text: str) -> VariantSetDefinition:
    """Reads `kind` or `kind:key=value,key=value`.

    Raises VariantError naming an unknown kind, an unknown parameter or a value of the wrong type.
    """
    match = _SPELLING.fullmatch(text)
    kind = match["kind"] if match else text
    if match is None or kind not in VARIANT_KINDS:
        raise VariantError(f"unknown variant kind {kind!r}; use one of {', '.join(VARIANT_KINDS)}")
    defaults = VARIANT_KINDS[kind].parameters
    given: dict[str, int | str] = {}
    for item in (match["parameters"] or "").split(",") if match["parameters"] else []:
        key, equals, value = item.partition("=")
        if not equals or key not in defaults:
            allowed = ", ".join(defaults) or "none"
            raise VariantError(f"variants {text!r}: {item!r} is no parameter of {kind} (it takes: {allowed})")
        default = defaults[key]
        try:
            given[key] = int(value) if isinstance(default, int) else value
        except ValueError:
            raise VariantError(f"variants {text!r}: {key} must be a whole number, not {value!r}") from None
    return VariantSetDefinition(kind, {**defaults, **given})
