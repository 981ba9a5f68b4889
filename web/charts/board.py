"""A board's charts: accuracy against worst accuracy and against cost, and ranks over time.

Drawn as SVG by the server, so that every mark is a link that a keyboard reaches, without scripts. Places across are
percentages of the width, which the server does not know; docs/decisions/0044-charts-of-links.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from registry.results.selectables import Row
from web.charts.drawing import tenths_around, tenths_between
from web.formats import percent, points, shorten

LETTER: Final = 7.0
"""Width of a letter of a name, in pixels, on average."""


def lines_of(name: str, letters: int = 36) -> list[str]:
    """A name in lines of at most so many letters."""
    return [name[start : start + letters] for start in range(0, len(name), letters)]


# One number against another


@dataclass(frozen=True)
class Names:
    """A size of the plot that names are placed for: width and height in pixels, and the letters of the longest name."""

    width: int
    height: int
    letters: int


NARROW: Final = Names(300, 280, 20)
WIDE: Final = Names(880, 420, 40)
"""A style sheet shows the names of one or the other, by the width of the window."""

LEFT, RIGHT, TOP, BOTTOM = 2.0, 98.0, 7.0, 88.0
"""The edges of the plot, in percent of the picture."""


@dataclass(frozen=True)
class Point:
    """A model. x, y: its place, up: that of the diagonal above it, in percent; None: there is no diagonal.

    words: its numbers. narrow, wide: its name where it fits: (text, whether it stands to the left of the point).
    """

    row: Row
    words: list[str]
    x: float
    y: float
    up: float | None
    narrow: tuple[str, bool] | None
    wide: tuple[str, bool] | None


@dataclass(frozen=True)
class Scatter:
    """Points in the order of the rows, and ticks of both axes: place in percent, and text."""

    x_title: str
    y_title: str
    points: list[Point]
    across: list[tuple[float, str]]
    up: list[tuple[float, str]]
    diagonal: bool


def accuracy_and_worst(rows: Sequence[Row]) -> Scatter:
    """A point per model: accuracy (x), worst accuracy (y). On the diagonal the order changes nothing.

    rows: `model`, `accuracy`, `worst_accuracy`, fractions. Both axes have one range, so that the distance from the
    diagonal is what is lost. Names are shown where there is room for them; earlier rows choose first.
    """
    low, high = tenths_around([row[key] for row in rows for key in ("accuracy", "worst_accuracy")])
    shares = [((row["accuracy"] - low) / (high - low), (row["worst_accuracy"] - low) / (high - low)) for row in rows]
    words = [
        [
            f"accuracy {percent(row['accuracy'])}",
            f"worst accuracy {percent(row['worst_accuracy'])}",
            f"{points(row['accuracy'] - row['worst_accuracy'])} lost",
        ]
        for row in rows
    ]
    return _scatter(
        ("Accuracy", "Worst accuracy"), rows, shares, words, _tenths(low, high), _tenths(low, high), diagonal=True
    )


def cost_and_accuracy(rows: Sequence[Row], currency: str) -> Scatter:
    """A point per model: what providers charged (x, logarithmic, above 0), accuracy (y).

    rows: `model`, `cost`, `accuracy`, a fraction.
    """
    low, high = tenths_around([row["accuracy"] for row in rows])
    exponents = [math.log10(row["cost"]) for row in rows]
    small, large = math.floor(min(exponents)), math.floor(max(exponents)) + 1
    shares = [
        ((power - small) / (large - small), (row["accuracy"] - low) / (high - low))
        for power, row in zip(exponents, rows, strict=True)
    ]
    words = [[f"cost {row['cost']:.4g} {currency}", f"accuracy {percent(row['accuracy'])}"] for row in rows]
    ticks = [((power - small) / (large - small), f"{10.0**power:g}") for power in range(small, large + 1)]
    return _scatter((f"Cost, {currency}", "Accuracy"), rows, shares, words, ticks, _tenths(low, high), diagonal=False)


Ticks = list[tuple[float, str]]
"""Share of the axis, and text."""


def _tenths(low: float, high: float) -> Ticks:
    return [((tick - low) / (high - low), f"{100 * tick:.0f}\u202f%") for tick in tenths_between(low, high)]


def _scatter(
    titles: tuple[str, str],
    rows: Sequence[Row],
    shares: Sequence[tuple[float, float]],
    words: Sequence[list[str]],
    across: Ticks,
    up: Ticks,
    *,
    diagonal: bool,
) -> Scatter:
    names = [row["model"] for row in rows]
    narrow, wide = (_placed(shares, names, size) for size in (NARROW, WIDE))
    drawn = [
        Point(row, words[place], _across(x), _up(y), _up(x) if diagonal else None, narrow.get(place), wide.get(place))
        for place, (row, (x, y)) in enumerate(zip(rows, shares, strict=True))
    ]
    return Scatter(
        *titles,
        drawn,
        [(_across(share), text) for share, text in across],
        [(_up(share), text) for share, text in up],
        diagonal,
    )


def _across(share: float) -> float:
    return round(LEFT + share * (RIGHT - LEFT), 2)


def _up(share: float) -> float:
    return round(BOTTOM - share * (BOTTOM - TOP), 2)


def _placed(shares: Sequence[tuple[float, ...]], names: Sequence[str], size: Names) -> dict[int, tuple[str, bool]]:
    """Place of a row → its name and whether it stands to the left; only where it covers no point and no other name."""
    taken = [(size.width * x - 6, size.width * x + 6, size.height * y - 6, size.height * y + 6) for x, y in shares]
    found = {}
    for place, ((x, y), name) in enumerate(zip(shares, names, strict=True)):
        text = shorten(name, size.letters)
        across, up, width = size.width * x, size.height * y, LETTER * len(text)
        for left, edge in ((False, across + 8), (True, across - 8 - width)):
            box = (edge, edge + width, up - 8, up + 8)
            # Ticks stand along the left edge.
            inside = box[0] >= 36 and box[1] <= size.width
            if inside and not any(
                box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3] for other in taken
            ):
                taken.append(box)
                found[place] = (text, left)
                break
    return found


# Ranks over time

MOST_LINES: Final = 30
"""Lines that can still be told apart; the table has all models."""
LINE_HEIGHT: Final = 20
PLOT: Final = (6.0, 61.5)
"""From where to where lines reach, in percent of the width; ranks stand to the left, names to the right."""
FIRST_RANK_AT, BELOW = 16, 44
"""Pixels above the first rank and below the last."""
SLOPE: Final = 2.0
"""A rank is held until shortly before the moment at which it changes: percent of the width."""

Segment = tuple[float, float, float, float]


@dataclass(frozen=True)
class Line:
    """A model's ranks: segments (x1, y1, x2, y2), ends of its line and its name; x in percent, y in pixels.

    dots: where its rank begins or changes.
    """

    row: Row
    segments: list[Segment]
    dots: list[tuple[float, float]]
    end: float
    name_at: float


@dataclass(frozen=True)
class Ranks:
    """Lines by their last rank. height: of the picture, pixels; times: ticks in percent; ranks: ticks in pixels."""

    lines: list[Line]
    height: int
    bottom: float
    times: list[tuple[float, datetime]]
    ranks: list[tuple[float, int]]
    to_the_minute: bool


def ranks_over_time(rows: Sequence[Row], begin: datetime, end: datetime) -> Ranks | None:
    """A line per model over real time, of those with a rank at the end, the best MOST_LINES; None without any.

    rows: `ranks`: (time, rank or None) at every moment of the board, oldest first.
    """
    ranked = sorted((row for row in rows if row["ranks"][-1][1] is not None), key=lambda row: row["ranks"][-1][1])
    ranked = ranked[:MOST_LINES]
    if not ranked or end <= begin:
        return None
    lowest: int = max(rank for row in ranked for _, rank in row["ranks"] if rank is not None)
    height = LINE_HEIGHT * max(len(ranked), min(lowest, MOST_LINES), 4) + FIRST_RANK_AT + BELOW
    bottom = float(height - BELOW)

    def across(moment: datetime) -> float:
        share: float = (moment - begin) / (end - begin)
        return round(PLOT[0] + (PLOT[1] - PLOT[0]) * share, 2)

    def down(rank: int) -> float:
        return round(FIRST_RANK_AT + (bottom - FIRST_RANK_AT) * (rank - 1) / max(1, lowest - 1), 1)

    names = _apart([down(row["ranks"][-1][1]) for row in ranked], bottom)
    lines = [
        _line(row, [(across(at), None if rank is None else down(rank)) for at, rank in row["ranks"]], name)
        for row, name in zip(ranked, names, strict=True)
    ]
    step = max(1, math.ceil(lowest / 10))
    ticks = [1, *range(step if step > 1 else 2, lowest + 1, step)]
    return Ranks(
        lines,
        height,
        bottom,
        [(across(at), at) for at in (begin + (end - begin) * third / 3 for third in range(4))],
        [(down(rank), rank) for rank in ticks],
        end - begin < timedelta(days=3),
    )


def _line(row: Row, places: Sequence[tuple[float, float | None]], name_at: float) -> Line:
    """places: (x, y) at every moment, y None where the model has no rank; the last has one."""
    segments: list[Segment] = []
    dots: list[tuple[float, float]] = []
    before: tuple[float, float] | None = None
    for x, y in places:
        if y is None:
            before = None
            continue
        if before is None or before[1] != y:
            dots.append((x, y))
        if before is not None:
            held = x if before[1] == y else max(before[0], round(x - SLOPE, 2))
            _hold(segments, before, held)
            if before[1] != y:
                segments.append((held, before[1], x, y))
        before = (x, y)
    assert before is not None
    if dots[-1] != before:
        dots.append(before)
    return Line(row, segments, dots, before[1], name_at)


def _hold(segments: list[Segment], since: tuple[float, float], until: float) -> None:
    """Adds a level segment, or lengthens the one that ends where it would begin."""
    x, y = since
    if segments and segments[-1][1:] == (y, x, y):
        segments[-1] = (segments[-1][0], y, until, y)
    elif until > x:
        segments.append((x, y, until, y))


def _apart(places: Sequence[float], bottom: float, room: float = 16.0) -> list[float]:
    """Places of names beside these ends of lines, in their order, at least `room` apart and none below `bottom`."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + room) if found else place)
    limit: Any = bottom
    for number in range(len(found) - 1, -1, -1):
        found[number] = min(found[number], limit)
        limit = found[number] - room
    return [round(place, 1) for place in found]
