"""Make snapshots of boards, which are stored forever. `registry.boards.reading` reads them."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Engine, func, insert, or_, select
from sqlalchemy.orm import Session, aliased

from registry import chain
from registry.boards.definition import BoardDefinition, as_document
from registry.boards.standings import BoardRow, board_standings
from registry.boards.store import answering, board_definition, column_entries, current_boards
from registry.db import database_now, one_at_a_time, read_session, write_session
from registry.digests import specification_digest
from registry.leaderboard.rows import doubts
from registry.lookups import revisions_named
from registry.metrics import METRICS
from registry.revisions.store import model_identity
from registry.statistics.bootstrap import CONFIDENCE, RANK_RESAMPLES, SEED
from registry.tables import (
    Board,
    BoardSnapshot,
    BoardStanding,
    Evaluation,
    EvaluationSource,
    Withdrawal,
)

SNAPSHOT_VERSION: Final = 1
"""Raised when snapshots contain more than before, so that every board gets a new one."""


def refresh_boards(engine: Engine) -> list[str]:
    """Store a new snapshot of every board whose last one is outdated, and return the boards' names.

    A snapshot is outdated if evaluations, metric definitions or the snapshot's format have changed since. Runs may
    overlap and may be killed at any moment: the next run finds the board outdated.
    """
    refreshed = []
    with read_session(engine) as session:
        behind = [board.id for board in current_boards(session) if _is_behind(session, board)]
    for board_id in behind:
        with read_session(engine) as session:
            board = session.get_one(Board, board_id)
            now = session.scalar(select(database_now()))
            document = snapshot_document(session, board)
        with write_session(engine) as session:
            one_at_a_time(session, f"board {board_id}")
            newest = _find_newest(session, board_id)
            if newest is not None and not _differs(newest.document, document):
                continue
            _store(session, board_id, document, now)
        refreshed.append(board.name)
    return refreshed


def _is_behind(session: Session, board: Board) -> bool:
    newest = _find_newest(session, board.id)
    if newest is None or _count_evaluations(newest.document) != _count_current(session, board):
        return True
    if newest.document["snapshot_version"] < SNAPSHOT_VERSION:
        return True
    return any(
        METRICS[column["metric"]].definition_version > column["definition_version"]
        for column in newest.document["columns"]
    )


def _differs(newest: dict[str, Any], document: dict[str, Any]) -> bool:
    """Return whether a document contains more than the newest snapshot: more evaluations, or newer definitions."""
    return (
        _count_evaluations(newest) < _count_evaluations(document)
        or newest["columns"] != document["columns"]
        or newest["snapshot_version"] < document["snapshot_version"]
    )


def _find_newest(session: Session, board_id: int) -> BoardSnapshot | None:
    return session.scalar(select(BoardSnapshot).filter_by(board_id=board_id).order_by(BoardSnapshot.id.desc()).limit(1))


def _count_evaluations(document: dict[str, Any]) -> int:
    """Return the number of evaluations and withdrawals that a snapshot counted, as `_evaluations` does now."""
    counted: int = document["sealed_evaluations"] + document["withdrawals"]
    return counted


def _count_current(session: Session, board: Board) -> int:
    return sum(_count_sealed_and_withdrawn(session, board))


def _count_sealed_and_withdrawn(session: Session, board: Board) -> tuple[int, int]:
    """Return the numbers of sealed evaluations that cover an entry of the board, and of withdrawals that affect them.

    Those are withdrawals of such evaluations, and of evaluations from which these copied results. Both numbers only
    grow.
    """
    withdrawn, copy = aliased(Evaluation), aliased(Evaluation)
    answers = answering(board.entries)
    sealed = select(func.count()).select_from(Evaluation).where(Evaluation.seal.is_not(None), answers(Evaluation))
    copied = (
        select(EvaluationSource.evaluation_id)
        .join(copy, copy.id == EvaluationSource.evaluation_id)
        .where(EvaluationSource.seal == withdrawn.seal, answers(copy))
        .exists()
    )
    withdrawals = (
        select(func.count())
        .select_from(Withdrawal)
        .join(withdrawn, withdrawn.id == Withdrawal.evaluation_id)
        .where(or_(answers(withdrawn), copied))
    )
    return session.scalar(sealed) or 0, session.scalar(withdrawals) or 0


def snapshot_document(session: Session, board: Board) -> dict[str, Any]:
    """Return a board as plain JSON without database ids: its definition, its rows, and the seals of its evaluations."""
    definition = board_definition(board)
    sealed, withdrawals = _count_sealed_and_withdrawn(session, board)
    standings = board_standings(session, board)
    answered = {item.id for row in standings.rows for item in row.evaluations if item is not None}
    flags = doubts(session, answered)
    return {
        "snapshot_version": SNAPSHOT_VERSION,
        "board": board.name,
        "board_version": board.version,
        "board_digest": board.digest,
        "suite": {"name": board.suite.name, "version": board.suite.version, "digest": board.suite.digest},
        "title": definition.title,
        "text": definition.text,
        "sort": definition.sort_column,
        "columns": columns_document(definition),
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
        "withdrawals": withdrawals,
        **({"weights": definition.weights} if definition.weights else {}),
        **({"models": as_document(definition)["models"]} if definition.models is not None else {}),
        "together": {name: together.document() for name, together in standings.together.items()},
        "rows": [_row_document(row, flags) for row in standings.rows],
    }


def columns_document(definition: BoardDefinition) -> list[dict[str, Any]]:
    """Return a board's columns in the form that snapshots use."""
    return [
        {
            "name": column.name,
            "metric": column.metric,
            "variants": column.variants,
            "protocol": column.protocol,
            "better": METRICS[column.metric].better,
            "definition_version": METRICS[column.metric].definition_version,
        }
        for column in definition.parsed_columns
    ]


