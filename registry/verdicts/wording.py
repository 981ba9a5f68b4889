"""The notation of numbers in sentences, tables and charts, and the names of the varied part of a prompt.

Shares are `62.8 %` with a thin space, differences of shares `10.0 points`, counts `12,032`, intervals `8.3 to 11.8`.
"""

from typing import Final

from registry.metrics import METRICS
from registry.verdicts.facts import Asked, Number, Reading

DASH: Final = "–"
UNIT: Final = "\u202f%"
DIFFERENCES: Final = frozenset({"order_loss", "chance_loss", "accuracy_abs_diff", "accuracy_range", "sensitivity_gap"})
"""Metrics that are the difference of two shares."""

_VARIED: Final = {
    "order": ("order", "orders", "the order"),
    "labels": ("set of labels", "sets of labels", "the labels"),
    "wording": ("wording", "wordings", "the wording"),
}
"""Part of the prompt to its name in one prompt, in several, and as the thing that is varied."""


def share(value: float) -> str:
    """Return a fraction in percent with one decimal."""
    return f"{_tenths(value)}{UNIT}"


def points(value: float) -> str:
    """Return a difference of fractions in percentage points."""
    return f"{_tenths(value)} {'point' if _tenths(value) in ('1.0', '−1.0') else 'points'}"


def _tenths(value: float) -> str:
    return f"{100 * value:z.1f}".replace("-", "−")


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


def _find_names(asked: Asked) -> tuple[str, str, str]:
    return _VARIED.get(asked.varied or "", _VARIED["order"])


def name_varied(asked: Asked) -> str:
    """Return the name of the varied part, such as "the order"."""
    return _find_names(asked)[2]


def one_level(asked: Asked) -> str:
    """Return the name of one prompt's share of it, such as "order"."""
    return _find_names(asked)[0]


def several_levels(asked: Asked) -> str:
    """Return the name for several prompts, such as "orders"."""
    return _find_names(asked)[1]


def every_level(asked: Asked) -> str:
    """Return the prompts that worst accuracy is over: "every one of 4 orders" or "every one of 8 to 12 orders"."""
    one, several, _ = _find_names(asked)
    if not asked.own_only:
        return f"every {one} of its own options"
    fewest = max(2, asked.fewest)  # it is over the questions with two or more
    number = f"{asked.most}" if fewest >= asked.most else f"{fewest} to {asked.most}"
    if asked.repeated:
        return f"every one of {number} {several}, by its first answer to each"
    return f"every answer, in {number} {several}" if asked.mixed else f"every one of {number} {several}"


def missing(reading: Reading) -> str:
    """Return "are missing", with the number of each state if there are several."""
    states = {state: number for state, number in reading.missing.items() if number}
    if set(states) <= {"no valid answer"}:
        return "are missing"
    ordered = sorted(states.items(), key=lambda item: -item[1])
    return f"are missing ({', '.join(f'{count(number)} {state}' for state, number in ordered)})"
