"""Views, triggers and audiences: `db upgrade` creates them from this code, so that no revision contains them.

The table `schema_definition` lists the views, triggers and functions of a database, with a digest of the text from
which each was created. It has the role that `alembic_version` has for the tables, and no model either. Until `db
upgrade` has run, a database with other digests than this code's is refused, like a database at an older revision.

The views of all audiences are one group and the triggers another. If one text has changed, the whole group is created
again, since a view may select from any view before it; an unchanged group needs no lock. On PostgreSQL a reader sees
the old views until the transaction ends and the new ones afterwards.
"""

# Every name in these statements is one of this package's, or was when the database was made.
# ruff: noqa: S608

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal

from sqlalchemy import Connection, inspect, text

from registry.schema import audiences, triggers, views

TABLE: Final = "schema_definition"

Kind = Literal["view", "trigger", "function"]


@dataclass(frozen=True)
class Definition:
    """The statement that creates a view, a trigger or a function; path: PostgreSQL's search path while it runs."""

    kind: Kind
    statement: str
    path: str = "public"

    @property
    def digest(self) -> str:
        """Return the digest of kind, path and statement, as hex."""
        return sha256(f"{self.kind}\0{self.path}\0{self.statement}".encode()).hexdigest()


def definitions(dialect: str) -> Mapping[str, Definition]:
    """Map names to definitions on `sqlite` or `postgresql`, in creation order; on PostgreSQL with their schemas."""
    return MappingProxyType({**_views(dialect), **_triggers(dialect)})


def _views(dialect: str) -> dict[str, Definition]:
    if dialect == "sqlite":  # each connection creates the views of its audience itself
        return {
            name: Definition("view", f"CREATE VIEW {name} AS\n{views.view_sql(name, dialect)}") for name in views.VIEWS
        }
    public = {
        f"public.{name}": Definition("view", f"CREATE VIEW public.{name} AS\n{views.view_sql(name, dialect)}")
        for name in views.VIEWS
    }
    return public | {
        name: Definition("view", statement, path) for name, statement, path in audiences.postgresql_views()
    }


def _triggers(dialect: str) -> dict[str, Definition]:
    return {
        name: Definition("function" if statement.startswith("CREATE FUNCTION") else "trigger", statement)
        for name, statement in triggers.trigger_statements(dialect).items()
    }


@cache
def digests(dialect: str) -> Mapping[str, str]:
    """Map the names to the digests of this code's definitions."""
    return MappingProxyType({name: definition.digest for name, definition in definitions(dialect).items()})


def read_stored_digests(connection: Connection) -> dict[str, str]:
    """Return the stored digests by name; empty if the database has none."""
    if not inspect(connection).has_table(TABLE):
        return {}
    return {row[0]: row[1] for row in connection.execute(text(f"SELECT name, digest FROM {TABLE}"))}


def not_todays(connection: Connection) -> list[str]:
    """Return the names of views, triggers and functions that are new, removed or changed in this code, sorted.

    Changes by hand are not detected here, but in the catalogue; see `absent`.
    """
    stored, today = read_stored_digests(connection), digests(connection.dialect.name)
    if stored == today:
        return []
    return sorted(name for name in stored.keys() | today.keys() if stored.get(name) != today.get(name))


def absent(connection: Connection) -> list[str]:
    """Return the names of this code's views, triggers and functions that the database lacks, sorted."""
    return sorted(digests(connection.dialect.name).keys() - _present(connection).keys())


def refresh(connection: Connection) -> bool:
    """Create again, in the caller's transaction, each group that differs from this code; return whether one did."""
    dialect = connection.dialect.name
    outdated = {*not_todays(connection), *absent(connection)}
    if not outdated:
        return False
    today, kinds = definitions(dialect), _kinds(connection)
    groups: tuple[tuple[Kind, ...], ...] = (("view",), ("trigger", "function"))
    for group in groups:
        if any(kinds.get(name) in group or (name in today and today[name].kind in group) for name in outdated):
            _drop(connection, group)
            _create(connection, {name: definition for name, definition in today.items() if definition.kind in group})
    return True


