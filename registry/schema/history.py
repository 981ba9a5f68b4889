"""The schema as this code knows it, and whether a database has it: asked by every command and request.

A database has this code's schema if its tables are at the newest revision and its views and triggers are today's.

Nothing here loads Alembic, which takes longer than the question; `registry.operations.migrate` runs the migrations.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import Connection, Engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError

import migrations
from registry.errors import DatabaseError, UnreachableError
from registry.schema import repeatable

_LINE = re.compile(r"^(revision|down_revision) = (?:[\"'](\w+)[\"']|None)$", re.MULTILINE)


def migrations_folder() -> Path:
    """Where the migrations lie: a package that never imports this one."""
    location = migrations.__file__
    assert location is not None
    return Path(location).parent


def version_folders() -> tuple[Path, ...]:
    """Where its revisions lie, a file for each."""
    return (migrations_folder() / "versions",)


def revisions() -> Mapping[str, str | None]:
    """Every revision this code knows, and the one it follows, as the migrations' files say."""
    return _read(version_folders())


@cache
def _read(folders: tuple[Path, ...]) -> Mapping[str, str | None]:
    found = {}
    for path in (path for folder in folders for path in folder.glob("*.py")):
        said = dict(_LINE.findall(path.read_text(encoding="utf-8")))
        found[said["revision"]] = said["down_revision"] or None
    return MappingProxyType(found)


def head() -> str:
    """The newest revision this code knows."""
    known = revisions()
    (newest,) = known.keys() - set(known.values())
    return newest


def current(engine: Engine) -> str | None:
    """The revision the database is at; None for an empty one. Raises DatabaseError when it cannot be read."""
    try:
        # On SQLite a reader waits for no writer.
        with engine.execution_options(read_only=True).connect() as connection:
            return revision_of(connection)
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        kind = UnreachableError if isinstance(error, OperationalError) else DatabaseError
        raise kind(
            f"database {shown(engine)} cannot be opened ({reason}); check SHUFFLEBOARD_DATABASE_URL and that it runs"
        ) from None


def not_todays(engine: Engine) -> list[str]:
    """The views, triggers and functions of a database that were made by other code; empty if it is at no revision."""
    with engine.execution_options(read_only=True).connect() as connection:
        return [] if revision_of(connection) is None else repeatable.not_todays(connection)


def revision_of(connection: Connection) -> str | None:
    """The revision that a transaction sees; None in an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    at: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return at


def require_current(engine: Engine) -> None:
    """Raises DatabaseError unless the database is at this code's revision and has its views and triggers."""
    at = current(engine)
    if at is None:
        raise DatabaseError(f"database {shown(engine)} is empty; run: shuffleboard db upgrade")
    require_known(shown(engine), at)
    if at != head():
        raise DatabaseError(f"database {shown(engine)} is at revision {at}, not {head()}; run: shuffleboard db upgrade")
    if other := not_todays(engine):
        raise DatabaseError(
            f"database {shown(engine)} has other views or triggers than this code ({listed(other)}); "
            "run: shuffleboard db upgrade"
        )


def listed(names: Sequence[str]) -> str:
    """Names as a message has room for them."""
    return f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def require_known(database: str, at: str | None) -> None:
    """Raises DatabaseError for a revision that is newer than this code, or too old.

    database: as the message names it.
    """
    if at is None or at in revisions():
        return
    if is_too_old(at):
        raise DatabaseError(
            f"database {database} is at revision {at}, older than the first release; create a new database"
        )
    raise DatabaseError(f"database {database} is at revision {at}, newer than this code; upgrade the code")


def is_too_old(at: str) -> bool:
    """Whether a revision is from before the first schema: revisions are named by their times."""
    return at < min(revisions())


def shown(engine: Engine) -> str:
    """The database as messages name it: its URL without the password."""
    return make_url(engine.url).render_as_string(hide_password=True)
