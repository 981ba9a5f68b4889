"""Ranks of a board's models over time.

The server draws them as SVG, so that every line is a link that a keyboard can reach, without scripts. Horizontal
positions are percentages of the width, which the server does not know; see docs/decisions/0044-charts-of-links.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from registry.schema.selectables import Row

MOST_LINES: Final = 30
"""The most lines that remain distinguishable; the table has all models."""
LINE_HEIGHT: Final = 20
PLOT: Final = (6.0, 61.5)
"""Start and end of the lines, in percent of the width; ranks are to the left, names to the right."""
FIRST_RANK_AT, BELOW = 16, 44
"""Pixels above the first rank and below the last."""
SLOPE: Final = 2.0
"""Width of the slope before a rank changes, in percent of the chart's width."""

Segment = tuple[float, float, float, float]


@dataclass(frozen=True)
class Line:
    """A model's line. segments: (x1, y1, x2, y2), and the place of its name; x in percent, y in pixels.

    dots: the points at which its rank begins or changes.
    """

    row: Row
    segments: list[Segment]
    dots: list[tuple[float, float]]
    end: float
    name_at: float


@dataclass(frozen=True)
class Ranks:
    """The chart: lines in the order of their last rank. height: in pixels.

    times, ranks: ticks, in percent and in pixels.
    """

    lines: list[Line]
    height: int
    bottom: float
    times: list[tuple[float, datetime]]
    ranks: list[tuple[float, int]]
    to_the_minute: bool


def ranks_over_time(rows: Sequence[Row], begin: datetime, end: datetime) -> Ranks | None:
    """Draw a line per model over time, for the best MOST_LINES that have a rank at the end; None without a line.

    rows: `ranks` is (time, rank or None) at every moment of the board, oldest first.
    """
    ranked = sorted((row for row in rows if row["ranks"][-1][1] is not None), key=lambda row: row["ranks"][-1][1])
    ranked = ranked[:MOST_LINES]
    if not ranked or end <= begin:
        return None
    lowest: int = max(rank for row in ranked for _, rank in row["ranks"] if rank is not None)
    height = LINE_HEIGHT * max(len(ranked), min(lowest, MOST_LINES), 4) + FIRST_RANK_AT + BELOW
    bottom = float(height - BELOW)

    def x_of(moment: datetime) -> float:
        share: float = (moment - begin) / (end - begin)
        return round(PLOT[0] + (PLOT[1] - PLOT[0]) * share, 2)

    def y_of(rank: int) -> float:
        return round(FIRST_RANK_AT + (bottom - FIRST_RANK_AT) * (rank - 1) / max(1, lowest - 1), 1)

    names = _apart([y_of(row["ranks"][-1][1]) for row in ranked], bottom)
    lines = [
        _line(row, [(x_of(at), None if rank is None else y_of(rank)) for at, rank in row["ranks"]], name)
        for row, name in zip(ranked, names, strict=True)
    ]
    step = max(1, math.ceil(lowest / 10))
    ticks = [1, *range(step if step > 1 else 2, lowest + 1, step)]
    return Ranks(
        lines,
        height,
        bottom,
        [(x_of(at), at) for at in (begin + (end - begin) * third / 3 for third in range(4))],
        [(y_of(rank), rank) for rank in ticks],
        end - begin < timedelta(days=3),
    )


def _line(row: Row, places: Sequence[tuple[float, float | None]], name_at: float) -> Line:
    """Return a model's line.

    places: (x, y) at every moment; y is None if the model has no rank then; the last has one.
    """
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
            bend = x if before[1] == y else max(before[0], round(x - SLOPE, 2))
            _hold(segments, before, bend)
            if before[1] != y:
                segments.append((bend, before[1], x, y))
        before = (x, y)
    assert before is not None
    if dots[-1] != before:
        dots.append(before)
    return Line(row, segments, dots, before[1], name_at)


def _hold(segments: list[Segment], since: tuple[float, float], until: float) -> None:
    """Add a horizontal segment, or lengthen the previous segment if it ends there."""
    x, y = since
    if segments and segments[-1][1:] == (y, x, y):
        segments[-1] = (segments[-1][0], y, until, y)
    elif until > x:
        segments.append((x, y, until, y))


def _apart(places: Sequence[float], bottom: float, room: float = 16.0) -> list[float]:
    """Return positions for names next to the ends of lines, in order.

    They are at least `room` apart, and none is below `bottom`.
    """
    positions: list[float] = []
    for place in places:
        positions.append(max(place, positions[-1] + room) if positions else place)
    limit: Any = bottom
    for number in range(len(positions) - 1, -1, -1):
        positions[number] = min(positions[number], limit)
        limit = positions[number] - room
    return [round(place, 1) for place in positions]
