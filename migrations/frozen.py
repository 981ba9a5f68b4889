"""Views and triggers as they stood at a revision: copies that later code does not change."""

from pathlib import Path

from alembic import op

VIEWS = Path(__file__).parent / "views"


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
