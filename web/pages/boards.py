"""Boards on the web: the rankings that an organisation publishes, now and in the past."""

from collections.abc import Collection, Sequence
from typing import Final

from flask import Blueprint, current_app, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select

from registry.boards.history import Moment, moments, moved
from registry.boards.reading import find_snapshot, models_counted, report_document, snapshot_as_of
from registry.boards.store import board_definition, current_boards
from registry.boards.ways import OrderEffect, Way, Ways, way_of, ways_of, who
from registry.digests import DIGEST_LENGTH
from registry.errors import UsageError
from registry.lookups import find_board
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.scores.written import lost_answers
from registry.tables import Board, BoardSnapshot, Model
from web.charts.ranks import ranks_over_time
from web.charts.scatter import PLOTS, Scatter, draw_board, lines_of
from web.charts.spans import column_of_dots, mean_right
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.shown import queries
from web.urls import parameters
from web.urls.paging import MAX_PER_PAGE, ROWS_PER_PAGE, Paging, find_page
from web.urls.sorting import Order, Sorting, read_sorting
from web.who.identity import viewer

blueprint = Blueprint("boards", __name__)

SNAPSHOTS: Final = 20
"""Number of past snapshots on a board's page."""
_shown: Final[OfSealed[Row]] = OfSealed(16)
"""Cached documents, which are large; a snapshot never changes, nor do its evaluations."""


def find_shown_board(name: str) -> Board:
    """Return the newest version of a board.

    Raises NotFoundError if the viewer may not see it, since it would reveal its benchmarks.
    """
    return find_board(session(), parameters.name("board", name))


def snapshot_document(snapshot: BoardSnapshot) -> Row:
    """Return a snapshot as JSON: definition, rows, permanent link, and the SQL that selects the same rows."""
    key = f"{viewer().audience}:{snapshot.digest}:{snapshot.id}:{snapshot.as_of}"
    return {
        **_shown.get(key, lambda: report_document(session(), snapshot)),
        "permalink": url_for("boards.snapshot", digest=snapshot.digest),
        "sql": snapshot_sql(snapshot),
    }


def snapshot_sql(snapshot: BoardSnapshot) -> str:
    """Return the query that selects the rows of a snapshot."""
    return f"SELECT * FROM board_standings WHERE snapshot = {snapshot.id} ORDER BY column_name, rank, model"  # noqa: S608


def addresses_of_tasks(document: Row, name: str) -> dict[str, str]:
    """Map each task of a board to the URL of the visitor's own board with the weight on that task alone."""
    tasks = list(dict.fromkeys(entry["task"] for entry in document["entries"]))
    return {
        task: url_for("own.own", name=name, weight=[f"{weighted}:{int(weighted == task)}" for weighted in tasks])
        for task in tasks
    }


def _sort_rows(rows: list[Row], document: Row) -> tuple[list[Row], Sorting]:
    """Sort rows by the requested column, complete ones first; return them with that column and its direction."""
    natural: dict[str, Order] = {
        column["name"]: "asc" if column["better"] == "lower" else "desc" for column in document["columns"]
    }
    columns = _with_values(document)
    usual = document["sort"] if any(column["name"] == document["sort"] for column in columns) else columns[0]["name"]
    sorting = read_sorting(natural, usual)
    measured = [row for row in rows if row["values"][sorting.sort]["value"] is not None]
    measured.sort(key=lambda row: row["values"][sorting.sort]["value"], reverse=sorting.order == "desc")
    unknown = [row for row in rows if row["values"][sorting.sort]["value"] is None]
    return sorted(measured + unknown, key=lambda row: not row["complete"]), sorting


def _with_values(document: Row) -> list[Row]:
    """Return the columns in which some model has a value; all of them if there are none."""
    columns: list[Row] = document["columns"]
    filled = [
        column
        for column in columns
        if any(row["values"][column["name"]]["value"] is not None for row in document["rows"])
    ]
    return filled or columns


def paging_of_models(total: int) -> Paging:
    """Return the current page of the board's models. A published site has all on one page, since it has no server."""
    return find_page(total, max(1, total) if "site" in current_app.blueprints else ROWS_PER_PAGE)


