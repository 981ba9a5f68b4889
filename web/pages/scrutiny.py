"""How sure a board is: all its ranks at once, and what its questions could tell."""

from typing import Final

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from registry.boards.definition import parse_column
from registry.boards.reading import snapshot_as_of
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.tables import BoardSnapshot
from web.pages.boards import paging_of_models, shown_board, snapshot_document
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.urls import parameters

blueprint = Blueprint("scrutiny", __name__)

_found: Final[OfSealed[Row]] = OfSealed()
"""A snapshot never changes."""

MODELS_PLANNED: Final = 30
"""Of how many models all pairs are compared in the plan of a board that ranks fewer than three."""


@blueprint.get("/boards/<name>/scrutiny")
def scrutiny(name: str) -> ResponseReturnValue:
    """What a board's newest snapshot can and cannot tell, in one of its columns."""
    snapshot = snapshot_as_of(session(), shown_board(name).name)
    document = snapshot_document(snapshot)
    columns = [column["name"] for column in document["columns"]]
    column = parameters.choice(request.args, "column", columns, document["sort"])
    found = _found.get(f"{snapshot.digest}:{column}", lambda: _of_column(snapshot, document, column))
    paging = paging_of_models(len(found["rows"]))
    return render_template(
        "board_scrutiny.html",
        document=document,
        paging=paging,
        shown=found["rows"][paging.offset : paging.offset + paging.per_page],
        column=column,
        metric=parse_column(column).metric,
        labels={item["name"]: METRICS[item["metric"]].label for item in document["columns"]},
        together=document["together"].get(column),
        fragile=document.get("fragile", {}).get(column),
        **found,
    )


def _of_column(snapshot: BoardSnapshot, document: Row, column: str) -> Row:
    """Ranked rows, best first, with the questions that each would need; and the plan."""
    # Here rather than above: the website starts without numpy, and most of its pages never need it.
    from registry.boards import planning
    from registry.statistics.bootstrap import MINIMUM_QUESTIONS

    together = document["together"].get(column)
    ranked = [row for row in document["rows"] if row["values"][column]["rank"] is not None]
    ranked.sort(key=lambda row: row["values"][column]["rank"])
    critical = together["critical_value"] if together else None
    counts = planning.questions_of_column(snapshot.board, parse_column(column))
    models = len(ranked) if len(ranked) > 2 else MODELS_PLANNED
    can_plan = planning.can_be_planned(parse_column(column).metric)
    equivalent = planning.equivalent_questions(counts)
    return {
        "rows": [
            {"model": row["model"], "revision": row["revision"], "value": row["values"][column]}
            | {"needed": planning.needed(row["values"][column], critical) if together else (None, None)}
            for row in ranked
        ],
        "counts": counts,
        "equivalent": equivalent,
        "models": models,
        "plan": planning.plan(counts, models) if can_plan and equivalent >= MINIMUM_QUESTIONS else [],
        "measured": planning.measured(document, column),
    }
