"""Making snapshots: a board as it stands, kept for good. `registry.boards.reading` shows them."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Engine, func, insert, select
from sqlalchemy.orm import Session

from registry.boards.standings import BoardRow, Standing, board_standings
from registry.boards.store import board_definition, column_entries, current_boards
from registry.db import database_now, one_at_a_time, read_session, write_session
from registry.digests import specification_digest
from registry.metrics import METRICS
from registry.model_revisions import model_identity
from registry.models import (
    Board,
    BoardEntry,
    BoardSnapshot,
    BoardStanding,
    Evaluation,
    Model,
    ModelRevision,
)
from registry.statistics.bootstrap import CONFIDENCE, RANK_RESAMPLES, SEED

SNAPSHOT_VERSION: Final = 1
_DECIMALS: Final = 12
"""Values are kept to so many decimals in a snapshot: databases sum in different orders and differ beyond that."""


def refresh_boards(engine: Engine) -> list[str]:
    """Makes a snapshot of every board whose sealed evaluations have changed since its last; returns their names.

    Harmless when it runs twice at once, and may be killed at any moment: whoever comes next finds the board behind.
    """
    refreshed = []
    with read_session(engine) as session:
        behind = [board.id for board in current_boards(session) if _is_behind(session, board)]
    for board_id in behind:
        with read_session(engine) as session:
            board = session.get_one(Board, board_id)
            now = session.scalar(select(database_now()))
            document = snapshot_document(session, board)
            columns = _columns(board)
        with write_session(engine) as session:
            one_at_a_time(session, f"board {board_id}")
            newest = _newest(session, board_id)
            if newest is not None and newest.document["sealed_evaluations"] >= document["sealed_evaluations"]:
                continue
            _store(session, board_id, document, columns, now)
        refreshed.append(board.name)
    return refreshed


def _is_behind(session: Session, board: Board) -> bool:
    newest = _newest(session, board.id)
    return newest is None or newest.document["sealed_evaluations"] != _sealed_evaluations(session, board.id)


def _newest(session: Session, board_id: int) -> BoardSnapshot | None:
    return session.scalar(select(BoardSnapshot).filter_by(board_id=board_id).order_by(BoardSnapshot.id.desc()).limit(1))


def _sealed_evaluations(session: Session, board_id: int) -> int:
    """How many sealed evaluations there are that might answer an entry of the board: it only ever grows."""
    matching = (
        select(BoardEntry.ordinal)
        .where(
            BoardEntry.board_id == board_id,
            BoardEntry.benchmark_version_id == Evaluation.benchmark_version_id,
            BoardEntry.protocol_id == Evaluation.protocol_id,
            BoardEntry.variant_set_id == Evaluation.variant_set_id,
        )
        .exists()
    )
    return (
        session.scalar(select(func.count()).select_from(Evaluation).where(Evaluation.seal.is_not(None), matching)) or 0
    )


def snapshot_document(session: Session, board: Board) -> dict[str, Any]:
    """The board as plain JSON: what it is, every row, and the seals of the evaluations behind it. No database ids."""
    definition = board_definition(board)
    sealed = _sealed_evaluations(session, board.id)
    rows = board_standings(session, board)
    return {
        "snapshot_version": SNAPSHOT_VERSION,
        "board": board.name,
        "board_version": board.version,
        "board_digest": board.digest,
        "suite": {"name": board.suite.name, "version": board.suite.version, "digest": board.suite.digest},
        "title": definition.title,
        "text": definition.text,
        "sort": definition.sort_column,
        "columns": [
            {
                "name": column.name,
                "metric": column.metric,
                "variants": column.variants,
                "protocol": column.protocol,
                "better": METRICS[column.metric].better,
                "definition_version": METRICS[column.metric].definition_version,
            }
            for column in definition.parsed_columns
        ],
        "entries": [
            {
                "task": entry.task,
                "benchmark": entry.benchmark_version.benchmark.name,
                "version": entry.benchmark_version.version,
                "content_digest": entry.benchmark_version.content_digest,
                "protocol": entry.protocol.name,
                "shots": entry.protocol.shots,
                "protocol_digest": entry.protocol.digest,
                "variants": entry.variant_set.name,
                "question_filter": entry.question_filter,
                "questions": entry.questions,
            }
            for entry in board.entries
        ],
        "bootstrap": {"resamples": RANK_RESAMPLES, "seed": SEED, "confidence": str(CONFIDENCE)},
        "sealed_evaluations": sealed,
        "rows": [_row(row) for row in rows],
    }


def _row(row: BoardRow) -> dict[str, Any]:
    revision = row.revision
    return {
        "model": revision.model.name,
        "revision": revision.number,
        "identity": model_identity(revision),
        "family": revision.model.family,
        "parameters": revision.model.parameters,
        "dtype": revision.dtype,
        "quantisation": revision.quantisation,
        "complete": row.complete,
        "evaluations": [
            None if item is None else {"evaluation": item.id, "seal": item.seal, "replicate": item.replicate}
            for item in row.evaluations
        ],
        "values": {name: _standing(standing) for name, standing in row.standings.items()},
    }


def _standing(standing: Standing) -> dict[str, Any]:
    low, high = standing.interval or (None, None)
    return {
        "value": _rounded(standing.value),
        "n": standing.n,
        "interval": None if low is None else [_rounded(low), _rounded(high)],
        "rank": standing.rank,
        "rank_interval": None if standing.rank_low is None else [standing.rank_low, standing.rank_high],
        "tier": standing.tier,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS) + 0.0


def snapshot_digest(document: dict[str, Any]) -> str:
    """SHA-256 of a snapshot's contents; the numbers of its evaluations in this database are left out."""
    return specification_digest(_without_ids(document))


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(item) for key, item in value.items() if key != "evaluation"}
    if isinstance(value, list):
        return [_without_ids(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def _columns(board: Board) -> dict[str, tuple[int, int]]:
    """Column to (protocol id, variant set id)."""
    found = {}
    for column in board_definition(board).parsed_columns:
        entry = next(iter(column_entries(board.name, column, board.entries).values()))[0]
        found[column.name] = (entry.protocol_id, entry.variant_set_id)
    return found


def _store(
    session: Session, board_id: int, document: dict[str, Any], columns: dict[str, tuple[int, int]], now: datetime | None
) -> None:
    snapshot = BoardSnapshot(board_id=board_id, digest=snapshot_digest(document), document=document, as_of=now)
    session.add(snapshot)
    session.flush()
    revisions = _revision_ids(session, document)
    rows = [
        {
            "board_snapshot_id": snapshot.id,
            "model_revision_id": revisions[row["model"], row["revision"]],
            "column_name": column["name"],
            "metric": column["metric"],
            "protocol_id": columns[column["name"]][0],
            "variant_set_id": columns[column["name"]][1],
            "complete": row["complete"],
            "value": value["value"],
            "n": value["n"],
            "interval_low": value["interval"][0] if value["interval"] else None,
            "interval_high": value["interval"][1] if value["interval"] else None,
            "rank": value["rank"],
            "rank_low": value["rank_interval"][0] if value["rank_interval"] else None,
            "rank_high": value["rank_interval"][1] if value["rank_interval"] else None,
            "tier": value["tier"],
        }
        for row in document["rows"]
        for column in document["columns"]
        for value in [row["values"][column["name"]]]
    ]
    if rows:
        session.execute(insert(BoardStanding.__table__), rows)  # type: ignore[arg-type]


def _revision_ids(session: Session, document: dict[str, Any]) -> dict[tuple[str, int], int]:
    names = {row["model"] for row in document["rows"]}
    query = (
        select(Model.name, ModelRevision.number, ModelRevision.id)
        .join(ModelRevision, ModelRevision.model_id == Model.id)
        .where(Model.name.in_(names))
    )
    return {(name, number): revision_id for name, number, revision_id in session.execute(query)}
