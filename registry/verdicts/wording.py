"""The notation of numbers in sentences, tables and charts, and the names of the varied part of a prompt.

Shares are `62.8 %` with a thin space, differences of shares `10.0 points`, counts `12,032`, intervals `8.3 to 11.8`.
"""

import re
from typing import Final

from registry.metrics import METRICS
from registry.names import plural
from registry.verdicts.facts import Asked, Number, Reading

DASH: Final = "–"
UNIT: Final = "\u202f%"
DIFFERENCES: Final = frozenset({"order_loss", "chance_loss", "accuracy_abs_diff", "accuracy_range", "sensitivity_gap"})
"""Metrics that are the difference of two shares."""

_CAPITAL: Final = re.compile(r"\b(?!Brier\b)[A-Z][a-z]+\b|\bA\b")

NEAR_ZERO: Final = 0.01
"""An order loss below this looks like none, so a missing bound is stated."""

_VARIED: Final = {
    "order": ("order", "orders", "the order"),
    "labels": ("set of labels", "sets of labels", "the labels"),
    "wording": ("wording", "wordings", "the wording"),
}
"""Part of the prompt → its name in one prompt, in several prompts, and as the varied part."""


def share(value: float) -> str:
    """Return a fraction in percent with one decimal."""
    return f"{tenths(value)}{UNIT}"


def points(value: float) -> str:
    """Return a difference of fractions in percentage points."""
    return f"{tenths(value)} {'point' if tenths(value) in ('1.0', '−1.0') else 'points'}"


def tenths(value: float) -> str:
    """Return a fraction in percent with one decimal and no unit. All texts round here, halves away from 0.

    Rounding errors of sums are ignored: 84.75 % gives one text, whichever numbers were added up.

    >>> tenths(0.8475), tenths(0.5 + 0.3475), tenths(0.6025), tenths(-0.0004)
    ('84.8', '84.8', '60.3', '0.0')
    """
    tenths_of_percent = int(abs(round(1000 * value, 8)) + 0.5)
    return f"{'−' if value < 0 and tenths_of_percent else ''}{tenths_of_percent // 10}.{tenths_of_percent % 10}"


def lowered(label: str) -> str:
    """Return a label as it is written inside a sentence: abbreviations and names keep their capitals.

    >>> lowered("NPSQ accuracy"), lowered("CoRA"), lowered("Worst order, at least")
    ('NPSQ accuracy', 'CoRA', 'worst order, at least')
    """
    return _CAPITAL.sub(lambda word: word[0].lower(), label)


def count(number: float) -> str:
    """Return a whole number with a comma before each three digits."""
    return f"{number:,.0f}"


def value_text(metric: str, value: float | None) -> str:
    """Return a metric's value in its unit: a share, points, or three decimals on another scale."""
    if value is None:
        return DASH
    if metric in DIFFERENCES:
        return points(value)
    unit = METRICS[metric].unit if metric in METRICS else "fraction"
    if unit == "fraction":
        return share(value)
    if unit == "percentage points":
        return points(value / 100)
    return share(value / 100) if unit == "percent" else f"{value:z.3f}".replace("-", "−")


def interval_text(metric: str, low: float, high: float) -> str:
    """Return an interval of a metric in its unit, which is written once.

    An order loss is never below 0, so an interval that begins there is an upper bound.

    >>> interval_text("order_loss", 0.083, 0.118), interval_text("order_loss", 0.0, 0.031)
    ('8.3 to 11.8 points', 'at most 3.1 points')
    """
    if metric == "order_loss" and low == 0:
        return f"at most {points(high)}"
    first = value_text(metric, low).removesuffix(UNIT).removesuffix(" points").removesuffix(" point")
    return f"{first} to {value_text(metric, high)}"


def format_interval(metric: str, number: Number) -> str:
    """Return a number's interval in parentheses, after a space; empty if none is stated."""
    if number.low is None or number.high is None:
        return ""
    return f" ({interval_text(metric, number.low, number.high).removesuffix(' points').removesuffix(' point')})"


def bound(metric: str, number: Number) -> str:
    """Return "at most 2.3 points" for an order loss that is not above 0 by its interval; empty for other metrics.

    An estimate near 0 looks like no loss, so "no interval" is returned if it has none.
    """
    if metric != "order_loss":
        return ""
    if number.bounded:
        return f"at most {points(number.high or 0.0)}"
    return "no interval" if number.high is None and number.value < NEAR_ZERO else ""


def all_repeated(same: Number | None, across: Number) -> bool:
    """Return whether both shares, right in one order and in two orders, are over the same questions."""
    return same is None or same.n >= across.n


def describe_right(same: Number | None, across: Number, cost: Number, asked: Asked) -> str:
    """Describe the shares right in two orders and right twice in one order; the order costs part of the latter.

    The share in two orders is over all questions; it ranks models and is drawn. If only some questions have a repeated
    prompt, the share in one order, and the cost, are over these questions.

    >>> describe_right(None, Number(0.7, 400), Number(0.1, 400), Asked())
    'right twice in one order 80.0\u202f%, once in each of two orders 70.0\u202f%'
    """
    one, several, _ = _find_names(asked)
    if same is None or all_repeated(same, across):
        first = share(across.value + cost.value)
        return f"right twice in one {one} {first}, once in each of two {several} {share(across.value)}"
    on = f"on the {count(same.n)} of {plural(across.n, 'question')} with a repeated prompt"
    return f"right in two {several} {share(across.value)}; {on}, right twice in one {one} {share(same.value)}"


def _find_names(asked: Asked) -> tuple[str, str, str]:
    return _VARIED.get(asked.varied or "", _VARIED["order"])


def name_varied(asked: Asked) -> str:
    """Return the name of the varied part, such as "the order"."""
    return _find_names(asked)[2]


def one_level(asked: Asked) -> str:
    """Return the name of the varied part in one prompt, such as "order"."""
    return _find_names(asked)[0]


def several_levels(asked: Asked) -> str:
    """Return the name of the varied part in several prompts, such as "orders"."""
    return _find_names(asked)[1]


def every_level(asked: Asked) -> str:
    """Describe the prompts that worst accuracy is over: "every one of 4 orders" or "every one of 8 to 12 orders"."""
    one, several, _ = _find_names(asked)
    if not asked.own_only:
        return f"every {one} of its own options"
    fewest = max(2, asked.fewest)  # it is over the questions with two or more
    number = f"{asked.most}" if fewest >= asked.most else f"{fewest} to {asked.most}"
    if asked.repeated:
        return f"every one of {number} {several}, by its first answer to each"
    return f"every answer, in {number} {several}" if asked.mixed else f"every one of {number} {several}"


def missing(reading: Reading) -> str:
    """Return "are missing", with the count of each state if there are several."""
    states = {state: number for state, number in reading.missing.items() if number}
    if set(states) <= {"no valid answer"}:
        return "are missing"
    ordered = sorted(states.items(), key=lambda item: -item[1])
    return f"are missing ({', '.join(f'{count(number)} {state}' for state, number in ordered)})"
