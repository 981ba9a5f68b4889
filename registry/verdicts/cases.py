"""The table of cases: every sentence that may be said of an evaluation, with the condition under which it is true.

First what could be read, then guessing, then what was tested, then what repeats alone
explain, then what was varied, and how sure it is. Of CONCLUSIONS the first case that holds is said; of REMARKS all that
hold, in this order. `docs/verdicts.md` is made from this table.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from registry.names import plural
from registry.verdicts.facts import SAID_FIRST, Facts, Noise, Number, share_kept
from registry.verdicts.wording import (
    between,
    every_level,
    missing,
    one_level,
    points,
    points_between,
    several_levels,
    share,
    varied,
)

F = TypeVar("F")


@dataclass(frozen=True)
class Case(Generic[F]):
    """A sentence. name: of the case. when: its condition in words; holds: in code; says: the sentence, if it holds.

    command: what a reader may type, where the sentence ends with it.
    """

    name: str
    when: str
    holds: Callable[[F], bool]
    says: Callable[[F], str]
    command: Callable[[F], str | None] = field(default=lambda _: None)

    def said(self, facts: F) -> "Said":
        """The sentence about these facts."""
        return Said(self.name, self.says(facts), self.command(facts))


@dataclass(frozen=True)
class Said:
    """A sentence that was said, with the name of its case, and the command that it ends with."""

    case: str
    text: str
    command: str | None = None

    def __str__(self) -> str:
        return self.text if self.command is None else f"{self.text} {self.command}"


def first(cases: tuple[Case[F], ...], facts: F) -> Said | None:
    """The first case that holds; None if none does."""
    return next((case.said(facts) for case in cases if case.holds(facts)), None)


def always(cases: tuple[Case[F], ...], facts: F) -> Said:
    """The first case that holds, of those the last of which always does."""
    return next(case.said(facts) for case in cases if case.holds(facts))


def every(cases: tuple[Case[F], ...], facts: F) -> tuple[Said, ...]:
    """All cases that hold, in the table's order."""
    return tuple(case.said(facts) for case in cases if case.holds(facts))


# What the conditions need


def _value(facts: Facts, metric: str) -> float:
    found = facts.number(metric)
    return 0.0 if found is None else found.value


def _has(facts: Facts, *metrics: str) -> bool:
    return all(facts.number(metric) is not None for metric in metrics)


def _cost(facts: Facts) -> Number:
    found = facts.number("order_loss")
    return Number(0.0, 0) if found is None else found


def _costs(facts: Facts) -> bool:
    low = _cost(facts).low
    return low is not None and low > 0


def _net(facts: Facts) -> bool:
    """Whether repeats that were asked elsewhere say how much of the change is the order's."""
    noise = facts.noise
    return noise is not None and noise.effect is not None and noise.interval is not None


def _noise(facts: Facts) -> Noise:
    return facts.noise or Noise(0.0)


def _net_effect(facts: Facts) -> str:
    noise = _noise(facts)
    return f"{points(noise.effect or 0)} {points_between(*(noise.interval or (0, 0)))}"


def _mostly_lost(facts: Facts) -> bool:
    """Whether less than half is kept, even if all missing answers had been right."""
    found = share_kept(facts, missing=facts.reading.lost)
    return found is not None and found[2] < 0.5


def _share_kept(facts: Facts) -> str:
    found, most = share_kept(facts), share_kept(facts, missing=facts.reading.lost)
    if found is None or most is None:
        return ""
    if most[0] > found[0]:
        return f"{share(found[0])} of its accuracy, or up to {share(most[0])} but for missing answers,"
    return f"{share(found[0])} of its accuracy ({100 * found[1]:.1f} to {share(found[2])})"


def _same_everywhere(facts: Facts) -> bool:
    return _has(facts, "fluctuation_rate") and _value(facts, "fluctuation_rate") == 0 and not facts.reading.lost


