"""A chart of a query's result: bars, a line or points, over columns that the visitor chooses."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.errors import UsageError
from registry.sql import QueryResult
from web.charts.drawing import KEPT, Chart, figure

KINDS: Final[dict[str, str]] = {"bar": "bars", "line": "line", "point": "scatter"}
"""Vega-Lite's mark → its name on the page."""
MOST_DRAWN: Final = 500
"""Number of rows to draw, from the first on."""
_BAR_HEIGHT: Final = 22


@dataclass(frozen=True)
class Choice:
    """The chosen chart, no chart if kind is empty. x, y: names of columns."""

    kind: str = ""
    x: str = ""
    y: str = ""


def choice(result: QueryResult, kind: str, x: str, y: str) -> Choice:
    """Return the requested chart, choosing the columns that the request does not name.

    y is the first column with fractions, else the first with numbers; an id only if there is nothing else. x is the
    text column with the most different values; for a scatter plot, another column of numbers. Raises UsageError for an
    unknown kind, a missing column, or a result without numbers.
    """
    if not kind:
        return Choice()
    if kind not in KINDS:
        raise UsageError(f"chart: {kind[:40]!r} is not a kind of chart; use {', '.join(KINDS)}")
    if not result.rows:
        return Choice()
    numeric = [name for name in result.columns if _numbers(result, name)]
    if not numeric:
        raise UsageError("chart: no column of this result has numbers; select one that does")
    measures = [name for name in numeric if not _is_id(name)] or numeric
    fractions = [name for name in measures if any(isinstance(value, float) for value in _values(result, name))]
    names = [name for name in result.columns if name not in numeric]
    if kind == "point":
        x = x or next((name for name in measures if name != y), measures[0])
    y = y or next((name for name in (*fractions, *measures) if name != x), measures[0])
    names = names or [name for name in result.columns if name != y] or [y]
    x = x or max(names, key=lambda name: len(set(map(str, _values(result, name)))))
    for name in (x, y):
        if name not in result.columns:
            raise UsageError(f"chart: the result has no column {name[:40]!r}; it has {', '.join(result.columns[:20])}")
    if y not in numeric:
        raise UsageError(f"chart: column {y[:40]!r} has no numbers; choose another for the height")
    return Choice(kind, x, y)


def _values(result: QueryResult, name: str) -> Sequence[Any]:
    place = result.columns.index(name)
    return [row[place] for row in result.rows[:MOST_DRAWN]]


def _numbers(result: QueryResult, name: str) -> bool:
    values = [value for value in _values(result, name) if value is not None]
    return bool(values) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")


def _kind_of(result: QueryResult, name: str) -> str:
    if _numbers(result, name) and not _is_id(name):
        return "quantitative"
    sql_type = result.types[result.columns.index(name)] if result.types else ""
    return "temporal" if sql_type.startswith(("TIMESTAMP", "DATE")) else "nominal"


def draw_result(result: QueryResult, drawn: Choice) -> Chart | None:
    """Draw the chosen chart; None without a chart. Rows without a value are omitted."""
    if not drawn.kind:
        return None
    rows = [
        {"x": x if isinstance(x, (int, float, str)) else str(x), "y": y}
        for x, y in zip(_values(result, drawn.x), _values(result, drawn.y), strict=True)
        if x is not None and y is not None
    ]
    kind = _kind_of(result, drawn.x)
    across: dict[str, Any] = {"field": "x", "type": kind, "title": drawn.x}
    up: dict[str, Any] = {"field": "y", "type": "quantitative", "title": drawn.y}
    tooltip = [{**across}, {**up}]
    shown = f"{len(rows):,} rows of the result"
    if drawn.kind == "bar":
        up["stack"] = None
    if drawn.kind == "bar" and kind == "nominal":
        # Each row has its own bar, though names may repeat. Long names stay readable from left to right.
        before = Counter[str]()
        for row in rows:
            before[name := row["x"]] += 1
            row["x"] = name if before[name] == 1 else f"{name} ({before[name]})"
        encoding = {
            "y": across | {"sort": None, "title": None, "axis": {"labelLimit": 240}},
            "x": up,
            "tooltip": tooltip,
        }
        height = max(60, _BAR_HEIGHT * len(rows))
    else:
        encoding = {"x": across | ({"sort": None} if kind == "nominal" else {}), "y": up, "tooltip": tooltip}
        height = 320
    for channel in encoding.values():
        if isinstance(channel, dict) and channel["type"] == "quantitative" and drawn.kind == "point":
            channel["scale"] = {"zero": False}
    mark: dict[str, Any] = {"type": drawn.kind, "color": KEPT, "filled": True}
    if drawn.kind == "line":
        mark = {"type": "line", "color": KEPT, "point": True}
    label = f"{KINDS[drawn.kind].capitalize()}: {drawn.y} by {drawn.x}, {shown}"
    return figure(label, rows, [{"mark": mark, "encoding": encoding}], height=height)
