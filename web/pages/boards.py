"""Boards on the web: the rankings that an organisation publishes, now and in the past."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from flask import Blueprint, current_app, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.boards.history import Moment, courses, moments
from registry.boards.reading import board_rows, find_snapshot, models_counted, shown_document, snapshot_as_of
from registry.boards.store import answering, board_definition, current_boards
from registry.boards.ways import Way, facts_behind, way_key, way_of, ways_of, who, without_rank
from registry.digests import DIGEST_LENGTH
from registry.errors import UsageError
from registry.leaderboard.rows import UNFINISHED
from registry.lookups import find_board
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.scores.written import lost_answers
from registry.tables import Board, BoardSnapshot, Evaluation, Model
from registry.verdicts.subjects import BoardFacts
from registry.verdicts.table import no_point, say
from web.charts.ranks import ranks_over_time
from web.charts.scatter import PLOTS, Scatter, across_board, lines_of
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.shown import queries
from web.urls import parameters
from web.urls.paging import MAX_PER_PAGE, ROWS_PER_PAGE, Paging, paged
from web.urls.sorting import Order, Sorting, read_sorting
from web.who.identity import viewer

blueprint = Blueprint("boards", __name__)

SNAPSHOTS: Final = 20
"""Number of past snapshots on a board's page."""
DRAWN: Final = 100
"""The most moments in the chart of a board's history, about."""
WAITING: Final = 200
"""The most evaluations in progress on a board's page."""

_shown: Final[OfSealed[Row]] = OfSealed(16)
"""A snapshot never changes, nor do the evaluations it names; documents are large."""


def shown_board(name: str) -> Board:
    """Return the newest version of a board.

    Raises NotFoundError if the viewer may not see it: it would reveal its benchmarks.
    """
    return find_board(session(), parameters.name("board", name))


def snapshot_document(snapshot: BoardSnapshot) -> Row:
    """Return a snapshot as JSON: definition, rows, permanent link, and the SQL that selects the same rows."""
    key = f"{viewer().audience}:{snapshot.digest}:{snapshot.id}:{snapshot.as_of}"
    return {
        **_shown.get(key, lambda: shown_document(session(), snapshot)),
        "permalink": url_for("boards.snapshot", digest=snapshot.digest),
        "sql": snapshot_sql(snapshot),
    }


def snapshot_sql(snapshot: BoardSnapshot) -> str:
    """Return the query that selects the rows of a snapshot."""
    return f"SELECT * FROM board_standings WHERE snapshot = {snapshot.id} ORDER BY column_name, rank, model"  # noqa: S608


def addresses_of_tasks(document: Row, name: str) -> dict[str, str]:
    """Map each task of a board to the URL of the visitor's own board on which it alone counts."""
    tasks = list(dict.fromkeys(entry["task"] for entry in document["entries"]))
    return {
        task: url_for("own.own", name=name, weight=[f"{other}:{int(other == task)}" for other in tasks])
        for task in tasks
    }


def _sorted(rows: list[Row], document: Row) -> tuple[list[Row], Sorting]:
    """Sort rows by the requested column, complete ones first; return them with that column and its direction."""
    natural: dict[str, Order] = {
        column["name"]: "asc" if column["better"] == "lower" else "desc" for column in document["columns"]
    }
    columns = _with_values(document)
    usual = document["sort"] if any(column["name"] == document["sort"] for column in columns) else columns[0]["name"]
    sorting = read_sorting(natural, usual)
    known = [row for row in rows if row["values"][sorting.sort]["value"] is not None]
    known.sort(key=lambda row: row["values"][sorting.sort]["value"], reverse=sorting.order == "desc")
    unknown = [row for row in rows if row["values"][sorting.sort]["value"] is None]
    return sorted(known + unknown, key=lambda row: not row["complete"]), sorting


def _with_values(document: Row) -> list[Row]:
    """Return the columns in which some model has a value; all of them if there are none."""
    columns: list[Row] = document["columns"]
    found = [
        column
        for column in columns
        if any(row["values"][column["name"]]["value"] is not None for row in document["rows"])
    ]
    return found or columns


def paging_of_models(total: int) -> Paging:
    """Return the current page of the board's models. A published site shows all on one page: it has no server."""
    return paged(total, max(1, total) if "site" in current_app.blueprints else ROWS_PER_PAGE)


