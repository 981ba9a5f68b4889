"""The schema of this code, and whether a database has it: checked by every command and request.

A database has this code's schema if its tables are at the newest revision and its views and triggers are today's.

Nothing here loads Alembic, which takes longer than the check; `registry.operations.migrate` runs the migrations.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sqlalchemy import Connection, Engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError

import migrations
from registry import __version__
from registry.errors import DatabaseError, UnreachableError, UpgradedError
from registry.proposals import propose
from registry.schema import repeatable
from registry.settings import get_settings

STAMP: Final = "schema_stamp"
"""Table with the version of this package that upgraded the schema last; older versions refuse that database."""

_LINE = re.compile(r"^(revision|down_revision) = (?:[\"'](\w+)[\"']|None)$", re.MULTILINE)


def migrations_folder() -> Path:
    """Return the folder of the `migrations` package, which never imports this one."""
    location = migrations.__file__
    assert location is not None
    return Path(location).parent


def version_folders() -> tuple[Path, ...]:
    """Return the folders with the revision files."""
    return (migrations_folder() / "versions",)


def revisions() -> Mapping[str, str | None]:
    """Map every known revision to its predecessor, as the revision files state them."""
    return _read(version_folders())


@cache
def _read(folders: tuple[Path, ...]) -> Mapping[str, str | None]:
    predecessors = {}
    for path in (path for folder in folders for path in folder.glob("*.py")):
        fields = dict(_LINE.findall(path.read_text(encoding="utf-8")))
        predecessors[fields["revision"]] = fields["down_revision"] or None
    return MappingProxyType(predecessors)


def head() -> str:
    """Return the newest known revision."""
    predecessors = revisions()
    (newest,) = predecessors.keys() - set(predecessors.values())
    return newest


def current(engine: Engine) -> str | None:
    """Return the revision of a database; None for an empty one. Raises DatabaseError if it cannot be read."""
    try:
        # On SQLite a reader waits for no writer.
        with engine.execution_options(read_only=True).connect() as connection:
            return revision_of(connection)
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        kind = UnreachableError if isinstance(error, OperationalError) else DatabaseError
        raise kind(
            f"database {name_database(engine)} cannot be opened ({reason}); check SHUFFLEBOARD_DATABASE_URL and "
            "that it runs"
        ) from None


def not_todays(engine: Engine) -> list[str]:
    """Return the names of views, triggers and functions that differ from this code's; none for an empty database."""
    with engine.execution_options(read_only=True).connect() as connection:
        return [] if revision_of(connection) is None else repeatable.not_todays(connection)


def revision_of(connection: Connection) -> str | None:
    """Return the revision that a transaction sees; None in an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    at: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return at


@dataclass(frozen=True)
class SchemaOrigin:
    """The origin of a schema: the revision of its tables, and the version of this package that upgraded it last.

    revision: None for an empty database. version: empty if it is not known.
    """

    revision: str | None
    version: str


def read_origin(connection: Connection) -> SchemaOrigin:
    """Return the origin of the schema that a transaction sees."""
    at = revision_of(connection)
    if at is None or not inspect(connection).has_table(STAMP):
        return SchemaOrigin(at, "")
    return SchemaOrigin(at, connection.scalar(text(f"SELECT version FROM {STAMP}")) or "")  # noqa: S608 - our own name


def stamp(connection: Connection) -> None:
    """Store the version of this package, in the caller's transaction: after an upgrade that changed the schema."""
    connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {STAMP} (version TEXT PRIMARY KEY)")
    connection.exec_driver_sql(f"DELETE FROM {STAMP}")  # noqa: S608 - our own name
    statement = text(f"INSERT INTO {STAMP} (version) VALUES (:version)")  # noqa: S608 - our own name
    connection.execute(statement, {"version": __version__})


def require_unchanged(connection: Connection, before: SchemaOrigin) -> None:
    """Raise UpgradedError if the schema was upgraded since `before` was read.

    A database that has become empty is being restored, which its generation shows.
    """
    now = read_origin(connection)
    if now.revision is not None and now != before:
        by = f" by Shuffleboard {now.version}" if now.version else ""
        raise UpgradedError(
            f"the database was upgraded{by} while this process of Shuffleboard {__version__} ran; start it again with "
            f"{now.version or 'that version'} or a newer one"
        )


def require_current(engine: Engine) -> None:
    """Raise DatabaseError unless the database is at this code's revision and has its views and triggers.

    Raises UpgradedError if a newer version of this package upgraded it.
    """
    at = current(engine)
    if at is None:
        raise DatabaseError(f"database {name_database(engine)} is empty; run: {propose('db upgrade')}")
    with engine.execution_options(read_only=True).connect() as connection:
        require_known(name_database(engine), read_origin(connection))
    if at != head():
        raise DatabaseError(
            f"database {name_database(engine)} is at revision {at}, not {head()}; run: {propose('db upgrade')} "
            f"({upgrade_time(engine)})"
        )
    if other := not_todays(engine):
        raise DatabaseError(
            f"database {name_database(engine)} has other views or triggers than this code ({join_names(other)}); "
            f"run: {propose('db upgrade')}"
        )


UPGRADE_BYTES_PER_S: Final = 3_000_000
"""Bytes of a database per second of an upgrade that writes every prediction again, on a busy machine with PostgreSQL
(`bench/bench_upgrade.py`); other upgrades are far quicker."""


def upgrade_time(engine: Engine) -> str:
    """Describe the longest time that an upgrade may take, estimated from the size of the database."""
    with engine.execution_options(read_only=True).connect() as connection:
        query = "SELECT pg_database_size(current_database())"
        if connection.dialect.name == "sqlite":
            query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        total = connection.exec_driver_sql(query).scalar() or 0
    minutes = math.ceil(total / UPGRADE_BYTES_PER_S / 60)
    return f"takes up to {minutes} min for {total / 1e9:.1f} GB" if minutes > 1 else "takes less than a minute"


def join_names(names: Sequence[str]) -> str:
    """Join the first three names for a message, and count the others."""
    return f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def require_known(database: str, origin: SchemaOrigin) -> None:
    """Raise UpgradedError for a schema that is newer than this code, DatabaseError for one that is too old to upgrade.

    database: its name in messages.
    """
    if is_newer(origin.version):
        raise UpgradedError(
            f"database {database} was upgraded by Shuffleboard {origin.version}, and this is {__version__}; install "
            f"Shuffleboard {origin.version} or newer"
        )
    at = origin.revision
    if at is None or at in revisions():
        return
    if is_too_old(at):
        raise DatabaseError(
            f"database {database} is at revision {at}, older than the first release, and cannot be upgraded; "
            f"{describe_new_registry()}"
        )
    raise UpgradedError(f"database {database} is at revision {at}, newer than this code; upgrade the code")


def describe_new_registry() -> str:
    """Return the remedy for a database that no release reads: how to create a new registry."""
    setting = "SHUFFLEBOARD_DATABASE_URL to an empty database"
    if not get_settings().database_url:
        setting = "SHUFFLEBOARD_HOME to an empty folder"
    return f"set {setting} and run: {propose('db upgrade')}"


def is_newer(version: str) -> bool:
    """Return whether a version of this package is newer than this one; an unknown version is not."""
    return _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, the most significant first; empty for an unknown version."""
    return tuple(map(int, re.findall(r"\d+", version)))


def is_too_old(at: str) -> bool:
    """Return whether a revision is older than the first schema: revisions are named by their times."""
    return at < min(revisions())


def name_database(engine: Engine) -> str:
    """Return the database's name in messages: its URL without the password."""
    return make_url(engine.url).render_as_string(hide_password=True)
