"""Boards on the web: what an organisation publishes, now and in the past."""

from typing import Final

from flask import Blueprint, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.boards.reading import board_rows, find_snapshot, snapshot_as_of, snapshots_of
from registry.boards.store import board_definition, current_boards
from registry.digests import DIGEST_LENGTH
from registry.errors import UsageError
from registry.lookups import find_board
from registry.metrics import METRICS
from registry.results.leaderboard import UNFINISHED
from registry.results.selectables import Row
from registry.tables import Board, BoardEntry, BoardSnapshot, Evaluation
from web import charts, parameters, queries
from web.pages import luck
from web.responses import session

blueprint = Blueprint("boards", __name__)

SNAPSHOTS: Final = 20
"""How many past snapshots a board's page shows."""


def shown_board(name: str) -> Board:
    """The newest version of a board. NotFoundError if the viewer may not see it: it would reveal its benchmarks."""
    return find_board(session(), parameters.name("board", name))


def snapshot_document(snapshot: BoardSnapshot) -> Row:
    """A snapshot as JSON: definition, rows, permanent link, and the SQL that reads the same from the database."""
    return {
        **snapshot.document,
        "rows": board_rows(snapshot),
        "as_of": snapshot.as_of,
        "digest": snapshot.digest,
        "permalink": url_for("boards.snapshot", digest=snapshot.digest),
        "sql": snapshot_sql(snapshot),
    }


def snapshot_sql(snapshot: BoardSnapshot) -> str:
    """The query whose rows a snapshot shows."""
    return f"SELECT * FROM board_standings WHERE snapshot = {snapshot.id} ORDER BY column_name, rank, model"  # noqa: S608


def _sorted(rows: list[Row], document: Row) -> tuple[list[Row], str, str]:
    """Rows by the column asked for, the complete ones first; with that column and its direction."""
    columns = {column["name"]: column for column in document["columns"]}
    sort = parameters.choice(request.args, "sort", columns, document["sort"])
    natural = "asc" if columns[sort]["better"] == "lower" else "desc"
    order = parameters.choice(request.args, "order", ("asc", "desc"), natural)
    known = [row for row in rows if row["values"][sort]["value"] is not None]
    known.sort(key=lambda row: row["values"][sort]["value"], reverse=order == "desc")
    unknown = [row for row in rows if row["values"][sort]["value"] is None]
    return sorted(known + unknown, key=lambda row: not row["complete"]), sort, order


def in_progress(database: Session, board: Board) -> list[Row]:
    """Evaluations of a board that are not sealed yet, with their progress."""
    matching = (
        select(BoardEntry.ordinal)
        .where(
            BoardEntry.board_id == board.id,
            BoardEntry.benchmark_version_id == Evaluation.benchmark_version_id,
            BoardEntry.protocol_id == Evaluation.protocol_id,
            BoardEntry.variant_set_id == Evaluation.variant_set_id,
        )
        .exists()
    )
    ids = database.scalars(
        select(Evaluation.id).where(Evaluation.seal.is_(None), Evaluation.state != "cancelled", matching).limit(200)
    ).all()
    found = queries.progress(database, ids)
    items, _ = queries.evaluations(database, states=UNFINISHED, limit=1000)
    return [item | {"progress": found[item["evaluation_id"]]} for item in items if item["evaluation_id"] in found]


def _page(snapshot: BoardSnapshot, *, current: bool) -> ResponseReturnValue:
    document = snapshot_document(snapshot)
    rows, sort, order = _sorted(document["rows"], document)
    history = snapshots_of(session(), snapshot.board.name)[:SNAPSHOTS]
    return render_template(
        "board.html",
        document=document,
        rows=rows,
        sort=sort,
        order=order,
        current=current,
        as_of=request.args.get("as_of", ""),
        waiting=in_progress(session(), snapshot.board) if current else [],
        history=history,
        moved=_moved(history[::-1], sort, [(row["model"], row["revision"]) for row in rows]),
        labels={column["name"]: METRICS[column["metric"]].label for column in document["columns"]},
        scatters=_scatters(document),
        lucky=_lucky(document),
    )