def _page(snapshot: BoardSnapshot, *, current: bool) -> ResponseReturnValue:
    document = snapshot_document(snapshot)
    rows, sorting = _sort_rows(document["rows"], document)
    sort = sorting.sort
    names = {sort} | {column["name"] for column in _with_values(document)}
    # The column that would rank the board is omitted if no model has a value: the page explains why.
    explained = sort if document["sort"] in names else document["sort"]
    ways = _ways_of(document)
    paging = paging_of_models(len(rows))
    shown = rows[paging.offset : paging.offset + paging.per_page]
    listed = {(row["model"], row["revision"]) for row in shown}
    all_moments = moments(session(), snapshot.board.name)
    return render_template(
        "board.html",
        document=document,
        columns=[column for column in document["columns"] if column["name"] in names],
        rows=shown,
        paging=paging,
        most_on_a_page=MAX_PER_PAGE,
        sorting=sorting,
        sort=sort,
        extras=_extras([row["model"] for row in shown]),
        together=document["together"].get(sort),
        current=current,
        tasks=addresses_of_tasks(document, snapshot.board.name),
        as_of=request.args.get("as_of", ""),
        waiting=queries.in_progress(session(), snapshot.board) if current else [],
        history=_list_moments(all_moments[-SNAPSHOTS:]),
        moments=len(all_moments),
        moved=_list_moves(snapshot, sort),
        on_this_page=listed,
        scatters=_scatters(ways.order_effects, document["digest"], listed),
        lines_of=lines_of,
        explained=explained,
        unranked=_group_unranked(document, explained),
        tokens=any(row["tokens_per_answer"] is not None for row in shown),
        lost_answers=lost_answers(
            session(), [item["evaluation"] for row in shown for item in row["evaluations"] if item is not None]
        ),
        **standings_context(document, way_of(ways, document, sort), rows, paging),
    )


