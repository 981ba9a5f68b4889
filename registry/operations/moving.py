"""Move a registry from one database to another, of either engine: `shuffleboard db move`.

The source is read in one snapshot, and everything on the target happens in one transaction, including its schema and
the verification of every seal. So the target is complete and verified, or unchanged.

The triggers that protect sealed data stay on: evaluations are written as unsealed, and get their seals after all of
their rows. Triggers are disabled only to delete the rows that ship with a new database.
"""

# All names in these statements are names of our own tables.
# ruff: noqa: S608

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Engine, Table, bindparam, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.db import Base, DoubleArray, JsonDocument, get_engine, read_session
from registry.errors import DatabaseError, UsageError
from registry.operations import migrate
from registry.operations.backup import problems_of
from registry.predictions import binary_copy
from registry.queue import generation
from registry.schema import history
from registry.sealed.verification import verify_all
from registry.tables import RegistryGeneration

BATCH: Final = 5000
"""Number of rows that are read together, and written by one statement."""
SHIPPED: Final = ("suite", "published_result", "subject_category", "role")
"""Tables of a new database that are not empty."""

_SEALING: Final = ("seal", "sealed_at")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Moved:
    """Rows by table, the number of sealed evaluations, and problems that verification finds in both databases."""

    rows: dict[str, int]
    sealed: int
    problems: list[str]