def _moved(history: list[BoardSnapshot], column: str, models: list[tuple[str, int]]) -> list[Row]:
    """How the models' values in a column changed from snapshot to snapshot, with the points of a small line.

    history: oldest first; those without the column are skipped. points: 0 to 100 along, by time; 0 to 20 down, from
    the highest value of all models to the lowest. Empty for fewer than two snapshots.
    """
    known = [item for item in history if any(one["name"] == column for one in item.document["columns"])]
    if len(known) < 2:
        return []
    begin, end = known[0].as_of, known[-1].as_of
    span = (end - begin).total_seconds() or 1.0
    values: dict[tuple[str, int], list[tuple[BoardSnapshot, Row]]] = {}
    for item in known:
        for row in item.document["rows"]:
            if row["values"][column]["value"] is not None:
                values.setdefault((row["model"], row["revision"]), []).append((item, row["values"][column]))
    numbers = [standing["value"] for points in values.values() for _, standing in points]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    found = []
    for model, revision in models:
        points = values.get((model, revision), [])
        if points:
            places = [
                (100 * (item.as_of - begin).total_seconds() / span, 20 * (high - one["value"]) / ((high - low) or 1.0))
                for item, one in points
            ]
            found.append(
                {
                    "model": model,
                    "revision": revision,
                    "first": points[0][1],
                    "last": points[-1][1],
                    "since": points[0][0].as_of,
                    "snapshots": len(points),
                    "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in places),
                    "end": places[-1],
                }
            )
    return found


def _in_one_way(document: Row) -> dict[tuple[str, str | None], dict[str, str]]:
    """(Variants, protocol) → metric → column, of accuracy and worst accuracy, where a board has both."""
    columns: dict[tuple[str, str | None], dict[str, str]] = {}
    for column in document["columns"]:
        if column["metric"] in ("accuracy", "worst_accuracy"):
            columns.setdefault((column["variants"], column.get("protocol")), {})[column["metric"]] = column["name"]
    return {way: names for way, names in columns.items() if len(names) == 2}


def _lucky(document: Row) -> list[Row]:
    """Models whose accuracy is mostly luck of the order, by the first way of asking that has both metrics."""
    for names in _in_one_way(document).values():
        return luck.of_board(document["rows"], names["accuracy"], names["worst_accuracy"])
    return []


def _scatters(document: Row) -> list[Row]:
    """Accuracy and worst accuracy of the complete models, wherever a board has both in one way of asking."""
    found = []
    for (variants, protocol), names in _in_one_way(document).items():
        points = [
            {"model": row["model"], **{metric: row["values"][name]["value"] for metric, name in names.items()}}
            for row in document["rows"]
            if row["complete"]
        ]
        points = [point for point in points if None not in point.values()]
        if len(points) > 1:
            asked = variants if protocol is None else f"{variants}, {protocol}"
            found.append({"asked": asked, "points": points, "chart": charts.accuracy_and_worst(points)})
    return found


@blueprint.get("/boards")
def boards() -> ResponseReturnValue:
    """Every board."""
    items = [(board, board_definition(board)) for board in current_boards(session())]
    newest = select(BoardSnapshot.board_id, func.max(BoardSnapshot.as_of)).group_by(BoardSnapshot.board_id)
    as_of = {row[0]: row[1] for row in session().execute(newest)}
    return render_template("boards.html", boards=items, as_of=as_of)


@blueprint.get("/boards/<name>")
def board(name: str) -> ResponseReturnValue:
    """A board as it is now, or as of a date."""
    found = shown_board(name)
    moment = parameters.time(request.args, "as_of", end=True)
    return _page(snapshot_as_of(session(), found.name, moment), current=moment is None)


def shown_snapshot(digest: str) -> BoardSnapshot:
    """The snapshot of a digest. NotFoundError where the viewer may not see its board."""
    if len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise UsageError(f"snapshot {parameters.shorten(digest)}: give its digest, {DIGEST_LENGTH} hexadecimal digits")
    return find_snapshot(session(), digest)


@blueprint.get("/snapshots/<digest>")
def snapshot(digest: str) -> ResponseReturnValue:
    """A board as it once was: the permanent link of a snapshot."""
    return _page(shown_snapshot(digest), current=False)
