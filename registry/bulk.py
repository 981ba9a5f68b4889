"""Bulk inserts of predictions: COPY on PostgreSQL, executemany on SQLite. Plain inserts: a conflict is an error."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Dialect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator

from registry.models import Prediction

MANY_ROWS: Final = 2000
"""From so many on, a plan made without statistics costs more than collecting them."""

_COLUMNS = Prediction.__table__.columns
_LISTED = ", ".join(_COLUMNS.keys())
_EMPTY = dict.fromkeys(_COLUMNS.keys())
_values = itemgetter(*_COLUMNS.keys())


def insert_predictions(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows, given as column name to value; absent columns are NULL.

    Past SQLAlchemy's own insert, which spends more on each row than the database does.
    Raises the database's IntegrityError when a key is there already or a constraint is broken.
    """
    if not rows:
        return
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        driver = connection.connection.cursor()
        with _sqlalchemy_errors(connection), driver.copy(f"COPY prediction ({_LISTED}) FROM STDIN") as copy:
            for values in _driver_values(rows, connection.dialect):
                copy.write_row(values)
    else:
        marks = ", ".join("?" * len(_COLUMNS))
        statement = f"INSERT INTO prediction ({_LISTED}) VALUES ({marks})"  # noqa: S608 - our own columns
        # exec_driver_sql hands the rows to executemany and turns the driver's errors into SQLAlchemy's.
        connection.exec_driver_sql(statement, [tuple(values) for values in _driver_values(rows, connection.dialect)])


def renew_statistics(session: Session, rows: int) -> None:
    """Tells PostgreSQL of so many predictions that were stored a moment ago; nothing for a few.

    Until it has looked by itself it plans as if a new evaluation had hardly a row, and joins of ten thousand questions
    then take half a minute.
    """
    if rows >= MANY_ROWS and session.get_bind().dialect.name == "postgresql":
        session.execute(text("ANALYZE question, evaluation_question, prediction, question_score"))


@contextmanager
def _sqlalchemy_errors(connection: Connection) -> Iterator[None]:
    """Turns what the driver raises past SQLAlchemy into SQLAlchemy's errors, and drops a connection that was lost."""
    driver = connection.dialect.dbapi
    assert driver is not None
    try:
        yield
    except driver.Error as error:
        lost = connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            "COPY prediction",
            None,
            error,
            driver.Error,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


def _driver_values(rows: Sequence[dict[str, Any]], dialect: Dialect) -> Iterator[list[Any]]:
    """Each row's values in the order of the columns, as the driver takes them."""
    convert: list[tuple[int, Callable[[Any, Dialect], Any]]] = [
        (place, column.type.process_bind_param)
        for place, column in enumerate(_COLUMNS)
        if isinstance(column.type, TypeDecorator)
    ]
    for row in rows:
        values = list(_values(_EMPTY | row))
        for place, to_driver in convert:
            if values[place] is not None:
                values[place] = to_driver(values[place], dialect)
        yield values
