"""Runs the migrations. They live in the package `migrations`, which never imports this one."""

import os
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.boards.store import load_shipped_suites
from registry.db import get_engine, write_session
from registry.errors import DatabaseError
from registry.schema import history
from registry.studies.published import load_published

LOCK_NOT_AVAILABLE: Final = "55P03"
"""PostgreSQL's SQLSTATE of a statement that did not get a lock in time."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(history.migrations_folder()))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, history.version_folders())))
    return config


def pending(at: str | None) -> list[tuple[str, str]]:
    """(revision, title) of the migrations that `upgrade` would run on a database at revision `at`, oldest first.

    at: None for an empty database. Nothing for a revision that this code does not know.
    """
    if at is not None and at not in history.revisions():
        return []
    scripts = ScriptDirectory.from_config(_config())
    newest_first = list(scripts.iterate_revisions("head", at or "base"))
    return [(script.revision, script.doc) for script in reversed(newest_first)]


def upgrade(url: str) -> str:
    """Brings the database to the newest revision in one transaction and returns that revision.

    Published results and shipped suites are brought up to date at any revision: a release can change them without
    changing the schema.
    Raises DatabaseError when it cannot be reached or a migration fails, which leaves the old schema as it was.
    """
    engine = get_engine(url)
    before = history.current(engine)
    history.require_known(history.shown(engine), before)
    try:
        if before == history.head():
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
            f"upgrade of {history.shown(engine)} from {before or 'an empty database'} failed and was rolled back: "
            f"{reason}{remedy}"
        ) from error
    return history.head()


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
    from registry.operations.backfills import add_missing_intervals, add_missing_metrics

    add_missing_metrics(session)
    add_missing_intervals(session)


def _load_shipped(session: Session) -> None:
    load_published(session)
    load_shipped_suites(session)


def _is_held(error: DBAPIError) -> bool:
    """Whether somebody else held what a statement wanted for longer than it waits."""
    return getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE or "database is locked" in str(error.orig)
