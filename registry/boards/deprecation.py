"""Deprecated boards: no longer submitted to, still readable and citable, with the board to use instead."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from registry.db import changed_one, database_now, one_at_a_time
from registry.errors import NotFoundError, QueueError, UsageError
from registry.lookups import find_board
from registry.people.accounts import Viewer, record
from registry.tables import Board, BoardDeprecation

MAX_REASON: Final = 2000
DEPRECATED: Final = "board.deprecated"
REINSTATED: Final = "board.reinstated"


@dataclass(frozen=True)
class Deprecated:
    """Why a board is deprecated, since when, and by which board it is followed, as far as the session sees that."""

    reason: str
    at: datetime
    successor: str | None


def deprecate(
    session: Session,
    viewer: Viewer,
    name: str,
    reason: str,
    successor: str | None = None,
    *,
    address: str | None = None,
) -> BoardDeprecation:
    """Deprecates a board in all its versions.

    Raises ForbiddenError, NotFoundError, UsageError without a reason or for a board that would follow itself, and
    QueueError for one that is deprecated already.
    """
    viewer.require("maintain")
    board = find_board(session, name)
    text = reason.strip()
    if not text or len(text) > MAX_REASON or "\x00" in text:
        raise UsageError(f"reason: give up to {MAX_REASON:,} characters of plain text, for those who cite the board")
    one_at_a_time(session, "boards")
    if _row(session, board.name) is not None:
        raise QueueError(f"board {board.name} is deprecated already; to change that: boards reinstate {board.name}")
    if successor is not None:
        follows: str | None = find_board(session, successor).name
        while follows is not None:
            if follows == board.name:
                raise UsageError(f"successor {successor}: it is followed by board {board.name} itself; give another")
            row = _row(session, follows)
            follows = None if row is None else row.successor
        successor = find_board(session, successor).name
    row = BoardDeprecation(board_id=board.id, reason=text, successor=successor)
    session.add(row)
    session.flush()
    record(session, viewer, "board.deprecate", board.name, address=address, details={"successor": successor})
    return row


def reinstate(session: Session, viewer: Viewer, name: str, *, address: str | None = None) -> BoardDeprecation:
    """Takes a board's deprecation back. Raises ForbiddenError, NotFoundError, and QueueError for one without."""
    viewer.require("maintain")
    board = find_board(session, name)
    row = _row(session, board.name)
    taken_back = row is not None and changed_one(
        session,
        update(BoardDeprecation)
        .where(BoardDeprecation.id == row.id, BoardDeprecation.retracted_at.is_(None))
        .values(retracted_at=database_now()),
    )
    if row is None or not taken_back:
        raise QueueError(f"board {board.name} is not deprecated")
    session.refresh(row)
    record(session, viewer, "board.reinstate", board.name, address=address)
    return row


def deprecated(session: Session, name: str) -> Deprecated | None:
    """What holds of a board; None for one that is not deprecated. A successor that the session does not see is None."""
    row = _row(session, name)
    if row is None:
        return None
    successor = row.successor
    try:
        if successor is not None:
            find_board(session, successor)
    except NotFoundError:
        successor = None
    return Deprecated(row.reason, row.deprecated_at, successor)


def deprecation_document(session: Session, name: str) -> dict[str, Any] | None:
    """The same as it is reported: `reason`, `at` and `successor`, or None."""
    found = deprecated(session, name)
    return None if found is None else asdict(found)


def _row(session: Session, name: str) -> BoardDeprecation | None:
    query = select(BoardDeprecation).join(Board).where(Board.name == name, BoardDeprecation.retracted_at.is_(None))
    return session.scalar(query.order_by(BoardDeprecation.id.desc()).limit(1))