def _sampled_alone(facts: Facts) -> bool:
    return facts.chance_inside and not _net(facts)


def _untested(facts: Facts) -> str:
    if facts.asked.most == 0:
        return "Asked without the question: it shows what the options alone give away."
    if not facts.asked.lists_options:
        return f"Its protocol does not list the options, so no order was shown: {_NOTHING_KNOWN}"
    if facts.asked.prompts > 1:
        return f"{facts.asked.prompts} repeats of one prompt, in one order: {_NOTHING_KNOWN}"
    return f"Asked in one order: {_NOTHING_KNOWN}"


def _why_chance(facts: Facts) -> str:
    if facts.samples:
        return "its answers are sampled, and no prompt was repeated"
    return "its answers were imported, nothing says whether they were sampled, and no prompt was repeated"


_NOTHING_KNOWN: Final = "nothing is known about other orders."
_NOT_NUMBERED: Final = "No accuracy over several orders is known here, so nothing is said about them."

# What comes before everything else

READ: Final[tuple[Case[Facts], ...]] = (
    Case(
        "mostly-unread",
        "more than half of the answers are missing",
        lambda facts: facts.unreadable,
        lambda facts: (
            f"{share(facts.reading.share)} of its answers {missing(facts)}, so it has no verdict, no rank and no "
            "place in a chart."
        ),
    ),
    Case(
        "partly-unread",
        "more than 5 % of the answers are missing",
        lambda facts: facts.reading.share > SAID_FIRST,
        lambda facts: f"{share(facts.reading.share)} of its answers {missing(facts)} and count as wrong.",
    ),
)
"""How much could be read: the first thing said."""

CONCLUSIONS: Final[tuple[Case[Facts], ...]] = (
    Case(
        "guesses",
        "the 95 % interval of accuracy includes the chance level or lies below it",
        lambda facts: facts.guesses,
        lambda facts: f"Its accuracy is no better than guessing, which gives {share(facts.chance or 0)}.",
    ),
    Case("untested", "no question was asked in two different prompts", lambda facts: not facts.tested, _untested),
    Case(
        "order-costs",
        "prompts were repeated, and the 95 % interval of the order loss lies above 0",
        _costs,
        lambda facts: (
            f"Changing {varied(facts.asked)} costs it {points(_cost(facts).value)} "
            f"{points_between(_cost(facts).low or 0, _cost(facts).high or 0)}, with chance removed."
        ),
    ),
    Case(
        "no-cost-seen",
        "prompts were repeated, and the 95 % interval of the order loss reaches 0",
        lambda facts: _cost(facts).low is not None,
        lambda facts: (
            f"No cost of changing {varied(facts.asked)} can be seen beyond chance: "
            f"{points(_cost(facts).value)} {points_between(_cost(facts).low or 0, _cost(facts).high or 0)}."
        ),
    ),
    Case(
        "cost-unsure",
        "prompts were repeated, and the order loss has no interval",
        lambda facts: _has(facts, "order_loss"),
        lambda facts: (
            f"Over {plural(_cost(facts).n, 'question')}, no cost of changing {varied(facts.asked)} can be stated."
        ),
    ),
    Case(
        "changes-beyond-noise",
        "another evaluation repeated its prompts, and answers differ clearly more between prompts than between repeats",
        lambda facts: _net(facts) and (_noise(facts).interval or (0, 0))[0] > 0,
        lambda facts: (
            f"Its answers differ more often between {several_levels(facts.asked)} than between repeats, by "
            f"{_net_effect(facts)}."
        ),
    ),
    Case(
        "no-change-seen",
        "another evaluation repeated its prompts, and answers do not differ clearly more between prompts",
        _net,
        lambda facts: (
            f"Its answers do not differ clearly more often between {several_levels(facts.asked)} than between repeats: "
            f"by {_net_effect(facts)}."
        ),
    ),
    Case(
        "no-worst",
        "worst accuracy is undefined",
        lambda facts: not _has(facts, "worst_accuracy"),
        lambda _: _NOT_NUMBERED,
    ),
    Case(
        "same-answers",
        "no answer is missing, and each question has one answer in all prompts",
        _same_everywhere,
        lambda facts: f"Its answers are the same in every {one_level(facts.asked)} tried.",
    ),
    Case(
        "chance-inside",
        "answers are sampled, or may be, and no prompt was repeated",
        _sampled_alone,
        lambda facts: f"Chance may be part of what changes here: {_why_chance(facts)}.",
    ),
    Case(
        "no-original",
        "the benchmark's own order was not asked of the same questions",
        lambda facts: facts.lost is None,
        lambda facts: (
            f"Right on {share(_value(facts, 'worst_accuracy'))} of the questions in {every_level(facts.asked)}."
        ),
    ),
    Case(
        "all-kept",
        "accuracy and worst accuracy are equal, and above 0",
        lambda facts: facts.lost is not None and facts.lost <= 1e-9,
        lambda facts: f"Its accuracy holds in every {one_level(facts.asked)} tried.",
    ),
    Case(
        "mostly-lost",
        "the exact 95 % interval of the share of right answers that stay right lies below one half",
        _mostly_lost,
        lambda facts: f"Most of its accuracy does not hold in every {one_level(facts.asked)}.",
    ),
    Case(
        "share-kept",
        "none of these holds",
        lambda _: True,
        lambda facts: f"{_share_kept(facts)} holds in every {one_level(facts.asked)} tried.",
    ),
)
"""What may be concluded: the first that holds. None of it is said if more than half of the answers are missing."""


