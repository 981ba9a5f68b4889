"""What may be said of single charts: positions chosen, right in every order, who has no point, and how to read it."""

from dataclasses import dataclass
from math import sqrt
from typing import Final

from registry.prompting.labels import letter
from registry.verdicts.cases import Case, Said, every, first
from registry.verdicts.facts import Facts
from registry.verdicts.wording import one_level, share, varied

CLEARLY: Final = 2.6
"""Standard errors by which a position is chosen more often than it is right: one in a hundred by chance."""


@dataclass(frozen=True)
class Position:
    """The position that is chosen most above its share of right answers.

    chosen, right: how many of the answers are at it, and how many of the right options, of all `prompts`. questions: on
    how many independent questions that rests. facts: of the evaluation.
    """

    position: int
    chosen: int
    right: int
    prompts: int
    questions: int
    facts: Facts

    @property
    def certain(self) -> bool:
        """Whether it is chosen clearly more often than it is right, taking the prompts of a question for one."""
        chosen, right = self.chosen / self.prompts, self.right / self.prompts
        return chosen - right > CLEARLY * sqrt(chosen * (1 - chosen) / self.questions)


def _shares(of: Position) -> str:
    return f"{share(of.chosen / of.prompts)} of the prompts against {share(of.right / of.prompts)}"


POSITION: Final[tuple[Case[Position], ...]] = (
    Case(
        "position-unlisted",
        "the protocol does not list the options",
        lambda of: not of.facts.asked.lists_options,
        lambda _: "The options were not listed, so the model saw no positions.",
    ),
    Case(
        "position-preferred",
        "a position is chosen more often than it is right, by more than chance does in one of a hundred cases",
        lambda of: of.certain,
        lambda of: (
            f"It chooses {letter(of.position)} more often than {letter(of.position)} is right: in {_shares(of)}."
        ),
    ),
    Case(
        "position-none",
        "no position is clearly chosen more often than it is right",
        lambda _: True,
        lambda of: (
            f"No position is clearly chosen more often than it is right; {letter(of.position)} comes closest: in "
            f"{_shares(of)}."
        ),
    ),
)


def of_position(position: Position) -> Said:
    """What is said above the chart of positions."""
    found = first(POSITION, position)
    if found is None:
        raise AssertionError("the last case always holds")
    return found


@dataclass(frozen=True)
class Split:
    """Questions that are right in all prompts, in none of them, and in some. facts: of the evaluation."""

    always: int
    never: int
    sometimes: int
    facts: Facts

    @property
    def level(self) -> str:
        """What a prompt of a question is called."""
        asked = self.facts.asked
        if not self.facts.tested:
            return "repeat"
        return "answer" if asked.mixed else one_level(asked)


def _of_all(of: Split, part: int) -> str:
    return share(part / (of.always + of.never + of.sometimes))


SPLIT: Final[tuple[Case[Split], ...]] = (
    Case(
        "split",
        "answers of each question are stored",
        lambda of: of.always + of.never + of.sometimes > 0,
        lambda of: (
            f"Right in every {of.level}: {_of_all(of, of.always)}; wrong or missing in every one: "
            f"{_of_all(of, of.never)}; both: {_of_all(of, of.sometimes)}."
        ),
    ),
    Case(
        "split-chance",
        "answers are sampled, or may be, and some questions are right in some prompts only",
        lambda of: of.sometimes > 0 and of.facts.samples is not False,
        lambda _: "Sampling alone may make a question right in one and wrong in another.",
    ),
)


def of_split(split: Split) -> tuple[Said, ...]:
    """What is said above the chart of questions by how many of their prompts are right."""
    return every(SPLIT, split)


UNREADABLE: Final = "More than half of its answers are missing"

PLACE: Final[tuple[Case[Facts], ...]] = (
    Case(
        "place-unread",
        "more than half of the answers are missing",
        lambda facts: facts.unreadable,
        lambda _: UNREADABLE,
    ),
    Case(
        "place-unlisted",
        "the protocol does not list the options",
        lambda facts: not facts.asked.lists_options and facts.asked.varied is None,
        lambda _: "Its protocol does not list the options, so no order was shown",
    ),
    Case(
        "place-varied",
        "something else than the order was varied",
        lambda facts: facts.tested and facts.asked.varied not in (None, "order"),
        lambda facts: f"Its prompts differ in {varied(facts.asked)}, not in the order of the options",
    ),
    Case(
        "place-chance",
        "answers are sampled or may be, or prompts were repeated",
        lambda facts: facts.tested and (facts.samples is not False or facts.number("order_loss") is not None),
        lambda facts: (
            "Its order loss, not its worst accuracy, tells what the order alone costs"
            if facts.number("order_loss") is not None
            else "Chance may be part of its worst accuracy, and no prompt was repeated"
        ),
    ),
)
"""Why an evaluation has no point among accuracy and worst accuracy; what is left is owed to the order."""


def no_point(facts: Facts) -> str | None:
    """Why an evaluation has no point in the chart of accuracy and worst accuracy; None: it has one."""
    found = first(PLACE, facts)
    return None if found is None else found.text


READINGS: Final = {
    "order": "On the dashed line, changing the order of the options costs nothing. The further a model is below it, "
    "the more of its accuracy it loses in some order.",
    "size": "Higher is better. Of models of one size, the highest is right most often in every order.",
    "cost": "Higher and further to the left is better: more right answers for less money.",
    "tokens": "Higher and further to the left is better: more that holds in every order for fewer tokens.",
}
"""How to read a chart. Only evaluations without a reason of PLACE have a point in the first two."""
