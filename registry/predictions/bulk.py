"""Bulk inserts: COPY on PostgreSQL, executemany on SQLite. Plain inserts: a conflict is an error."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from math import isfinite
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Connection,
    Dialect,
    Double,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator, TypeEngine

from registry.db import Base, Digest, DoubleArray, SmallIntArray
from registry.schema.planner import BY_EVALUATION, analyze
from registry.tables import Prediction

MANY_ROWS: Final = 2000
"""From so many on, a plan made without statistics costs more than collecting them."""


def insert_predictions(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts predictions, as `insert_rows` does."""
    insert_rows(session, Prediction, rows)


def insert_rows(session: Session, of: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """Inserts rows of a table without generated columns, given as column name to value; absent columns are NULL.

    Past SQLAlchemy's own insert, which spends more on each row than the database does.
    Raises the database's IntegrityError when a key is there already or a constraint is broken.
    """
    insert_columns(session, of, {name: [row.get(name) for row in rows] for name in of.__table__.columns.keys()})  # noqa: SIM118


def insert_columns(session: Session, of: type[Base], columns: Mapping[str, Sequence[Any]]) -> None:
    """The same of columns, all of one length."""
    table = of.__table__
    assert isinstance(table, Table)
    if not (length := len(next(iter(columns.values())))):
        return
    given = [(column.type, columns.get(column.name)) for column in table.columns]
    connection = session.connection()
    listed = ", ".join(table.columns.keys())
    if connection.dialect.name == "postgresql":
        driver = connection.connection.cursor()
        head = struct.pack(">h", len(given))
        statement = f"COPY {table.name} ({listed}) FROM STDIN (FORMAT BINARY)"
        with sqlalchemy_errors(connection, f"COPY {table.name}"), driver.copy(statement) as copy:
            copy.write(_SIGNATURE)
            for start in range(0, length, _ROWS_SENT):
                sent = slice(start, min(length, start + _ROWS_SENT))
                parts = [_encoded(kind, values, sent) for kind, values in given]
                copy.write(b"".join([head + b"".join(row) for row in zip(*parts, strict=True)]))
            copy.write(_END)
        return
    marks = ", ".join("?" * len(given))
    statement = f"INSERT INTO {table.name} ({listed}) VALUES ({marks})"  # noqa: S608 - our own columns
    of_driver = [_of_driver(kind, values, length, connection.dialect) for kind, values in given]
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
    """Tells PostgreSQL of so many predictions that were stored a moment ago; nothing for a few.

    Until it has looked by itself it plans as if a new evaluation had hardly a row, and joins of ten thousand questions
    then take half a minute. Once a table has more evaluations than it keeps a list of (a hundred or so) it expects the
    usual number of an unknown one, and needs telling only of one far larger: ANALYZE makes others that seal wait, and
    takes longer the larger the tables are. Where most are archived, that is so of all tables but `prediction`.
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


@contextmanager
def sqlalchemy_errors(connection: Connection, statement: str) -> Iterator[None]:
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
            statement,
            None,
            error,
            driver.Error,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


# PostgreSQL's binary COPY: a signature, rows, an end. A row is the number of its columns, then each as its length and
# its bytes, big-endian. The driver can write it too, and takes four times as long over arrays of numbers.

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_ROWS_SENT: Final = 500
"""Rows that are handed to the driver at once."""
_LENGTH: Final = struct.Struct(">i").pack
_BOOLEANS: Final = {value: _LENGTH(1) + bytes([value]) for value in (False, True)}


def _bytes(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _numbers(oid: int, letter: str, values: Sequence[Any]) -> bytes:
    """An array of one dimension that begins at 1; oid: of its numbers' type; letter: `struct`'s for them."""
    if not isfinite(sum(values)) and not all(map(isfinite, values)):
        message = f"non-finite number in {values!r}"
        raise ValueError(message)
    pack, head, parts = _array(oid, letter, len(values))
    parts = parts.copy()
    parts[1::2] = values
    return head + pack(*parts)


@cache
def _array(oid: int, letter: str, length: int) -> tuple[Callable[..., bytes], bytes, list[int]]:
    """What packs the numbers, what stands before them, and the length of each, with room for it."""
    size = struct.calcsize(f">{letter}")
    packer = struct.Struct(">" + f"i{letter}" * length)
    shape = struct.pack(">ii", length, 1) if length else b""
    head = struct.pack(">iii", min(1, length), 0, oid) + shape
    return packer.pack, _LENGTH(len(head) + packer.size) + head, [size, 0] * length


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    BigInteger: partial(struct.Struct(">iq").pack, 8),
    Integer: partial(struct.Struct(">ii").pack, 4),
    SmallInteger: partial(struct.Struct(">ih").pack, 2),
    Double: partial(struct.Struct(">id").pack, 8),
    Boolean: _BOOLEANS.__getitem__,
    Text: lambda value: _bytes(value.encode()),
    Digest: lambda value: _bytes(bytes.fromhex(value)),
    LargeBinary: _bytes,
    DoubleArray: partial(_numbers, 701, "d"),
    SmallIntArray: partial(_numbers, 21, "h"),
}


def _encoded(kind: TypeEngine[Any], values: Sequence[Any] | None, sent: slice) -> list[bytes]:
    """Values of a column as PostgreSQL's binary COPY has them."""
    if values is None:
        return [_NULL] * (sent.stop - sent.start)
    encode = _ENCODERS[type(kind)]
    return [_NULL if value is None else encode(value) for value in values[sent]]


def _of_driver(kind: TypeEngine[Any], values: Sequence[Any] | None, length: int, dialect: Dialect) -> Sequence[Any]:
    """Values of a column as SQLite's driver takes them."""
    if values is None:
        return [None] * length
    if not isinstance(kind, TypeDecorator):
        return values
    convert = kind.process_bind_param
    return [None if value is None else convert(value, dialect) for value in values]
