"""What may be said of a model from all its evaluations, and of the models of a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from registry.verdicts.cases import CONCLUSIONS, Case, Said, always, first
from registry.verdicts.facts import Facts, Number, names, share_kept, widened
from registry.verdicts.wording import every_level, points, points_between, share, varied


@dataclass(frozen=True)
class ModelFacts:
    """A model's complete evaluations."""

    evaluations: Sequence[Facts]

    @property
    def readable(self) -> list[Facts]:
        """Those of which at least half of the answers could be read."""
        return [facts for facts in self.evaluations if not facts.unreadable]

    @property
    def known(self) -> list[Facts]:
        """Those that were asked in several prompts and are better than guessing."""
        return [facts for facts in self.readable if facts.tested and not facts.guesses]

    def of(self, *cases: str) -> list[Facts]:
        """The known ones whose conclusion is one of these cases."""
        return [facts for facts in self.known if (said := first(CONCLUSIONS, facts)) and said.case in cases]

    @property
    def counted(self) -> list[Facts]:
        """Those of which the share of accuracy that holds is known, and owed to no chance; the least share first."""
        found = self.of("all-kept", "mostly-lost", "share-kept", "same-answers")
        found = [facts for facts in found if facts.samples is False and share_kept(facts) is not None]
        return sorted(found, key=_share_kept)


def _on(facts: Facts) -> str:
    return f"{facts.benchmark} ({every_level(facts.asked).removeprefix('every one of ').removeprefix('every ')})"


def _share_kept(facts: Facts) -> float:
    found = share_kept(facts)
    return 0.0 if found is None else found[0]


def _fall(facts: Facts) -> str:
    accuracy, worst = facts.numbers["accuracy"].value, facts.numbers["worst_accuracy"].value
    if _share_kept(facts) == 1:
        return f"On {_on(facts)} all of its accuracy holds: {share(accuracy)}."
    most = share_kept(facts, missing=facts.reading.lost)
    unless = "" if most is None or not facts.reading.lost else f", or up to {share(most[0])} but for missing answers,"
    return (
        f"On {_on(facts)} {share(_share_kept(facts))} of its accuracy{unless} holds in all of them: {share(accuracy)} "
        f"falls to {share(worst)}."
    )


def _cost(facts: Facts) -> Number:
    return facts.numbers["order_loss"]


def _order_cost(found: Sequence[Facts]) -> str:
    facts = max(found, key=lambda item: _cost(item).value)
    cost = _cost(facts)
    between = points_between(cost.low or 0, cost.high or 0)
    return (
        f"Changing {varied(facts.asked)} costs it {points(cost.value)} {between} on {facts.benchmark}, with chance "
        "removed."
    )


def _where(found: Sequence[Facts]) -> str:
    return names([facts.benchmark for facts in found])


MODEL: Final[tuple[Case[ModelFacts], ...]] = (
    Case("no-evaluation", "no evaluation is complete", lambda of: not of.evaluations, lambda _: "Not evaluated yet."),
    Case(
        "all-unread",
        "in every evaluation more than half of the answers are missing",
        lambda of: not of.readable,
        lambda of: f"More than half of its answers are missing on {_where(of.evaluations)}, so there is no verdict.",
    ),
    Case(
        "model-guesses",
        "in every evaluation that can be read, accuracy is no better than guessing",
        lambda of: all(facts.guesses for facts in of.readable),
        lambda of: f"Its accuracy is no better than guessing on {_where(of.readable)}.",
    ),
    Case(
        "model-untested",
        "no question was asked in two different prompts",
        lambda of: not any(facts.tested for facts in of.readable),
        lambda _: "No question was asked in a second order: nothing is known about other orders.",
    ),
    Case(
        "model-untested-above-chance",
        "the questions asked in several prompts are answered no better than by guessing",
        lambda of: not of.known,
        lambda _: "Nothing that it answers better than by guessing was asked in several orders.",
    ),
    Case(
        "model-one-share",
        "one benchmark has counts of right answers that sampling did not touch",
        lambda of: bool(of.counted) and of.counted[0].benchmark == of.counted[-1].benchmark,
        lambda of: _fall(of.counted[0]),
    ),
    Case(
        "model-shares",
        "several benchmarks have counts of right answers that sampling did not touch",
        lambda of: bool(of.counted),
        lambda of: (
            f"Of its accuracy, {share(_share_kept(of.counted[0]))} on {_on(of.counted[0])} to "
            f"{share(_share_kept(of.counted[-1]))} on {_on(of.counted[-1])} holds in all of them"
            f"{', where missing answers count as lost' if any(one.reading.lost for one in of.counted) else ''}."
        ),
    ),
    Case(
        "model-order-costs",
        "prompts were repeated, and the interval of an order loss lies above 0, widened for the number of evaluations",
        lambda of: bool(_widely(of.of("order-costs"), len(of.known))),
        lambda of: _order_cost(_widely(of.of("order-costs"), len(of.known))),
    ),
    Case(
        "model-no-cost-seen",
        "prompts were repeated, and no order loss is clearly above 0",
        lambda of: bool(of.of("order-costs", "no-cost-seen", "cost-unsure")),
        lambda of: (
            "No cost of changing the prompt can be seen beyond chance on "
            f"{_where(of.of('order-costs', 'no-cost-seen', 'cost-unsure'))}."
        ),
    ),
    Case(
        "model-beyond-noise",
        "another evaluation repeated its prompts, and answers differ clearly more between prompts than between repeats",
        lambda of: bool(of.of("changes-beyond-noise")),
        lambda of: (
            "Its answers differ more often between prompts than between repeats on "
            f"{_where(of.of('changes-beyond-noise'))}."
        ),
    ),
    Case(
        "model-chance-inside",
        "answers are sampled, or may be, and no prompt was repeated",
        lambda of: bool(of.of("chance-inside", "no-change-seen")),
        lambda of: f"What changes between prompts may be chance on {_where(of.of('chance-inside', 'no-change-seen'))}.",
    ),
    Case(
        "model-same-answers",
        "no answer is missing, and each question has one answer in all prompts",
        lambda of: bool(of.of("same-answers")),
        lambda of: f"Its answers are the same in every prompt tried on {_where(of.of('same-answers'))}.",
    ),
    Case(
        "model-no-numbers",
        "none of these holds",
        lambda _: True,
        lambda of: f"No accuracy over several orders can be compared with that in one on {_where(of.known)}.",
    ),
)
"""The verdict on a model: the first that holds."""


