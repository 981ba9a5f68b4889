"""A streaming replica of the database: whether it may be read from, and how far it is behind."""

import time
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

PATIENCE_SECONDS: Final = 0.25
"""How long a replica that seems behind is given to replay what was written a moment ago."""

# What is in the log, but not flushed yet, no replica can have; on an idle primary it may stay so for seconds.
_FLUSHED: Final = text("SELECT CAST(pg_current_wal_flush_lsn() AS text)")
_POSITION: Final = text("SELECT CAST(pg_current_wal_insert_lsn() AS text)")
# Where everything is replayed, the age of the last transaction says only that nothing happens.
_STANDING: Final = text(
    "SELECT pg_is_in_recovery() AS standby, pg_wal_lsn_diff(:written, pg_last_wal_replay_lsn()) AS behind, "
    "CASE WHEN pg_last_wal_replay_lsn() >= CAST(:written AS pg_lsn) THEN 0 "
    "ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END AS seconds, "
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
        written = connection.scalar(_FLUSHED)
    until = time.monotonic() + min(most_seconds, PATIENCE_SECONDS)
    try:
        with read_only(replica).connect() as connection:
            while True:
                found = connection.execute(_STANDING, {"written": written}).one()
                late = found.seconds is None or found.seconds > most_seconds
                # After an idle minute the last transaction is a minute old until the next one is replayed.
                if not late or time.monotonic() >= until:
                    break
                time.sleep(0.01)
    except DBAPIError as error:
        return Standing(f"does not answer: {' '.join(str(error.orig).split())}")
    if not found.standby or found.behind is None:
        return Standing("is not a standby of a streaming replication")
    seconds = None if found.seconds is None else max(0.0, float(found.seconds))
    trouble = ""
    if found.revision != revision:
        trouble = f"is at schema {found.revision}, not {revision}"
    elif late:
        trouble = f"is {'unknown' if seconds is None else round(seconds)} s behind"
    return Standing(trouble, max(0, int(found.behind)), seconds)


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
