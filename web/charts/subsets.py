"""The chart that compares cheap sets of orders with all orders."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from registry.schema.selectables import Row
from registry.verdicts.wording import lowered
from web.charts.drawing import INK, KEPT, LOST, MASS, QUIET, Chart, Layer, figure, percentages, share_axis

_LOOKS = ((KEPT, "circle"), (LOST, "triangle-up"), (MASS, "square"), (INK, "diamond"))
"""Colours and shapes of sets, used in turn; shapes distinguish the sets without colour."""


def agreement(rows: Sequence[Row], metric: str) -> Chart:
    """Draw a point per evaluation and set: a metric over all orders (x) and over the set (y).

    On the diagonal both are equal.
    rows: `subset`, `model`, `benchmark`, `protocol`, `full` and `value`; the last two are fractions, and rows with None
    are omitted. metric: its label.
    """
    values = [dict(row) for row in rows if row["full"] is not None and row["value"] is not None]
    subsets = list(dict.fromkeys(row["subset"] for row in values))
    looks = [_LOOKS[place % len(_LOOKS)] for place in range(len(subsets))]
    # Five labels fit on a phone.
    axis = {"axis": {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1]}}
    encoding: dict[str, Any] = {
        "x": share_axis("full", f"{metric} over all orders") | axis,
        "y": share_axis("value", f"{metric} over the set") | axis,
    }
    legend = {"symbolFillColor": "transparent", "symbolStrokeWidth": 2, "columns": 2}
    layers: list[Layer] = [
        {
            "data": {"values": [{"full": end, "value": end} for end in (0, 1)]},
            "mark": {"type": "line", "color": QUIET, "strokeDash": [4, 4], "strokeWidth": 1.5},
            "encoding": encoding,
        },
        {
            # Not filled, so that marks underneath stay visible if sets agree.
            "mark": {"type": "point", "size": 80, "strokeWidth": 2, "opacity": 0.85},
            "encoding": {
                **encoding,
                "color": {
                    "field": "subset",
                    "scale": {"domain": subsets, "range": [colour for colour, _ in looks]},
                    "legend": legend,
                },
                "shape": {
                    "field": "subset",
                    "scale": {"domain": subsets, "range": [shape for _, shape in looks]},
                    "legend": legend,
                },
                "tooltip": [
                    {"field": "subset", "title": "Orders"},
                    {"field": "model", "title": "Model"},
                    {"field": "benchmark", "title": "Benchmark"},
                    {"field": "protocol", "title": "Protocol"},
                    *percentages(("full", "Over all orders"), ("value", "Over the set")),
                ],
            },
        },
    ]
    label = f"Scatter plot of {lowered(metric)} over {len(subsets)} sets of orders against that over all orders."
    return replace(figure(label, values, layers, height=380), compact=True)
