"""Charts of one evaluation's answers: adversarial options, positions, parts of the benchmark, flips."""

from collections.abc import Sequence
from typing import Final

from registry.prompting.labels import letter
from registry.schema.selectables import Row
from registry.verdicts.wording import share as share_text
from web.charts.drawing import (
    INK,
    KEPT,
    LOST,
    Chart,
    Layer,
    figure,
    line,
    line_labels,
    percentages,
    share_axis,
)

# Adversarial options


def adversarial(rows: Sequence[Row]) -> Chart:
    """Draw two bars per inserted text: how often it is chosen as the protocol reads the answer, and by NPSQ.

    rows: rows of the view `adversarial_effects`.
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


def positions(rows: Sequence[Row], prompts: int) -> Chart:
    """Draw two bars per position: the share of prompts that chose it, and the share with the right option there.

    rows: from `effects.positions`; prompts: their total number.
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
"""Most lines of a chart, so that it stays readable; the table has all parts."""


def parts(rows: Sequence[Row]) -> Chart:
    """Draw a line per part of a benchmark from worst accuracy to accuracy, the largest loss first.

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
            # The last mark is on top: without a loss, the dot of accuracy hides the others.
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


# Flips

MOST_COUNTS: Final = 13
"""Most bars whose labels fit on a phone; with more, shares replace the counts."""


def flip_bins(rows: Sequence[Row]) -> list[Row]:
    """Count questions by the number of orders in which they are right, from none to all: `label`, `steady`, `flips`.

    rows: from `chart_data.right_in`. Bins are counts if all questions have the same few orders, else percentages.
    """
    sizes = {row["variants"] for row in rows}
    orders = max(sizes, default=0)
    by_count = len(sizes) == 1 and orders < MOST_COUNTS
    labels = (
        [str(number) for number in range(orders + 1)]
        if by_count
        else ["none", "> 0", *(f"≥ {10 * tenth}" for tenth in range(1, 10)), "all"]
    )
    bins = [{"label": label, "steady": 0, "flips": 0} for label in labels]
    for row in rows:
        if by_count:
            place = row["correct"]
        elif row["correct"] in (0, row["variants"]):
            place = 0 if row["correct"] == 0 else 11
        else:
            place = 1 + 10 * row["correct"] // row["variants"]
        bins[place]["steady" if row["steady"] else "flips"] += row["questions"]
    return bins


def flips(bins: Sequence[Row], orders: str = "orders") -> Chart:
    """Draw a bar per number of right orders: the number of questions, split by whether the answer changes.

    bins: from `flip_bins`. orders: the name for a question's prompts: `repeats` if all are the same prompt, `answers`
    if some were repeated.
    """
    mixed = orders == "answers"
    names = {"steady": "Same answer in all", "flips": "Answers differ" if orders == "repeats" else "Answer flips"}
    questions = sum(row["steady"] + row["flips"] for row in bins)
    values = [
        {"label": row["label"], "what": name, "questions": row[field], "share": row[field] / questions}
        for row in bins
        for field, name in names.items()
    ]
    by_count = bins[0]["label"] == "0"
    layer = {
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "label",
                "type": "nominal",
                "sort": None,
                "title": f"Right {'' if mixed else 'in, '}of {len(bins) - 1} {orders}"
                if by_count
                else f"{'Right answers' if mixed else f'{orders.capitalize()} answered right'}, in percent",
                "axis": {"labelAngle": 0, "labelOverlap": "parity"},
            },
            "y": {"field": "questions", "type": "quantitative", "title": "Questions", "axis": {"tickCount": 4}},
            "color": {"field": "what", "scale": {"domain": list(names.values()), "range": [KEPT, LOST]}},
            "order": {"field": "what", "sort": "descending"},
            "tooltip": [
                {"field": "label", "title": "Right in"},
                {"field": "what", "title": "Answer"},
                {"field": "questions", "title": "Questions", "type": "quantitative"},
                *percentages(("share", "Share of questions")),
            ],
        },
    }
    flipping = sum(row["flips"] for row in bins) / questions
    return figure(
        f"Bars for {len(bins)} numbers of {orders} answered right, from none to all: how many questions. "
        f"On {share_text(flipping)} of them the answer changes.",
        values,
        [layer],
        height=200,
    )


# A model's evaluations


def history(rows: Sequence[Row]) -> Chart | None:
    """Draw a line per evaluation from worst accuracy to accuracy, at the day of its seal; None for a single evaluation.

    rows: `label`, `sealed_at`, `accuracy` and `worst_accuracy`.
    """
    values = [
        {"day": row["sealed_at"].isoformat(), **{key: row[key] for key in ("label", "accuracy", "worst_accuracy")}}
        for row in rows
        if row["sealed_at"] is not None
    ]
    if len({value["day"][:10] for value in values}) < 2:
        return None
    names = {"accuracy": ("Accuracy", KEPT), "worst_accuracy": ("Worst accuracy", LOST)}
    scale = {"domain": [name for name, _ in names.values()], "range": [colour for _, colour in names.values()]}
    x = {"field": "day", "type": "temporal", "title": None, "axis": {"grid": False, "labelOverlap": True}}
    tooltip = [
        {"field": "label", "title": "Evaluation"},
        {"field": "day", "type": "temporal", "title": "Sealed"},
        *percentages(*((field, name) for field, (name, _) in names.items())),
    ]
    layers: list[Layer] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "color": LOST, "opacity": 0.4},
            "encoding": {"x": x, "y": share_axis("worst_accuracy", "Accuracy"), "y2": {"field": "accuracy"}},
        },
        *(
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": share_axis(field, "Accuracy"),
                    "color": {"datum": name, "scale": scale, "legend": {"symbolType": "circle"}},
                    "tooltip": tooltip,
                },
            }
            for field, (name, _) in reversed(names.items())
        ),
    ]
    label = f"Accuracy and worst accuracy of {len(values)} evaluations over the days on which they were sealed."
    return figure(label, values, layers, height=200)
