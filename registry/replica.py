"""A streaming replica of the database: whether it may be read from, and how far it is behind."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

_POSITION: Final = text("SELECT CAST(pg_current_wal_insert_lsn() AS text)")
# Where everything is replayed, the age of the last transaction says only that nothing happens.
_STANDING: Final = text(
    "SELECT pg_is_in_recovery() AS standby, pg_wal_lsn_diff(:written, pg_last_wal_replay_lsn()) AS behind, "
    "extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) AS age, "
    "(SELECT version_num FROM alembic_version) AS revision"
)
_REPLAYED: Final = text("SELECT CAST(pg_last_wal_replay_lsn() AS text)")
_HAS_REPLAYED: Final = text("SELECT pg_last_wal_replay_lsn() >= CAST(:written AS pg_lsn)")


@dataclass(frozen=True)
class Standing:
    """How a replica stands. trouble: why it may not be read from; empty where it may.

    lag_bytes: of the primary's log that it has not replayed; lag_seconds: the age of the last transaction that it has
    replayed, 0 where it has replayed all; either is None where it is not known.
    """

    trouble: str
    lag_bytes: int | None = None
    lag_seconds: float | None = None


def standing(primary: Engine, replica: Engine, *, most_seconds: float, revision: str) -> Standing:
    """How the replica stands to the primary.

    most_seconds: the lag from which on it may not be read from. revision: of the schema that this code needs. Raises
    DBAPIError when the primary cannot be reached; a replica that cannot is one in trouble.
    """
    with primary.connect() as connection:
        written = position(connection)
    try:
        with read_only(replica).connect() as connection:
            found = connection.execute(_STANDING, {"written": written}).one()
    except DBAPIError as error:
        return Standing(f"does not answer: {' '.join(str(error.orig).split())}")
    if not found.standby or found.behind is None:
        return Standing("is not a standby of a streaming replication")
    behind = max(0, int(found.behind))
    seconds = 0.0 if behind == 0 else None if found.age is None else max(0.0, float(found.age))
    trouble = ""
    if found.revision != revision:
        trouble = f"is at schema {found.revision}, not {revision}"
    elif seconds is None or seconds > most_seconds:
        trouble = f"is {'unknown' if seconds is None else round(seconds)} s behind"
    return Standing(trouble, behind, seconds)


def read_only(replica: Engine) -> Engine:
    """The engine of a replica, none of whose transactions asks for the right to write, which a standby refuses."""
    return replica.execution_options(postgresql_readonly=True)


def position(connection: Connection) -> str:
    """Where the primary's log ends, such as 0/16B3748: what was committed before is below it."""
    return str(connection.scalar(_POSITION))


def replayed(connection: Connection) -> str:
    """How far a replica has replayed the primary's log: as long as it is the same, so is what can be read there."""
    return str(connection.scalar(_REPLAYED))


def has_replayed(connection: Connection, written: str) -> bool:
    """Whether a replica has replayed the primary's log up to a position."""
    return bool(connection.scalar(_HAS_REPLAYED, {"written": written}))
