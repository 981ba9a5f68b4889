"""What is known of an evaluation, a model or a comparison when something is said about it. Numbers, no session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

from registry.statistics.exact import TAIL, exact_high, exact_low
from registry.statistics.guessing import AgainstGuessing, compare_with_guessing

SAID_FIRST: Final = 0.05
"""Above this share of missing answers, the share is the first thing said."""
NO_VERDICT: Final = 0.5
"""Above this share there is no verdict, no rank and no place in a chart."""
GUESSING: Final = "no better than guessing"
"""What stands below an accuracy of which `no_better_than_guessing` holds."""


@dataclass(frozen=True)
class Number:
    """A metric over n questions. low, high: its 95 % interval; None: no interval is stated."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None

    @property
    def hits(self) -> int:
        """Return how many of the n questions count as right, if the value is their share."""
        return round(self.value * self.n)


@dataclass(frozen=True)
class Reading:
    """How many answers were asked for, and how many of them are missing, by state.

    missing: state to count: `unread`, `unfinished`, `empty`, `refused`; `no valid answer` if the state was not stored.
    """

    asked: int
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """How many answers are missing."""
        return sum(self.missing.values())

    @property
    def share(self) -> float:
        """The share of missing answers, in [0, 1]; 0 if nothing was asked."""
        return self.lost / self.asked if self.asked else 0.0


@dataclass(frozen=True)
class Asked:
    """How the questions of an evaluation were asked.

    varied: the part of the prompt that its variants vary: `order`, `labels` or `wording`; None: nothing. Without a list
    of options in the prompt, the order is not shown. fewest, most: distinct prompts that show a question. prompts: the
    most prompts that show one, repeats included. repeated: whether `repeats` asked each again, so that the papers'
    metrics are of the first answer to each prompt. own_only: whether every prompt shows the question with exactly its
    own options. lists_options: whether the prompt lists the options; without a list no order was shown. samples:
    whether the model draws its answers at random; None: nothing says so (imported answers).
    """

    varied: str | None = "order"
    fewest: int = 0
    most: int = 0
    prompts: int = 0
    repeated: bool = False
    own_only: bool = True
    lists_options: bool = True
    samples: bool | None = False

    @property
    def mixed(self) -> bool:
        """Whether some prompts were asked again and every answer counts, so that answers are more than prompts."""
        return self.prompts > self.most and not self.repeated


@dataclass(frozen=True)
class Noise:
    """How often two answers to one question differ, as a share of pairs: repeats of a prompt, and different orders.

    effect: the second minus the first; None: no question has both kinds of pairs. Intervals are of 95 %; None: not
    stated. elsewhere: whether the repeats are those of another evaluation.
    """

    repeats: float
    repeats_interval: tuple[float, float] | None = None
    orders: float | None = None
    effect: float | None = None
    interval: tuple[float, float] | None = None
    elsewhere: bool = False


