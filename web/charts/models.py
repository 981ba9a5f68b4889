"""Two evaluations side by side, metric by metric."""

import math
from collections.abc import Sequence
from typing import Any

from registry.schema.selectables import Row
from web.charts.drawing import LOST, MASS, PANEL, QUIET, Chart, Layer, figure, line, line_labels, percentages


def differences(rows: Sequence[Row]) -> Chart:
    """Draw a point per metric: left minus right, with its interval if available, around the line of no difference.

    rows: `label`, `difference`, `low` and `high`, fractions; the last two may be None.
    """
    values = [
        {"row": number, "zero": 0, **{key: row[key] for key in ("label", "difference", "low", "high")}}
        for number, row in enumerate(rows)
    ]
    reach = max((abs(value[key] or 0) for value in values for key in ("difference", "low", "high")), default=0)
    edge = min(1.0, max(0.05, math.ceil(20 * reach) / 20))
    middle = line(0.7)
    tooltip = percentages(("difference", "Left minus right"), ("low", "Interval from"), ("high", "to"))

    def across(field: str) -> dict[str, Any]:
        return {
            "field": field,
            "type": "quantitative",
            "title": "Left minus right, in percentage points",
            "scale": {"domain": [-edge, edge], "nice": False},
            "axis": {"labelExpr": "datum.value ? format(100 * datum.value, '+.3~g') : '0'", "tickCount": 5},
        }

    layers: list[Layer] = [
        {
            "mark": {"type": "rule", "color": QUIET, "strokeDash": [4, 4], "strokeWidth": 1.5},
            "encoding": {"x": across("zero")},
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "color": MASS, "strokeWidth": 6},
            "encoding": {"y": middle, "x": across("low"), "x2": {"field": "high"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "color": LOST, "opacity": 1, "stroke": PANEL},
            "encoding": {"y": middle, "x": across("difference"), "tooltip": tooltip},
        },
        *line_labels(),
    ]
    return figure(
        f"Differences in {len(values)} metrics, left minus right, with their intervals.",
        values,
        layers,
        height=44 * len(values),
    )
