"""Several models side by side: a board's, and two of them metric by metric."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from registry.results.selectables import Row
from web.charts.drawing import (
    KEPT,
    LOST,
    MASS,
    PANEL,
    QUIET,
    Chart,
    Layer,
    figure,
    line,
    line_labels,
    named,
    percentages,
)

# Boards


NARROW_PLOT: Final = (250, 320)
"""Width and height of the scatter plot on a phone, in pixels: names that fit there fit everywhere."""
LONGEST_NAME: Final = 150


def _names(points: Sequence[tuple[float, float]], names: Sequence[str]) -> dict[int, str]:
    """Index of a point → the side of it on which its name covers no point and no other name; the others get no name.

    points: pixels from the left and from the bottom. Earlier points choose first.
    """
    taken = [(x - 6, x + 6, y - 6, y + 6) for x, y in points]
    found = {}
    for place, ((x, y), name) in enumerate(zip(points, names, strict=True)):
        width = min(LONGEST_NAME, 7.5 * len(name))
        for side, left in (("right", x + 7), ("left", x - 7 - width)):
            box = (left, left + width, y - 8, y + 8)
            inside = box[0] >= -30 and box[1] <= NARROW_PLOT[0] + 10
            if inside and not any(
                box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3] for other in taken
            ):
                taken.append(box)
                found[place] = side
                break
    return found


@named
def accuracy_and_worst(rows: Sequence[Row]) -> Chart:
    """A point per model: accuracy (x), worst accuracy (y). The diagonal is where the order changes nothing.

    rows: `model`, `accuracy`, `worst_accuracy`. Both axes have one range, so that the distance from the diagonal is
    what is lost. Names are shown where there is room for them.
    """
    numbers = [row[key] for row in rows for key in ("accuracy", "worst_accuracy")]
    low = max(0.0, math.floor(10 * min(numbers, default=0)) / 10)
    high = min(1.0, math.ceil(10 * max(numbers, default=1)) / 10)
    if high <= low:
        low, high = max(0.0, low - 0.1), min(1.0, low + 0.1)
    values = [{key: row[key] for key in ("model", "accuracy", "worst_accuracy")} for row in rows]
    across, up = (
        [NARROW_PLOT[axis] * (value[key] - low) / (high - low) for value in values]
        for axis, key in enumerate(("accuracy", "worst_accuracy"))
    )
    for place, side in _names(list(zip(across, up, strict=True)), [value["model"] for value in values]).items():
        values[place] |= {"name": values[place]["model"], "left": side == "left"}
    scale = {"domain": [low, high], "nice": False}
    axis = {"format": "%", "tickCount": 5}

    def channel(field: str, title: str | None) -> dict[str, Any]:
        return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}

    x, y = channel("accuracy", "Accuracy"), channel("worst_accuracy", "Worst accuracy")

    def names(*, left: bool) -> list[Layer]:
        mark = {"type": "text", "align": "right" if left else "left", "dx": -9 if left else 9, "limit": LONGEST_NAME}
        layer = {
            "transform": [{"filter": f"isValid(datum.name) && {'' if left else '!'}datum.left"}],
            "encoding": {"x": x, "y": y, "text": {"field": "name"}},
        }
        halo = {"stroke": PANEL, "strokeWidth": 4, "strokeJoin": "round"}
        return [layer | {"mark": mark | halo}, layer | {"mark": mark}]

    layers: list[Layer] = [
        {
            "data": {"values": [{"accuracy": end, "worst_accuracy": end} for end in (low, high)]},
            "mark": {"type": "line", "color": QUIET, "strokeDash": [4, 4], "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {"type": "rule", "color": LOST, "opacity": 0.6, "strokeWidth": 2},
            "encoding": {"x": x, "y": y, "y2": {"field": "accuracy"}},
        },
        *names(left=True),
        *names(left=False),
        {
            "mark": {"type": "point", "filled": True, "size": 80, "color": KEPT, "opacity": 1, "stroke": PANEL},
            "encoding": {
                "x": x,
                "y": y,
                "tooltip": [
                    {"field": "model", "title": "Model"},
                    *percentages(("accuracy", "Accuracy"), ("worst_accuracy", "Worst accuracy")),
                ],
            },
        },
    ]
    label = f"Scatter plot of accuracy and worst accuracy of {len(rows)} models."
    return replace(figure(label, values, layers, height=360), compact=True)


# Two evaluations


@named
def differences(rows: Sequence[Row]) -> Chart:
    """A point per metric: left minus right, with its interval where available, around the line of no difference.

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