def of_model(evaluations: Sequence[Facts]) -> Said:
    """The verdict on a model, from its complete evaluations."""
    return always(MODEL, ModelFacts(evaluations))


def _widely(found: Sequence[Facts], among: int) -> list[Facts]:
    """Those whose order loss is above 0 by an interval widened for so many evaluations looked at."""
    return [
        facts
        for facts in found
        if (cost := facts.number("order_loss")) and (bounds := widened(cost, max(1, among))) and bounds[0] > 0
    ]


# Models of a list


@dataclass(frozen=True)
class Listed:
    """An evaluation of a list, and the number of those that were looked at, for all of which the level is divided."""

    facts: Facts
    among: int

    @property
    def loses(self) -> float:
        """What it loses: the order loss if prompts were repeated, else accuracy minus worst accuracy."""
        cost = self.facts.number("order_loss")
        return cost.value if cost is not None else self.facts.lost or 0.0


def _loss_known(one: Listed) -> bool:
    facts = one.facts
    return facts.tested and not facts.guesses and not facts.unreadable


def _listed_cost(one: Listed) -> bool:
    return _loss_known(one) and bool(_widely([one.facts], one.among))


def _listed_loss(one: Listed) -> bool:
    if not _loss_known(one) or one.facts.samples is not False or one.facts.number("order_loss") is not None:
        return False
    if one.facts.noise is not None and one.facts.noise.effect is not None:
        return False
    found = share_kept(one.facts, one.among, one.facts.reading.lost)
    return found is not None and found[2] < 0.5


def _points(number: Number | None) -> str:
    """A number in points, with its interval."""
    found = number or Number(0.0, 0)
    return f"{points(found.value)} {points_between(found.low or 0, found.high or 0)}"


def _tail(facts: Facts) -> str:
    return f" ({facts.variants})" if facts.variants else ""


LISTED: Final[tuple[Case[Listed], ...]] = (
    Case(
        "listed-order-costs",
        "prompts were repeated, and the interval of the order loss, widened for the number of models looked at, lies "
        "above 0",
        _listed_cost,
        lambda one: (
            f"Changing {varied(one.facts.asked)} costs {one.facts.model} {_points(_cost(one.facts))} on "
            f"{one.facts.benchmark}{_tail(one.facts)}, with chance removed."
        ),
    ),
    Case(
        "listed-mostly-lost",
        "answers are not sampled, and the exact interval of the share of right answers that stay right lies below one "
        "half, at a level divided by the number of models looked at",
        _listed_loss,
        lambda one: (
            f"{one.facts.model} answers {share(one.facts.numbers['accuracy'].value)} of {one.facts.benchmark} "
            f"right as printed and {share(one.facts.numbers['worst_accuracy'].value)} in "
            f"{every_level(one.facts.asked)}{_tail(one.facts)}: most of its accuracy does not hold."
        ),
    ),
)
"""What is said above a list of models, of one of them."""


def of_listed(evaluations: Sequence[Facts]) -> list[tuple[Facts, Said]]:
    """What is said of those of a list that lose most, the largest loss first, one sentence for each model."""
    looked_at = sum(facts.tested and not facts.guesses and not facts.unreadable for facts in evaluations)
    found: dict[str, tuple[Facts, Said]] = {}
    told = [Listed(facts, max(1, looked_at)) for facts in evaluations]
    for one in sorted(told, key=lambda item: -item.loses):
        if (said := first(LISTED, one)) is not None:
            found.setdefault(one.facts.model, (one.facts, said))
    return list(found.values())
