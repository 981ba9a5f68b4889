"""Bring a database to this code's schema: tables by the revisions in `migrations`, views and triggers by the code."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from registry.boards.store import load_shipped_suites
from registry.db import get_engine, one_at_a_time
from registry.errors import DatabaseError
from registry.process_log import log
from registry.proposals import propose
from registry.queue import generation
from registry.schema import catalogue, history, repeatable
from registry.studies.published import load_published

LIMITS: Final = {"lock_timeout": "3s", "statement_timeout": "30min"}
"""PostgreSQL's limits for changes of the schema: all readers wait behind a lock request, so it is given up soon."""

DEADLOCK: Final = "40P01"
HELD: Final = ("55P03", DEADLOCK)
"""PostgreSQL's SQLSTATEs of a statement that did not get a lock in time, or was ended as part of a deadlock."""
TRIES: Final = 20
"""Attempts of an upgrade: it may run into a deadlock with readers that use several tables."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(history.migrations_folder()))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, history.version_folders())))
    return config


def pending(at: str | None) -> list[tuple[str, str]]:
    """Return (revision, title) of the migrations that `upgrade` would run on a database at revision `at`, oldest first.

    at: None for an empty database. The list is empty for a revision that this code does not know.
    """
    if at is not None and at not in history.revisions():
        return []
    scripts = ScriptDirectory.from_config(_config())
    newest_first = list(scripts.iterate_revisions("head", at or "base"))
    return [(script.revision, script.doc) for script in reversed(newest_first)]


def upgrade(url: str) -> str:
    """Bring the database to this code's schema in one transaction and return its revision.

    Tables are changed by the revisions that the database lacks; then views, triggers and audiences are made again if
    their texts have changed. Published results and shipped suites are brought up to date at any revision: a release can
    change them without changing the schema. Of several upgrades at once, one works and the others wait for it. Raises
    DatabaseError when the database cannot be reached or a migration fails, which leaves the old schema as it was.
    """
    engine = get_engine(url)
    before = history.current(engine)
    attempts = Retrying(
        retry=retry_if_exception(_is_deadlock),
        stop=stop_after_attempt(TRIES),
        wait=wait_random(0.1, 1.0),
        reraise=True,
    )
    try:
        for attempt in attempts:
            with attempt:
                _upgrade_once(engine)
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        remedy = "; stop workers and website, which are using its tables, and run it again" if _is_held(error) else ""
        raise DatabaseError(
            f"upgrade of {history.name_database(engine)} from {before or 'an empty database'} failed and was rolled "
            f"back: {reason}{remedy}"
        ) from error
    return history.head()


def _upgrade_once(engine: Engine) -> None:
    """Upgrade in a single transaction, so that a database at the newest schema also has the rows that ship with it."""
    with _transaction(engine) as connection, Session(connection) as session:
        one_at_a_time(session, "upgrade")
        origin = history.read_origin(connection)  # another upgrade may have done everything before this one's turn
        history.require_known(history.name_database(engine), origin)
        _require_intact(connection)
        if make_schema(connection):
            _complete_metrics(session)
        _load_shipped(session)
        generation.current(session)
        session.flush()


def _is_deadlock(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == DEADLOCK


@contextmanager
def _transaction(engine: Engine) -> Iterator[Connection]:
    """Begin the transaction of an upgrade. SQLite checks foreign keys only at its end.

    A revision that changes a constraint there copies the table and drops the old one, to which rows of other tables
    refer.
    """
    with engine.connect() as connection:
        if engine.dialect.name != "sqlite":
            with connection.begin():
                yield connection
            return
        driver = connection.connection
        driver.execute("PRAGMA foreign_keys=OFF")  # has no effect within a transaction
        try:
            with connection.begin():
                before = history.revision_of(connection)
                yield connection
                if history.revision_of(connection) != before:
                    _require_whole(connection)
        finally:
            driver.execute("PRAGMA foreign_keys=ON")


def _require_whole(connection: Connection) -> None:
    """Raise DatabaseError if rows of an SQLite database refer to rows that are missing."""
    broken = connection.exec_driver_sql('SELECT "table", parent FROM pragma_foreign_key_check LIMIT 1').first()
    if broken is not None:
        raise DatabaseError(
            f"the upgrade was rolled back: a row of {broken[0]} refers to a row of {broken[1]} that is missing; "
            "restore a backup from before that, or remove the row"
        )


def _require_intact(connection: Connection) -> None:
    """Raise DatabaseError if somebody changed the tables; views, triggers and functions are made again in any case."""
    is_behind = history.revision_of(connection) != history.head()
    differences = catalogue.find_changes(connection) if is_behind else catalogue.find_differences(connection)
    wrong = [each for each in differences if each.kind != "extra" and not each.is_repeatable]
    if wrong:
        raise DatabaseError(f"the tables are not as Shuffleboard made them: {catalogue.describe(wrong)}")


def make_schema(connection: Connection) -> bool:
    """Create this code's tables, views, triggers and audiences, in the caller's transaction; the caller adds rows.

    Returns whether anything had to be done.
    """
    is_behind = history.revision_of(connection) != history.head()
    if not is_behind and not repeatable.not_todays(connection) and not repeatable.absent(connection):
        return False
    if connection.dialect.name == "postgresql":
        for name, limit in LIMITS.items():
            connection.execute(text(f"SET LOCAL {name} = '{limit}'"))
    if is_behind:
        repeatable.remove(connection)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    repeatable.refresh(connection)
    if connection.dialect.name == "postgresql":
        # Imported here, since it loads psycopg, which SQLite does not need.
        from registry.schema.comments import comment_on_views

        comment_on_views(connection)
    catalogue.record(connection)
    history.stamp(connection)
    return True


def _complete_metrics(session: Session) -> None:
    """Compute metrics that were added after an evaluation was sealed."""
    # Imported here, since it loads numpy, which the web does not need for the revision.
    from registry.sealed.backfills import add_missing_metrics

    if archived := add_missing_metrics(session):
        restore = propose("evaluations restore", *archived)
        log.warning("archived_evaluations_lack_metrics", evaluations=archived, restore=restore)


def _load_shipped(session: Session) -> None:
    load_published(session)
    load_shipped_suites(session)


def _is_held(error: DBAPIError) -> bool:
    """Return whether a statement waited longer than its limit for another's lock."""
    return getattr(error.orig, "sqlstate", None) in HELD or "database is locked" in str(error.orig)
