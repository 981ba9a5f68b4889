"""One evaluation's answers: adversarial options, positions, parts of the benchmark, one question."""

from collections.abc import Sequence
from typing import Final

from registry.results.selectables import Row
from web.charts.drawing import (
    INK,
    KEPT,
    LOST,
    PANEL,
    Chart,
    Layer,
    figure,
    line,
    line_labels,
    named,
    percentages,
    share_axis,
)
from web.formats import letter

# Adversarial options


@named
def adversarial(rows: Sequence[Row]) -> Chart:
    """Two bars per inserted text: how often it is chosen as the protocol reads the answer, and by NPSQ.

    rows: of the view `adversarial_effects`.
    """
    names = {"flipped": "As the protocol reads the answer", "npsq_flipped": "By NPSQ"}
    values = [
        {"row": number, "label": row["distractor"], "flipped": row["flipped"], "npsq_flipped": row["npsq_flipped"]}
        for number, row in enumerate(rows)
    ]
    title = "How often the inserted text is chosen"
    layers = [
        {
            "transform": [{"filter": f"isValid(datum.{field})"}],
            "mark": {"type": "rule", "strokeWidth": 9},
            "encoding": {
                "y": line(band),
                "x": share_axis("nothing", title),
                "x2": {"field": field},
                "color": {
                    "datum": name,
                    "scale": {"domain": list(names.values()), "range": [LOST, KEPT]},
                    "legend": {"symbolType": "stroke", "symbolStrokeWidth": 9, "symbolSize": 150},
                },
                "tooltip": percentages((field, name)),
            },
        }
        for (field, name), band in zip(names.items(), (0.56, 0.79), strict=True)
    ]
    return figure(
        f"Bars for {len(values)} inserted texts: how often each is chosen.",
        [value | {"nothing": 0} for value in values],
        [*layers, *line_labels()],
        height=52 * len(values),
    )


# Positions


@named
def positions(rows: Sequence[Row], prompts: int) -> Chart:
    """Two bars per position: share of prompts that chose it, and share with the right option there.

    rows: of `effects.positions`; prompts: how many there are in all.
    """
    names = {"answered": "Chosen here", "right_here": "Right answer here"}
    values = [
        {"position": letter(row["position"]), "what": name, "share": row[field] / prompts}
        for row in rows
        for field, name in names.items()
    ]
    layer = {
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "position",
                "type": "nominal",
                "sort": None,
                "title": "Position",
                "axis": {"labelAngle": 0},
            },
            "xOffset": {"field": "what", "sort": None},
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": "Share of prompts",
                "axis": {"format": "%", "tickCount": 4},
            },
            "color": {
                "field": "what",
                "scale": {"domain": list(names.values()), "range": [LOST, KEPT]},
            },
            "tooltip": [{"field": "what", "title": "Bar"}, *percentages(("share", "Share of prompts"))],
        },
    }
    return figure(
        f"Bars for {len(rows)} positions: how often each is chosen next to how often the right answer is there.",
        values,
        [layer],
        height=200,
    )


# Parts of a benchmark

PART_METRICS: Final = ("accuracy", "worst_accuracy", "retest_accuracy")
MOST_PARTS: Final = 30
"""More lines would make the chart unreadable; the table has them all."""


@named
def parts(rows: Sequence[Row]) -> Chart:
    """A line per part of a benchmark from worst accuracy to accuracy, the largest loss first.

    rows: `name`, `accuracy`, `worst_accuracy` and `retest_accuracy`; the last may be None.
    """
    ordered = sorted(rows, key=lambda row: (row["worst_accuracy"] - row["accuracy"], row["name"]))[:MOST_PARTS]
    values = [
        {"row": number, "label": row["name"], **{key: row[key] for key in PART_METRICS}}
        for number, row in enumerate(ordered)
    ]
    middle = line(0.7)
    points = {
        "accuracy": ("Right in the original order", "circle", KEPT),
        "retest_accuracy": ("Right again when the options move", "stroke", INK),
        "worst_accuracy": ("Right in every order", "circle", LOST),
    }
    scale = {
        "domain": [name for name, _, _ in points.values()],
        "range": [colour for _, _, colour in points.values()],
    }
    tooltip = percentages(*((field, name) for field, (name, _, _) in points.items()))
    layers: list[Layer] = [
        {
            "mark": {"type": "rule", "strokeWidth": 4, "color": LOST, "opacity": 0.5},
            "encoding": {
                "y": middle,
                "x": share_axis("worst_accuracy", "Accuracy"),
                "x2": {"field": "accuracy"},
                "tooltip": tooltip,
            },
        },
        *(
            {
                "transform": [{"filter": f"isValid(datum.{field})"}],
                "mark": {
                    "type": "point",
                    "filled": shape == "circle",
                    "shape": shape,
                    "angle": 90 if shape == "stroke" else 0,
                    "size": 170 if shape == "stroke" else 70,
                    "strokeWidth": 2,
                    "opacity": 1,
                },
                "encoding": {
                    "y": middle,
                    "x": share_axis(field, "Accuracy"),
                    "color": {"datum": name, "scale": scale, "legend": {"symbolType": "circle"}},
                    "tooltip": tooltip,
                },
            }
            # The last is on top: where nothing is lost, the dot of accuracy hides the others.
            for field, (name, shape, _) in reversed(points.items())
        ),
        *line_labels(),
    ]
    return figure(
        f"Lines for {len(values)} parts of the benchmark, from worst accuracy to accuracy.",
        values,
        layers,
        height=40 * len(values),
    )


