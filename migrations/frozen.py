"""Views, triggers and audiences as they stood at a revision: copies that later code does not change."""

import re
from pathlib import Path

from alembic import op

VIEWS = Path(__file__).parent / "views"
TRIGGERS = Path(__file__).parent / "triggers"
AUDIENCES = Path(__file__).parent / "audiences"


def create_views(revision: str) -> None:
    """Creates the views of `revision`, in the order its `order.txt` gives."""
    folder = VIEWS / revision
    dialect = op.get_bind().dialect.name
    for name in (folder / "order.txt").read_text().split():
        special = folder / f"{name}.{dialect}.sql"
        select = (special if special.exists() else folder / f"{name}.sql").read_text(encoding="utf-8")
        _execute(f"CREATE VIEW {name} AS\n{select.strip().removesuffix(';')}")


def drop_views(revision: str) -> None:
    """Drops the views of `revision`, dependants first. Needed before any batch ALTER on SQLite."""
    for name in reversed((VIEWS / revision / "order.txt").read_text().split()):
        _execute(f"DROP VIEW {name}")


def _execute(statement: str) -> None:
    """Past SQLAlchemy's text(), for which a colon in a comment is a parameter; psycopg takes a single % for one."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        statement = statement.replace("%", "%%")
    connection.exec_driver_sql(statement)


def create_triggers(revision: str) -> None:
    """Creates the triggers of `revision`, and on PostgreSQL their functions."""
    for statement in _statements(revision):
        _execute(statement)


def drop_triggers(revision: str) -> None:
    """Drops the triggers of `revision`. Needed before any batch ALTER on SQLite, which drops them silently."""
    on_table = op.get_bind().dialect.name == "postgresql"
    for statement in reversed(_statements(revision)):
        if function := re.match(r"CREATE FUNCTION (\w+)", statement):
            _execute(f"DROP FUNCTION {function[1]}()")
        elif trigger := re.match(r"CREATE TRIGGER (\w+) .*? ON (\w+)", statement, re.DOTALL):
            _execute(f"DROP TRIGGER {trigger[1]}" + (f" ON {trigger[2]}" if on_table else ""))


def _statements(revision: str) -> list[str]:
    text = (TRIGGERS / revision / f"{op.get_bind().dialect.name}.sql").read_text(encoding="utf-8")
    return [part.strip() for part in text.split("\n\n") if not part.startswith("--")]


def create_audiences(revision: str) -> None:
    """Creates what the audiences of `revision` see, on PostgreSQL; SQLite's connections make it for themselves."""
    for statement in _of_audiences(revision):
        _execute(statement)


def drop_audiences(revision: str) -> None:
    """Drops it again, before the tables and views that it reads change.

    The schemas stay: what is granted by default to whom on their future views is kept with them.
    """
    for statement in reversed(_of_audiences(revision)):
        if view := re.match(r"CREATE VIEW (\S+)", statement):
            _execute(f"DROP VIEW {view[1]}")


def _of_audiences(revision: str) -> list[str]:
    if op.get_bind().dialect.name != "postgresql":
        return []
    return (AUDIENCES / f"{revision}.sql").read_text(encoding="utf-8").strip().split("\n;\n")
