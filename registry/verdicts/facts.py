"""The numbers on which sentences about one evaluation are based. Nothing here reads the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist, fmean
from typing import Final

from registry.statistics.exact import TAIL
from registry.statistics.guessing import compare_with_guessing

SAID_FIRST: Final = 0.05
"""Share of missing answers above which the first sentence is about them."""
NO_VERDICT: Final = 0.5
"""Share of missing answers above which there is no verdict, no rank and no place in a chart."""
MANY_TIED: Final = 0.01
"""Share of tied answers above which no sentence is about positions or orders."""


@dataclass(frozen=True)
class Number:
    """A metric over n questions. low, high: its 95 % interval; None if it is not stated."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None

    @property
    def bounded(self) -> bool:
        """Return whether its interval begins at 0, or only the upper end is stated."""
        return self.high is not None and (self.low is None or self.low <= 0)

    def against_guessing(self, chance: float | None) -> str | None:
        """Return the relation of this accuracy to guessing: better, no better, not distinguished; None if unknown."""
        comparison = compare_with_guessing(chance, self.value, self.n, self.low, self.high)
        return None if comparison is None else comparison.relation


@dataclass(frozen=True)
class Reading:
    """Counts of an evaluation's answers: one for each prompt, missing answers by state, and ties.

    asked: the number of prompts.
    missing: state to count: `unread`, `unfinished`, `empty`, `refused`; `no valid answer` if the state was not stored.
    tied: answers to which another option was as probable, so that the first position was taken.
    """

    asked: int
    missing: Mapping[str, int] = field(default_factory=dict)
    tied: int = 0

    @cached_property
    def lost(self) -> int:
        """Return the number of missing answers."""
        return sum(self.missing.values())

    @cached_property
    def share(self) -> float:
        """Return the share of missing answers, in [0, 1]; 0 if there were no prompts."""
        return self.lost / self.asked if self.asked else 0.0

    @property
    def share_tied(self) -> float:
        """Return the share of tied answers, in [0, 1]; 0 if there were no prompts."""
        return self.tied / self.asked if self.asked else 0.0


@dataclass(frozen=True)
class Asked:
    """The prompts of an evaluation's questions.

    varied: the part of the prompt that its variants change: `order`, `labels` or `wording`; None if they change
    nothing. If the prompt does not list the options, their order is not shown.
    fewest, most: distinct prompts that show a question with its own options. prompts: the most prompts that show one
    question, repeats included.
    repeated: whether `repeats` sent each prompt again, so that the papers' metrics use the first answer to each prompt.
    own_only: whether every prompt shows the question with exactly its own options. lists_options: whether the prompt
    lists the options; without a list no order was shown.
    samples: whether the model draws its answers at random; None if unknown (imported answers).
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
        """Return whether some prompts were repeated and every answer counts, so that answers outnumber prompts."""
        return self.prompts > self.most and not self.repeated


@dataclass(frozen=True)
class Noise:
    """The shares of pairs of answers to one question that differ.

    repeats: in pairs for one prompt. orders: in pairs for different orders. effect: orders minus repeats, over the n
    questions with both kinds of pairs; None if there are none. interval: of the effect; None if not stated. elsewhere:
    whether the repeats are in another evaluation.
    """

    repeats: float
    orders: float | None = None
    effect: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    elsewhere: bool = False


@dataclass(frozen=True)
class Facts:
    """The facts on which sentences about one evaluation are based.

    A board of hundreds of models reads them for each selection, so derived facts are cached.
    numbers: metric to its value over all questions, if defined. chance: the accuracy of guessing. repeat: the command
    that repeats each prompt, if there is one.
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
        """Return a metric over all questions; None if it is undefined."""
        return self.numbers.get(metric)

    @property
    def unreadable(self) -> bool:
        """Return whether more than half of the answers are missing, so that no other sentence is possible."""
        return self.reading.share > NO_VERDICT

    @cached_property
    def tested(self) -> bool:
        """Return whether questions have two distinct prompts: otherwise nothing is known about other prompts."""
        if not self.asked.lists_options and self.asked.varied is None:
            return False
        return self.asked.most > 1

    @property
    def many_tied(self) -> bool:
        """Return whether more than 1 % of the answers are tied."""
        return self.reading.share_tied > MANY_TIED

    @cached_property
    def order_counted(self) -> bool:
        """Return whether a sentence about the order is possible: prompts differ, and answers are read and not tied."""
        return self.tested and not self.unreadable and not self.many_tied and self.asked.varied in (None, "order")

    @cached_property
    def guesses(self) -> bool:
        """Return whether its accuracy cannot be distinguished from guessing."""
        return self.against_guessing not in (None, "better")

    @property
    def against_guessing(self) -> str | None:
        """Return the relation of accuracy to guessing, as `compare_with_guessing` states it; None if unknown.

        It uses accuracy in the benchmark's own order, or average accuracy if no prompt has that order.
        """
        accuracy = self.number("accuracy") or self.number("average_accuracy")
        return None if accuracy is None else accuracy.against_guessing(self.chance)

    @property
    def samples(self) -> bool | None:
        """Return whether answers are drawn at random: by the settings, or since repeats differ. None if unknown."""
        differ = self.noise is not None and self.noise.repeats > 0
        return True if differ else self.asked.samples

    @cached_property
    def chance_inside(self) -> bool:
        """Return whether chance may be part of the differences between prompts, with no repeats to separate it."""
        return self.samples is not False and self.number("order_loss") is None

    @property
    def spoilt(self) -> float:
        """Return how much of the order loss tied and missing answers could explain, in [0, 1].

        An answer in one of m orders moves a question's order loss by at most 1/m, if no prompt was repeated. If answers
        are sampled, or may be, only ties count: a missing answer is then one of the answers from which chance and order
        are separated.
        """
        lost = 0.0 if self.asked.samples is not False else self.reading.share
        return lost + self.reading.share_tied

    @property
    def lost(self) -> float | None:
        """Return accuracy minus worst accuracy, in [0, 1]; None if one of them is undefined or over other questions."""
        one, other = self.number("accuracy"), self.number("worst_accuracy")
        if one is None or other is None or one.n != other.n:
            return None
        return one.value - other.value


