"""Bulk inserts of predictions: COPY on PostgreSQL, executemany on SQLite. Plain inserts: a conflict is an error."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from registry.models import Prediction

_TABLE = Prediction.__table__
COLUMNS = tuple(column.name for column in _TABLE.columns)


def insert_predictions(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows, given as column name to value; absent columns are NULL.

    Raises the database's IntegrityError when a key is there already or a constraint is broken.
    """
    if not rows:
        return
    if session.get_bind().dialect.name == "postgresql":
        _copy(session, rows)
    else:
        session.execute(insert(Prediction), [{name: row.get(name) for name in COLUMNS} for row in rows])


def _copy(session: Session, rows: Iterable[dict[str, Any]]) -> None:
    connection = session.connection()
    bind = [
        column.type.dialect_impl(connection.dialect).bind_processor(connection.dialect) for column in _TABLE.columns
    ]
    driver = connection.connection.cursor()
    with driver.copy(f"COPY prediction ({', '.join(COLUMNS)}) FROM STDIN") as copy:
        for row in rows:
            values = (row.get(name) for name in COLUMNS)
            copy.write_row([to(value) if to else value for to, value in zip(bind, values, strict=True)])
