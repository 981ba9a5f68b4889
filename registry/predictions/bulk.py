"""Bulk inserts: COPY on PostgreSQL, executemany on SQLite. Plain inserts: a conflict is an error."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Dialect, Table, text
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator, TypeEngine

from registry.db import Base, DoubleArray, SmallIntArray
from registry.schema.planner import BY_EVALUATION, analyze
from registry.tables import Prediction

MANY_ROWS: Final = 2000
"""From so many on, a plan made without statistics costs more than collecting them."""


def insert_predictions(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert predictions, as `insert_rows` does."""
    insert_rows(session, Prediction, rows)


def insert_rows(session: Session, mapped: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows of a table without generated columns, given as column name to value; absent columns are NULL.

    Past SQLAlchemy's own insert, which spends more on each row than the database does.
    Raises the database's IntegrityError when a key is there already or a constraint is broken.
    """
    insert_columns(session, mapped, {name: [row.get(name) for row in rows] for name in mapped.__table__.columns.keys()})  # noqa: SIM118


def insert_columns(session: Session, mapped: type[Base], columns: Mapping[str, Any]) -> None:
    """Insert rows given as columns of one length: values, or Arrow arrays of a file."""
    table = mapped.__table__
    assert isinstance(table, Table)
    if not (length := len(next(iter(columns.values())))):
        return
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        from registry.predictions import binary_copy  # loads numpy, which the website does without

        binary_copy.write(connection, table, columns)
        return
    listed, marks = ", ".join(table.columns.keys()), ", ".join("?" * len(table.columns))
    statement = f"INSERT INTO {table.name} ({listed}) VALUES ({marks})"  # noqa: S608 - our own columns
    of_driver = [
        _convert_for_driver(column.type, columns.get(column.name), length, connection.dialect)
        for column in table.columns
    ]
    # exec_driver_sql hands the rows to executemany and turns the driver's errors into SQLAlchemy's.
    connection.exec_driver_sql(statement, list(zip(*of_driver, strict=True)))


_UNKNOWN: Final = text("""
SELECT relname
FROM (
    SELECT
        relname,
        reltuples * (1 - coalesce((SELECT sum(share) FROM unnest(most_common_freqs) AS share), 0))
        / nullif(
            CASE WHEN n_distinct < 0 THEN -n_distinct * reltuples ELSE n_distinct END
            - coalesce(cardinality(most_common_freqs), 0),
            0
        ) AS unseen
    FROM pg_class
    LEFT JOIN pg_stats ON schemaname = 'public' AND tablename = relname AND attname = 'evaluation_id'
    WHERE relnamespace = 'public'::regnamespace AND relname = ANY (:tables)
) AS expected
WHERE unseen IS NULL OR relname = 'prediction' AND unseen < :rows / 100.0
ORDER BY relname
""")
"""The tables in which PostgreSQL expects no rows of an evaluation that it has not seen, or far too few predictions."""


_GIVEN: Final = text("SELECT to_regprocedure('public.shuffleboard_renew_statistics(text[])') IS NOT NULL")


def renew_statistics(session: Session, rows: int) -> None:
    """Renew PostgreSQL's statistics after an insert of this many predictions; do nothing for few rows.

    Until statistics are renewed, plans expect hardly a row of a new evaluation, and joins of ten thousand questions
    take half a minute. A table with more evaluations than its list of common values (a hundred or so) plans the usual
    number for an unknown one, so only a far larger one needs this: ANALYZE makes other seals wait, and takes longer the
    larger the tables are. If most evaluations are archived, that applies to all tables but `prediction`.
    """
    if rows < MANY_ROWS or session.get_bind().dialect.name != "postgresql":
        return
    tables = session.scalars(_UNKNOWN, {"tables": list(BY_EVALUATION), "rows": rows}).all()
    if not tables:
        return
    # ANALYZE passes by the tables of others; who works without owning them is given a function by `db roles`.
    given = session.scalar(_GIVEN)
    statement = "SELECT public.shuffleboard_renew_statistics(:tables)" if given else analyze(tables)
    session.execute(text(statement), {"tables": tables})


def _convert_for_driver(kind: TypeEngine[Any], values: Any, length: int, dialect: Dialect) -> Sequence[Any]:
    """Convert a column's values for SQLite's driver."""
    if values is None:
        return [None] * length
    if hasattr(values, "to_pylist"):
        listed: list[Any] = values.to_pylist()
        if isinstance(kind, (DoubleArray, SmallIntArray)):
            # All at once: a text of its own for each takes longer than storing it.
            known = json.dumps([value for value in listed if value is not None], separators=(",", ":"))
            texts = (f"[{text}]" for text in known[2:-2].split("],["))
            return [None if value is None else next(texts) for value in listed]
        return listed
    if not isinstance(kind, TypeDecorator):
        return values  # type: ignore[no-any-return]
    convert = kind.process_bind_param
    return [None if value is None else convert(value, dialect) for value in values]