def _row_document(row: BoardRow, flags: dict[int, dict[str, bool]]) -> dict[str, Any]:
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
            None
            if item is None
            else {"evaluation": item.id, "seal": item.seal, "replicate": item.replicate, **flags[item.id]}
            for item in row.evaluations
        ],
        "values": {name: standing.document() for name, standing in row.standings.items()},
    }


def snapshot_digest(document: dict[str, Any]) -> str:
    """Return the SHA-256 of a snapshot's contents, without the numbers of its evaluations in this database."""
    return specification_digest(_drop_ids(document))


def _drop_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_ids(item) for key, item in value.items() if key != "evaluation"}
    if isinstance(value, list):
        return [_drop_ids(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def _read_columns(board: Board) -> dict[str, tuple[int, int]]:
    """Map each column of a board to (protocol id, variant set id)."""
    columns = {}
    for column in board_definition(board).parsed_columns:
        entry = next(iter(column_entries(board.name, column, board.entries).values()))[0]
        columns[column.name] = (entry.protocol_id, entry.variant_set_id)
    return columns


def _store(session: Session, board_id: int, document: dict[str, Any], now: datetime | None) -> None:
    snapshot = BoardSnapshot(board_id=board_id, digest=snapshot_digest(document), document=document, as_of=now)
    session.add(snapshot)
    session.flush()
    rows = standing_rows(session, snapshot)
    if rows:
        session.execute(insert(BoardStanding.__table__), rows)  # type: ignore[arg-type]
    chain.append(session, "snapshot", snapshot.digest, labels=snapshot_labels(snapshot.board.digest, snapshot.as_of))


def standing_rows(session: Session, snapshot: BoardSnapshot) -> list[dict[str, Any]]:
    """Return the rows of the table `board_standing` for a snapshot."""
    document = snapshot.document
    revisions, columns = _revision_ids(session, document), _read_columns(snapshot.board)
    return [
        {
            "board_snapshot_id": snapshot.id,
            "model_revision_id": revisions.get((row["model"], row["revision"])),
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
            "all_rank_low": everywhere[0],
            "all_rank_high": everywhere[1],
            "all_tier": value["all_tier"],
        }
        for row in document["rows"]
        for column in document["columns"]
        for value in [row["values"][column["name"]]]
        for everywhere in [value["all_rank_interval"] or (None, None)]
    ]


def snapshot_labels(board_digest: str | None, as_of: datetime) -> str:
    """Return the digest of a snapshot's labels in the chain: the board's digest and the time of the snapshot."""
    return specification_digest({"board": board_digest, "as_of": as_of.isoformat()})


def _revision_ids(session: Session, document: dict[str, Any]) -> dict[tuple[str, int], int]:
    names = {row["model"] for row in document["rows"]}
    return {key: row.id for key, row in revisions_named(session, names).items()}