class Pooled:
    """The evaluations behind a model's means over tasks.

    A board of hundreds of models needs them for each selection, so everything that is derived from all of them is
    cached. tasks: the evaluations of each task, whose questions are pooled. parts: all of them.
    """

    def __init__(self, tasks: Sequence[Sequence[Facts]]) -> None:
        self.tasks = tasks
        self.parts = [facts for task in tasks for facts in task]
        self._means: dict[str, tuple[list[float], int] | None] = {}

    def means(self, metric: str) -> tuple[list[float], int] | None:
        """Return a metric's mean on each task, and the number of questions; None if it is undefined in a task."""
        if metric not in self._means:
            self._means[metric] = self._compute_means(metric)
        return self._means[metric]

    def _compute_means(self, metric: str) -> tuple[list[float], int] | None:
        means, questions = [], 0
        for task in self.tasks:
            numbers = [facts.numbers.get(metric) for facts in task]
            defined = [number for number in numbers if number is not None]
            n = sum([number.n for number in defined])
            if len(defined) < len(numbers) or n == 0:
                return None
            questions += n
            one = len(defined) == 1
            means.append(defined[0].value if one else sum([number.value * number.n for number in defined]) / n)
        return means, questions

    @cached_property
    def missing(self) -> float:
        """Return the share of missing answers, in [0, 1]; 0 if there were no prompts."""
        asked = sum([facts.reading.asked for facts in self.parts])
        return sum([facts.reading.lost for facts in self.parts]) / asked if asked else 0.0

    @cached_property
    def unread(self) -> bool:
        """Return whether more than 5 % of the answers of one of them are missing."""
        return any(facts.reading.share > SAID_FIRST for facts in self.parts)

    @cached_property
    def unreadable(self) -> bool:
        """Return whether more than half of the answers of one of them are missing."""
        return any(facts.unreadable for facts in self.parts)

    @cached_property
    def many_tied(self) -> bool:
        """Return whether more than 1 % of the answers of one of them are tied."""
        return any(facts.many_tied for facts in self.parts)

    @cached_property
    def tested(self) -> bool:
        """Return whether all have questions with two distinct prompts."""
        return all(facts.tested for facts in self.parts)

    @cached_property
    def any_tested(self) -> bool:
        """Return whether one of them has questions with two distinct prompts."""
        return any(facts.tested for facts in self.parts)

    @cached_property
    def order_counted(self) -> bool:
        """Return whether a sentence about the order is possible for all of them."""
        return all(facts.order_counted for facts in self.parts)

    @cached_property
    def guesses(self) -> bool:
        """Return whether no accuracy can be distinguished from guessing."""
        return all(facts.guesses for facts in self.parts)

    @cached_property
    def chance_inside(self) -> bool:
        """Return whether chance may be part of the differences between prompts in one of them."""
        return any(facts.chance_inside for facts in self.parts)

    @cached_property
    def spoilt(self) -> float:
        """Return how much of an order loss tied and missing answers could explain, in [0, 1]."""
        return max(facts.spoilt for facts in self.parts)

    @cached_property
    def chances(self) -> list[float] | None:
        """Return the accuracy of guessing on each task; None if it is unknown in one of them."""
        chances = [[facts.chance for facts in task if facts.chance is not None] for task in self.tasks]
        known = sum(map(len, chances)) == len(self.parts)
        return [fmean(task) for task in chances] if known else None


def widen_low(number: Number, among: int) -> float | None:
    """Return the lower end of an interval widened for `among` statements made together (Bonferroni), as if normal."""
    if number.low is None:
        return None
    stretch = NormalDist().inv_cdf(1 - TAIL / among) / NormalDist().inv_cdf(1 - TAIL)
    return number.value - stretch * (number.value - number.low)


def names(items: Sequence[str], most: int = 3) -> str:
    """Join names as a sentence lists them; names beyond `most` are counted.

    >>> names(["a", "b"]), names(["a", "b", "c", "d"])
    ('a and b', 'a, b, c and 1 more')
    """
    shown = list(dict.fromkeys(items))
    rest = len(shown) - most
    listed = [*shown[:most], f"{rest} more"] if rest > 0 else shown
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
