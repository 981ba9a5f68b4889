"""The history of a board: how its models' numbers and ranks changed since its first snapshot."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.boards.reading import board_rows
from registry.schema.selectables import Row
from registry.tables import Board, BoardSnapshot, BoardStanding, Model, ModelRevision, Withdrawal

BURST: Final = timedelta(minutes=10)
"""Snapshots within this time of each other, as in a bulk import, count as one."""


@dataclass(frozen=True)
class Moment:
    """Snapshots that count as one. id, digest, as_of: of the last snapshot; snapshots: their number."""

    id: int
    digest: str
    as_of: datetime
    snapshots: int = 1


def moments(session: Session, name: str, until: int | None = None) -> list[Moment]:
    """Return the snapshots of all versions of a board, with bursts collapsed, oldest first.

    until: id of the last snapshot to include.
    """
    query = (
        select(BoardSnapshot.id, BoardSnapshot.board_id, BoardSnapshot.digest, BoardSnapshot.as_of)
        .join(Board, Board.id == BoardSnapshot.board_id)
        .where(Board.name == name)
        .order_by(BoardSnapshot.id)
    )
    if until is not None:
        query = query.where(BoardSnapshot.id <= until)
    withdrawn = sorted(session.scalars(select(Withdrawal.at)))
    return collapse_bursts(session.execute(query), withdrawn)


def collapse_bursts(
    snapshots: Iterable[tuple[int, int, str, datetime]], withdrawn: Sequence[datetime] = ()
) -> list[Moment]:
    """Collapse each burst of snapshots into one moment.

    snapshots: (id, id of the board's version, digest, time), oldest first.
    withdrawn: times of withdrawals, which separate the snapshots before them from those after them. A new version of a
    board also begins a new moment.
    """
    collapsed: list[Moment] = []
    version = None
    for number, board_id, digest, as_of in snapshots:
        last = collapsed[-1] if collapsed else None
        if (
            last is not None
            and version == board_id
            and as_of - last.as_of < BURST
            and not any(last.as_of < at <= as_of for at in withdrawn)
        ):
            collapsed[-1] = Moment(number, digest, as_of, last.snapshots + 1)
        else:
            collapsed.append(Moment(number, digest, as_of))
        version = board_id
    return collapsed


@dataclass(frozen=True)
class Standing:
    """A model revision in one column at one moment."""

    value: float
    rank: int | None


@dataclass(frozen=True)
class Course:
    """The history of a model revision on a board: the time of its first value, and its values at some moments."""

    since: datetime
    first: Standing
    values: Mapping[int, Standing]
    """By index in the list of moments."""


def courses(
    session: Session, name: str, known: Sequence[Moment], column: str, places: Iterable[int]
) -> dict[tuple[str, int], Course]:
    """Map each (model, revision) to its course in a column of a board. known: the moments up to which to read.

    Models that never have a value are left out. places: indexes of the moments whose values are needed. A model's first
    value is from the end of the moment in which it first had one, so that no model was first because it was imported
    first.
    """
    standing = BoardStanding
    ids = select(BoardSnapshot.id).join(Board, Board.id == BoardSnapshot.board_id).where(Board.name == name)
    first_valued = select(standing.model_revision_id, func.min(standing.board_snapshot_id)).where(
        standing.board_snapshot_id.in_(ids.where(BoardSnapshot.id <= known[-1].id)),
        standing.column == column,
        standing.value.is_not(None),
    )
    first_snapshots = {row[0]: row[1] for row in session.execute(first_valued.group_by(standing.model_revision_id))}
    ends = [moment.id for moment in known]
    ended = {number: ends[bisect_left(ends, number)] for number in first_snapshots.values()}
    at = {place: ends[place] for place in places}
    values: dict[int, dict[int, Standing]] = {}
    standings = select(standing.model_revision_id, standing.board_snapshot_id, standing.value, standing.rank).where(
        standing.board_snapshot_id.in_({*at.values(), *ended, *ended.values()}),
        standing.column == column,
        standing.value.is_not(None),
    )
    for revision, number, value, rank in session.execute(standings):
        values.setdefault(revision, {})[number] = Standing(float(value or 0.0), rank)
    times = {
        row[0]: row[1]
        for row in session.execute(select(BoardSnapshot.id, BoardSnapshot.as_of).where(BoardSnapshot.id.in_(ended)))
    }
    names = (
        select(ModelRevision.id, Model.name, ModelRevision.number)
        .join(Model, Model.id == ModelRevision.model_id)
        .where(ModelRevision.id.in_(first_snapshots))
    )
    by_model = {}
    for revision, model, number in session.execute(names):
        by_snapshot, first = values[revision], first_snapshots[revision]
        by_model[model, number] = Course(
            times[first],
            by_snapshot.get(ended[first], by_snapshot[first]),
            {place: by_snapshot[snapshot] for place, snapshot in at.items() if snapshot in by_snapshot},
        )
    return by_model


DRAWN: Final = 100
"""Approximate maximum number of moments in a course."""


def moved(session: Session, snapshot: BoardSnapshot, column: str) -> Row:
    """Return how the models' values and ranks in a column changed since the board's first snapshot, in row order.

    begin, end: times of the first snapshot and of this one; moments: their number.
    rows: the models that have a value now; `changes` lists the times at which the rank changed, with the new rank or
    None.
    """
    timeline = moments(session, snapshot.board.name, until=snapshot.id)
    # These are the first moment, the last, and evenly spaced moments between them.
    steps = max(1, -(-len(timeline) // DRAWN))
    places = sorted({*range(0, len(timeline), steps), len(timeline) - 1})
    by_model = courses(session, snapshot.board.name, timeline, column, places)
    rows = []
    for row in board_rows(snapshot):
        course, standing = by_model.get((row["model"], row["revision"])), row["values"][column]
        if course is None or standing["value"] is None:
            continue
        ranks = [
            (timeline[place].as_of, course.values[place].rank if place in course.values else None) for place in places
        ]
        rows.append(
            {
                "model": row["model"],
                "revision": row["revision"],
                "first": course.first,
                "last": standing,
                "since": course.since,
                "ranks": ranks,
                "changes": _list_changes(ranks),
            }
        )
    return {"rows": rows, "begin": timeline[0].as_of, "end": timeline[-1].as_of, "moments": len(timeline)}


def _list_changes(ranks: Sequence[tuple[datetime, int | None]]) -> list[tuple[datetime, int | None]]:
    """Return the times at which the rank changed, each with the new rank, beginning with the first rank."""
    changes: list[tuple[datetime, int | None]] = []
    for moment, rank in ranks:
        if rank != (changes[-1][1] if changes else None):
            changes.append((moment, rank))
    return changes
