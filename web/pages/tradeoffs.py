"""The price of robustness: a board's models by size, cost, tokens and release date, and the best at each price."""

from datetime import date
from typing import Final

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy import select

from registry.boards.reading import snapshot_as_of
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.tables import Model
from web.charts.scatter import COST, RELEASED, SIZE, TOKENS, Measure, Plot, draw_board, lines_of, pareto, with_front
from web.charts.scatter import PLOTS as DRAWN
from web.pages.boards import find_shown_board, snapshot_document
from web.serving.responses import session
from web.urls import parameters

blueprint = Blueprint("tradeoffs", __name__)

AGAINST: Final = {
    "size": (SIZE, "No model of the board is both smaller and higher"),
    "cost": (COST, "No model of the board is both cheaper and higher"),
    "tokens": (TOKENS, "No model of the board writes less and is higher"),
    "released": (RELEASED, "the state of the art, each the highest of the board when it was released"),
}
"""Axis for comparing a board's models → the value, and a sentence about the models on the steps."""


@blueprint.get("/boards/<name>/trade-offs")
def tradeoffs(name: str) -> ResponseReturnValue:
    """Show a column of a board against size, cost, tokens per answer and release date."""
    document = snapshot_document(snapshot_as_of(session(), find_shown_board(name).name))
    columns = [
        column["name"]
        for column in document["columns"]
        if column["better"] == "higher" and METRICS[column["metric"]].unit == "fraction"
    ]
    chosen = document["sort"] if document["sort"] in columns else next(iter(columns), None)
    if chosen is not None:
        chosen = parameters.choice(request.args, "column", columns, chosen)
    rows = [] if chosen is None else _rows(document, chosen)
    return render_template(
        "tradeoffs.html",
        document=document,
        columns=columns,
        column=chosen,
        labels={item["name"]: METRICS[item["metric"]].label for item in document["columns"]},
        charts_of=[] if chosen is None else [_chart(key, chosen, document, rows) for key in AGAINST],
        lines_of=lines_of,
    )


def _rows(document: Row, column: str) -> list[Row]:
    query = select(Model.name, Model.released).where(Model.name.in_({row["model"] for row in document["rows"]}))
    released = {name: day for name, day in session().execute(query)}  # noqa: C416 - rows are no pairs for the types
    return [
        row
        | {
            "value": row["values"][column]["value"],
            "released_day": None
            if (day := released.get(row["model"])) is None
            else date.fromisoformat(day).toordinal(),
        }
        for row in document["rows"]
        if row["complete"] and row["values"][column]["value"] is not None
    ]


def _chart(key: str, column: str, document: Row, rows: list[Row]) -> Row:
    """Return key, title, chart (None if fewer than two models have the number), and missing (reason → count)."""
    measure, explanation = AGAINST[key]
    metric = next(item["metric"] for item in document["columns"] if item["name"] == column)
    y = Measure("value", METRICS[metric].label, DRAWN["order"].y.words, DRAWN["order"].y.axis)
    plot = Plot(measure, y, explanation)
    measured = [row for row in rows if measure.of(row) is not None]
    chart = draw_board(plot, measured, document["currency"] if key == "cost" else None) if len(measured) > 1 else None
    return {
        "key": key,
        "title": measure.title,
        "chart": None if chart is None else with_front(chart, measured),
        "front": {(row["model"], row["revision"]) for row in pareto(plot, measured)},
        "said": explanation,
        "missing": len(rows) - len(measured),
    }
