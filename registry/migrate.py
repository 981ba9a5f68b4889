"""Runs the migrations. They live in the package `migrations`, which never imports this one."""

from importlib import import_module
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, make_url
from sqlalchemy.exc import DBAPIError

from registry.boards.store import load_shipped_suites
from registry.db import get_engine, write_session
from registry.errors import DatabaseError
from registry.published import load_published


def _config() -> Config:
    config = Config()
    location = import_module("migrations").__file__
    assert location is not None
    config.set_main_option("script_location", str(Path(location).parent))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str:
    """The newest revision this code knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def current(engine: Engine) -> str | None:
    """The revision the database is at; None for an empty one. Raises DatabaseError when it cannot be reached."""
    try:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise DatabaseError(
            f"database {_shown(engine)} cannot be opened ({reason}); check SHUFFLEBOARD_DATABASE_URL and that it runs"
        ) from None


def upgrade(url: str) -> str:
    """Brings the database to the newest revision in one transaction and returns that revision.

    Published results and shipped suites are brought up to date at any revision: a release can change them without
    changing the schema.
    Raises DatabaseError when it cannot be reached or a migration fails, which leaves the old schema as it was.
    """
    # numpy comes with it, which the web, that only asks for the revision, does without.
    from registry.seal import add_missing_intervals, add_missing_metrics

    engine = get_engine(url)
    before = current(engine)
    _require_known(engine, before)
    config = _config()
    try:
        if before != head():
            with engine.begin() as connection:
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        with write_session(engine) as session:
            if before != head():
                add_missing_metrics(session)
                add_missing_intervals(session)
            load_published(session)
            load_shipped_suites(session)
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise DatabaseError(
            f"upgrade of {_shown(engine)} from {before or 'an empty database'} failed and was rolled back: {reason}"
        ) from error
    return head()


def require_current(engine: Engine) -> None:
    """Raises DatabaseError unless the database is at this code's revision."""
    at = current(engine)
    if at == head():
        return
    if at is None:
        raise DatabaseError(f"database {_shown(engine)} is empty; run: shuffleboard db upgrade")
    _require_known(engine, at)
    raise DatabaseError(f"database {_shown(engine)} is at revision {at}, not {head()}; run: shuffleboard db upgrade")


def _require_known(engine: Engine, at: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if at is not None and at not in known:
        raise DatabaseError(f"database {_shown(engine)} is at revision {at}, newer than this code; upgrade the code")


def _shown(engine: Engine) -> str:
    return make_url(engine.url).render_as_string(hide_password=True)