@dataclass
class _Contents:
    """A table's number of rows, and the sum of their digests, which does not depend on the order of the rows."""

    rows: int = 0
    digest: int = 0

    def add(self, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        columns = [(column.name, column.type) for column in table.columns]
        for row in rows:
            values = [_comparable(row[name], kind) for name, kind in columns]
            written = json.dumps(values, sort_keys=True, default=_encode_time)
            self.digest += int.from_bytes(hashlib.sha256(written.encode("utf-8", "surrogatepass")).digest(), "big")
        self.rows += len(rows)


@dataclass
class _Seals:
    """Evaluations whose seals are still to be written."""

    waiting: list[dict[str, Any]] = field(default_factory=list)

    def take(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows as unsealed evaluations, and store their seals for `write`."""
        self.waiting += [
            {"sealed_id": row["id"], **{name: row[name] for name in _SEALING}} for row in rows if row["seal"]
        ]
        return [row | dict.fromkeys(_SEALING) for row in rows]

    def write(self, connection: Connection) -> None:
        """Seal the evaluations; no trigger refuses it, since they are still unsealed."""
        if self.waiting:
            evaluation = Base.metadata.tables["evaluation"]
            sealing = update(evaluation).where(evaluation.c.id == bindparam("sealed_id"))
            connection.execute(sealing.values({name: bindparam(name) for name in _SEALING}), self.waiting)


def move(source_url: str, target_url: str, say: Say = lambda _line: None) -> Moved:
    """Copy everything from one database into an empty one, and verify the copy.

    Ids and sequences are kept. For every table the number of rows and a digest of their contents are compared; and
    every seal, chain link and snapshot is verified on the target. say: receives a line for each table.

    The source must be at this code's schema and stays unchanged; the target is made, or is at that schema and contains
    only the rows that ship with it. Raises UsageError if both are the same, DatabaseError for all other problems, and
    then the target is unchanged.
    """
    source, target = get_engine(source_url), get_engine(target_url)
    if source.url == target.url:
        raise UsageError(f"{history.name_database(target)}: is the registry's own database; give another one")
    history.require_current(source)
    with _restore_on_failure(target), _snapshot(source) as read, target.begin() as write:
        _prepare(write)
        rows = _copy(read, write, say)
        say("verifying every seal")
        sealed, problems = _verify_target(source, write)
        with Session(write) as session:
            generation.draw(session, generation.MOVED)
    return Moved(rows, sealed, problems)


@contextmanager
def _restore_on_failure(target: Engine) -> Iterator[None]:
    """Check that the target is empty; if the move fails, delete the target's file if it did not exist before."""
    file = Path(str(target.url.database)) if target.dialect.name == "sqlite" else None
    is_new = file is not None and not file.exists()
    try:
        _require_free(target)
        yield
    except BaseException as error:
        target.dispose()
        if file is not None and is_new:
            for ending in ("", "-wal", "-shm"):
                file.with_name(file.name + ending).unlink(missing_ok=True)
        if isinstance(error, DBAPIError):
            reason = str(error.orig).splitlines()[0]
            raise DatabaseError(
                f"the move to {history.name_database(target)} failed and was rolled back: {reason}; fix that and "
                "run it again"
            ) from error
        raise
    target.dispose()


def _require_free(target: Engine) -> None:
    if history.current(target) is None:
        return
    history.require_current(target)
    with target.execution_options(read_only=True).connect() as connection:
        for table in _tables():
            if table.name not in SHIPPED and _count(connection, table):
                raise DatabaseError(
                    f"database {history.name_database(target)} is not empty: {table.name} has rows; give an empty "
                    "database"
                )


@contextmanager
def _snapshot(source: Engine) -> Iterator[Connection]:
    """Open a connection that reads the source as of one moment, even if others write to it."""
    options: dict[str, Any] = {"read_only": True}
    if source.dialect.name == "postgresql":
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with source.execution_options(**options).connect() as connection, connection.begin():
        yield connection


def _tables() -> list[Table]:
    """Return every copied table, each after the tables that it refers to: all but the registry's generation."""
    return [table for table in Base.metadata.sorted_tables if table.name != RegistryGeneration.__tablename__]


def _count(connection: Connection, table: Table) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


# The target


def _prepare(write: Connection) -> None:
    """Make the newest schema without any rows."""
    migrate.make_schema(write)
    if write.dialect.name == "postgresql":
        # A migration's limit is too short: a large table takes longer than any statement of a migration.
        write.exec_driver_sql("SET LOCAL statement_timeout = 0")
    for name in SHIPPED:
        with _disable_triggers(write, name):
            write.exec_driver_sql(f"DELETE FROM {name}")


@contextmanager
def _disable_triggers(write: Connection, table: str) -> Iterator[None]:
    """Disable a table's triggers within the transaction alone; other transactions never see the table without them."""
    if write.dialect.name == "postgresql":
        write.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        write.exec_driver_sql(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        return
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table")
    triggers = write.execute(query, {"table": table}).all()
    for name, _ in triggers:
        write.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, sql in triggers:
        write.exec_driver_sql(sql)


# Copying


def _copy(read: Connection, write: Connection, say: Say) -> dict[str, int]:
    """Copy every table and compare it with the target's; return rows by table."""
    seals = _Seals()
    sent: dict[str, _Contents] = {}
    for table in _tables():
        contents = sent[table.name] = _Contents()
        for rows in _batches(read, table):
            contents.add(table, rows)
            _insert(write, table, seals.take(rows) if table.name == "evaluation" else rows)
        if contents.rows:
            say(f"{table.name}: {contents.rows} rows")
    seals.write(write)
    if write.dialect.name == "postgresql":
        _set_sequences(read, write)
        # Without statistics the verification would take hours on large tables.
        write.exec_driver_sql(f"ANALYZE {', '.join(table.name for table in _tables())}")
    for table in _tables():
        received = _Contents()
        for rows in _batches(write, table):
            received.add(table, rows)
        if received != sent[table.name] or received.rows != _count(read, table):
            raise DatabaseError(
                f"the move failed and was rolled back: {table.name} arrived with {received.rows} of "
                f"{sent[table.name].rows} rows, or with different contents; report this as a bug"
            )
    return {name: contents.rows for name, contents in sent.items()}


def _batches(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """Yield a table's rows as column name to value, a batch at a time."""
    result = connection.execute(select(table).execution_options(yield_per=BATCH))
    for rows in result.mappings().partitions():
        yield [{str(name): value for name, value in row.items()} for row in rows]


def _insert(write: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows plainly: a conflict is an error, and triggers and constraints see every row."""
    if write.dialect.name != "postgresql":
        write.execute(insert(table), list(rows))
        return
    binary_copy.write(write, table, {name: [row[name] for row in rows] for name in table.columns.keys()})  # noqa: SIM118


def _set_sequences(read: Connection, write: Connection) -> None:
    """Set the next id of each table to an id that the source has not used."""
    for table in _tables():
        key = list(table.primary_key.columns)
        if len(key) != 1 or not isinstance(key[0].type, BigInteger):
            continue
        place = {"table": f"public.{table.name}", "key": key[0].name}
        sequence = write.scalar(text("SELECT pg_get_serial_sequence(:table, :key)"), place)
        if sequence is None:  # a chain's positions are counted by those who add to it
            continue
        last = read.scalar(select(func.max(key[0]))) or 0
        if read.dialect.name == "postgresql":
            source_sequence = read.scalar(text("SELECT pg_get_serial_sequence(:table, :key)"), place)
            used = read.exec_driver_sql(f"SELECT last_value FROM {source_sequence} WHERE is_called").scalar()
            last = max(last, used or 0)
        if last:
            write.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})


# Comparing


def _comparable(value: Any, kind: Any) -> Any:
    """Return a value in the form that both engines share, for digests."""
    if value is None:
        return None
    if isinstance(kind, JsonDocument):
        return _plain_numbers(value)
    if isinstance(kind, DoubleArray):
        return [float(number) for number in value]
    return value


def _plain_numbers(document: Any) -> Any:
    """Return a document whose whole numbers are integers: JSONB writes 1e22 with all of its digits, and has no −0."""
    if isinstance(document, float) and document.is_integer():
        return int(document)
    if isinstance(document, dict):
        return {key: _plain_numbers(item) for key, item in document.items()}
    if isinstance(document, list):
        return [_plain_numbers(item) for item in document]
    return document


def _encode_time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    message = f"{type(value).__name__} in a table"
    raise TypeError(message)


def _verify_target(source: Engine, write: Connection) -> tuple[int, list[str]]:
    """Verify the target; return its number of sealed evaluations, and the problems found.

    Raises DatabaseError for a problem that the source does not have.
    """
    with Session(write) as session:
        report = verify_all(session)
    problems = problems_of(report)
    if problems:
        with read_session(source) as session:
            source_problems = set(problems_of(verify_all(session)))
        new = [problem for problem in problems if problem not in source_problems]
        if new:
            raise DatabaseError(
                f"the move failed and was rolled back: the copy does not verify ({new[0]}); report this as a bug"
            )
    return len(report["evaluations"]), problems
