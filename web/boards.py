"""Boards on the web: what an organisation publishes, as it stands and as it stood."""

from datetime import UTC, datetime
from typing import Any, Final

from flask import Blueprint, jsonify, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.reading import board_rows, find_snapshot, snapshot_as_of, snapshots_of
from registry.boards.store import board_definition, current_boards, find_board
from registry.digests import DIGEST_LENGTH
from registry.errors import NotFoundError, UsageError
from registry.metrics import METRICS
from registry.models import Board, BoardEntry, BoardSnapshot, Evaluation
from web import parameters, queries
from web.responses import session
from web.views import Row

blueprint = Blueprint("boards", __name__)

ARGUMENTS: Final = ("as_of", "sort", "order")


def public_boards(database: Session) -> list[Board]:
    """The newest version of every board whose benchmarks are all public."""
    return [board for board in current_boards(database) if is_public(board)]


def is_public(board: Board) -> bool:
    """Whether everybody may see a board: a mean over a hidden benchmark tells of it."""
    return all(entry.benchmark_version.visibility == "public" for entry in board.entries)


def _board(name: str) -> Board:
    board = find_board(session(), parameters.name("board", name))
    if not is_public(board):
        listed = ", ".join(item.name for item in public_boards(session())) or "none"
        raise NotFoundError(f"no board {name!r}; known: {listed}")
    return board


def read_time(arguments: parameters.Arguments) -> datetime | None:
    """`as_of`: a date, taken to its end, or a time; UTC where no zone is given."""
    value = parameters.text(arguments, "as_of")
    if value is None:
        return None
    try:
        # A "+" of a zone arrives as a blank where a URL was not encoded.
        moment = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
        if len(value) == len("2026-11-21"):
            moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"as_of={parameters.shorten(value)}: give a date or time such as 2026-11-21 or 2026-11-21T13:00"
        ) from None


def snapshot_document(snapshot: BoardSnapshot) -> Row:
    """A snapshot as JSON: definition, rows, where it stays, and the SQL that reads the same from the database."""
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
    """Evaluations of a board that are not sealed yet, with how far they are."""
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
    items, _ = queries.evaluations(database, states=queries.UNFINISHED, limit=1000)
    return [item | {"progress": found[item["evaluation_id"]]} for item in items if item["evaluation_id"] in found]


def _page(snapshot: BoardSnapshot, *, current: bool) -> ResponseReturnValue:
    document = snapshot_document(snapshot)
    rows, sort, order = _sorted(document["rows"], document)
    return render_template(
        "board.html",
        document=document,
        rows=rows,
        sort=sort,
        order=order,
        current=current,
        as_of=request.args.get("as_of", ""),
        waiting=in_progress(session(), snapshot.board) if current else [],
        history=snapshots_of(session(), snapshot.board.name)[:20],
        labels={column["name"]: METRICS[column["metric"]].label for column in document["columns"]},
    )


@blueprint.get("/boards")
def boards() -> ResponseReturnValue:
    """Every public board."""
    items = [(board, board_definition(board)) for board in public_boards(session())]
    return render_template("boards.html", boards=items)


@blueprint.get("/boards/<name>")
def board(name: str) -> ResponseReturnValue:
    """A board as it stands, or as of a date."""
    found = _board(name)
    moment = read_time(request.args)
    return _page(snapshot_as_of(session(), found.name, moment), current=moment is None)


def _snapshot(digest: str) -> BoardSnapshot:
    if len(digest) != DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        raise UsageError(f"snapshot {parameters.shorten(digest)}: give its digest, {DIGEST_LENGTH} hexadecimal digits")
    found = find_snapshot(session(), digest)
    if not is_public(found.board):
        raise NotFoundError(f"no snapshot {digest}; a board's own page links to those there are")
    return found


@blueprint.get("/snapshots/<digest>")
def snapshot(digest: str) -> ResponseReturnValue:
    """A board as it once stood: the permanent address of a snapshot."""
    return _page(_snapshot(digest), current=False)


@blueprint.get("/api/v1/boards")
def boards_json() -> ResponseReturnValue:
    """Every public board."""
    parameters.only(request.args, ())
    return jsonify({"items": [_listed(item) for item in public_boards(session())]})


def _listed(board: Board) -> dict[str, Any]:
    definition = board_definition(board)
    return {
        "board": board.name,
        "version": board.version,
        "digest": board.digest,
        "title": definition.title,
        "suite": {"name": board.suite.name, "version": board.suite.version},
        "columns": list(definition.columns),
        "url": url_for("boards.board", name=board.name),
    }


@blueprint.get("/api/v1/boards/<name>")
def board_json(name: str) -> ResponseReturnValue:
    """A board as it stands, or as of a date, with its definition, rows and digest."""
    parameters.only(request.args, ("as_of",))
    return jsonify(snapshot_document(snapshot_as_of(session(), _board(name).name, read_time(request.args))))


@blueprint.get("/api/v1/boards/<name>/snapshots")
def snapshots_json(name: str) -> ResponseReturnValue:
    """Every snapshot of a board, newest first."""
    parameters.only(request.args, ())
    items = [
        {
            "as_of": item.as_of,
            "digest": item.digest,
            "board_version": item.document["board_version"],
            "url": url_for("boards.snapshot", digest=item.digest),
        }
        for item in snapshots_of(session(), _board(name).name)
    ]
    return jsonify({"items": items})


@blueprint.get("/api/v1/snapshots/<digest>")
def snapshot_json(digest: str) -> ResponseReturnValue:
    """A board as it once stood."""
    parameters.only(request.args, ())
    return jsonify(snapshot_document(_snapshot(digest)))