def in_progress(database: Session, board: Board) -> list[Row]:
    """Return a board's unsealed evaluations, with their progress, newest first."""
    answers = answering(board.entries)
    return queries.evaluations(database, states=UNFINISHED, conditions=[answers(Evaluation)], limit=WAITING)[0]


def _page(snapshot: BoardSnapshot, *, current: bool) -> ResponseReturnValue:
    document = snapshot_document(snapshot)
    rows, sorting = _sorted(document["rows"], document)
    sort = sorting.sort
    names = {sort} | {column["name"] for column in _with_values(document)}
    # The column that would rank the board is omitted if no model has a value: the page explains why.
    explained = sort if document["sort"] in names else document["sort"]
    way = shown_way(document, sort)
    paging = paging_of_models(len(rows))
    shown = rows[paging.offset : paging.offset + paging.per_page]
    listed = {who(row) for row in shown}
    known = moments(session(), snapshot.board.name)
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
        waiting=in_progress(session(), snapshot.board) if current else [],
        history=_listed(known[-SNAPSHOTS:]),
        moments=len(known),
        moved=_moved(snapshot, sort),
        on_this_page=listed,
        labels={column["name"]: METRICS[column["metric"]].label for column in document["columns"]},
        scatters=_scatters(document, listed),
        lines_of=lines_of,
        sentences=say("board", BoardFacts(way.models)),
        links={one.model: url_for("pages.model", model=one.model) for one in way.models},
        spans=way.spans,
        unread=way.unread,
        explained=explained,
        unranked=_unranked(document, explained),
        tokens=any(row["tokens_per_answer"] is not None for row in shown),
        lost_answers=lost_answers(
            session(), [item["evaluation"] for row in shown for item in row["evaluations"] if item is not None]
        ),
        reasons={(item["model"], item["revision"], item["column"]): item["reason"] for item in document["unranked"]},
    )