def _right(facts: Facts) -> str:
    parts = []
    accuracy, average, worst = (facts.number(name) for name in ("accuracy", "average_accuracy", "worst_accuracy"))
    if accuracy is not None:
        own = " in the benchmark's own order" if facts.tested and facts.asked.varied == "order" else ""
        own = own or (" as the benchmark has them" if facts.tested else "")
        parts.append(f"{share(accuracy.value)} of the questions{own}{between(accuracy)}")
    elif average is not None:
        parts.append(f"{share(average.value)} of the prompts{between(average)}")
    if worst is not None and facts.tested:
        parts.append(f"{share(worst.value)} in {every_level(facts.asked)}{between(worst)}")
    return f"Right on {' and on '.join(parts)}."


def _drops(facts: Facts) -> bool:
    return facts.tested and not facts.guesses and (facts.lost or 0) > 1e-9


def _flips(facts: Facts) -> bool:
    return facts.tested and _value(facts, "fluctuation_rate") > 0


def _of_repeated(facts: Facts) -> str:
    """The beginning of a sentence about the questions that were asked again."""
    again = facts.numbers["right_twice_same_order"].n
    return "Right" if again == facts.questions else f"On the {plural(again, 'question')} that were asked again, right"


def _repeats(facts: Facts) -> str:
    noise = _noise(facts)
    where = " (in another evaluation)" if noise.elsewhere else ""
    return f"Asked the same prompt again{where}, it answers differently in {share(noise.repeats)} of pairs"


