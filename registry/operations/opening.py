"""Opening the registry's database for a command, a worker or a service."""

import time
from typing import Final

from sqlalchemy import Engine, make_url

from registry.db import get_engine
from registry.errors import UnreachableError
from registry.process_log import log
from registry.schema import catalogue
from registry.schema.history import current, require_current
from registry.settings import Settings

FIRST_PAUSE_SECONDS: Final = 0.5
LAST_PAUSE_SECONDS: Final = 8.0


def engine_of(settings: Settings, *, create: bool = True) -> Engine:
    """Return the engine on a database of this code's revision.

    create: set up an SQLite database that is empty or missing. Raises DatabaseError for any other revision.
    """
    url = settings.resolve_database_url()
    engine = get_engine(url)
    if create and engine.dialect.name == "sqlite" and current(engine) is None:
        from registry.operations.migrate import upgrade

        upgrade(url)
    require_current(engine)
    return engine


def engine_when_reachable(settings: Settings) -> Engine:
    """Return the engine for a service, waiting with growing pauses while PostgreSQL starts.

    Raises DatabaseError for tables, views or triggers of other code, and UnreachableError if it does not answer within
    SHUFFLEBOARD_DATABASE_WAIT_SECONDS. SQLite is not waited for: a file that cannot be opened now cannot be opened
    later.
    """
    until = None
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return _require_intact(engine_of(settings))
        except UnreachableError as error:
            now = time.monotonic()
            until = until or now + settings.database_wait_seconds
            if now >= until or make_url(settings.resolve_database_url()).get_backend_name() == "sqlite":
                raise
            log.warning("database_awaited", error=str(error), seconds_left=round(until - now))
        time.sleep(min(pause, until - now))
        pause = min(2 * pause, LAST_PAUSE_SECONDS)


def _require_intact(engine: Engine) -> Engine:
    catalogue.require_intact(engine)
    return engine