def _extras(names: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Return extra facts about models for wide windows: (label, model → value), if known for at least one model."""
    described = session().execute(
        select(Model.name, Model.developer, Model.licence, Model.released).where(Model.name.in_(names))
    )
    labels = ("Developer", "Licence", "Released")
    found: dict[str, dict[str, str]] = {label: {} for label in labels}
    for name, *values in described:
        for label, value in zip(labels, values, strict=True):
            if value:
                found[label][name] = value
    return [(label, values) for label, values in found.items() if values]


_counts: Final[OfSealed[tuple[int, int]]] = OfSealed()
"""Documents are large, and this is all that is shown of the other snapshots."""


def _listed(known: list[Moment]) -> list[Row]:
    """Return the moments of a board's history, newest first, with the number of models."""
    counts = [
        _counts.get(f"{moment.id}:{moment.digest}", lambda of=moment.id: models_counted(session(), of))  # type: ignore[misc]
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
"""A snapshot's history never changes."""
_plots: Final[OfSealed[Scatter]] = OfSealed()
"""Nor do its points."""


def _moved(snapshot: BoardSnapshot, column: str) -> Row:
    """Return how the models' values and ranks in a column changed since the board's first snapshot, in row order.

    begin, end: the times of the first and of this snapshot.
    rows: the models that have a value now; `changes` are the times at which a rank began, with the rank or None.
    chart: their ranks over time; None if nothing is ranked or there is only one moment.
    """
    key = f"{snapshot.id}:{snapshot.digest}:{column}"
    return _moves.get(key, lambda: _computed_moves(snapshot, column))


def _computed_moves(snapshot: BoardSnapshot, column: str) -> Row:
    known = moments(session(), snapshot.board.name, until=snapshot.id)
    # The first, the last, and evenly spaced moments between them.
    steps = max(1, -(-len(known) // DRAWN))
    places = sorted({*range(0, len(known), steps), len(known) - 1})
    found = courses(session(), snapshot.board.name, known, column, places)
    rows = []
    for row in board_rows(snapshot):
        course, standing = found.get(who(row)), row["values"][column]
        if course is None or standing["value"] is None:
            continue
        ranks = [
            (known[place].as_of, course.values[place].rank if place in course.values else None) for place in places
        ]
        rows.append(
            {
                "model": row["model"],
                "revision": row["revision"],
                "first": course.first,
                "last": standing,
                "since": course.since,
                "ranks": ranks,
                "changes": _changes(ranks),
            }
        )
    begin, end = known[0].as_of, known[-1].as_of
    return {
        "rows": rows,
        "begin": begin,
        "end": end,
        "moments": len(known),
        "chart": ranks_over_time(rows, begin, end),
    }


def _changes(ranks: Sequence[tuple[datetime, int | None]]) -> list[tuple[datetime, int | None]]:
    """Return the times at which the rank changed, from the first rank on."""
    found: list[tuple[datetime, int | None]] = []
    for moment, rank in ranks:
        if rank != (found[-1][1] if found else None):
            found.append((moment, rank))
    return found


def _in_one_way(document: Row) -> dict[tuple[str, str | None], dict[str, str]]:
    """Map (variants, protocol) → metric → column, for accuracy and worst accuracy, if a board has both.

    If a board shows several keys, the first one counts.
    """
    columns: dict[tuple[str, str | None], dict[str, str]] = {}
    for column in document["columns"]:
        if column["metric"] in ("accuracy", "worst_accuracy"):
            columns.setdefault((column["variants"], column.get("protocol")), {})[column["metric"]] = column["name"]
    return {way: names for way, names in columns.items() if len(names) == 2}


def _unranked(document: Row, column: str) -> list[Row]:
    """Group models without a rank in a column by reason: `models`, `reason`, and the first model's `commands`."""
    found: dict[str, Row] = {}
    for item in document["unranked"]:
        if item["column"] in (None, column):
            of_reason = found.setdefault(item["reason"], {**item, "models": []})
            of_reason["models"].append(item["model"])
    return list(found.values())


_ways: Final[OfSealed[dict[str, Way]]] = OfSealed(16)
"""The evaluations that a snapshot names do not change."""


def shown_way(document: Row, column: str) -> Way:
    """Return the way of prompting that the page shows when it is sorted by a column."""
    return way_of(_ways_of(document), document, column)


def _ways_of(document: Row) -> dict[str, Way]:
    key = f"{viewer().audience}:{document['digest']}"
    return _ways.get(key, lambda: ways_of(document, facts_behind(session(), document)))


def _without_point(document: Row, way: str) -> dict[tuple[str, int], str]:
    """Map (model, revision) → why it has no point in the chart of one way of prompting, though it has both numbers."""
    reasons = {of.model: next(filter(None, map(no_point, of.parts)), None) for of in _ways_of(document)[way].models}
    return {who(row): why for row in document["rows"] if (why := reasons.get(row["model"])) is not None}


def _scatters(document: Row, listed: Collection[tuple[str, int]]) -> list[Row]:
    """Plot accuracy against worst accuracy of the complete models, for each way of prompting that has both columns.

    points: the `listed` models; the chart also shows the others, without their names.
    left_out: reason → models without a point, because part of the suite or a second order is missing.
    """
    found = []
    for (variants, protocol), names in _in_one_way(document).items():
        missing = without_rank(document, list(names.values())) | _without_point(document, way_key(variants, protocol))
        points: list[Row] = []
        others: list[Row] = []
        for row in document["rows"]:
            values = {metric: row["values"][name]["value"] for metric, name in names.items()}
            if who(row) not in missing and None not in values.values():
                (points if who(row) in listed else others).append(
                    {"model": row["model"], "revision": row["revision"], **values}
                )
        left_out: dict[str, list[str]] = {}
        for (model, _), reason in missing.items():
            left_out.setdefault(reason, []).append(model)
        if points and len(points) + len(others) > 1:
            asked = way_key(variants, protocol)
            key = "\n".join((document["digest"], asked, *(f"{point['model']}@{point['revision']}" for point in points)))
            chart = _plots.get(key, lambda of=points, rest=others: across_board(PLOTS["order"], of, others=rest))  # type: ignore[misc]
            found.append({"asked": asked, "points": points, "left_out": left_out, "chart": chart})
    return found


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
    found = shown_board(name)
    moment = parameters.time(request.args, "as_of", end=True)
    return _page(snapshot_as_of(session(), found.name, moment), current=moment is None)


def shown_snapshot(digest: str) -> BoardSnapshot:
    """Return the snapshot with a digest. Raises NotFoundError if the viewer may not see its board."""
    if len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise UsageError(f"snapshot {parameters.shorten(digest)}: give its digest, {DIGEST_LENGTH} hexadecimal digits")
    return find_snapshot(session(), digest)


@blueprint.get("/snapshots/<digest>")
def snapshot(digest: str) -> ResponseReturnValue:
    """Show a board at the time of a snapshot: its permanent link."""
    return _page(shown_snapshot(digest), current=False)
