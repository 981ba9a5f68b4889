"""Common parts of all charts: colours, fonts, axes, and labels that fit a narrow screen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.schema.selectables import Row

SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
INK: Final = "var(--ink)"
QUIET: Final = "var(--quiet)"
LINE: Final = "var(--line)"
PANEL: Final = "var(--panel)"
KEPT: Final = "var(--kept)"
LOST: Final = "var(--lost)"
MASS: Final = "var(--mass)"

CONFIG: Final[dict[str, Any]] = {
    # The container describes the chart in words; reading every mark aloud would be noise.
    "aria": False,
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": QUIET,
        "titleColor": QUIET,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
    },
    "legend": {"labelColor": QUIET, "labelFontSize": 12, "labelLimit": 0, "orient": "top", "columns": 1, "title": None},
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
}

Layer = dict[str, Any]

AXIS: Final = 48
"""Pixels for an axis with its title below a plot."""


@dataclass(frozen=True)
class Chart:
    """A specification, and its description in words. compact: whether it is at most as wide as high."""

    label: str
    spec: dict[str, Any]
    compact: bool = False


def figure(label: str, values: Sequence[Row], layers: Sequence[Layer], *, height: int) -> Chart:
    """Return a chart that fills its container's width.

    label: description of the chart. values: data of the layers. height: height of the plot, in pixels.
    """
    spec: dict[str, Any] = {
        "$schema": SCHEMA,
        "width": "container",
        # Including axis and legend, so that the page can reserve the space before anything is drawn.
        "height": height + AXIS + _legend(layers),
        "autosize": {"type": "fit", "contains": "padding"},
        # Space for the label of 100 %, which would be cut off at the right end.
        "padding": {"left": 2, "right": 12, "top": 4, "bottom": 2},
        "config": CONFIG,
        "data": {"values": list(values)},
        "layer": list(layers),
    }
    return Chart(label, spec)


def _legend(layers: Sequence[Layer]) -> int:
    """Return the height of the legend above a plot, in pixels."""
    colours = [layer["encoding"].get("color", {}) for layer in layers]
    shown = [colour for colour in colours if colour.get("legend", True) and "domain" in colour.get("scale", {})]
    if not shown:
        return 0
    columns: int = shown[0].get("legend", {}).get("columns", 1)
    return 20 + 15 * math.ceil(len(shown[0]["scale"]["domain"]) / columns)


def share_axis(field: str, title: str) -> dict[str, Any]:
    """Return the channel of fractions, shown as percentages from 0 to 100."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [0, 1]},
        "axis": {"format": "%", "tickCount": 5},
    }


def line(band: float) -> dict[str, Any]:
    """Return the channel of a chart's lines; each line has a label above its marks.

    band: vertical position within the line, from 0 to 1.
    """
    return {
        "field": "row",
        "type": "ordinal",
        "axis": None,
        "scale": {"type": "band", "padding": 0},
        "bandPosition": band,
    }


def line_labels() -> list[Layer]:
    """Return the layers of labels above the marks, from the left edge, so that long names fit a narrow screen.

    A halo separates them from grid lines.
    """
    mark = {"type": "text", "align": "left", "baseline": "top", "dy": 4, "limit": {"expr": "width"}}
    encoding = {"x": {"value": 0}, "y": line(0), "text": {"field": "label"}}
    halo = {"stroke": PANEL, "strokeWidth": 4, "strokeJoin": "round"}
    return [{"mark": mark | halo, "encoding": encoding}, {"mark": mark, "encoding": encoding}]


def upright(length: int, width: float, colour: str) -> dict[str, Any]:
    """Return a short upright line as a mark; Vega-Lite's ticks do not follow `bandPosition`."""
    return {
        "type": "point",
        "shape": "stroke",
        "angle": 90,
        "size": length * length,
        "strokeWidth": width,
        "color": colour,
        "opacity": 1,
    }


def percentages(*fields: tuple[str, str]) -> list[dict[str, Any]]:
    """Return a tooltip of fractions. fields: pairs of field and title."""
    return [{"field": field, "title": title, "format": ".1%", "type": "quantitative"} for field, title in fields]


# Axes of fractions


def tenths_around(values: Sequence[float]) -> tuple[float, float]:
    """Return the tenths below and above all values, which are fractions; the two tenths always differ."""
    low = max(0.0, math.floor(10 * min(values, default=0.0)) / 10)
    high = min(1.0, math.ceil(10 * max(values, default=1.0)) / 10)
    return (low, high) if high > low else (max(0.0, low - 0.1), min(1.0, low + 0.1))


def tenths_between(low: float, high: float) -> list[float]:
    """Return the tenths from `low` to `high`, or every second tenth if there are many."""
    first, last = round(10 * low), round(10 * high)
    return [tenth / 10 for tenth in range(first, last + 1, 2 if last - first > 6 else 1)]
