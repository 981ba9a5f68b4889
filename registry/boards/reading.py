"""Read the snapshots of boards: a board shows the newest one, and the older ones are its history."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, defer

from registry.boards.rules import rules_document
from registry.boards.store import board_definition
from registry.boards.unranked import column_chances, compute_guessing, list_unranked
from registry.db import is_in
from registry.errors import NotFoundError
from registry.leaderboard.costs import costs_of
from registry.lookups import find_board
from registry.names import split_reference
from registry.providers.prices import load_prices
from registry.queue.evaluations import NO_CONFLICT
from registry.scores.written import tokens_over
from registry.settings import get_settings
from registry.tables import Board, BoardSnapshot, Evaluation


def _snapshots() -> Select[BoardSnapshot]:
    """Select snapshots without their documents, which grow with the board and are loaded on demand."""
    return select(BoardSnapshot).options(defer(BoardSnapshot.document))


def snapshot_as_of(session: Session, reference: str, as_of: datetime | None = None) -> BoardSnapshot:
    """Return the snapshot that a board showed at a time, or the newest if `as_of` is None.

    `NAME@VERSION` considers only one version of the board. Raises NotFoundError for an unknown board, or a board
    without a snapshot at that time.
    """
    board = find_board(session, reference)
    versions = select(Board.id).where(Board.name == board.name)
    if split_reference(reference)[1] is not None:
        versions = versions.where(Board.version == board.version)
    elif as_of is None:
        versions = versions.where(Board.id == board.id)
    query = _snapshots().where(BoardSnapshot.board_id.in_(versions))
    if as_of is not None:
        query = query.where(BoardSnapshot.as_of <= as_of)
    snapshot = session.scalar(query.order_by(BoardSnapshot.id.desc()).limit(1))
    if snapshot is None:
        first = session.scalar(select(func.min(BoardSnapshot.as_of)).where(BoardSnapshot.board_id.in_(versions)))
        since = f"its first snapshot is of {first:%Y-%m-%d %H:%M:%S} UTC" if first else "it has no snapshot yet"
        raise NotFoundError(f"board {board.name} did not exist at that time: {since}")
    return snapshot


def find_snapshot(session: Session, digest: str) -> BoardSnapshot:
    """Return the snapshot with a digest. Raises NotFoundError if there is none."""
    snapshot = session.scalar(_snapshots().filter_by(digest=digest).order_by(BoardSnapshot.id).limit(1))
    if snapshot is None:
        raise NotFoundError(f"no snapshot {digest}; a board's page links to its snapshots")
    return snapshot


def snapshots_of(session: Session, reference: str) -> list[BoardSnapshot]:
    """Return every snapshot of a board, newest first."""
    board = find_board(session, reference)
    query = _snapshots().join(Board).where(Board.name == board.name)
    return list(session.scalars(query.order_by(BoardSnapshot.id.desc())))


def models_counted(session: Session, snapshot_id: int) -> tuple[int, int]:
    """Return the number of models in a snapshot, and the number of complete models among them."""
    rows = session.scalars(select(BoardSnapshot.document).filter_by(id=snapshot_id)).one()["rows"]
    return len(rows), sum(row["complete"] for row in rows)


def report_document(session: Session, snapshot: BoardSnapshot) -> dict[str, Any]:
    """Return the report of a snapshot, as shown on the page, in JSON and on the command line.

    It extends the snapshot's document with digest and time, the rows in the board's order, the accuracy of guessing for
    columns of accuracy, and the models without a rank, with commands that request the missing evaluations. Each row has
    the providers' known charges for its evaluations. currency: None if nothing was charged. tokens_per_answer: over all
    prompts of a row; None unless all its evaluations counted tokens.
    """
    bootstrap = snapshot.document["bootstrap"]
    rows = board_rows(snapshot)
    ids = [item["evaluation"] for row in rows for item in row["evaluations"] if item is not None]
    costs, stated, tokens = costs_of(session, ids), _statements(session, ids), tokens_over(session, ids)
    return {
        **snapshot.document,
        # The snapshot stores this number as text, since the digest covers it.
        "bootstrap": bootstrap | {"confidence": float(bootstrap["confidence"])},
        "rows": [
            row
            | {
                "cost": _sum_costs(row, costs),
                "tokens_per_answer": _average_tokens(row, tokens),
                "conflict_of_interest": _join_conflicts(row, stated),
            }
            for row in rows
        ],
        "currency": load_prices(get_settings().prices).currency if costs else None,
        "as_of": snapshot.as_of,
        "digest": snapshot.digest,
        "chance": column_chances(
            board_definition(snapshot.board), snapshot.board.entries, partial(compute_guessing, session)
        ),
        "unranked": list_unranked(session, snapshot),
        "submissions": rules_document(board_definition(snapshot.board).submissions),
    }


def _statements(session: Session, ids: Sequence[int]) -> dict[int, str | None]:
    """Map each evaluation to the conflict of interest that was stated for it."""
    query = select(Evaluation.id, Evaluation.conflict_of_interest).where(is_in(Evaluation.id, ids))
    return {row.id: row.conflict_of_interest for row in session.execute(query)}


def _join_conflicts(row: Mapping[str, Any], stated: Mapping[int, str | None]) -> str | None:
    """Return every conflict of interest that is stated for a row's evaluations, joined.

    If there is none: None if an evaluation has no statement, else "none".
    """
    statements = [stated.get(item["evaluation"]) for item in row["evaluations"] if item is not None]
    conflicts = [text for text in dict.fromkeys(statements) if text not in (None, NO_CONFLICT)]
    if conflicts:
        return "; ".join(map(str, conflicts))
    return None if not statements or None in statements else NO_CONFLICT


def _sum_costs(row: Mapping[str, Any], costs: Mapping[int, float]) -> float | None:
    known = [
        costs[item["evaluation"]] for item in row["evaluations"] if item is not None and item["evaluation"] in costs
    ]
    return sum(known) if known else None


def _average_tokens(row: Mapping[str, Any], tokens: Mapping[int, tuple[float, int]]) -> float | None:
    counts = [tokens.get(item["evaluation"]) for item in row["evaluations"] if item is not None]
    known = [pair for pair in counts if pair is not None]
    if not known or len(known) < len(counts):
        return None
    return sum(mean * prompts for mean, prompts in known) / sum(prompts for _, prompts in known)


def board_rows(snapshot: BoardSnapshot) -> list[dict[str, Any]]:
    """Return a snapshot's rows in display order: complete models by the sort column, best first, then the others."""
    return rows_in_order(snapshot.document)