REMARKS: Final[tuple[Case[Facts], ...]] = (
    Case(
        "right",
        "accuracy, average accuracy or worst accuracy is defined",
        lambda facts: (
            _has(facts, "accuracy")
            or _has(facts, "average_accuracy")
            or (facts.tested and _has(facts, "worst_accuracy"))
        ),
        _right,
    ),
    Case(
        "untested-guesser",
        "it is no better than guessing, and no question was asked in two different prompts",
        lambda facts: facts.guesses and not facts.tested,
        _untested,
    ),
    Case(
        "drops",
        "answers are not sampled, and worst accuracy is below accuracy over the same questions",
        lambda facts: _drops(facts) and facts.samples is False and not _has(facts, "order_loss"),
        lambda facts: (
            f"The other {points(facts.lost or 0)} are lost by changing {varied(facts.asked)}"
            + (", or to missing answers." if facts.reading.lost else ".")
        ),
    ),
    Case(
        "drops-with-chance",
        "answers are sampled, or may be, no prompt was repeated, and worst accuracy is below accuracy",
        lambda facts: _drops(facts) and facts.chance_inside,
        lambda facts: (
            f"Chance may be part of the other {points(facts.lost or 0)}: a model that samples its answers "
            "is rarely right every time."
        ),
    ),
    Case(
        "flips",
        "answers are not sampled, no repeat differed, and some questions have different answers in different prompts",
        lambda facts: (
            _flips(facts) and facts.samples is False and (facts.noise is not None or not _has(facts, "order_loss"))
        ),
        lambda facts: (
            f"Its answer changes with {varied(facts.asked)}"
            + (", or is missing," if facts.reading.lost else "")
            + f" on {share(_value(facts, 'fluctuation_rate'))} of the questions."
        ),
    ),
    Case(
        "flips-with-chance",
        "answers are sampled, or may be, and some questions have different answers in different prompts",
        lambda facts: _flips(facts) and facts.samples is not False,
        lambda facts: (
            f"Its answers are not all the same on {share(_value(facts, 'fluctuation_rate'))} of the questions, "
            "which sampling alone may do."
        ),
    ),
    Case(
        "right-twice",
        "prompts were repeated",
        lambda facts: facts.tested and _has(facts, "right_twice_same_order", "right_twice_across_orders"),
        lambda facts: (
            f"{_of_repeated(facts)} twice in one {one_level(facts.asked)}: "
            f"{share(_value(facts, 'right_twice_same_order'))}; once each in two: "
            f"{share(_value(facts, 'right_twice_across_orders'))}."
        ),
    ),
    Case(
        "worst-bracket",
        "the prompts of each question were repeated equally often",
        lambda facts: facts.tested and facts.equally_often,
        lambda facts: (
            f"In the worst {one_level(facts.asked)} of each question, its accuracy is estimated to lie between "
            f"{share(_value(facts, 'worst_order_low'))} and {share(_value(facts, 'worst_order_high'))}."
        ),
    ),
    Case(
        "repeats-differ",
        "a prompt was asked more than once, and the share of pairs that differ has an interval",
        lambda facts: facts.noise is not None and facts.noise.repeats_interval is not None,
        lambda facts: (
            f"{_repeats(facts)}"
            + (
                f"; in another {one_level(facts.asked)}, in {share(_noise(facts).orders or 0)}."
                if facts.tested and _noise(facts).orders is not None
                else "."
            )
        ),
    ),
    Case(
        "ask-again",
        "answers are sampled, no prompt was repeated, and the model can be asked",
        lambda facts: facts.tested and not facts.guesses and _sampled_alone(facts) and facts.repeat is not None,
        lambda facts: f"To separate chance from {varied(facts.asked)}, ask each prompt again:",
        command=lambda facts: facts.repeat,
    ),
)
"""The numbers behind it: all that hold."""


@dataclass(frozen=True)
class Verdict:
    """What is said of an evaluation.

    read: how much could be read, if that comes first. conclusion: what may be concluded; None if most is missing.
    found: the numbers behind it.
    """

    read: Said | None
    conclusion: Said | None
    found: tuple[Said, ...]

    @property
    def sentences(self) -> tuple[Said, ...]:
        """All sentences, in the order in which they are said."""
        return tuple(said for said in (self.read, self.conclusion, *self.found) if said is not None)


def verdict(facts: Facts) -> Verdict:
    """The verdict on a complete evaluation."""
    read = first(READ, facts)
    if facts.unreadable:
        return Verdict(read, None, ())
    return Verdict(read, first(CONCLUSIONS, facts), every(REMARKS, facts))