def _extras(names: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Return extra facts about models for wide windows: (label, model → value), if known for at least one model."""
    described = session().execute(
        select(Model.name, Model.developer, Model.licence, Model.released).where(Model.name.in_(names))
    )
    labels = ("Developer", "Licence", "Released")
    facts: dict[str, dict[str, str]] = {label: {} for label in labels}
    for name, *values in described:
        for label, value in zip(labels, values, strict=True):
            if value:
                facts[label][name] = value
    return [(label, values) for label, values in facts.items() if values]


_counts: Final[OfSealed[tuple[int, int]]] = OfSealed()
"""Numbers of models of the other snapshots: the page shows nothing else of them, and documents are large."""


def _list_moments(known: list[Moment]) -> list[Row]:
    """Return the moments of a board's history, newest first, with the number of models."""
    counts = [
        _counts.get(f"{moment.id}:{moment.digest}", lambda moment_id=moment.id: models_counted(session(), moment_id))  # type: ignore[misc]
        for moment in known
    ]
    return [
        {
            "digest": moment.digest,
            "as_of": moment.as_of,
            "snapshots": moment.snapshots,
            "models": models,
            "complete": complete,
        }
        for moment, (models, complete) in zip(reversed(known), reversed(counts), strict=True)
    ]


_moves: Final[OfSealed[Row]] = OfSealed()
"""Cached histories; a snapshot's history never changes."""
_plots: Final[OfSealed[Scatter]] = OfSealed()
"""Cached scatter plots; a snapshot's points never change."""


def _list_moves(snapshot: BoardSnapshot, column: str) -> Row:
    """Return how the models moved in a column; chart: None if nothing is ranked or there is only one moment."""

    def draw() -> Row:
        movements = moved(session(), snapshot, column)
        return movements | {"chart": ranks_over_time(movements["rows"], movements["begin"], movements["end"])}

    return _moves.get(f"{snapshot.id}:{snapshot.digest}:{column}", draw)


def _group_unranked(document: Row, column: str) -> list[Row]:
    """Group models without a rank in a column by reason: `models`, `reason`, and the first model's `commands`."""
    by_reason: dict[str, Row] = {}
    for item in document["unranked"]:
        if item["column"] in (None, column):
            of_reason = by_reason.setdefault(item["reason"], {**item, "models": []})
            of_reason["models"].append(item["model"])
    return list(by_reason.values())


_ways: Final[OfSealed[Ways]] = OfSealed(16)
"""Cached protocol groups; the evaluations of a snapshot do not change."""


def _ways_of(document: Row) -> Ways:
    key = f"{viewer().audience}:{document['digest']}"
    return _ways.get(key, lambda: ways_of(session(), document))


def _scatters(effects: Sequence[OrderEffect], digest: str, listed: Collection[tuple[str, int]]) -> list[Row]:
    """Plot accuracy against worst accuracy, for each protocol group in which at least two models have both.

    listed: the models with names; the chart also shows the others, without names.
    """
    scatters = []
    for effect in effects:
        points = [row for row in effect.rows if (row["model"], row["revision"]) in listed]
        others = [row for row in effect.rows if (row["model"], row["revision"]) not in listed]
        if points and len(effect.rows) > 1:
            key = "\n".join((digest, effect.asked, *(f"{point['model']}@{point['revision']}" for point in points)))
            chart = _plots.get(key, lambda drawn=points, rest=others: draw_board(PLOTS["order"], drawn, others=rest))  # type: ignore[misc]
            scatters.append({"asked": effect.asked, "points": points, "left_out": effect.left_out, "chart": chart})
    return scatters


def standings_context(document: Row, way: Way, rows: Sequence[Row], paging: Paging) -> Row:
    """Return the variables of a board's table and of the sentences above it.

    way: the protocol group in the chart. rows: of all pages, in their order.
    """
    shown = rows[paging.offset : paging.offset + paging.per_page]
    spans = [span for row in shown if (span := way.spans.get(who(row))) is not None]
    guessing = next((place for place, row in enumerate(rows) if row["model"] in way.guessing), 0)
    printed = {"accuracy": f"{METRICS['accuracy'].label}, as printed"} if mean_right(spans) else {}
    return {
        "way": way,
        "page_of_guessing": guessing // paging.per_page + 1,
        "spans": spans,
        "right_column": column_of_dots(spans, [column["metric"] for column in document["columns"]]),
        "links": {
            rated.model: url_for("pages.model", model=rated.model)
            for rated in way.models
            if any(rated.model in sentence.text for sentence in way.sentences)
        },
        "labels": {
            column["name"]: printed.get(column["metric"], METRICS[column["metric"]].label)
            for column in document["columns"]
        },
        "reasons": {(item["model"], item["revision"], item["column"]): item["reason"] for item in document["unranked"]},
    }


@blueprint.get("/boards")
def boards() -> ResponseReturnValue:
    """Show every board."""
    items = [(board, board_definition(board)) for board in current_boards(session())]
    newest = select(BoardSnapshot.board_id, func.max(BoardSnapshot.as_of)).group_by(BoardSnapshot.board_id)
    as_of = {row[0]: row[1] for row in session().execute(newest)}
    return render_template("boards.html", boards=items, as_of=as_of)


@blueprint.get("/boards/<name>")
def board(name: str) -> ResponseReturnValue:
    """Show a board as it is now, or as of a date."""
    shown_board = find_shown_board(name)
    moment = parameters.time(request.args, "as_of", end=True)
    return _page(snapshot_as_of(session(), shown_board.name, moment), current=moment is None)


def find_shown_snapshot(digest: str) -> BoardSnapshot:
    """Return the snapshot with a digest. Raises NotFoundError if the viewer may not see its board."""
    if len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise UsageError(f"snapshot {parameters.shorten(digest)}: give its digest, {DIGEST_LENGTH} hexadecimal digits")
    return find_snapshot(session(), digest)


@blueprint.get("/snapshots/<digest>")
def snapshot(digest: str) -> ResponseReturnValue:
    """Show a board at the time of a snapshot: its permanent link."""
    return _page(find_shown_snapshot(digest), current=False)