def rows_in_order(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the document of a snapshot or a selection, in the order of `board_rows`."""
    sort = document["sort"]
    better = next(column["better"] for column in document["columns"] if column["name"] == sort)
    sign = 1.0 if better == "lower" else -1.0

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        value = row["values"][sort]["value"]
        return (not row["complete"], value is None, sign * (value or 0.0), row["model"].casefold(), row["revision"])

    return sorted(document["rows"], key=key)


TABLE_PARTS: Final = (
    "low",
    "high",
    "rank",
    "rank low",
    "rank high",
    "tier",
    "all rank low",
    "all rank high",
    "all tier",
)
"""Parts of a column in a table for other programs, in addition to its value."""


OF_ROW: Final = ("model", "revision", "complete", "cost", "tokens_per_answer", "conflict_of_interest")
"""Facts about a row in a table for other programs, in addition to its columns."""


def board_table(document: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return (rows, names of columns) of a board for other programs: each column with its interval, ranks and tiers.

    Ranks and tiers are for each model separately; under `all`, for all models together. document: the report of the
    board. The cost is a column if a provider charged for anything, and so are tokens per answer if they were counted.
    """
    rows = []
    for row in document["rows"]:
        flat: dict[str, Any] = {key: row[key] for key in OF_ROW}
        for name, value in row["values"].items():
            interval, rank_interval = value["interval"] or (None, None), value["rank_interval"] or (None, None)
            everywhere = value["all_rank_interval"] or (None, None)
            flat |= {
                name: value["value"],
                f"{name} low": interval[0],
                f"{name} high": interval[1],
                f"{name} rank": value["rank"],
                f"{name} rank low": rank_interval[0],
                f"{name} rank high": rank_interval[1],
                f"{name} tier": value["tier"],
                f"{name} all rank low": everywhere[0],
                f"{name} all rank high": everywhere[1],
                f"{name} all tier": value["all_tier"],
            }
        rows.append(flat)
    columns = ["model", "revision", "complete"] + (["cost"] if document["currency"] else [])
    columns += ["tokens_per_answer"] if any(row["tokens_per_answer"] is not None for row in rows) else []
    columns.append("conflict_of_interest")
    for column in document["columns"]:
        columns += [column["name"], *(f"{column['name']} {part}" for part in TABLE_PARTS)]
    return rows, columns
