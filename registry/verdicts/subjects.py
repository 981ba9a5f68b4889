"""The numbers behind sentences about several evaluations: of a model, a list, a board, a comparison, a chart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Final

from registry.verdicts.facts import NO_VERDICT, SAID_FIRST, Facts, Number, Pooled, widen_low

CLEARLY: Final = 2.6
"""Standard errors from which an excess of choices is stated; chance exceeds them in one of a hundred cases."""
POWER: Final = 1.3
"""Further standard errors that an excess needs to be detected in nine of ten evaluations."""
SEEN: Final = 0.05
"""Excess of choices that a test must be able to detect before a sentence denies a preference."""
SURE: Final = 5
"""A cost of the order is stated if its interval is above 0 at one fifth of the usual level, so at 99 %."""
FEW: Final = 30
"""Fewest questions for which an interval is stated."""


def clear_loss(facts: Facts, among: int = 1) -> bool:
    """Return whether the order loss is clearly above the part that ties and missing answers may explain.

    Its 99 % interval decides, widened for `among` statements made together: the 95 % interval of a small loss lies
    above 0 too often.
    """
    number = facts.number("order_loss")
    return number is not None and above_zero(number, facts.spoilt, among)


def above_zero(loss: Number, spoilt: float, among: int = 1) -> bool:
    """Return whether an order loss is above 0 and `spoilt` by its 99 % interval, widened for `among` statements."""
    if loss.low is None or loss.low <= 0:
        return False
    low = widen_low(loss, SURE * max(1, among))
    return low is not None and low > spoilt


@dataclass(frozen=True)
class Concluded:
    """An evaluation and the text of its conclusion; None if it has none."""

    facts: Facts
    conclusion: str | None


@dataclass(frozen=True)
class ModelFacts:
    """A model's complete evaluations."""

    evaluations: Sequence[Concluded]

    @property
    def readable(self) -> list[Concluded]:
        """Return the evaluations with at least half of their answers readable."""
        return [one for one in self.evaluations if not one.facts.unreadable]

    @property
    def above_chance(self) -> list[Concluded]:
        """Return the readable evaluations that are distinguished from guessing."""
        return [one for one in self.readable if not one.facts.guesses]

    @property
    def told(self) -> Concluded | None:
        """Return the evaluation that the model's sentence is about: the one with the largest clear cost of the order.

        If none has a clear cost, return the first evaluation with several orders that shows none, or the first of all
        if none has several orders. Intervals are widened for the number of evaluations considered; None if a cost is
        clear only in an evaluation considered alone.
        """
        concluded = [one for one in self.above_chance if one.conclusion is not None]
        tested = [one for one in concluded if one.facts.tested]
        costly = [one for one in tested if clear_loss(one.facts, len(tested))]
        if costly:
            return max(costly, key=lambda one: one.facts.numbers["order_loss"].value)
        calm = [one for one in tested if not clear_loss(one.facts)]
        return next(iter(calm or ([] if tested else concluded)), None)


@dataclass(frozen=True)
class Listed(Concluded):
    """An evaluation of a list. among: the number of evaluations considered, for which its interval is widened."""

    among: int


@dataclass(frozen=True)
class OnBoard:
    """A model's means over the tasks of a board, under one protocol.

    numbers: metric to its mean. chance: the accuracy of guessing. behind: the evaluations behind the numbers.
    """

    model: str
    numbers: Mapping[str, Number]
    chance: float | None
    behind: Pooled

    @property
    def guesses(self) -> bool:
        """Return whether accuracy is not distinguished from guessing; without an interval, in every evaluation."""
        accuracy = self.numbers.get("accuracy") or self.numbers.get("average_accuracy")
        if accuracy is not None and accuracy.low is not None:
            return accuracy.against_guessing(self.chance) not in (None, "better")
        return self.behind.guesses

    @cached_property
    def counted(self) -> bool:
        """Return whether a sentence about the order is possible: tested, read, not tied, and better than guessing."""
        return self.behind.order_counted and not self.guesses

    @property
    def has_loss(self) -> bool:
        """Return whether its order loss has an interval, or an upper end, and both parts of the loss are known."""
        cost = self.numbers.get("order_loss")
        parts = ("right_twice_same_order", "right_twice_across_orders")
        return cost is not None and cost.high is not None and all(self.numbers.get(part) for part in parts)

    def loses(self, among: int) -> bool:
        """Return whether the model clearly loses right answers to the order, as one of `among` statements."""
        cost = self.numbers.get("order_loss")
        return cost is not None and above_zero(cost, self.behind.spoilt, among)


