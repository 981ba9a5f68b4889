"""Charts of the effect of order on one evaluation: stricter thresholds, subjects, and repeat noise."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from registry.schema.selectables import Row
from registry.verdicts.wording import share as share_text
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
    percentages,
    share_axis,
    upright,
)

SHARES: Final = (50, 60, 70, 80, 90, 100)
"""The shares of variants, in percent, for which there is a metric bmca_…."""


def bmca_curve(metrics: Mapping[str, Row]) -> Chart | None:
    """Draw the share of questions (y) that are right in at least a share of their variants (x).

    metrics: name → `value`, `interval_low` and `interval_high`, for bmca_50 … bmca_100 and for accuracy, the dashed
    line. None if fewer than two points are defined, or if all equal the accuracy: a single order has no curve. Source:
    Cavalin et al., *Improving Score Reliability of Multiple Choice Benchmarks*, BMCA.
    """
    values = [
        {
            "share": share / 100,
            "value": item["value"],
            "low": item.get("interval_low"),
            "high": item.get("interval_high"),
        }
        for share in SHARES
        if (item := metrics.get(f"bmca_{share}", {})).get("value") is not None
    ]
    accuracy = metrics.get("accuracy", {}).get("value")
    if len(values) < 2 or {value["value"] for value in values} == {accuracy}:
        return None
    x = {
        "field": "share",
        "type": "quantitative",
        "title": "Variants that must be right",
        "scale": {"domain": [0.48, 1.02], "nice": False, "zero": False},
        "axis": {"format": "%", "values": [share / 100 for share in SHARES], "grid": False},
    }

    def y(field: str) -> dict[str, Any]:
        return share_axis(field, "Questions that count as right")

    tooltip = percentages(
        ("share", "Variants that must be right"), ("value", "Questions"), ("low", "Interval from"), ("high", "to")
    )
    layers: list[Layer] = [
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "color": MASS, "strokeWidth": 6, "opacity": 0.6},
            "encoding": {"x": x, "y": y("low"), "y2": {"field": "high"}, "tooltip": tooltip},
        },
        {"mark": {"type": "line", "color": LOST, "strokeWidth": 2}, "encoding": {"x": x, "y": y("value")}},
        {
            "mark": {"type": "point", "filled": True, "size": 70, "color": LOST, "opacity": 1, "stroke": PANEL},
            "encoding": {"x": x, "y": y("value"), "tooltip": tooltip},
        },
    ]
    if accuracy is not None:
        layers.insert(
            0,
            {
                "data": {"values": [{"accuracy": accuracy}]},
                "mark": {"type": "rule", "strokeDash": [4, 4], "color": KEPT, "strokeWidth": 1.5},
                "encoding": {"y": y("accuracy")},
            },
        )
    label = f"Curve of BMCA at {len(values)} shares of variants, from {values[0]['share']:.0%} on."
    return figure(label, values, layers, height=240)


def shuffles(rows: Sequence[Row]) -> Chart | None:
    """Draw a line per run with a dot per subject and their median marked: the original order above each shuffle.

    rows: `run` (its number), `name`, `subject` and `accuracy`. None for fewer than three subjects or two runs.
    Source: after the per-subject distributions of Gupta et al., *Changing Answer Order Can Decrease MMLU Accuracy*.
    """
    runs = sorted({(row["run"], row["name"]) for row in rows})
    subjects = {row["subject"] for row in rows}
    if len(runs) < 2 or len(subjects) < 3:
        return None
    place = {run: number for number, (run, _) in enumerate(runs)}
    dots = [
        {"row": place[row["run"]], "subject": row["subject"], "name": row["name"], "accuracy": row["accuracy"]}
        for row in rows
    ]
    medians = [
        {"row": place[run], "label": name, "median": median(row["accuracy"] for row in rows if row["run"] == run)}
        for run, name in runs
    ]
    middle = line(0.68)
    layers: list[Layer] = [
        {
            "data": {"values": dots},
            "mark": {"type": "point", "filled": True, "size": 60, "color": MASS, "opacity": 0.55},
            "encoding": {
                "y": middle,
                "x": share_axis("accuracy", "Accuracy on a subject"),
                "tooltip": [
                    {"field": "subject", "title": "Subject"},
                    {"field": "name", "title": "Order"},
                    *percentages(("accuracy", "Accuracy")),
                ],
            },
        },
        {
            "data": {"values": [item for item in medians if item["row"] > 0]},
            "transform": [{"calculate": str(medians[0]["median"]), "as": "first"}],
            "mark": {"type": "rule", "strokeDash": [4, 4], "color": QUIET, "strokeWidth": 1.5},
            "encoding": {"x": share_axis("first", "Accuracy on a subject")},
        },
        {
            "mark": upright(20, 3, LOST),
            "encoding": {
                "y": middle,
                "x": share_axis("median", "Accuracy on a subject"),
                "tooltip": percentages(("median", "Median over subjects")),
            },
        },
        *line_labels(),
    ]
    label = f"Strips of accuracy on {len(subjects)} subjects in {len(runs)} orders, the medians marked."
    return figure(label, medians, layers, height=52 * len(runs))


def noise(found: Mapping[str, Any]) -> Chart | None:
    """Draw how often two answers differ for the same prompt (the noise floor, dashed) and for another order.

    found: from `registry.studies.noise`. The distance from the floor to the other dot is the order effect. None unless
    both are known.
    """
    floor, order = found["repeat_disagreement"], found["order_disagreement"]
    if floor is None or order is None:
        return None
    values = [
        {"row": row, "label": label, "share": share, "low": interval[0], "high": interval[1], "floor": floor}
        for row, (label, share, interval) in enumerate(
            (
                ("The same prompt again: the noise floor", floor, found["repeat_interval"] or (None, None)),
                ("Another order", order, found["order_interval"] or (None, None)),
            )
        )
    ]
    title = "Pairs of answers that differ"
    middle = line(0.7)
    tooltip = percentages(("share", title), ("low", "Interval from"), ("high", "to"))
    colour = {"field": "row", "type": "ordinal", "scale": {"range": [KEPT, LOST]}, "legend": None}
    layers: list[Layer] = [
        {
            "data": {"values": values[:1]},
            "mark": {"type": "rule", "strokeDash": [4, 4], "color": KEPT, "strokeWidth": 1.5},
            "encoding": {"x": share_axis("floor", title), "tooltip": percentages(("floor", "Noise floor"))},
        },
        {
            "data": {"values": values[1:]},
            "mark": {"type": "rule", "strokeWidth": 4, "color": LOST, "opacity": 0.5},
            "encoding": {"y": middle, "x": share_axis("floor", title), "x2": {"field": "share"}},
        },
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"y": middle, "x": share_axis("low", title), "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "stroke": PANEL},
            "encoding": {"y": middle, "x": share_axis("share", title), "color": colour, "tooltip": tooltip},
        },
        *line_labels(),
    ]
    label = (
        f"Two answers to a question differ in {share_text(floor)} of pairs of the same prompt, the noise floor, and in "
        f"{share_text(order)} of pairs in different orders."
    )
    return figure(label, values, layers, height=104)
