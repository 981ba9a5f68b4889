"""Scatter plots: one number of each model against another, drawn by the server, so that every point is a link.

The plot next to the leaderboard has a fixed size, in pixels. A board's plot is as wide as its page, which the server
does not know, so its positions are in percent; see docs/decisions/0044-charts-of-links.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from typing import Final

from registry.proposals import propose
from registry.schema.selectables import Row
from registry.scores.asked import why_undefined
from registry.verdicts.table import no_point
from registry.verdicts.wording import lowered, points
from web.charts.drawing import tenths_around, tenths_between
from web.formats import percent, scale, shorten

# Axes

Ticks = list[tuple[float, str]]
"""Positions along an axis, and their labels."""


@dataclass(frozen=True)
class Axis:
    """An axis. low, high: ends of the axis as `position` returns them. ticks: positions from 0 to 1, with labels."""

    title: str
    low: float
    high: float
    ticks: Ticks
    position: Callable[[float], float] = float

    def share(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        return (self.position(value) - self.low) / (self.high - self.low)


def _tenths_axis(title: str, values: Sequence[float]) -> Axis:
    low, high = tenths_around(values)
    ticks = [((tick - low) / (high - low), f"{100 * tick:.0f}\u202f%") for tick in tenths_between(low, high)]
    return Axis(title, low, high, ticks)


def _logarithmic(title: str, ticks: Sequence[float], words: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis from the first tick to the last."""
    places = [math.log10(tick) for tick in ticks]
    low, high = places[0], places[-1]
    shown = [((place - low) / (high - low), words(tick)) for place, tick in zip(places, ticks, strict=True)]
    return Axis(title, low, high, shown, math.log10)


