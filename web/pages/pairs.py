"""The page of the pairs of a board's models that differ measurably, all pairs compared at once."""

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from registry.boards.definition import parse_column
from registry.boards.reading import snapshot_as_of
from registry.metrics import METRICS
from web.pages.boards import find_shown_board, paging_of_models, snapshot_document
from web.serving.responses import session
from web.urls import parameters

blueprint = Blueprint("pairs", __name__)


@blueprint.get("/boards/<name>/pairs")
def pairs(name: str) -> ResponseReturnValue:
    """Show the pairs of ranked models in one column of a board's newest snapshot."""
    snapshot = snapshot_as_of(session(), find_shown_board(name).name)
    document = snapshot_document(snapshot)
    columns = [column["name"] for column in document["columns"]]
    column = parameters.choice(request.args, "column", columns, document["sort"])
    rows = [row | {"value": row["values"][column]} for row in document["rows"] if row["values"][column]["rank"]]
    rows.sort(key=lambda row: row["value"]["rank"])
    paging = paging_of_models(len(rows))
    together = document["together"].get(column)
    return render_template(
        "board_pairs.html",
        document=document,
        paging=paging,
        rows=rows,
        shown=rows[paging.offset : paging.offset + paging.per_page],
        first=paging.offset,
        column=column,
        metric=parse_column(column).metric,
        labels={item["name"]: METRICS[item["metric"]].label for item in document["columns"]},
        together=together,
        matrix=together["matrix"] if together and len(together["matrix"]) > 1 else [],
    )
