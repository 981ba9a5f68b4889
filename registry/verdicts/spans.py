"""The data of the span chart: from "right in two orders" to "right", on a scale that every row shares.

A span contains no style. `web/charts/spans.py` draws it as SVG and `line` as characters, with the same marks and the
same words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from registry.verdicts.facts import SAID_FIRST, Asked, Facts, Number, Pooled
from registry.verdicts.subjects import above_zero
from registry.verdicts.wording import (
    all_repeated,
    bound,
    describe_right,
    format_interval,
    interval_text,
    name_varied,
    one_level,
    points,
    several_levels,
    share,
)

_METRICS: Final = (
    "accuracy",
    "average_accuracy",
    "worst_accuracy",
    "right_twice_same_order",
    "right_twice_across_orders",
    "chance_loss",
    "order_loss",
)


@dataclass(frozen=True)
class Span:
    """The span of an evaluation as drawn, or of the means over a board's tasks. Positions are in [0, 1].

    right: the share of right answers over all orders; in the benchmark's own order if there is no second. interval: of
    `right`, drawn if there is no second order.
    two: the share right in two orders; None if there is no second order.
    same: the share right twice in one order, at least `two`; None if chance and order are not separated.
    clear: whether sentences state an order loss, which is then drawn as a loss to the order.
    guessing: the accuracy of guessing. level: the varied part of a prompt, such as `order`. words: the span described
    in sentences.
    """

    right: float
    interval: tuple[float, float] | None
    two: float | None
    same: float | None
    guessing: float | None
    level: str
    words: str
    clear: bool = False

    @property
    def unseparated(self) -> float:
        """Return the length of the loss that is attributed neither to chance nor to the order; 0 if there is none."""
        end = self.right if self.same is None else self.same
        return 0.0 if self.two is None or self.clear else end - self.two


SEEN: Final = 0.0005
"""Differences below this round to 0.0 points."""


def span_of(facts: Facts) -> Span | None:
    """Return the span of one evaluation; None if over half of the answers are missing or no accuracy is defined."""
    return mean_span(Pooled([[facts]]))


def mean_span(
    tasks: Pooled,
    known: Mapping[str, Number] | None = None,
    weights: Sequence[int] | None = None,
) -> Span | None:
    """Return the span of means over tasks with the same protocol; None as for `span_of`.

    known: metric to its mean, if a board computes its own, such as with corrected answer keys; None uses `Means`.
    weights: one for each task; None weighs all equally.
    """
    if not tasks.parts or tasks.unreadable:
        return None
    numbers = Means(tasks, weights) if known is None else known
    average, across = numbers.get("average_accuracy"), numbers.get("right_twice_across_orders")
    prompting = tasks.parts[0].asked
    guessing = None if tasks.chances is None else fmean(tasks.chances, weights)
    after = _describe_guessing(guessing, tasks.missing)
    tied = tasks.many_tied
    if average is None or across is None or tied or not tasks.tested:
        dot = numbers.get("accuracy") or average
        if dot is None:
            return None
        interval = None if dot.low is None or dot.high is None else (dot.low, dot.high)
        unlisted = not prompting.lists_options and prompting.varied is None
        how = "options not listed" if unlisted else f"asked in one {one_level(prompting)}"
        how = "many of its answers are tied" if tied else how
        words = f"Right {share(dot.value)}{format_interval('accuracy', dot)}; {how}.{after}"
        return Span(dot.value, interval, None, None, guessing, one_level(prompting), words)
    two, cost, chance = across.value, numbers.get("order_loss"), numbers.get("chance_loss")
    if cost is None or chance is None:
        words = _describe_unseparated(prompting, average, across) + after
        return Span(average.value, None, two, None, guessing, one_level(prompting), words)
    # A loss below 0 is chance; a loss above the whole loss is that of the few orders with repeats.
    same = max(two, min(two + cost.value, average.value))
    clear = above_zero(cost, tasks.spoilt)
    words = _describe_separated(prompting, numbers, clear=clear)
    printed = numbers.get("accuracy")
    words += "" if printed is None else f" Right as printed {share(printed.value)}."
    return Span(average.value, None, two, same, guessing, one_level(prompting), words + after, clear)


class Means(Mapping[str, Number]):
    """A mapping of each drawn metric to its mean over tasks, without metrics that are undefined in a task.

    Means are computed on first access, since a board of hundreds of models reads few of them. known: means that a board
    has computed already.
    """

    def __init__(
        self,
        tasks: Pooled,
        weights: Sequence[int] | None = None,
        known: Mapping[str, Number] | None = None,
    ) -> None:
        self._tasks, self._weights = tasks, weights
        self._means: dict[str, Number | None] = dict(known or {})

    def __getitem__(self, metric: str) -> Number:
        if metric not in self._means:
            self._means[metric] = _mean(self._tasks, metric, self._weights) if metric in _METRICS else None
        mean = self._means[metric]
        if mean is None:
            raise KeyError(metric)
        return mean

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys((*_METRICS, *self._means))
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _mean(tasks: Pooled, name: str, weights: Sequence[int] | None) -> Number | None:
    """Average a metric over tasks; the result has an interval only if there is a single evaluation."""
    if len(tasks.parts) == 1:
        return tasks.parts[0].number(name)
    pooled = tasks.means(name)
    return None if pooled is None else Number(fmean(pooled[0], weights), pooled[1])


def _describe_separated(asked: Asked, numbers: Mapping[str, Number], *, clear: bool) -> str:
    """Describe how much order and chance cost, with the drawn numbers."""
    one, several, cause = one_level(asked), several_levels(asked), name_varied(asked)
    cost, chance, average = (numbers[name] for name in ("order_loss", "chance_loss", "average_accuracy"))
    twice, across = numbers.get("right_twice_same_order"), numbers["right_twice_across_orders"]
    costs = f"{cause} {'cost' if cause.endswith('s') else 'costs'}"
    text = f"R{describe_right(twice, across, cost, asked)[1:]}: "
    if clear and cost.low is not None and cost.high is not None:
        interval = interval_text("order_loss", cost.low, cost.high).partition(" point")[0]
        text += f"{costs} {points(cost.value)} of that, {interval}."
    elif cost.bounded:
        text += f"{costs} {bound('order_loss', cost)} of that."
    else:
        text += f"not clearly because of {cause}."
    by_chance = f"chance costs {points(chance.value)}"
    if not all_repeated(twice, across):
        lost = f"; {by_chance}" if chance.value >= SEEN else ""
        return f"{text} {meaning_of_dot(one).capitalize()}, {share(average.value)}{lost}."
    once = across.value + cost.value + chance.value
    if chance.value >= SEEN:
        text += f" Right once {share(once)}: {by_chance}."
    if abs(average.value - once) >= SEEN:
        rest = points(average.value - once)
        text += f" Other {several}, asked once: {rest}, so that {share(average.value)} are right in all."
    return text


def _describe_unseparated(asked: Asked, average: Number, across: Number) -> str:
    return (
        f"Right {share(average.value)}, once in each of two {several_levels(asked)} {share(across.value)}: chance and "
        f"{name_varied(asked)} together cost {points(max(0.0, average.value - across.value))} of that; without "
        "repeats they are not told apart."
    )


def _describe_guessing(guessing: float | None, missing: float) -> str:
    text = "" if guessing is None else f" Guessing gives {share(guessing)}."
    return text + (f" {share(missing)} of the answers are missing." if missing > SAID_FIRST else "")


CELLS: Final = 31
"""Characters of a line: one for each 3⅓ points."""
HEADING: Final = f"{'0 %':<{CELLS // 2 - 1}}50{'100':>{CELLS - CELLS // 2 - 1}}"
"""The scale above lines of characters."""
_UNSEPARATED: Final = {"●": "right", "─": "lost to chance or the order"}
_MEANINGS: Final = {"●": "right", "░": "lost to chance", "▓": "lost to the order", "┊": "guessing"}


def meaning_of_dot(level: str) -> str:
    """Return the meaning of the dot if there are several orders; accuracy is of the benchmark's own order, as printed.

    >>> meaning_of_dot("order"), meaning_of_dot("set of labels")
    ('right, mean over orders', 'right, mean over prompts')
    """
    return f"right, mean over {level if level == 'order' else 'prompt'}s"


def legend(lines: Iterable[str]) -> str:
    """Return the legend of the signs in these lines of characters."""
    lines = [one for one in lines if one]
    signs = set("".join(lines))
    shown = {sign: words for sign, words in (_UNSEPARATED | _MEANINGS).items() if sign in signs}
    if "┃" in signs:
        shown = (_MEANINGS if "─" not in signs else shown) | {"●": f"{meaning_of_dot('order')} (accuracy: as printed)"}
    explained = [f"{sign} {words}" for sign, words in shown.items()]
    if "┃" in signs:
        explained = [f"{one}, for ●" if one == "┊ guessing" else one for one in explained]
    if "┃" in signs and not all("┃" in one for one in lines):
        explained.insert(1, "·●· right, asked in one order")
    return " · ".join(explained)


def line(span: Span | None, cells: int = CELLS) -> str:
    """Draw the span as `cells` characters from 0 to 1, such as ``  ┊   ┃▓▓▓┃░░●``.

    ``┃─────●`` has losses that are not separated, or not clear, and ``···●···`` the interval of one order.
    """
    if span is None:
        return ""

    def cell_of(value: float) -> int:
        return min(cells - 1, max(0, round(value * (cells - 1))))

    def fill(sign: str, low: float, high: float) -> None:
        for place in range(cell_of(low), cell_of(high) + 1):
            drawn[place] = sign

    drawn = [" "] * cells
    if span.interval is not None:
        fill("·", *span.interval)
    if span.two is not None:
        if span.same is None:
            fill("─", span.two, span.right)
        else:
            fill("░", span.same, span.right)
            fill("▓" if span.clear else "─", span.two, span.same)
    if span.guessing is not None:
        drawn[cell_of(span.guessing)] = "┊"
    for end in (span.same, span.two):
        if end is not None:
            drawn[cell_of(end)] = "┃"
    drawn[cell_of(span.right)] = "●"
    return "".join(drawn).rstrip()
