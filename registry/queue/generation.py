"""The registry's generation: drawn when a database is made, restored, moved or promoted.

Ids start again from the end of a backup, so a claim made before a restore can name a shard that is other work after it.
Every claim contains the generation in which it was made, and no result of an earlier generation is stored.

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
"""Why a generation was drawn."""


class Standing(NamedTuple):
    """The stored generation. is_here: whether it was drawn where the database is now.

    is_standby: whether the server follows another one, which alone may write.
    """

    generation: str
    is_here: bool
    is_standby: bool
    reason: str
    drawn_at: datetime


def standing(session: Session | Connection) -> Standing | None:
    """Return the stored generation; None if the database was never given one."""
    row = RegistryGeneration
    query = select(row.generation, row.place, registry_place().label("here"), row.reason, row.drawn_at)
    found = session.execute(query).first()
    if found is None:
        return None
    return Standing(found.generation, found.place == found.here, found.here is None, found.reason, found.drawn_at)


def current(session: Session) -> str:
    """Return the database's generation, or draw a new one if the place has changed. Needs a write transaction."""
    found = standing(session)
    if found is not None and found.is_here:
        return found.generation
    one_at_a_time(session, "generation")
    found = standing(session)  # the process that had the lock before may have drawn it
    if found is not None and found.is_here:
        return found.generation
    return draw(session, MADE if found is None else NOTICED)


def draw(session: Session, reason: str) -> str:
    """Draw a new generation and return it: claims made before are void from then on."""
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
    nothing written, if it is another. worker_id: the worker's, whose row must exist too.
    """
    narrowed = engine.execution_options(registry_generation=generation)

    @event.listens_for(narrowed, "begin")
    def _look(connection: Connection) -> None:
        if not connection.get_execution_options().get("read_only", False):
            require(connection, generation, worker_id)

    return narrowed


def require(session: Session | Connection, generation: str, worker_id: str | None = None) -> None:
    """Raise GenerationError unless the database is of this generation and, if given, has this worker's row.

    A missing row means that the database went back in time in place, such as by a snapshot of its disk.
    """
    try:
        found = standing(session)
        is_known = worker_id is None or session.scalar(select(Worker.id).where(Worker.id == worker_id)) is not None
    except (ProgrammingError, OperationalError) as error:
        if "registry_generation" not in str(error.orig):
            raise
        found, is_known = None, False  # no tables, or an empty file: about to be restored
    if found is not None and found.is_standby:
        return  # it refuses to be written to, and may be promoted later
    if found is None or not found.is_here or found.generation != generation or not is_known:
        raise GenerationError(
            "the database was restored, copied, moved or promoted after this process started, so what it holds is of "
            f"an earlier generation ({generation[:8]}) and is not stored; start it again"
        )
