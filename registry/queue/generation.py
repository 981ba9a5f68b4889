"""The registry's generation: a random id, drawn when a database is made, restored, moved or promoted.

A restored database gives out ids again that were in use after the backup, so a claim from before the restore could
refer to other work. Every claim contains the generation in which it was made, and no result of an earlier generation is
stored.

A restore needs no announcement: the place where the generation was drawn is stored next to it (a cluster, its timeline
and a database; or a file: `registry.db.registry_place`). A worker that finds it in another place draws a new one.
"""

import uuid
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, delete, event, insert, select, update
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.orm import Session

from registry.db import database_now, one_at_a_time, registry_place
from registry.errors import GenerationError
from registry.tables import RegistryGeneration, Worker

MADE: Final = "made"
RESTORED: Final = "restored"
MOVED: Final = "moved"
NOTICED: Final = "found in another place: restored, copied or promoted"
ASKED: Final = "drawn by hand"
"""Reasons for drawing a generation."""


class StoredGeneration(NamedTuple):
    """The stored generation.

    is_here: whether it was drawn at the database's present place. is_standby: whether the server is a read-only copy
    that follows another server.
    """

    generation: str
    is_here: bool
    is_standby: bool
    reason: str
    drawn_at: datetime


def read_generation(session: Session | Connection) -> StoredGeneration | None:
    """Return the stored generation; None if the database has none yet."""
    row = RegistryGeneration
    query = select(row.generation, row.place, registry_place().label("here"), row.reason, row.drawn_at)
    stored = session.execute(query).first()
    if stored is None:
        return None
    return StoredGeneration(
        stored.generation, stored.place == stored.here, stored.here is None, stored.reason, stored.drawn_at
    )


def current(session: Session) -> str:
    """Return the database's generation, or draw a new one if the place has changed. Needs a write transaction."""
    stored = read_generation(session)
    if stored is not None and stored.is_here:
        return stored.generation
    one_at_a_time(session, "generation")
    stored = read_generation(session)  # the process that had the lock before may have drawn it
    if stored is not None and stored.is_here:
        return stored.generation
    return draw(session, MADE if stored is None else NOTICED)


def draw(session: Session, reason: str) -> str:
    """Draw, store and return a new generation, which invalidates all earlier claims."""
    drawn = str(uuid.uuid4())
    session.execute(delete(RegistryGeneration))
    session.execute(
        insert(RegistryGeneration).values(generation=drawn, place=None, reason=reason, drawn_at=database_now())
    )
    # A second statement: on PostgreSQL the row stores the transaction that wrote it.
    session.execute(update(RegistryGeneration).values(place=registry_place()))
    return drawn


def bind_generation(engine: Engine, generation: str, worker_id: str | None = None) -> Engine:
    """Return the engine for a process that works in this generation, such as on claims or results.

    Each of its write transactions begins with a check of the database's generation and raises GenerationError, with
    nothing written, if it has changed. worker_id: worker whose row must still exist; None skips this check.
    """
    narrowed = engine.execution_options(registry_generation=generation)

    @event.listens_for(narrowed, "begin")
    def _check(connection: Connection) -> None:
        if not connection.get_execution_options().get("read_only", False):
            require(connection, generation, worker_id)

    return narrowed


def require(session: Session | Connection, generation: str, worker_id: str | None = None) -> None:
    """Raise GenerationError unless the database has this generation and, if given, this worker's row.

    A missing row means that the database went back in time in place, such as by a snapshot of its disk.
    """
    try:
        stored = read_generation(session)
        is_known = worker_id is None or session.scalar(select(Worker.id).where(Worker.id == worker_id)) is not None
    except (ProgrammingError, OperationalError) as error:
        if "registry_generation" not in str(error.orig):
            raise
        stored, is_known = None, False  # no tables, or an empty file: about to be restored
    if stored is not None and stored.is_standby:
        return  # a standby refuses writes, and may be promoted later
    if stored is None or not stored.is_here or stored.generation != generation or not is_known:
        raise GenerationError(
            "the database was restored, copied, moved or promoted after this process started, so what it holds is of "
            f"an earlier generation ({generation[:8]}) and is not stored; start it again"
        )
