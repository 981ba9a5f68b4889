"""A board through time: how its models' numbers and ranks changed since its first snapshot."""

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
"""Snapshots this close to one another, as in one bulk import, count as one."""


@dataclass(frozen=True)
class Moment:
    """Snapshots that count as one: the last of them, and how many they are."""

    id: int
    digest: str
    as_of: datetime
    snapshots: int = 1


def moments(session: Session, name: str, until: int | None = None) -> list[Moment]:
    """Return a board's snapshots over all of its versions, oldest first. until: the id of the last to count."""
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
    """Collapse snapshots (id, board version's id, digest, time), oldest first, so that each burst is one.

    withdrawn: times of withdrawals: the board before one is kept separate from the board after it. A new version of a
    board also starts a new moment.
    """
    found: list[Moment] = []
    version = None
    for number, board_id, digest, as_of in snapshots:
        before = found[-1] if found else None
        if (
            before is not None
            and version == board_id
            and as_of - before.as_of < BURST
            and not any(before.as_of < at <= as_of for at in withdrawn)
        ):
            found[-1] = Moment(number, digest, as_of, before.snapshots + 1)
        else:
            found.append(Moment(number, digest, as_of))
        version = board_id
    return found


@dataclass(frozen=True)
class Standing:
    """A model revision in one column at one moment."""

    value: float
    rank: int | None


@dataclass(frozen=True)
class Course:
    """A model revision's way through a board: since when it has a value, and the values at some moments."""

    since: datetime
    first: Standing
    values: Mapping[int, Standing]
    """By place in the list of moments."""


def courses(
    session: Session, name: str, known: Sequence[Moment], column: str, places: Iterable[int]
) -> dict[tuple[str, int], Course]:
    """Map each (model, revision) to its course in a column of a board, from its first snapshot to the last of `known`.

    Only models that ever have a value. places: the moments at which values are wanted. The first value is from the end
    of the moment that contains its first snapshot with a value, so that no model was first because it was imported
    first.
    """
    standing = BoardStanding
    ids = select(BoardSnapshot.id).join(Board, Board.id == BoardSnapshot.board_id).where(Board.name == name)
    valued = select(standing.model_revision_id, func.min(standing.board_snapshot_id)).where(
        standing.board_snapshot_id.in_(ids.where(BoardSnapshot.id <= known[-1].id)),
        standing.column == column,
        standing.value.is_not(None),
    )
    began = {row[0]: row[1] for row in session.execute(valued.group_by(standing.model_revision_id))}
    ends = [moment.id for moment in known]
    ended = {number: ends[bisect_left(ends, number)] for number in began.values()}
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
        .where(ModelRevision.id.in_(began))
    )
    found = {}
    for revision, model, number in session.execute(names):
        own, first = values[revision], began[revision]
        found[model, number] = Course(
            times[first],
            own.get(ended[first], own[first]),
            {place: own[snapshot] for place, snapshot in at.items() if snapshot in own},
        )
    return found


DRAWN: Final = 100
"""The most moments of a course, about."""


def moved(session: Session, snapshot: BoardSnapshot, column: str) -> Row:
    """Return how the models' values and ranks in a column changed since the board's first snapshot, in row order.

    begin, end: the times of the first and of this snapshot; moments: how many there are.
    rows: the models that have a value now; `changes` are the times at which a rank began, with the rank or None.
    """
    known = moments(session, snapshot.board.name, until=snapshot.id)
    # The first, the last, and evenly spaced moments between them.
    steps = max(1, -(-len(known) // DRAWN))
    places = sorted({*range(0, len(known), steps), len(known) - 1})
    found = courses(session, snapshot.board.name, known, column, places)
    rows = []
    for row in board_rows(snapshot):
        course, standing = found.get((row["model"], row["revision"])), row["values"][column]
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
    return {"rows": rows, "begin": known[0].as_of, "end": known[-1].as_of, "moments": len(known)}


def _changes(ranks: Sequence[tuple[datetime, int | None]]) -> list[tuple[datetime, int | None]]:
    """Return the times at which the rank changed, from the first rank on."""
    found: list[tuple[datetime, int | None]] = []
    for moment, rank in ranks:
        if rank != (found[-1][1] if found else None):
            found.append((moment, rank))
    return found
