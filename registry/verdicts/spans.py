"""The one drawing: from right in every order to right in some order, on a scale that every row shares.

A span has no looks. `web/charts/spans.py` draws it as SVG and `line` as characters, with the same marks and the same
words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from registry.verdicts.facts import SAID_FIRST, Asked, Facts, Number
from registry.verdicts.wording import between, every_level, one_level, points, share, varied

Kind = Literal["range", "either", "chance", "order"]
_METRICS: Final = (
    "accuracy",
    "average_accuracy",
    "worst_accuracy",
    "best_accuracy",
    "right_twice_same_order",
    "right_twice_across_orders",
    "order_loss",
)


@dataclass(frozen=True)
class Part:
    """A stretch of the scale, 0 ≤ low ≤ high ≤ 1.

    kind: `range`, from worst to best accuracy; within it what is lost: to the `order`, to `chance`, or to `either`,
    where nothing tells the order from chance or from missing answers.
    """

    kind: Kind
    low: float
    high: float


@dataclass(frozen=True)
class Span:
    """What is drawn of an evaluation, or of the means over a board's tasks.

    dot: accuracy in the benchmark's own order, or else the average; None: neither is defined. interval: the dot's,
    drawn if no second order was asked. guessing: the accuracy of guessing. missing: share of answers that are missing,
    0 up to SAID_FIRST. level: what one prompt of a question is called, such as `order`. words: all of it in sentences.
    """

    dot: float | None
    interval: tuple[float, float] | None
    parts: tuple[Part, ...]
    guessing: float | None
    missing: float
    level: str
    words: str


def span_of(facts: Facts) -> Span | None:
    """The span of one evaluation; None where more than half of the answers are missing, or no accuracy is defined."""
    return mean_span([[facts]])


def mean_span(
    tasks: Sequence[Sequence[Facts]],
    known: Mapping[str, Number] | None = None,
    weights: Sequence[int] | None = None,
) -> Span | None:
    """The span of means over tasks that were asked in one way; None as `span_of`.

    tasks: of each the evaluations behind it, whose questions are pooled. known: metric to the mean, where a board has
    its own, such as by corrected answer keys; without it `means`. weights: of the tasks.
    """
    parts = [facts for task in tasks for facts in task]
    if not parts or any(facts.unreadable for facts in parts):
        return None
    numbers = means(tasks, weights) if known is None else known
    tested = all(facts.tested for facts in parts)
    dot = numbers.get("accuracy") or numbers.get("average_accuracy")
    if dot is None:
        return None
    net = tested and all(facts.number("order_loss") is not None for facts in parts)
    certain = all(facts.samples is False and not facts.guesses for facts in parts)
    comparable = tested and all(facts.lost is not None for facts in parts)
    # What missing answers may have spoilt: each of them one question.
    spoilt = fmean((sum(f.reading.lost for f in task) / sum(f.questions for f in task) for task in tasks), weights)
    # Right once in the orders of which S₂ is the mean: all of them, or the original alone.
    once = numbers.get("average_accuracy" if all(_equally_often(facts) for facts in parts) else "accuracy")
    lost = _lost(numbers, once if net else None, certain=certain, comparable=comparable, spoilt=spoilt)
    causes = [*(["chance"] if net or not certain else []), *(["missing answers"] if spoilt and not net else [])]
    asked, answered = parts[0].asked, sum(facts.reading.asked for facts in parts)
    missing = sum(facts.reading.lost for facts in parts) / answered if answered else 0.0
    guesses = [facts.chance for facts in parts]
    guessed = [fmean(f.chance or 0.0 for f in task) for task in tasks]
    guessing = None if None in guesses else fmean(guessed, weights)
    drawn = _range(numbers, lost) if tested else ()
    interval = None if drawn or dot.low is None or dot.high is None else (dot.low, dot.high)
    words = _words(numbers, asked, lost, causes, tested=tested, guessing=guessing, missing=missing)
    unread = missing if missing > SAID_FIRST else 0.0
    return Span(dot.value, interval, (*drawn, *lost), guessing, unread, one_level(asked), words)


def _equally_often(facts: Facts) -> bool:
    """Check that every prompt of each question that was asked again was asked equally often."""
    low, cost = facts.number("worst_order_low"), facts.number("order_loss")
    return low is not None and cost is not None and low.n == cost.n and facts.number("worst_order_high") is not None


def means(tasks: Sequence[Sequence[Facts]], weights: Sequence[int] | None = None) -> dict[str, Number]:
    """Metric to its mean over tasks, of what is drawn; without those that are undefined in a task."""
    return {name: found for name in _METRICS if (found := _mean(tasks, name, weights)) is not None}


def _mean(tasks: Sequence[Sequence[Facts]], name: str, weights: Sequence[int] | None) -> Number | None:
    """Over tasks, of the means over their questions; with an interval where one evaluation is all there is."""
    found = [[facts.number(name) for facts in task] for task in tasks]
    if len(found) == len(found[0]) == 1:
        return found[0][0]
    means = []
    for task in found:
        known = [number for number in task if number is not None]
        n = sum(number.n for number in known)
        if len(known) < len(task) or n == 0:
            return None
        means.append(sum(number.value * number.n for number in known) / n)
    return Number(fmean(means, weights), sum(number.n for task in found for number in task if number is not None))


def _lost(
    numbers: Mapping[str, Number], once: Number | None, *, certain: bool, comparable: bool, spoilt: float
) -> tuple[Part, ...]:
    """What is lost, from the dot down. With repeats: the order loss, and before it what repeats alone lose.

    once: with repeats, how often one answer is right in an order, of which `right_twice_same_order` says it of two.
    spoilt: the share of questions that missing answers may have spoilt.
    """
    dot, worst = numbers.get("accuracy"), numbers.get("worst_accuracy")
    if once is not None and dot is not None and "right_twice_same_order" in numbers:
        # An interval that reaches 0 shows no cost of the order: what is lost may be chance.
        cost = numbers["order_loss"]
        order = max(0.0, cost.value)
        twice = numbers["right_twice_same_order"]
        # Over other questions the difference would be that of the questions.
        chance = max(0.0, once.value - twice.value) if once.n == twice.n else 0.0
        after = max(0.0, dot.value - order)
        kind: Kind = "order" if _clear(cost) else "either"
        found = (Part(kind, after, dot.value), Part("chance", max(0.0, after - chance), after))
        return tuple(part for part in found if part.high > part.low)
    if not comparable or dot is None or worst is None or dot.value - worst.value <= 1e-9:
        return ()
    unsure = min(dot.value, worst.value + spoilt) if certain else dot.value
    found = (Part("order", unsure, dot.value), Part("either", worst.value, unsure))
    return tuple(part for part in found if part.high - part.low > 1e-9)


def _clear(cost: Number) -> bool:
    return cost.low is not None and cost.low > 0


def _range(numbers: Mapping[str, Number], lost: Sequence[Part]) -> tuple[Part, ...]:
    ends = [numbers[name].value for name in ("worst_accuracy", "best_accuracy") if name in numbers]
    if not ends:
        return ()
    every = [*ends, *(end for part in lost for end in (part.low, part.high))]
    return (Part("range", min(every), max(every)),)


def _words(
    numbers: Mapping[str, Number],
    asked: Asked,
    lost: Sequence[Part],
    causes: Sequence[str],
    *,
    tested: bool,
    guessing: float | None,
    missing: float,
) -> str:
    found = []
    own = numbers.get("accuracy")
    name, dot = ("Accuracy", own) if own is not None else ("Average accuracy", numbers["average_accuracy"])
    found.append(f"{name} {share(dot.value)}{between('accuracy', dot)}")
    if not tested:
        unlisted = not asked.lists_options and asked.varied is None
        found.append("options not listed" if unlisted else f"asked in one {one_level(asked)}")
    if tested and "worst_accuracy" in numbers:
        found.append(f"{share(numbers['worst_accuracy'].value)} right in {every_level(asked)}")
    if tested and "best_accuracy" in numbers:
        found.append(f"{share(numbers['best_accuracy'].value)} in at least one")
    for part in lost:
        size = points(part.high - part.low)
        found.append(
            {
                "order": f"changing {varied(asked)} takes {size}",
                "chance": f"repeats alone lose {size}",
                "either": f"{size} lost to {varied(asked)}{''.join(f', to {cause}' for cause in causes)}, or to "
                f"{'both' if len(causes) == 1 else 'several of these'}",
                "range": "",
            }[part.kind]
        )
    if guessing is not None:
        found.append(f"guessing gives {share(guessing)}")
    if missing > SAID_FIRST:
        found.append(f"{share(missing)} of the answers are missing")
    return f"{'; '.join(found)}."


CELLS: Final = 31
"""Characters of a line: one for every 3⅓ points."""
_SIGNS: Final[dict[Kind, str]] = {"range": "─", "either": "░", "chance": "▒", "order": "█"}
HEADING: Final = f"{'0 %':<{CELLS // 2 - 1}}50{'100':>{CELLS - CELLS // 2 - 1}}"
"""The scale above lines of characters."""
_MEANINGS: Final = {
    "●": "accuracy",
    "·": "95 % interval",
    "├": "right in every order",
    "┤": "in at least one",
    "┊": "guessing",
    "█": "lost to the order",
    "▒": "lost to chance",
    "░": "perhaps lost to the order",
    "?": "unread",
}


def legend(lines: Iterable[str]) -> str:
    """What the signs in these lines of characters mean."""
    found = set("".join(lines))
    return f"0 to 100 %: {', '.join(f'{sign} {meaning}' for sign, meaning in _MEANINGS.items() if sign in found)}"


def line(span: Span | None, cells: int = CELLS) -> str:
    """The span as characters, such as ``  ┊ ├▒▒▒██●───┤``: as many as `cells`, the first for 0, the last for 1."""
    if span is None:
        return ""

    def at(value: float) -> int:
        return min(cells - 1, max(0, round(value * (cells - 1))))

    drawn = [" "] * cells
    if span.interval is not None:
        for place in range(at(span.interval[0]), at(span.interval[1]) + 1):
            drawn[place] = "·"
    for part in span.parts:
        for place in range(at(part.low), at(part.high) + 1):
            drawn[place] = _SIGNS[part.kind]
        if part.kind == "range":
            drawn[at(part.low)], drawn[at(part.high)] = "├", "┤"
    ends = [part for part in span.parts if part.kind == "range"]
    if ends and len(span.parts) > 1:
        drawn[at(ends[0].low)] = "├"
    if span.missing:
        for place in range(at(1 - span.missing), cells):
            drawn[place] = "?" if drawn[place] == " " else drawn[place]
    if span.guessing is not None:
        drawn[at(span.guessing)] = "┊"
    if span.dot is not None:
        drawn[at(span.dot)] = "●"
    return "".join(drawn).rstrip()
