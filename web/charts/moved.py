"""Charts of accuracy by the position of the right option."""

from collections.abc import Sequence
from statistics import median, pstdev
from typing import Final

from registry.schema.selectables import Row
from web.charts.drawing import (
    INK,
    LOST,
    MASS,
    PANEL,
    QUIET,
    Chart,
    Layer,
    figure,
    line,
    line_labels,
    percentages,
    share_axis,
    upright,
)

SPREAD_COLUMNS: Final = ("label", "original", "median_moved", "sd_moved", "lowest", "highest")
"""The columns that `answer_moving` draws."""


def spread(accuracies: Sequence[Row]) -> Row:
    """Return the spread of the runs of an answer-moving evaluation, as `answer_moving` draws it.

    accuracies: the runs by variant: 0 is the original order, t has the right option at position t - 1. Keys: `sd_moved`
    is the population standard deviation of the moved runs' accuracies, a fraction. Median and deviation are None
    without a moved run. `lowest` and `highest` are over all runs, as accuracy_min and accuracy_max. Source: Nowak et
    al., *ABCD: All Biases Come Disguised*.
    """
    original = next((run["accuracy"] for run in accuracies if run["variant"] == 0), None)
    moved = [run["accuracy"] for run in accuracies if run["variant"] > 0]
    everything = [run["accuracy"] for run in accuracies]
    return {
        "original": original,
        "median_moved": median(moved) if moved else None,
        "sd_moved": pstdev(moved) if moved else None,
        "lowest": min(everything, default=None),
        "highest": max(everything, default=None),
    }


def answer_moving(rows: Sequence[Row], guessing: float | None) -> Chart:
    """Draw a box per evaluation: how accuracy varies with the position of the right option.

    rows: `label` and the columns of `spread`, in the order of the lines. guessing: accuracy of guessing; None for no
    line. The box is the median of the moved runs ± their standard deviation, the whiskers reach from the worst to the
    best run, the dot is the original order.
    """
    values = [
        {
            "row": number,
            **row,
            "box_low": max(0.0, row["median_moved"] - row["sd_moved"]),
            "box_high": min(1.0, row["median_moved"] + row["sd_moved"]),
        }
        for number, row in enumerate(rows)
        if row["median_moved"] is not None
    ]
    middle = line(0.68)
    tooltip = percentages(
        ("original", "Original order"),
        ("median_moved", "Median of the moved runs"),
        ("sd_moved", "Their standard deviation"),
        ("lowest", "Worst run"),
        ("highest", "Best run"),
    )
    layers: list[Layer] = [
        {
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": QUIET},
            "encoding": {"y": middle, "x": share_axis("lowest", "Accuracy"), "x2": {"field": "highest"}},
        },
        *(
            {
                "mark": upright(10, 1.5, QUIET),
                "encoding": {"y": middle, "x": share_axis(end, "Accuracy")},
            }
            for end in ("lowest", "highest")
        ),
        {
            "mark": {"type": "rule", "strokeWidth": 14, "color": MASS},
            "encoding": {
                "y": middle,
                "x": share_axis("box_low", "Accuracy"),
                "x2": {"field": "box_high"},
                "tooltip": tooltip,
            },
        },
        {
            "mark": upright(18, 2.5, INK),
            "encoding": {"y": middle, "x": share_axis("median_moved", "Accuracy"), "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "color": LOST, "opacity": 1, "stroke": PANEL},
            "encoding": {"y": middle, "x": share_axis("original", "Accuracy"), "tooltip": tooltip},
        },
        *line_labels(),
    ]
    if guessing is not None:
        layers.insert(
            0,
            {
                "data": {"values": [{"guessing": guessing}]},
                "mark": {"type": "rule", "strokeDash": [4, 4], "color": LOST, "strokeWidth": 1.5},
                "encoding": {"x": share_axis("guessing", "Accuracy")},
            },
        )
    label = (
        f"Box plot of accuracy over the positions of the right option, {len(values)} "
        f"{'line' if len(values) == 1 else 'lines'}, each a model under a protocol."
    )
    return figure(label, values, layers, height=48 * len(values))
