"""What may be said of models beside each other: two, several, and neighbours on a board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.names import plural
from registry.verdicts.cases import Case, Said, always, every, first
from registry.verdicts.facts import NO_VERDICT, SAID_FIRST, Facts, names
from registry.verdicts.wording import count, points, share

FEW: Final = 30
"""Below so many questions no interval is stated."""


@dataclass(frozen=True)
class Pair:
    """Two evaluations over the n questions that both have a metric for.

    label: of the metric, in lower case; unit: `fraction` or another. better: 0 if the first is better, 1 if the second,
    None if they are equal. difference: of the better minus the other, at least 0; low, high: its 95 % interval, None if
    none is stated. only: on how many questions only the first, only the second has the property. right: what a question
    with the property is, such as `right in every order`. facts: of both.
    """

    names: tuple[str, str]
    label: str
    values: tuple[str, str]
    better: int | None
    difference: float
    low: float | None
    high: float | None
    n: int
    only: tuple[int, int]
    right: str
    facts: tuple[Facts, Facts]

    @property
    def winner(self) -> str:
        """The name of the better one."""
        return self.names[self.better or 0]

    @property
    def apart(self) -> bool:
        """Whether the interval of the difference excludes zero."""
        return self.low is not None and self.high is not None and self.low > 0

    def missing_most(self, share_of: float) -> list[str]:
        """The names of those with more than this share of missing answers."""
        return [name for name, facts in zip(self.names, self.facts, strict=True) if facts.reading.share > share_of]


def _difference(pair: Pair) -> str:
    low, high = pair.low or 0.0, pair.high or 0.0
    more = f"{points(pair.difference)} {'more ' if not pair.apart else ''}of {pair.label}"
    return f"{more} (95\u202f% interval {100 * low:.1f} to {100 * high:.1f})"


def _few(n: int) -> str:
    few = f"{plural(n, 'question')} are" if n < FEW else "questions that differ are"
    return f"{few} too few to say how certain that is"


def _shares(pair: Pair, found: Sequence[str]) -> str:
    shares = {name: share(facts.reading.share) for name, facts in zip(pair.names, pair.facts, strict=True)}
    return " and ".join(f"{shares[name]} of the answers of {name}" for name in found)


PAIR_READ: Final[tuple[Case[Pair], ...]] = (
    Case(
        "pair-unread",
        "more than 5 % of the answers of one of the two are missing",
        lambda pair: bool(pair.missing_most(SAID_FIRST)),
        lambda pair: f"{_shares(pair, pair.missing_most(SAID_FIRST))} are missing and count as wrong.",
    ),
)
"""How much could be read: the first thing said."""

PAIR: Final[tuple[Case[Pair], ...]] = (
    Case(
        "pair-mostly-unread",
        "more than half of the answers of one of the two are missing",
        lambda pair: bool(pair.missing_most(NO_VERDICT)),
        lambda pair: (
            f"More than half of the answers of {names(pair.missing_most(NO_VERDICT))} are missing, so neither "
            "is called better."
        ),
    ),
    Case(
        "pair-equal",
        "the two values are equal",
        lambda pair: pair.better is None,
        lambda pair: f"Both have the same {pair.label}, {pair.values[0]}.",
    ),
    Case(
        "pair-apart",
        "the 95 % interval of the paired difference excludes zero",
        lambda pair: pair.apart,
        lambda pair: f"{pair.winner} is better by {_difference(pair)}.",
    ),
    Case(
        "pair-not-apart",
        "the 95 % interval of the paired difference includes zero",
        lambda pair: pair.low is not None,
        lambda pair: (
            f"The two cannot be distinguished: {pair.winner} has {_difference(pair)}, and the interval includes zero."
        ),
    ),
    Case(
        "pair-few",
        "the difference has no interval",
        lambda _: True,
        lambda pair: (
            f"{pair.winner} has {points(pair.difference)} more of {pair.label}; "
            + (
                f"{plural(pair.n, 'question')} are too few to say how certain that is."
                if pair.n < FEW
                else "too few questions differ to say how certain that is."
            )
        ),
    ),
)
"""What may be concluded of two: the first that holds."""

PAIR_REMARKS: Final[tuple[Case[Pair], ...]] = (
    Case(
        "pair-only",
        "some question has the property on one side only",
        lambda pair: any(pair.only),
        lambda pair: (
            f"Only {pair.names[0]} is {pair.right} on {plural(pair.only[0], 'question')}, only {pair.names[1]} "
            f"on {plural(pair.only[1], 'question')}."
        ),
    ),
)


@dataclass(frozen=True)
class PairVerdict:
    """What is said of two: how much could be read if that comes first, what may be concluded, the numbers behind it."""

    read: Said | None
    conclusion: Said
    found: tuple[Said, ...]


def of_pair(pair: Pair) -> PairVerdict:
    """The verdict on two evaluations."""
    return PairVerdict(first(PAIR_READ, pair), always(PAIR, pair), every(PAIR_REMARKS, pair))


@dataclass(frozen=True)
class Several:
    """A model among others, by one metric over n questions.

    best: the name of the first; value: of the metric, as text. lower: whether lower is better. others: how many there
    are; apart: how many of them it is better than; level: those that it cannot be distinguished from. stated: whether
    differences have intervals. unread: names of those with more than half of their answers missing.
    """

    best: str
    label: str
    value: str
    lower: bool
    others: int
    apart: int
    level: tuple[str, ...]
    stated: bool
    n: int
    unread: tuple[str, ...] = ()


def _extreme(of: Several) -> str:
    return f"{of.best} has the {'lowest' if of.lower else 'highest'} {of.label}, {of.value}"


SEVERAL: Final[tuple[Case[Several], ...]] = (
    Case(
        "several-unread",
        "more than half of the answers of one of them are missing",
        lambda of: bool(of.unread),
        lambda of: f"More than half of the answers of {names(of.unread)} are missing, so none is called better.",
    ),
    Case(
        "several-few",
        "differences have no interval",
        lambda of: not of.stated,
        lambda of: f"{_extreme(of)}; {_few(of.n)}.",
    ),
    Case(
        "several-apart",
        "each paired difference from the best has an interval that excludes zero",
        lambda of: of.apart == of.others,
        lambda of: (
            f"{_extreme(of)}, and is better than {'the other one' if of.others == 1 else f'all {of.others} others'}."
        ),
    ),
    Case(
        "several-some",
        "some paired differences from the best have an interval that includes zero",
        lambda _: True,
        lambda of: (
            f"{_extreme(of)}. It is better than {of.apart or 'none'} of the {of.others} others, and cannot be "
            f"distinguished from {names(of.level, most=5)}."
        ),
    ),
)
"""What may be concluded of several models."""


def of_several(several: Several) -> Said:
    """What is said above a comparison of several models."""
    return always(SEVERAL, several)


@dataclass(frozen=True)
class Neighbours:
    """How many pairs of neighbours on a board there are, and how many of them all pairs at once distinguish.

    all_pairs, all_apart: the same of all pairs of models.
    """

    pairs: int
    apart: int
    all_pairs: int
    all_apart: int


NEIGHBOURS: Final[tuple[Case[Neighbours], ...]] = (
    Case(
        "two-apart",
        "a board of two models, and the interval of their difference excludes zero",
        lambda of: of.pairs == 1 and of.apart == 1,
        lambda _: "The two models can be distinguished.",
    ),
    Case(
        "two-not-apart",
        "a board of two models, and the interval of their difference includes zero",
        lambda of: of.pairs == 1,
        lambda _: "The two models cannot be distinguished.",
    ),
    Case(
        "neighbours",
        "a board of more models; all pairs are compared at once",
        lambda _: True,
        lambda of: (
            f"{of.apart} of {of.pairs} pairs of neighbours, and {count(of.all_apart)} of {count(of.all_pairs)} pairs "
            "of models, can be distinguished when all pairs are compared at once."
        ),
    ),
)


def of_neighbours(together: Mapping[str, Any]) -> Said:
    """What is said of a board's neighbours. together: as a snapshot's document has it for a column."""
    names_of = ("neighbours", "neighbours_told_apart", "pairs", "pairs_told_apart")
    return always(NEIGHBOURS, Neighbours(*(together[name] for name in names_of)))