@dataclass(frozen=True)
class Facts:
    """All that sentences about one evaluation rest on.

    numbers: metric to its value over all questions, those that are defined. chance: the accuracy of guessing. repeat:
    the command that asks each prompt again, if there is one.
    """

    model: str
    benchmark: str
    questions: int
    asked: Asked
    reading: Reading
    numbers: Mapping[str, Number]
    chance: float | None = None
    noise: Noise | None = None
    variants: str = ""
    repeat: str | None = None
    evaluation: int | None = None

    def number(self, metric: str) -> Number | None:
        """A metric over all questions; None: undefined."""
        return self.numbers.get(metric)

    @property
    def unreadable(self) -> bool:
        """Whether too few answers could be read to say anything else."""
        return self.reading.share > NO_VERDICT

    @property
    def tested(self) -> bool:
        """Whether questions were asked in two distinct prompts or more: otherwise nothing is known of other prompts."""
        if not self.asked.lists_options and self.asked.varied is None:
            return False
        return self.asked.most > 1

    @property
    def guesses(self) -> bool:
        """Whether its accuracy is no better than guessing.

        The interval of accuracy includes the chance level or lies below it, as `against_guessing` has it.
        """
        found = self.against_guessing
        return found is not None and found.relation != "better"

    @property
    def against_guessing(self) -> AgainstGuessing | None:
        """Its accuracy next to the chance level; None: one of them is not known.

        Accuracy is that in the benchmark's own order, or the average one if that order was not asked.
        """
        found = self.number("accuracy") or self.number("average_accuracy")
        if found is None:
            return None
        return compare_with_guessing(self.chance, found.value, found.n, found.low, found.high)

    @property
    def samples(self) -> bool | None:
        """Whether the model draws its answers at random: its protocol says so, or answers to one prompt differ.

        None: nothing says so, or otherwise.
        """
        differ = self.noise is not None and self.noise.repeats > 0
        return True if differ else self.asked.samples

    @property
    def chance_inside(self) -> bool:
        """Whether chance may be part of what differs between prompts, and nothing here separates it."""
        return self.samples is not False and self.number("order_loss") is None

    @property
    def equally_often(self) -> bool:
        """Whether every prompt of each question that was asked again was asked equally often."""
        low, cost = self.number("worst_order_low"), self.number("order_loss")
        return low is not None and cost is not None and low.n == cost.n and self.number("worst_order_high") is not None

    @property
    def lost(self) -> float | None:
        """Accuracy minus worst accuracy, in [0, 1]; None if one of them is undefined or over other questions."""
        one, other = self.number("accuracy"), self.number("worst_accuracy")
        if one is None or other is None or one.n != other.n:
            return None
        return one.value - other.value

    @property
    def lost_at_least(self) -> float | None:
        """What of `lost` stays if every missing answer had been right: one of them can spoil one question."""
        one, lost = self.number("accuracy"), self.lost
        return None if one is None or lost is None else max(0.0, lost - self.reading.lost / one.n)


def no_better_than_guessing(chance: float | None, value: float | None, n: int | None, low: float | None) -> bool:
    """Whether an accuracy over n questions includes the chance level in its 95 % interval, or lies below it.

    low: where the interval begins; None: not stated, and the exact one is taken.

    >>> no_better_than_guessing(0.25, 0.3, 20, None), no_better_than_guessing(0.25, 0.9, 20, None)
    (True, False)
    """
    if low is not None:
        return chance is not None and low <= chance
    found = compare_with_guessing(chance, value, n)
    return found is not None and found.relation != "better"


def widened(number: Number, among: int) -> tuple[float, float] | None:
    """The interval of a number for one of `among` statements made together (Bonferroni), by the normal distribution."""
    if number.low is None or number.high is None:
        return None
    stretch = NormalDist().inv_cdf(1 - TAIL / among) / NormalDist().inv_cdf(1 - TAIL)
    return (
        number.value - stretch * (number.value - number.low),
        number.value + stretch * (number.high - number.value),
    )


def share_kept(facts: Facts, statements: int = 1, missing: int = 0) -> tuple[float, float, float] | None:
    """The share of right answers in the benchmark's order that are right in every order, with its exact interval.

    statements: made together, by whose number the level is divided (Bonferroni). missing: so many
    questions, if that many were lost, are taken to be lost to missing answers alone. None if a count is not known.
    """
    one, other = facts.number("accuracy"), facts.number("worst_accuracy")
    if one is None or other is None or one.n != other.n or not one.hits:
        return None
    tail, right = TAIL / statements, min(one.hits, other.hits + missing)
    return right / one.hits, exact_low(right, one.hits, tail), exact_high(right, one.hits, tail)


def names(found: Sequence[str], most: int = 3) -> str:
    """Names as a sentence lists them; those beyond `most` are counted.

    >>> names(["a", "b"]), names(["a", "b", "c", "d"])
    ('a and b', 'a, b, c and 1 more')
    """
    shown = list(dict.fromkeys(found))
    rest = len(shown) - most
    listed = [*shown[:most], f"{rest} more"] if rest > 0 else shown
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
