"""Runs the migrations. They live in the package `migrations`, which never imports this one."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import migrations
from registry.boards.store import load_shipped_suites
from registry.db import get_engine, write_session
from registry.errors import DatabaseError
from registry.studies.published import load_published

LOCK_NOT_AVAILABLE: Final = "55P03"
"""PostgreSQL's SQLSTATE of a statement that did not get a lock in time."""

FROM_BEFORE: Final = (
    "with the code that made it export every evaluation (shuffleboard evaluations export ID --out DIR), and import the "
    "archives into a new database (shuffleboard evaluations import DIR)"
)
"""What to do with a database of a schema that was never released."""


def _config() -> Config:
    config = Config()
    location = migrations.__file__
    assert location is not None
    config.set_main_option("script_location", str(Path(location).parent))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str:
    """The newest revision this code knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def pending(at: str | None) -> list[tuple[str, str]]:
    """(revision, title) of the migrations that `upgrade` would run on a database at revision `at`, oldest first.

    at: None for an empty database. Nothing for a revision that this code does not know.
    """
    scripts = ScriptDirectory.from_config(_config())
    if at is not None and at not in {script.revision for script in scripts.walk_revisions()}:
        return []
    newest_first = list(scripts.iterate_revisions("head", at or "base"))
    return [(script.revision, script.doc) for script in reversed(newest_first)]


def current(engine: Engine) -> str | None:
    """The revision the database is at; None for an empty one. Raises DatabaseError when it cannot be reached."""
    try:
        # On SQLite a reader waits for no writer.
        with engine.execution_options(read_only=True).connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise DatabaseError(
            f"database {shown(engine)} cannot be opened ({reason}); check SHUFFLEBOARD_DATABASE_URL and that the "
            "server runs"
        ) from None


def upgrade(url: str) -> str:
    """Brings the database to the newest revision in one transaction and returns that revision.

    Published results and shipped suites are brought up to date at any revision: a release can change them without
    changing the schema.
    Raises DatabaseError when it cannot be reached or a migration fails, which leaves the old schema as it was.
    """
    engine = get_engine(url)
    before = current(engine)
    require_known(shown(engine), before)
    try:
        if before == head():
            with write_session(engine) as session:
                _load_shipped(session)
        else:
            # One transaction for all of it: a database at the newest schema lacks nothing that comes with it.
            with engine.begin() as connection, Session(connection) as session:
                run_migrations(connection)
                _comment(connection)
                _complete(session)
                _load_shipped(session)
                session.flush()
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        remedy = "; stop workers and website, which are using its tables, and run it again" if _is_held(error) else ""
        raise DatabaseError(
            f"upgrade of {shown(engine)} from {before or 'an empty database'} failed and was rolled back: "
            f"{reason}{remedy}"
        ) from error
    return head()


def run_migrations(connection: Connection) -> None:
    """Brings the schema of a database to the newest revision, in the caller's transaction; rows are the caller's."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _comment(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        # The guard of the SQL page comes with it, which takes a second to load.
        from registry.schema.comments import comment_on_views

        comment_on_views(connection)


def _complete(session: Session) -> None:
    """What a newer schema has of evaluations that were sealed under an older one."""
    # numpy comes with it, which the web, that only asks for the revision, does without.
    from registry.operations.backfills import add_missing_intervals, add_missing_metrics, begin_chain

    add_missing_metrics(session)
    add_missing_intervals(session)
    begin_chain(session)


def _load_shipped(session: Session) -> None:
    load_published(session)
    load_shipped_suites(session)


def _is_held(error: DBAPIError) -> bool:
    """Whether somebody else held what a statement wanted for longer than it waits."""
    return getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE or "database is locked" in str(error.orig)


def require_current(engine: Engine) -> None:
    """Raises DatabaseError unless the database is at this code's revision."""
    at = current(engine)
    if at == head():
        return
    if at is None:
        raise DatabaseError(f"database {shown(engine)} is empty; run: shuffleboard db upgrade")
    require_known(shown(engine), at)
    raise DatabaseError(f"database {shown(engine)} is at revision {at}, not {head()}; run: shuffleboard db upgrade")


def require_known(database: str, at: str | None) -> None:
    """Raises DatabaseError for a revision that is newer than this code, or too old.

    database: as the message names it.
    """
    scripts = ScriptDirectory.from_config(_config())
    if at is None or at in {script.revision for script in scripts.walk_revisions()}:
        return
    if is_too_old(at):
        raise DatabaseError(f"database {database} is at revision {at}, older than the first release; {FROM_BEFORE}")
    raise DatabaseError(f"database {database} is at revision {at}, newer than this code; upgrade the code")


def is_too_old(at: str) -> bool:
    """Whether a revision is from before the first schema: revisions are named by their times."""
    base = ScriptDirectory.from_config(_config()).get_base()
    assert base is not None
    return at < base


def shown(engine: Engine) -> str:
    """The database as messages name it: its URL without the password."""
    return make_url(engine.url).render_as_string(hide_password=True)
