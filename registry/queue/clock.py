"""Correct stored times after the database's clock was set back.

Otherwise the lease of a dead worker, and every wait, would last longer by as much as the clock went back.
"""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from registry.db import database_now
from registry.process_log import log
from registry.tables import ModelRevision, Shard, Worker
from registry.tables.providers import RateLimit

STEP_SECONDS: Final = 1.0
"""A heartbeat may be this far ahead of the clock without a correction: servers adjust their clocks all the time."""
_WAIT_ENDS: Final[tuple[tuple[Any, InstrumentedAttribute[Any]], ...]] = (
    (Shard.id, Shard.lease_until),
    (Shard.id, Shard.not_before),
    (ModelRevision.id, ModelRevision.prepare_until),
    (RateLimit.key, RateLimit.not_before),
    (RateLimit.key, RateLimit.requests_free_at),
    (RateLimit.key, RateLimit.tokens_free_at),
)
"""Columns with the end of a lease or a wait, each with the primary key of its table."""


def follow_clock(session: Session) -> float:
    """Move stored times back if a worker's heartbeat is ahead of the clock; return by how many seconds.

    Call it before the transaction locks a worker's row: of two processes that notice, the second waits for the first
    and then finds nothing to move.
    """
    latest, now = session.execute(select(func.max(Worker.last_seen), database_now())).one()
    if latest is None or (latest - now).total_seconds() < STEP_SECONDS:
        return 0.0
    ahead = select(Worker.id).where(Worker.last_seen >= database_now(STEP_SECONDS)).order_by(Worker.id)
    workers = list(session.scalars(ahead.with_for_update()))
    if not workers:
        return 0.0
    back = latest - now
    for key, column in _WAIT_ENDS:
        waiting: list[tuple[Any, datetime]] = [
            (row[0], row[1]) for row in session.execute(select(key, column).where(column > now).with_for_update())
        ]
        if waiting:
            moved = update(key.class_.__table__).where(key == bindparam("of_row")).values({column.key: bindparam("at")})
            session.connection().execute(moved, [{"of_row": row, "at": until - back} for row, until in waiting])
    session.execute(update(Worker).where(Worker.id.in_(workers)).values(last_seen=database_now()))
    log.warning("clock_set_back", seconds=round(back.total_seconds()), remedy="check the database's clock (NTP)")
    return back.total_seconds()
