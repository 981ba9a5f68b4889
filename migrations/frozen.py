"""Views and triggers as they stood at a revision: copies that later code does not change."""

import re
from pathlib import Path

from alembic import op

VIEWS = Path(__file__).parent / "views"
TRIGGERS = Path(__file__).parent / "triggers"


def create_views(revision: str) -> None:
    """Creates the views of `revision`, in the order its `order.txt` gives."""
    folder = VIEWS / revision
    dialect = op.get_bind().dialect.name
    for name in (folder / "order.txt").read_text().split():
        special = folder / f"{name}.{dialect}.sql"
        select = (special if special.exists() else folder / f"{name}.sql").read_text(encoding="utf-8")
        # exec_driver_sql: a colon in a comment is no parameter.
        op.get_bind().exec_driver_sql(f"CREATE VIEW {name} AS\n{select.strip().removesuffix(';')}")


def drop_views(revision: str) -> None:
    """Drops the views of `revision`, dependants first. Needed before any batch ALTER on SQLite."""
    for name in reversed((VIEWS / revision / "order.txt").read_text().split()):
        op.get_bind().exec_driver_sql(f"DROP VIEW {name}")


def create_triggers(revision: str) -> None:
    """Creates the triggers of `revision`, and on PostgreSQL their functions."""
    connection = op.get_bind()
    for statement in _statements(revision):
        connection.exec_driver_sql(statement)


def drop_triggers(revision: str) -> None:
    """Drops the triggers of `revision`. Needed before any batch ALTER on SQLite, which drops them silently."""
    connection = op.get_bind()
    on_table = connection.dialect.name == "postgresql"
    for statement in reversed(_statements(revision)):
        if function := re.match(r"CREATE FUNCTION (\w+)", statement):
            connection.exec_driver_sql(f"DROP FUNCTION {function[1]}()")
        elif trigger := re.match(r"CREATE TRIGGER (\w+) .*? ON (\w+)", statement, re.DOTALL):
            connection.exec_driver_sql(f"DROP TRIGGER {trigger[1]}" + (f" ON {trigger[2]}" if on_table else ""))


def _statements(revision: str) -> list[str]:
    dialect = op.get_bind().dialect.name
    text = (TRIGGERS / revision / f"{dialect}.sql").read_text(encoding="utf-8")
    if dialect == "postgresql":
        text = text.replace("%", "%%")  # psycopg takes a single one for a parameter
    return [part.strip() for part in text.split("\n\n") if not part.startswith("--")]