def remove(connection: Connection) -> None:
    """Drop all views, triggers and functions with their record, in the caller's transaction.

    Call it before tables are altered: on SQLite a batch ALTER fails on a table that a view uses, and silently drops
    triggers. The schemas of audiences stay, since they have the default grants on future views.
    """
    for kind in ("view", "trigger", "function"):
        _drop(connection, (kind,))


def _kinds(connection: Connection) -> dict[str, str]:
    if not inspect(connection).has_table(TABLE):
        return {}
    return {row[0]: row[1] for row in connection.execute(text(f"SELECT name, kind FROM {TABLE}"))}


def _drop(connection: Connection, kinds: Collection[Kind]) -> None:
    kind_of = {
        **_kinds(connection),
        **{name: definition.kind for name, definition in definitions(connection.dialect.name).items()},
    }
    present = _present(connection)
    dropped = [name for name in present if kind_of.get(name) in kinds]
    views_to_drop = [name for name in dropped if kind_of[name] == "view"]
    if views_to_drop and connection.dialect.name == "postgresql":
        # In one statement, so that the views do not block each other, and in the order in which a reader locks them.
        connection.exec_driver_sql(f"DROP VIEW {', '.join(views_to_drop)}")
    elif views_to_drop:
        for name in views_to_drop:
            connection.exec_driver_sql(f"DROP VIEW {name}")
    for name in dropped:
        if kind_of[name] == "trigger":
            connection.exec_driver_sql(f"DROP TRIGGER {name}{present[name]}")
    for name in dropped:
        if kind_of[name] == "function":
            connection.exec_driver_sql(f"DROP FUNCTION {name}()")
    if inspect(connection).has_table(TABLE):
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        connection.exec_driver_sql(f"DELETE FROM {TABLE} WHERE kind IN ({listed})")


def _present(connection: Connection) -> dict[str, str]:
    """Map each view, trigger and function in the database to the rest of its DROP statement, the newest first."""
    if connection.dialect.name == "sqlite":
        query = "SELECT name, '' FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY rowid DESC"
        return {row[0]: row[1] for row in connection.execute(text(query))}
    schemas = ", ".join(f"'{name}'" for name in ("public", *audiences.postgresql_schemas()))
    query = f"""
SELECT nspname || '.' || relname AS name, '' AS rest, pg_class.oid AS made
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname IN ({schemas}) AND relkind = 'v'
UNION ALL
SELECT tgname, ' ON public.' || relname, pg_trigger.oid
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace
UNION ALL
SELECT proname, '', oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY made DESC"""
    return {name: rest for name, rest, _ in connection.exec_driver_sql(query)}


def _create(connection: Connection, selected: Mapping[str, Definition]) -> None:
    connection.exec_driver_sql(
        f"CREATE TABLE IF NOT EXISTS {TABLE} (name TEXT PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL)"
    )
    for statement in _statements(connection.dialect.name, selected):
        # Not through text(), which takes a colon in a comment for a parameter; psycopg does so with a single %.
        connection.exec_driver_sql(
            statement.replace("%", "%%") if connection.dialect.name == "postgresql" else statement
        )
    rows = [
        {"name": name, "kind": definition.kind, "digest": definition.digest} for name, definition in selected.items()
    ]
    connection.execute(text(f"INSERT INTO {TABLE} (name, kind, digest) VALUES (:name, :kind, :digest)"), rows)


def _statements(dialect: str, selected: Mapping[str, Definition]) -> Iterator[str]:
    if dialect == "sqlite":
        yield from (definition.statement for definition in selected.values())
        return
    path = ""
    if any(definition.kind == "view" for definition in selected.values()):
        yield from (f"CREATE SCHEMA IF NOT EXISTS {name}" for name in audiences.postgresql_schemas())
    for definition in selected.values():
        if definition.path != path:
            # The views name their tables without a schema; the search path at creation decides for good which tables
            # they read.
            path = definition.path
            yield f"SET LOCAL search_path = {path}"
        yield definition.statement
    yield "SET LOCAL search_path = public"