@dataclass(frozen=True)
class BoardFacts:
    """The ranked models of a board, under one protocol."""

    models: Sequence[OnBoard]

    @cached_property
    def known(self) -> list[OnBoard]:
        """Return the models with an order loss that sentences may use: with an interval, or its upper end."""
        return [one for one in self.models if one.has_loss and one.counted]

    @cached_property
    def guessing(self) -> list[OnBoard]:
        """Return the models whose accuracy is not distinguished from guessing."""
        return [one for one in self.models if one.guesses]

    @cached_property
    def costly(self) -> list[OnBoard]:
        """Return the models that clearly lose right answers to the order, with intervals widened for their number."""
        losing = [one for one in self.known if one.loses(len(self.known))]
        return sorted(losing, key=lambda one: -one.numbers["order_loss"].value)


@dataclass(frozen=True)
class Pair:
    """Two evaluations, compared by a metric over the n questions for which both have it.

    label: the metric's, in lower case. values: the metric's of both, as text. better: 0 if the first is better, 1 if
    the second, None if they are equal. difference: the better value minus the other, at least 0, with its 95 %
    interval.
    """

    names: tuple[str, str]
    label: str
    values: tuple[str, str]
    better: int | None
    difference: Number
    facts: tuple[Facts, Facts]

    @property
    def apart(self) -> bool:
        """Return whether the interval of the difference excludes zero."""
        return self.difference.low is not None and self.difference.low > 0

    def unread(self, more_than: float = SAID_FIRST) -> list[str]:
        """Return the names of the evaluations with more than this share of missing answers."""
        both = zip(self.names, self.facts, strict=True)
        return [name for name, facts in both if facts.reading.share > more_than]

    @property
    def unreadable(self) -> bool:
        """Return whether more than half of the answers of one of the two are missing."""
        return bool(self.unread(NO_VERDICT))


@dataclass(frozen=True)
class Several:
    """The best of several models by one metric over n questions, with all pairs compared at once.

    value: the metric's, as text. others: the number of other models. level: the models that cannot be distinguished
    from the best. stated: whether differences have intervals. unread: names of models with more than half of their
    answers missing.
    """

    best: str
    label: str
    value: str
    others: int
    level: tuple[str, ...]
    stated: bool
    n: int
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Neighbours:
    """Counts of a board's pairs of neighbours, and of those distinguished when all pairs are compared at once.

    all_pairs, all_apart: the same counts for all pairs of models.
    """

    pairs: int
    apart: int
    all_pairs: int
    all_apart: int


NEAR: Final = 0.1
"""Accuracies above guessing by less than this are called near guessing."""


@dataclass(frozen=True)
class Cell:
    """An accuracy in a table, and the accuracy of guessing."""

    accuracy: Number
    chance: float | None


@dataclass(frozen=True)
class Position:
    """The position whose share of choices most exceeds its share of right options.

    chosen, right: numbers of choices and of right options at the position, of all `prompts`. questions: the number of
    independent questions behind them. facts: those of the evaluation.
    """

    position: int
    chosen: int
    right: int
    prompts: int
    questions: int
    facts: Facts

    @property
    def error(self) -> float:
        """Return the standard error of the share of choices, counting all prompts of a question as one."""
        chosen = self.chosen / self.prompts
        return sqrt(chosen * (1 - chosen) / self.questions)

    @property
    def excess(self) -> float:
        """Return the share of choices minus that of right options, and minus ties, which choose the first position."""
        return (self.chosen - self.right) / self.prompts - self.facts.reading.share_tied
