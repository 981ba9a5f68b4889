"""What is said at the top of a board: one sentence, and who keeps most, who loses most, and who is first either way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from registry.verdicts.cases import Case, Said, every, first
from registry.verdicts.facts import SAID_FIRST, Facts, Number, names, no_better_than_guessing, widened
from registry.verdicts.sections import no_point
from registry.verdicts.wording import points, points_between, share

_SAME: Final = 1e-9
"""Values that differ by no more are equal, as for ranks."""


@dataclass(frozen=True)
class OnBoard:
    """A model's means over the tasks of a board, asked in one way.

    accuracy, worst: with intervals, if there are any. cost: the order loss, if the board has a column of it. chance:
    the accuracy of guessing. parts: the evaluations behind the numbers. twice, across: right twice in one order, and in
    two orders, if prompts were repeated.
    """

    model: str
    accuracy: Number | None
    worst: Number | None
    cost: Number | None
    chance: float | None
    parts: Sequence[Facts]
    twice: Number | None = None
    across: Number | None = None

    @property
    def guesses(self) -> bool:
        """Whether the interval of accuracy includes the chance level or lies below it."""
        accuracy = self.accuracy
        return accuracy is not None and no_better_than_guessing(self.chance, None, None, accuracy.low)

    @property
    def reason(self) -> str | None:
        """Why the model has no point among accuracy and worst accuracy; None: it has one."""
        return next(filter(None, map(no_point, self.parts)), None)

    @property
    def readable(self) -> bool:
        """Whether it is better than guessing, and in no evaluation half of the answers are missing."""
        return not self.guesses and not any(facts.unreadable for facts in self.parts)

    @property
    def tested(self) -> bool:
        """Whether it was asked in several orders, with nothing else varied, in all evaluations."""
        return all(facts.tested and facts.asked.varied in (None, "order") for facts in self.parts)

    @property
    def share_kept(self) -> float:
        """The share of its accuracy that is right in every order."""
        return self.worst.value / self.accuracy.value if self.accuracy and self.worst and self.accuracy.value else 0.0


@dataclass(frozen=True)
class BoardFacts:
    """The models of a board that are ranked, asked in one way."""

    models: Sequence[OnBoard]

    @property
    def counted(self) -> list[OnBoard]:
        """Those of which what is lost is owed to the order, but for few missing answers; who keeps most comes first."""
        found = [
            one
            for one in self.models
            if one.readable and one.tested and one.reason is None and one.accuracy and one.worst and one.accuracy.value
            if all(facts.reading.share <= SAID_FIRST for facts in one.parts)
        ]
        return sorted(found, key=lambda one: -one.share_kept)

    @property
    def repeated(self) -> list[OnBoard]:
        """Those whose prompts were repeated, so that chance is removed; the smallest order loss comes first."""
        found = [one for one in self.models if one.readable and one.tested and one.cost is not None]
        return sorted(found, key=lambda one: one.cost.value if one.cost else 0.0)

    @property
    def costly(self) -> list[OnBoard]:
        """Of these, whose order loss is above 0 by an interval that is widened for their number; the largest first."""
        among = max(1, len(self.repeated))
        return [
            one
            for one in reversed(self.repeated)
            if one.cost and (bounds := widened(one.cost, among)) is not None and bounds[0] > 0
        ]

    def best(self, value: Callable[[OnBoard], Number | None]) -> list[OnBoard]:
        """The models with the highest value; equal ones together."""
        known = [(one, found.value) for one in self.models if (found := value(one)) is not None]
        top = max((number for _, number in known), default=0.0)
        return [one for one, number in known if top - number <= _SAME]

    @property
    def thrones(self) -> tuple[list[OnBoard], list[OnBoard]] | None:
        """Who is first in one order, and who in several; None where chance may decide that, or there is one model.

        Right in all orders against right as printed; where prompts were repeated, right in two orders against right
        twice in one, so that there is as much chance in both.
        """
        if len(self.models) < 2:
            return None
        if self.repeated:
            found, allowed = (self.best(lambda one: one.twice), self.best(lambda one: one.across)), self.repeated
        else:
            found, allowed = (self.best(lambda one: one.accuracy), self.best(lambda one: one.worst)), self.counted
        return found if found[0] and found[1] and all(one in allowed for one in (*found[0], *found[1])) else None

    @property
    def dethroned(self) -> bool:
        """Whether who is first in one order is not in several.

        Where prompts were repeated, chance alone can change places. So the order loss of the former has to be clearly
        larger: by an interval that is widened for the number of models.
        """
        if self.thrones is None or self.stays:
            return False
        if not self.repeated:
            return True
        most = max(one.cost.value for one in self.thrones[1] if one.cost)
        return all(
            one.cost and (bounds := widened(one.cost, len(self.repeated))) is not None and bounds[0] > most
            for one in self.thrones[0]
        )

    @property
    def stays(self) -> list[OnBoard]:
        """Who is first either way."""
        return [] if self.thrones is None else [one for one in self.thrones[0] if one in self.thrones[1]]


def _named(models: Sequence[OnBoard]) -> str:
    return names([one.model for one in models], most=2)


def _fall(one: OnBoard) -> str:
    accuracy, worst = (share(number.value if number else 0.0) for number in (one.accuracy, one.worst))
    return f"{accuracy} as printed, {worst} in every order"


def _loss(one: OnBoard) -> float:
    """What it loses even if every missing answer had been right: each can spoil one question."""
    lost = one.accuracy.value - one.worst.value if one.accuracy and one.worst else 0.0
    return max(0.0, lost - max((facts.reading.lost / facts.questions for facts in one.parts), default=0.0))


def _range(of: BoardFacts) -> str:
    low, high = (points(found(map(_loss, of.counted))) for found in (min, max))
    least = "at least " if any(facts.reading.lost for one in of.counted for facts in one.parts) else ""
    return least + (high if low == high else f"{low.split()[0]} to {high}")


def _cost(one: OnBoard) -> str:
    cost = one.cost or Number(0.0, 0)
    between = "" if cost.low is None or cost.high is None else f" {points_between(cost.low, cost.high)}"
    return f"{points(cost.value)}{between}"


def _costly(of: BoardFacts) -> str:
    named = of.costly[0].model
    if len(of.models) == 1:
        return f"{named} "
    return f"{_models(of, of.costly)}, {named}, " if len(of.costly) == 1 else f"{_models(of, of.costly)} up to "


def _dethroned(of: BoardFacts) -> tuple[str, str]:
    one, several = of.thrones or ([], [])
    return _named(one), _named(several)


def _apart(of: BoardFacts) -> bool:
    return len(of.counted) > 1 and of.counted[0].share_kept - of.counted[-1].share_kept > _SAME


def _alike(of: BoardFacts, one: OnBoard) -> list[OnBoard]:
    return [other for other in of.counted if abs(other.share_kept - one.share_kept) <= _SAME]


def _models(of: BoardFacts, found: Sequence[OnBoard]) -> str:
    """How many models a sentence is about, and of how many."""
    rest = "" if len(found) == len(of.models) else f" of {len(of.models)}"
    return f"{len(found)}{rest} model{'s' if len(of.models) != 1 else ''}"


BOARD: Final[tuple[Case[BoardFacts], ...]] = (
    Case(
        "board-untested",
        "no model was asked in a second order",
        lambda of: bool(of.models) and not any(facts.tested for one in of.models for facts in one.parts),
        lambda of: (
            f"{'This model was' if len(of.models) == 1 else f'These {len(of.models)} models were'} asked in one order: "
            "nothing is known about other orders."
        ),
    ),
    Case(
        "board-order-costs",
        "prompts were repeated, and an order loss is above 0, by an interval that is widened for the number of models",
        lambda of: bool(of.costly),
        lambda of: (
            f"With chance removed, the order of the options costs {_costly(of)}"
            f"{points(of.costly[0].cost.value if of.costly[0].cost else 0.0)} of accuracy."
        ),
    ),
    Case(
        "board-no-cost-seen",
        "prompts were repeated, and no order loss is clearly above 0",
        lambda of: bool(of.repeated),
        lambda of: f"In {_models(of, of.repeated)}, no cost of the order can be seen beyond chance.",
    ),
    Case(
        "board-one-lost",
        "one model's loss is due to the order alone",
        lambda of: len(of.counted) == 1 and _loss(of.counted[0]) > _SAME,
        lambda of: f"Changing the order of the options costs {of.counted[0].model} {_range(of)}.",
    ),
    Case(
        "board-lost",
        "several models' losses are due to the order alone",
        lambda of: len(of.counted) > 1 and max(map(_loss, of.counted)) > _SAME,
        lambda of: f"Changing the order of the options costs {_models(of, of.counted)} {_range(of)} of accuracy.",
    ),
    Case(
        "board-chance-inside",
        "answers are sampled, or may be, and no prompt was repeated",
        lambda of: any(facts.tested and facts.chance_inside for one in of.models for facts in one.parts),
        lambda of: (
            f"What {'this model loses' if len(of.models) == 1 else 'these models lose'} between prompts may be chance: "
            "no prompt was repeated."
        ),
    ),
)
"""The sentence at the top of a board: the first that holds."""

FACTS: Final[tuple[Case[BoardFacts], ...]] = (
    Case(
        "board-keeps-most",
        "the losses of two models or more are due to the order alone, and they keep different shares of accuracy",
        _apart,
        lambda of: (
            f"{_named(_alike(of, of.counted[0]))}: {share(of.counted[0].share_kept)} of its accuracy "
            f"({_fall(of.counted[0])})"
        ),
    ),
    Case(
        "board-loses-most",
        "the same",
        _apart,
        lambda of: (
            f"{_named(_alike(of, of.counted[-1]))}: keeps {share(of.counted[-1].share_kept)} ({_fall(of.counted[-1])})"
        ),
    ),
    Case(
        "board-costs-least",
        "prompts of two models or more were repeated, and an order loss is clearly above 0",
        lambda of: len(of.repeated) > 1 and bool(of.costly),
        lambda of: f"{of.repeated[0].model}: {_cost(of.repeated[0])}",
    ),
    Case(
        "board-costs-most",
        "the same",
        lambda of: len(of.repeated) > 1 and bool(of.costly),
        lambda of: f"{of.costly[0].model}: {_cost(of.costly[0])}",
    ),
    Case(
        "board-dethroned",
        "who is first in one order is not first in several, and chance decides neither",
        lambda of: of.dethroned,
        lambda of: f"{_dethroned(of)[0]}: first in one order; in several, {_dethroned(of)[1]} is first",
    ),
    Case(
        "board-stays-first",
        "a model is first both in one order and in several, and chance decides neither",
        lambda of: bool(of.stays),
        lambda of: f"{_named(of.stays)}: in one order and in several",
    ),
)
"""The facts below that sentence: all that hold."""

TITLES: Final = {
    "board-keeps-most": "Keeps most",
    "board-loses-most": "Loses most",
    "board-costs-least": "The order costs least",
    "board-costs-most": "The order costs most",
    "board-dethroned": "Loses first place",
    "board-stays-first": "Stays first",
}
"""Case of FACTS to what stands above it."""


@dataclass(frozen=True)
class Top:
    """What stands at the top of a board. facts: each with its title."""

    sentence: Said | None
    facts: tuple[tuple[str, Said], ...]


def top_of(models: Sequence[OnBoard]) -> Top:
    """The sentence and the facts about the ranked models of a board."""
    of = BoardFacts(models)
    return Top(first(BOARD, of), tuple((TITLES[said.case], said) for said in every(FACTS, of)))