# One question

MOST_ORDERS: Final = 48
"""More columns than this are too narrow to tell apart; the cards below the chart have them all."""


@named
def probabilities(predictions: Sequence[Row], options: Sequence[str], answer: int) -> Chart | None:
    """A heat map: a row per option, a column per order, darker where more probable, lettered by position.

    predictions: variants with exactly the question's own options, with their probabilities by position; those without
    probabilities are left out. options: by ordinal. None where fewer than two are left.
    """
    known = [row for row in predictions if row["label_probabilities"] is not None][:MOST_ORDERS]
    if len(known) < 2:
        return None
    # In front, or a long text would push the mark out of sight.
    labels = [f"✓ {text}" if option == answer else text for option, text in enumerate(options)]
    values = [
        {
            "order": number,
            "next": number + 1,
            "option": option,
            "top": option + 0.4,
            "bottom": option + 0.94,
            "position": letter(position),
            "probability": row["label_probabilities"][position],
            "chosen": position == row["chosen_position"],
            "name": row["variant_name"] or f"variant {row['variant']}",
            "text": labels[option],
        }
        for number, row in enumerate(known)
        for position, option in enumerate(row["shown"])
    ]
    x = {
        "type": "quantitative",
        "scale": {"domain": [0, len(known)], "nice": False},
        "axis": None,
    }
    y = {
        "type": "quantitative",
        "scale": {"domain": [len(options), 0], "nice": False},
        "axis": None,
    }
    cell = {
        "x": {"field": "order", **x},
        "x2": {"field": "next"},
        "y": {"field": "top", **y},
        "y2": {"field": "bottom"},
    }
    tooltip = [
        {"field": "text", "title": "Option"},
        {"field": "name", "title": "Order"},
        {"field": "position", "title": "Shown at"},
        *percentages(("probability", "Probability")),
    ]
    layers: list[Layer] = [
        {
            "mark": {"type": "rect", "fill": KEPT, "stroke": PANEL, "strokeWidth": 1},
            "encoding": {
                **cell,
                # Never so dark that the letter on it could not be read, in either scheme.
                "fillOpacity": {
                    "field": "probability",
                    "type": "quantitative",
                    "scale": {"domain": [0, 1], "range": [0.03, 0.55]},
                    "legend": None,
                },
                "tooltip": tooltip,
            },
        },
        {
            "transform": [{"filter": "datum.chosen"}],
            "mark": {"type": "rect", "fillOpacity": 0, "stroke": LOST, "strokeWidth": 2},
            "encoding": cell,
        },
        {
            "transform": [
                {"calculate": "datum.order + 0.5", "as": "middle"},
                {"calculate": "(datum.top + datum.bottom) / 2", "as": "height"},
            ],
            # Where the columns are too narrow for letters there are none.
            "mark": {"type": "text", "opacity": {"expr": f"width / {len(known)} > 13 ? 1 : 0"}},
            "encoding": {
                "x": {"field": "middle", **x},
                "y": {"field": "height", **y},
                "text": {"field": "position"},
            },
        },
        {
            "data": {"values": [{"option": option + 0.06, "text": text} for option, text in enumerate(labels)]},
            "mark": {"type": "text", "align": "left", "baseline": "top", "limit": {"expr": "width"}},
            "encoding": {"x": {"value": 0}, "y": {"field": "option", **y}, "text": {"field": "text"}},
        },
    ]
    return figure(
        f"Heat map of the probability of {len(options)} options in {len(known)} orders.",
        values,
        layers,
        height=48 * len(options),
    )
