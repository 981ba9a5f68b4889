"""Views, triggers and audiences as they stood at a revision: texts that later code does not change.

`sql/<revision>/` holds only what came in or changed with a revision; a text stands until a later revision replaces it,
and an empty file says that there is none any more:

    views.txt                    the views, in creation order
    views/NAME.sql               a view's SELECT; NAME.sqlite.sql and NAME.postgresql.sql where the engines differ
    triggers/ENGINE/TABLE.sql    a table's triggers, separated by blank lines
    triggers/ENGINE/functions.sql    what they call, on PostgreSQL
    audiences.toml               who sees which rows

Every revision begins with `drop` and ends with `create`. An upgrade through several of them makes views, triggers and
audiences once, those of the last, as nothing could use the others.

Every revision runs this code again, so it may change only where what it makes of the same texts stays the same.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alembic import op
from sqlalchemy import Connection

SQL = Path(__file__).parent / "sql"
LEFT = "frozen_left"
"""Attribute of the run's configuration: the revision whose views, triggers and audiences are still to be made."""


def texts(revision: str) -> dict[str, str]:
    """Path within a revision's folder → text that holds at `revision`. Revisions are times, so they sort as they follow."""
    found: dict[str, str] = {}
    for folder in sorted(SQL.iterdir() if SQL.exists() else []):
        if folder.name <= revision:
            for path in folder.rglob("*.*"):
                found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
    return {path: text for path, text in found.items() if text}


def create(revision: str) -> None:
    """Has the views, triggers and audiences of `revision` made, unless another revision follows: see `finish`."""
    _run()[LEFT] = revision


def drop(revision: str) -> None:
    """Drops them, dependants first, if they are there.

    On SQLite a batch ALTER fails on a table that a view uses, and silently drops triggers. The schemas of audiences stay:
    what is granted by default to whom on their future views is kept with them.
    """
    if _run().pop(LEFT, None) == revision:
        return
    connection = op.get_bind()
    frozen, dialect = texts(revision), connection.dialect.name
    for statement in reversed([*_audiences(frozen, dialect)]):
        if view := re.match(r"CREATE VIEW (\S+)", statement):
            _execute(connection, f"DROP VIEW {view[1]}")
    for statement in reversed([*_triggers(frozen, dialect)]):
        if function := re.match(r"CREATE FUNCTION (\w+)", statement):
            _execute(connection, f"DROP FUNCTION {function[1]}()")
        elif trigger := re.match(r"CREATE TRIGGER (\w+) .*? ON (\w+)", statement, re.DOTALL):
            table = f" ON {trigger[2]}" if dialect == "postgresql" else ""
            _execute(connection, f"DROP TRIGGER {trigger[1]}{table}")
    for name in reversed(_views(frozen)):
        _execute(connection, f"DROP VIEW {name}")


def finish(attributes: dict[str, Any], connection: Connection) -> None:
    """Makes what the last revision of a run left to be made; attributes: those of the run's configuration."""
    revision = attributes.pop(LEFT, None)
    if revision is None:
        return
    frozen, dialect = texts(revision), connection.dialect.name
    for name in _views(frozen):
        _execute(connection, f"CREATE VIEW {name} AS\n{_select(frozen, name, dialect)}")
    for statement in (*_triggers(frozen, dialect), *_audiences(frozen, dialect)):
        _execute(connection, statement)


def _run() -> dict[str, Any]:
    config = op.get_context().config
    assert config is not None
    return config.attributes


def _execute(connection: Connection, statement: str) -> None:
    """Past SQLAlchemy's text(), for which a colon in a comment is a parameter; psycopg takes a single % for one."""
    if connection.dialect.name == "postgresql":
        statement = statement.replace("%", "%%")
    connection.exec_driver_sql(statement)


def _views(frozen: dict[str, str]) -> list[str]:
    return frozen["views.txt"].split()


def _select(frozen: dict[str, str], name: str, dialect: str) -> str:
    text = frozen.get(f"views/{name}.{dialect}.sql") or frozen[f"views/{name}.sql"]
    return text.strip()


def _triggers(frozen: dict[str, str], dialect: str) -> Iterator[str]:
    folder = f"triggers/{dialect}/"
    functions = f"{folder}functions.sql"
    for path in sorted(
        (path for path in frozen if path.startswith(folder)), key=lambda path: (path != functions, path)
    ):
        yield from frozen[path].strip().split("\n\n")


def _audiences(frozen: dict[str, str], dialect: str) -> Iterator[str]:
    """For each audience its filtered tables with the views over them, and the views alone for reader roles."""
    if dialect != "postgresql":
        return  # SQLite's connections make theirs for themselves
    audiences = tomllib.loads(frozen["audiences.toml"])
    for audience, seen in audiences["sees"].items():
        visibilities = ", ".join(f"'{visibility}'" for visibility in seen)
        views = f"shuffleboard_{audience}"
        tables = f"{views}_tables"
        yield f"CREATE SCHEMA IF NOT EXISTS {tables}"
        yield f"CREATE SCHEMA IF NOT EXISTS {views}"
        # The texts of the views name their tables without a schema: the path decides which they read, for good.
        yield f"SET LOCAL search_path = {tables},public"
        for table, condition in audiences["filters"].items():
            rows = condition.replace("{visibilities}", visibilities)
            yield f"CREATE VIEW {tables}.{table} AS\nSELECT * FROM public.{table} AS {table} WHERE {rows}"
        for name in _views(frozen):
            yield f"CREATE VIEW {tables}.{name} AS\n{_select(frozen, name, dialect)}"
        for name in _views(frozen):
            yield f"CREATE VIEW {views}.{name} WITH (security_barrier) AS\nSELECT * FROM {tables}.{name}"
    yield "SET LOCAL search_path = public"
