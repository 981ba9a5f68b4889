"""The chart beside the leaderboard: a point for each row, drawn by the server, so that its points are links.

What is drawn is geometry: pixels of a picture WIDTH by HEIGHT. A row that has not both numbers is left out by name.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from registry.results.asked import why_undefined
from registry.results.selectables import Row
from web.charts.drawing import tenths_around, tenths_between
from web.formats import percent, scale, shorten

WIDTH: Final = 340
HEIGHT: Final = 310
LEFT, RIGHT, TOP, BOTTOM = 54, 324, 12, 264
"""The edges of the plot."""
COST: Final = "Cost"
LONGEST_NAME: Final = 36
"""Letters of a name that fit beside the axis."""


@dataclass(frozen=True)
class Point:
    """One evaluation. name: shortened to fit the picture; title: all that the point says."""

    evaluation_id: int
    x: float
    y: float
    name: str
    title: str


@dataclass(frozen=True)
class Scatter:
    """Points with their axes; ticks: pixel and text. cells: the same numbers for a table, by `evaluation_id`.

    diagonal: whether the line on which both numbers are equal is drawn, from corner to corner. missing: why some rows
    have no point, and which.
    """

    x_title: str
    y_title: str
    reading: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    points: list[Point]
    cells: dict[int, tuple[str, str]]
    diagonal: bool
    missing: dict[str, list[Row]]


def accuracy_against_worst(rows: Sequence[Row]) -> Scatter:
    """Accuracy (x) against worst accuracy (y), on one range, so that the distance from the diagonal is what is lost."""
    drawn = [row for row in rows if None not in (row["accuracy"], row["worst_accuracy"])]
    low, high = tenths_around([row[key] for row in drawn for key in ("accuracy", "worst_accuracy")])
    return _scatter(
        rows,
        drawn,
        ("Accuracy", "Worst accuracy"),
        "On the dashed line the order of the options changes nothing. The further a model is below it, the more of its "
        "accuracy depends on the order.",
        lambda row: (_share(row["accuracy"], low, high), _share(row["worst_accuracy"], low, high)),
        lambda row: (percent(row["accuracy"]), percent(row["worst_accuracy"])),
        [(_share(value, low, high), _tick(value)) for value in tenths_between(low, high)],
        [(_share(value, low, high), _tick(value)) for value in tenths_between(low, high)],
        diagonal=True,
    )


def size_against_worst(rows: Sequence[Row]) -> Scatter:
    """Number of parameters (x, logarithmic) against worst accuracy (y)."""
    drawn = [row for row in rows if row["parameters"] and row["worst_accuracy"] is not None]
    low, high = tenths_around([row["worst_accuracy"] for row in drawn])
    sizes = _sizes([row["parameters"] for row in drawn])
    small, large = math.log10(sizes[0]), math.log10(sizes[-1])
    return _scatter(
        rows,
        drawn,
        ("Parameters", "Worst accuracy"),
        "Higher is more robust. Of models of one size, the highest depends least on the order of the options.",
        lambda row: (_share(math.log10(row["parameters"]), small, large), _share(row["worst_accuracy"], low, high)),
        lambda row: (scale(row["parameters"]), percent(row["worst_accuracy"])),
        [(_share(math.log10(size), small, large), scale(size)) for size in sizes],
        [(_share(value, low, high), _tick(value)) for value in tenths_between(low, high)],
        diagonal=False,
    )


def cost_against_accuracy(rows: Sequence[Row]) -> Scatter:
    """What a provider charged (x, logarithmic) against accuracy (y)."""
    drawn = [row for row in rows if row.get("cost") and row["accuracy"] is not None]
    low, high = tenths_around([row["accuracy"] for row in drawn])
    exponents = [math.log10(row["cost"]) for row in drawn] or [0.0]
    small, large = math.floor(min(exponents)), math.floor(max(exponents)) + 1
    return _scatter(
        rows,
        drawn,
        (COST, "Accuracy"),
        "Higher and further to the left is better: more right answers for less money.",
        lambda row: (_share(math.log10(row["cost"]), small, large), _share(row["accuracy"], low, high)),
        lambda row: (f"{row['cost']:.4g}", percent(row["accuracy"])),
        [(_share(power, small, large), f"{10.0**power:g}") for power in range(small, large + 1)],
        [(_share(value, low, high), _tick(value)) for value in tenths_between(low, high)],
        diagonal=False,
    )


SCATTERS: Final[dict[str, Callable[[Sequence[Row]], Scatter]]] = {
    "order": accuracy_against_worst,
    "size": size_against_worst,
    "cost": cost_against_accuracy,
}
"""By what a URL calls them."""


def _scatter(
    rows: Sequence[Row],
    drawn: Sequence[Row],
    titles: tuple[str, str],
    reading: str,
    place: Callable[[Row], tuple[float, float]],
    words: Callable[[Row], tuple[str, str]],
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    *,
    diagonal: bool,
) -> Scatter:
    points, cells = [], {}
    for row in drawn:
        x, y = place(row)
        one, other = cells[row["evaluation_id"]] = words(row)
        title = f"{row['model']}: {titles[0].lower()} {one}, {titles[1].lower()} {other}"
        points.append(Point(row["evaluation_id"], _across(x), _up(y), shorten(row["model"], LONGEST_NAME), title))
    missing: dict[str, list[Row]] = {}
    for row in rows:
        if row["evaluation_id"] not in cells:
            missing.setdefault(_why(row, titles[0]), []).append(row)
    return Scatter(
        *titles,
        reading,
        [(_across(x), text) for x, text in x_ticks],
        [(_up(y), text) for y, text in y_ticks],
        points,
        cells,
        diagonal,
        missing,
    )


def _why(row: Row, first: str) -> str:
    if first == COST:
        return "No provider charged for its answers, or their cost is unknown"
    if row["worst_accuracy"] is None:
        return why_undefined("worst_accuracy", row)
    if first == "Parameters":
        return "The registry does not know the number of parameters (shuffleboard models add NAME --parameters N)"
    return why_undefined("accuracy", row)


def _sizes(parameters: Sequence[int]) -> list[int]:
    """Round numbers of parameters around all of these: 1, 3, 10, …, or only powers of ten where those are many."""
    steps = [factor * 10**power for power in range(19) for factor in (1, 3)]
    first = max((place for place, size in enumerate(steps) if size <= min(parameters, default=10**9)), default=0)
    last = min((place for place, size in enumerate(steps) if size > max(parameters, default=10**9)), default=-1)
    if last - first <= 6:
        return steps[first : last + 1]
    return [10**power for power in range(first // 2, (last + 1) // 2 + 1)]


def _tick(value: float) -> str:
    """A tenth as a whole percentage."""
    return f"{100 * value:.0f}\u202f%"


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low)


def _across(share: float) -> float:
    return round(LEFT + share * (RIGHT - LEFT), 1)


def _up(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 1)