def _sizes_axis(title: str, parameters: Sequence[float]) -> Axis:
    """Return a logarithmic axis with ticks at 1, 3, 10, … around all values; only powers of ten if there are many."""
    steps = [factor * 10**power for power in range(19) for factor in (1, 3)]
    first = max((place for place, size in enumerate(steps) if size <= min(parameters, default=10**9)), default=0)
    last = min((place for place, size in enumerate(steps) if size > max(parameters, default=10**9)), default=-1)
    few = last - first <= 6
    shown = steps[first : last + 1] if few else [10**power for power in range(first // 2, (last + 1) // 2 + 1)]
    return _logarithmic(title, shown, scale)


def _costs_axis(title: str, costs: Sequence[float]) -> Axis:
    exponents = [math.log10(cost) for cost in costs] or [0.0]
    powers = range(math.floor(min(exponents)), math.floor(max(exponents)) + 2)
    return _logarithmic(title, [10.0**power for power in powers], "{:g}".format)


def _days_axis(title: str, days: Sequence[float]) -> Axis:
    """Return an axis from the first day of a month to that of another, with at most seven ticks. days: ordinals."""
    months = [12 * day.year + day.month - 1 for day in (date.fromordinal(round(value)) for value in days)] or [0]
    step = next(step for step in (1, 3, 6, 12, 24, 60, 120, 1200, 12000) if (max(months) - min(months)) / step < 6)
    first, last = min(months) // step * step, (max(months) // step + 1) * step
    ends = [date(month // 12, month % 12 + 1, 1) for month in range(first, last + 1, step)]
    low, high = float(ends[0].toordinal()), float(ends[-1].toordinal())
    ticks = [((end.toordinal() - low) / (high - low), f"{end:%Y-%m}" if step < 12 else f"{end:%Y}") for end in ends]
    return Axis(title, low, high, ticks)


# Measures and plots


@dataclass(frozen=True)
class Measure:
    """A number that rows have.

    key: its name in rows. words: formats it. axis: builds an axis from a title and the numbers.
    """

    key: str
    title: str
    words: Callable[[float], str]
    axis: Callable[[str, Sequence[float]], Axis]

    def of(self, row: Row) -> float | None:
        """Return the number; None if it is undefined, or 0 on a logarithmic axis, which cannot show it."""
        value: float | None = row.get(self.key)
        return value if value or self.axis is _tenths_axis else None


ACCURACY: Final = Measure("accuracy", "Accuracy", percent, _tenths_axis)
WORST: Final = Measure("worst_accuracy", "Worst accuracy", percent, _tenths_axis)
SIZE: Final = Measure("parameters", "Parameters", scale, _sizes_axis)
COST: Final = Measure("cost", "Cost", "{:.4g}".format, _costs_axis)
RELEASED: Final = Measure(
    "released_day", "Release date", lambda day: date.fromordinal(round(day)).isoformat(), _days_axis
)
TOKENS: Final = Measure("tokens_per_answer", "Tokens per answer", "{:,.0f}".format, _sizes_axis)


@dataclass(frozen=True)
class Plot:
    """The two measures of a plot. reading: how to read it.

    diagonal: whether to draw the line on which both are equal.
    """

    x: Measure
    y: Measure
    reading: str
    diagonal: bool = False

    def axes(self, rows: Sequence[Row]) -> tuple[Axis, Axis]:
        """Return both axes for rows that have both numbers. With a diagonal they have the same range."""
        across, up = ([row[measure.key] for row in rows] for measure in (self.x, self.y))
        if self.diagonal:
            across = up = across + up
        return self.x.axis(self.x.title, across), self.y.axis(self.y.title, up)


PLOTS: Final = {
    "order": Plot(
        ACCURACY,
        WORST,
        "On the dashed line, every answer that is right as printed is right in every order. The further a model is "
        "below it, the more of them are not.",
        diagonal=True,
    ),
    "size": Plot(
        SIZE,
        WORST,
        "Higher is better. Of models of one size, the highest is right most often in every order.",
    ),
    "cost": Plot(COST, ACCURACY, "Higher and further to the left is better: more right answers for less money."),
    "tokens": Plot(
        TOKENS, WORST, "Higher and further to the left is better: more right in every order for fewer tokens."
    ),
}
"""Plots by their names in URLs."""


# Positions in a picture


@dataclass(frozen=True)
class Frame:
    """The edges of a plot within its image, and the decimals of a position in it."""

    left: int
    right: int
    top: int
    bottom: int
    decimals: int

    def across(self, share: float) -> float:
        """Return the position of a share of the axis, from its left edge."""
        return round(self.left + share * (self.right - self.left), self.decimals)

    def up(self, share: float) -> float:
        """Return the position of a share of the axis, from its top edge."""
        return round(self.bottom - share * (self.bottom - self.top), self.decimals)


BESIDE: Final = Frame(54, 324, 12, 264, 1)
"""In pixels of an image of 340 by 310."""
WIDE: Final = Frame(2, 98, 7, 88, 2)
"""In percent of the image."""


@dataclass(frozen=True)
class Point:
    """The point of a row. x, y: its position; up: the diagonal's position above it, None without a diagonal.

    cells: both numbers; words: the full text of the point. names: by width of the page, its name if there is space:
    (text, whether it is on the left).
    """

    row: Row
    x: float
    y: float
    up: float | None
    cells: tuple[str, str]
    words: list[str]
    names: dict[str, tuple[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scatter:
    """A drawn plot: points in the order of the rows, and ticks of both axes as (position, text).

    missing: rows without a point, by reason. others: positions of further rows, drawn for comparison.
    """

    plot: Plot
    frame: Frame
    x_title: str
    y_title: str
    x_ticks: Ticks
    y_ticks: Ticks
    points: list[Point]
    missing: dict[str, list[Row]]
    others: list[tuple[float, float]]
    front: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Lines x1, y1, x2, y2 of the steps through the rows of `pareto`."""

    @property
    def lifted(self) -> set[tuple[float, float]]:
        """Return the positions of points whose names are above a step, so that the step does not cross them out."""
        return {(x1, y1) for x1, y1, _, y2 in self.front if y1 == y2}


def pareto(plot: Plot, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the Pareto front, from the left: no other row is both higher and further to the left.

    Over release dates, these are the models that were the best at their release.
    """
    placeable = [row for row in rows if plot.x.of(row) is not None and plot.y.of(row) is not None]
    front: list[Row] = []
    for row in sorted(placeable, key=lambda row: (row[plot.x.key], -row[plot.y.key])):
        if not front or row[plot.y.key] > front[-1][plot.y.key]:
            front.append(row)
    return front


def with_front(chart: Scatter, rows: Sequence[Row]) -> Scatter:
    """Return the chart with the steps of `pareto` through its points.

    rows: as passed to `draw_board`, without others.
    """
    on = [id(row) for row in pareto(chart.plot, rows)]
    places = sorted((point.x, point.y) for point in chart.points if id(point.row) in on)
    places.append((chart.frame.right, places[-1][1]))
    steps = [[(x1, y1, x2, y1), (x2, y1, x2, y2)] for (x1, y1), (x2, y2) in pairwise(places)]
    return replace(chart, front=[line for step in steps for line in step if line[:2] != line[2:]])


def draw_leaderboard(plot: Plot, rows: Sequence[Row]) -> Scatter:
    """Draw the plot next to a leaderboard. rows: `evaluation_id`, `model` and the plot's numbers."""
    return _draw(plot, rows, BESIDE)


def draw_board(plot: Plot, rows: Sequence[Row], currency: str | None = None, others: Sequence[Row] = ()) -> Scatter:
    """Draw a board's plot. Names are shown if there is space for them, earlier rows first.

    rows: `model` and the plot's numbers. currency: of costs. others: rows to draw without a name.
    """
    return _draw(plot, rows, WIDE, f" {currency}" if currency else "", others, named=True)


def _draw(
    plot: Plot, rows: Sequence[Row], frame: Frame, unit: str = "", others: Sequence[Row] = (), *, named: bool = False
) -> Scatter:
    drawn = [row for row in rows if _why_missing(plot, row) is None]
    background = [row for row in others if _why_missing(plot, row) is None]
    x, y = plot.axes(drawn + background)

    def place_rows(placed: Sequence[Row]) -> list[tuple[float, float]]:
        return [(x.share(row[plot.x.key]), y.share(row[plot.y.key])) for row in placed]

    shares, unnamed = place_rows(drawn), place_rows(background)
    names = {
        size: _place_names(shares, [row["model"] for row in drawn], room, unnamed)
        for size, room in ROOMS.items()
        if named
    }
    drawn_points = []
    for place, (row, (across, up)) in enumerate(zip(drawn, shares, strict=True)):
        cells = (plot.x.words(row[plot.x.key]), plot.y.words(row[plot.y.key]))
        words = [f"{lowered(x.title)} {cells[0]}{unit}", f"{lowered(y.title)} {cells[1]}"]
        if plot.diagonal:
            words.append(f"{points(row[plot.x.key] - row[plot.y.key])} lost")
        fitting = {size: placed[place] for size, placed in names.items() if place in placed}
        diagonal = frame.up(across) if plot.diagonal else None
        drawn_points.append(Point(row, frame.across(across), frame.up(up), diagonal, cells, words, fitting))
    return Scatter(
        plot,
        frame,
        f"{x.title},{unit}" if unit else x.title,
        y.title,
        [(frame.across(share), text) for share, text in x.ticks],
        [(frame.up(share), text) for share, text in y.ticks],
        drawn_points,
        _missing(plot, rows),
        [(frame.across(across), frame.up(up)) for across, up in unnamed],
    )


def _missing(plot: Plot, rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_reason: dict[str, list[Row]] = {}
    for row in rows:
        if (why := _why_missing(plot, row)) is not None:
            by_reason.setdefault(why, []).append(row)
    return by_reason


def _why_missing(plot: Plot, row: Row) -> str | None:
    """Return why a row has no point; None if it has one."""
    if plot.y is WORST and row.get("facts") is not None and (why := no_point(row["facts"])) is not None:
        return why
    lacking = next((measure for measure in (plot.y, plot.x) if measure.of(row) is None), None)
    return None if lacking is None else _why(lacking, row)


def _add(*fact: str) -> str:
    return propose("models add", "NAME", *fact)


def _why(lacking: Measure, row: Row) -> str:
    if lacking is COST:
        return "No provider charged for its answers, or their cost is unknown"
    if lacking is TOKENS:
        return "It wrote no answers, or nobody counted their tokens"
    if lacking is RELEASED:
        return f"The registry does not know when it was released ({_add('--released', 'YYYY-MM-DD')})"
    if lacking is SIZE:
        return f"The registry does not know the number of parameters ({_add('--parameters', 'N')})"
    return why_undefined(lacking.key, row)


# Names of points


@dataclass(frozen=True)
class Room:
    """Size of the plot for which names are placed: width and height in pixels, and the letters of the longest name."""

    width: int
    height: int
    letters: int


ROOMS: Final = {"narrow": Room(300, 280, 20), "wide": Room(880, 420, 40)}
"""By width of the window: a style sheet shows the names placed for one or the other."""
LETTER: Final = 7.0
"""Average width of a letter in a name, in pixels."""


def lines_of(name: str, letters: int = 36) -> list[str]:
    """Split a name into lines of at most this many letters."""
    return [name[start : start + letters] for start in range(0, len(name), letters)]


def _place_names(
    shares: Sequence[tuple[float, float]], names: Sequence[str], room: Room, unnamed: Sequence[tuple[float, float]]
) -> dict[int, tuple[str, bool]]:
    """Map index of a row → its name and whether it is on the left, for names that cover no point or other name."""
    every = (*shares, *unnamed)
    taken = [(room.width * x - 6, room.width * x + 6, room.height * y - 6, room.height * y + 6) for x, y in every]
    placed = {}
    for place, ((x, y), name) in enumerate(zip(shares, names, strict=True)):
        text = shorten(name, room.letters)
        across, up, width = room.width * x, room.height * y, LETTER * len(text)
        for left, edge in ((False, across + 8), (True, across - 8 - width)):
            box = (edge, edge + width, up - 8, up + 8)
            # The labels of ticks are at the left edge.
            inside = box[0] >= 36 and box[1] <= room.width
            if inside and not any(
                box[0] < covered[1] and covered[0] < box[1] and box[2] < covered[3] and covered[2] < box[3]
                for covered in taken
            ):
                taken.append(box)
                placed[place] = (text, left)
                break
    return placed
