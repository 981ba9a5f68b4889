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
"""From this many rows on, a plan made without statistics costs more than collecting them."""


def insert_predictions(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert predictions, as `insert_rows` does."""
    insert_rows(session, Prediction, rows)


def insert_rows(session: Session, mapped: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, each a mapping of column name to value, into a table without generated columns.

    Absent columns are NULL. SQLAlchemy's own insert is bypassed: it spends more on each row than the database does.
    Raises the database's IntegrityError for an existing key or a broken constraint.
    """
    insert_columns(session, mapped, {name: [row.get(name) for row in rows] for name in mapped.__table__.columns.keys()})  # noqa: SIM118


def insert_columns(session: Session, mapped: type[Base], columns: Mapping[str, Any]) -> None:
    """Insert rows given as columns of equal length, each a list of values or an Arrow array."""
    table = mapped.__table__
    assert isinstance(table, Table)
    if not (length := len(next(iter(columns.values())))):
        return
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        from registry.predictions import binary_copy  # loads numpy, which the website does without

        binary_copy.write(connection, table, columns)
        return
    listed, placeholders = ", ".join(table.columns.keys()), ", ".join("?" * len(table.columns))
    statement = f"INSERT INTO {table.name} ({listed}) VALUES ({placeholders})"  # noqa: S608 - our own columns
    converted = [
        _convert_for_driver(column.type, columns.get(column.name), length, connection.dialect)
        for column in table.columns
    ]
    # exec_driver_sql hands the rows to executemany and turns the driver's errors into SQLAlchemy's.
    connection.exec_driver_sql(statement, list(zip(*converted, strict=True)))


_POORLY_ESTIMATED: Final = text("""
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
"""Tables for which PostgreSQL expects no rows of a new evaluation, or far too few predictions."""


_HAS_FUNCTION: Final = text("SELECT to_regprocedure('public.shuffleboard_renew_statistics(text[])') IS NOT NULL")


def renew_statistics(session: Session, rows: int) -> None:
    """Renew PostgreSQL's statistics after an insert of this many predictions; do nothing for few rows.

    With old statistics, PostgreSQL expects hardly a row of a new evaluation, and joins of ten thousand questions take
    half a minute. Once a table has more evaluations than its list of common values (a hundred or so), PostgreSQL
    expects an average number of rows for a new one, so that only a far larger evaluation needs new statistics. They are
    renewed only if needed: ANALYZE makes other seals wait, and takes longer the larger the tables are.
    """
    if rows < MANY_ROWS or session.get_bind().dialect.name != "postgresql":
        return
    tables = session.scalars(_POORLY_ESTIMATED, {"tables": list(BY_EVALUATION), "rows": rows}).all()
    if not tables:
        return
    # ANALYZE skips tables that the role does not own; `db roles` gives such a role a function that runs it.
    has_function = session.scalar(_HAS_FUNCTION)
    statement = "SELECT public.shuffleboard_renew_statistics(:tables)" if has_function else analyze(tables)
    session.execute(text(statement), {"tables": tables})


def _convert_for_driver(kind: TypeEngine[Any], values: Any, length: int, dialect: Dialect) -> Sequence[Any]:
    """Convert a column's values for SQLite's driver."""
    if values is None:
        return [None] * length
    if hasattr(values, "to_pylist"):
        listed: list[Any] = values.to_pylist()
        if isinstance(kind, (DoubleArray, SmallIntArray)):
            # Encoding all lists at once is cheaper: one call for each would take longer than storing it.
            encoded = json.dumps([value for value in listed if value is not None], separators=(",", ":"))
            texts = (f"[{text}]" for text in encoded[2:-2].split("],["))
            return [None if value is None else next(texts) for value in listed]
        return listed
    if not isinstance(kind, TypeDecorator):
        return values  # type: ignore[no-any-return]
    convert = kind.process_bind_param
    return [None if value is None else convert(value, dialect) for value in values]
