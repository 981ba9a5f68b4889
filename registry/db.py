"""The database: engines, column types and sessions.

Both engines are first class: PostgreSQL for production, SQLite (WAL) as the default. Differences between
them live here and in the `.sqlite.sql`/`.postgresql.sql` views, nowhere else.
"""

import atexit
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    URL,
    BigInteger,
    ColumnElement,
    Connection,
    CursorResult,
    DateTime,
    Dialect,
    Double,
    Engine,
    ExceptionContext,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Text,
    Update,
    bindparam,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, Session
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from registry.errors import DatabaseError, UsageError
from registry.private import make_folder

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base class of the table models; constraint names follow one scheme so that migrations can refer to them."""

    metadata = MetaData(naming_convention=NAMING)


# SQLite generates row ids only for a column whose type is exactly INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")
MAX_INTEGER = 2**31 - 1
MAX_ROW_ID = 2**63 - 1


def pick(row: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the named attributes of a row as a dictionary."""
    return {name: getattr(row, name) for name in names}


def utc_text(value: datetime) -> str:
    """Format a time as SQLite, files and JSON contain it: 2026-05-01T12:00:00.000000Z."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time: `timestamptz` on PostgreSQL, one sortable text form on SQLite.

    Naive times are refused rather than guessed at.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use text on SQLite, and timestamptz elsewhere."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Convert an aware time to the stored form."""
        if value is None:
            return None
        if value.tzinfo is None:
            message = f"naive time {value!r}; use an aware UTC time"
            raise ValueError(message)
        return utc_text(value) if dialect.name == "sqlite" else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Convert the stored form to an aware time in UTC."""
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        return value.astimezone(UTC)  # type: ignore[no-any-return]


class Digest(TypeDecorator[str]):
    """A SHA-256 digest: 64 hexadecimal digits in Python, 32 bytes in the database (a text would take twice as many)."""

    impl = LargeBinary(32)
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        """Convert hexadecimal digits to bytes."""
        return None if value is None else bytes.fromhex(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Convert bytes to hexadecimal digits."""
        return None if value is None else bytes(value).hex()


class _NumberArray(TypeDecorator[Sequence[Any]]):
    """Numbers by position: a native array on PostgreSQL, JSON text on SQLite. NaN and infinities are refused."""

    impl = Text
    cache_ok = True
    item: type[TypeEngine[Any]]

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use a native array, or text."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else ARRAY(self.item()))

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> Any:
        """Convert a sequence to the stored form."""
        if value is None:
            return None
        if dialect.name == "sqlite":
            return json.dumps(list(value), allow_nan=False, separators=(",", ":"))
        if not all(math.isfinite(number) for number in value):
            message = f"non-finite number in {value!r}"
            raise ValueError(message)
        return list(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> list[Any] | None:  # noqa: ARG002
        """Convert the stored form to a list."""
        if value is None:
            return None
        return json.loads(value) if isinstance(value, str) else list(value)  # noqa: TID251 - our own column


class DoubleArray(_NumberArray):
    """float64 values by position; float32 is not precise to 1e-7 and would create ties."""

    cache_ok = True
    item = Double


class SmallIntArray(_NumberArray):
    """Small integers by position, such as the option shown at each position."""

    cache_ok = True
    item = SmallInteger


class JsonDocument(TypeDecorator[Any]):
    """A JSON document: JSONB on PostgreSQL, text with sorted keys on SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use JSONB, or text."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else JSONB(none_as_null=True))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Convert a document to the stored form."""
        if value is None or dialect.name != "sqlite":
            return value
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Convert the stored form to a document."""
        return json.loads(value) if isinstance(value, str) else value  # noqa: TID251 - our own column


class database_now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """The database's clock, moved by a number of seconds.

    Leases use it, because the clocks of several hosts disagree.
    """

    type = UtcDateTime()
    inherit_cache = True
    name = "database_now"

    def __init__(self, plus_seconds: float = 0.0) -> None:
        from sqlalchemy import literal  # a bind parameter, so that statements are cached whatever the offset

        super().__init__(literal(float(plus_seconds), Double))


@compiles(database_now, "postgresql")
def _database_now_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    # clock_timestamp moves within a transaction; now() would date a lease back to the transaction's start.
    return f"(clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **kw)}))"


@compiles(database_now, "sqlite")
def _database_now_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"(strftime('%Y-%m-%dT%H:%M:%f', 'now', {seconds} || ' seconds') || '000Z')"


class registry_place(FunctionElement[str]):  # noqa: N801 - reads as the SQL function it is
    """An identifier of this database, which changes when it is restored, moved or promoted; NULL on a standby.

    Use it in statements that select from `registry_generation`. On PostgreSQL it consists of the cluster, its timeline,
    the database, and the transaction that wrote the row, which differs after a dump and restore. On SQLite it is the
    device and inode of the file.
    """

    type = Text()
    inherit_cache = True
    name = "registry_place"


@compiles(registry_place, "postgresql")
def _registry_place_postgresql(_element: Any, _compiler: Any, **_kw: Any) -> str:
    return (
        "(CASE WHEN NOT pg_is_in_recovery() THEN (SELECT system_identifier FROM pg_control_system()) "
        "|| '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) "
        "|| '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "|| '/' || CAST(registry_generation.xmin AS text) END)"
    )


@compiles(registry_place, "sqlite")
def _registry_place_sqlite(_element: Any, _compiler: Any, **_kw: Any) -> str:
    return "registry_place()"  # each connection of an engine has this function


def make_engine(url: str, *, search_path: str = "public") -> Engine:
    """Create an engine for a SQLite or PostgreSQL URL, and the missing folder of a SQLite file.

    search_path: the schemas in which PostgreSQL looks up names.

    Raises UsageError for any other URL, DatabaseError if the folder cannot be created.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _make_sqlite_engine(url, parsed.database)
        if parsed.get_backend_name() == "postgresql":
            return _make_postgresql_engine(parsed, search_path)
    except (ArgumentError, NoSuchModuleError, ValueError):
        pass
    raise UsageError(
        "SHUFFLEBOARD_DATABASE_URL is not a sqlite:/// or postgresql:// URL; correct or unset the variable"
    )


def _make_postgresql_engine(url: URL, search_path: str) -> Engine:
    """Create an engine that also works behind a pooler, which lends a server connection for one transaction at a time.

    Each transaction configures everything that it needs, and leaves nothing in the connection.
    """
    engine = create_engine(
        url,
        pool_pre_ping=True,
        hide_parameters=True,
        # Prepared statements would stay on the pooler's connection; pages take just as long without them
        # (docs/evidence/performance.md).
        connect_args={"prepare_threshold": None} | ({} if "connect_timeout" in url.query else {"connect_timeout": 10}),
    )
    event.listen(engine, "handle_error", _remove_values)

    @event.listens_for(engine, "checkin")
    def _reset_read_only(connection: Any, _record: ConnectionPoolEntry) -> None:
        # After a read-only transaction SQLAlchemy would set READ WRITE explicitly, which overrides the server's
        # default.
        if connection is not None and not connection.closed:
            connection.read_only = None

    if search_path != "public":

        @event.listens_for(engine, "begin")
        def _narrow(connection: Connection) -> None:
            connection.exec_driver_sql(f"SET LOCAL search_path = {search_path}")

    return engine


def is_pooled(engine: Engine) -> bool:
    """Return whether PostgreSQL is behind a pooler: its backend then has another number than the connection."""
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        return bool(driver.info.backend_pid != connection.scalar(text("SELECT pg_backend_pid()")))


def _remove_values(context: ExceptionContext) -> None:
    """Remove row values from PostgreSQL's errors, since logs must not contain them; keep the rule that was broken.

    DETAIL contains the values of a refused row; CONTEXT, and the text after a colon, contain a refused value.
    """
    original, wrapped = context.original_exception, context.sqlalchemy_exception
    primary = getattr(getattr(original, "diag", None), "message_primary", None)
    if primary is None:
        return
    refused_value = str(getattr(original, "sqlstate", "")).startswith("22")
    shown = primary.split(': "')[0] if refused_value else primary
    original.args = (shown,)
    if wrapped is not None:
        wrapped.args = (f"({type(original).__module__}.{type(original).__qualname__}) {shown}",)


def _make_sqlite_engine(url: str, database: str | None) -> Engine:
    if database and database != ":memory:":
        folder = Path(database).parent
        try:
            make_folder(folder)
        except OSError as error:
            raise DatabaseError(
                f"{folder}: cannot be used as data directory ({error.strerror}); check SHUFFLEBOARD_HOME and "
                "SHUFFLEBOARD_DATABASE_URL"
            ) from None
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": 60})

    @event.listens_for(engine, "do_connect")
    def _create(*_: Any) -> None:
        # SQLite would create a file that everyone may read, although it contains hidden benchmarks and password hashes.
        # SQLite's other files get the mode of this one.
        if database and database != ":memory:" and not Path(database).exists():
            with suppress(OSError):  # connecting reports problems with the path
                os.close(os.open(database, os.O_CREAT | os.O_EXCL, 0o600))

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: ConnectionPoolEntry) -> None:
        # The driver must not open transactions by itself: `_begin` below does.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        # Without it INSERT OR REPLACE deletes a sealed row past its trigger.
        cursor.execute("PRAGMA recursive_triggers=ON")
        cursor.close()
        connection.create_function("registry_place", 0, lambda: _file_identity(database))

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A read transaction that later writes fails at once if another writer is busy, whatever the timeout; a
        # transaction that writes from the start waits its turn.
        read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _file_identity(database: str | None) -> str:
    """Return the device and inode of a SQLite database's file, which may have been replaced since connecting."""
    if not database or database == ":memory:":
        return "memory"
    try:
        status = Path(database).stat()
    except OSError:
        return "gone"
    return f"{status.st_dev}/{status.st_ino}"


_engines: Final[dict[tuple[str, int], Engine]] = {}
"""(URL, process id) → engine: a forked process must not use its parent's connections."""


def get_engine(url: str) -> Engine:
    """Return this process's engine for `url`, created on first use; the end of the process closes its connections."""
    key = url, os.getpid()
    return _engines.get(key) or _engines.setdefault(key, make_engine(url))


def forget_engine(engine: Engine) -> None:
    """Close the engine's pooled connections and forget it: `get_engine` then creates a new one for the URL."""
    for key in [key for key, cached in _engines.items() if cached is engine]:
        del _engines[key]
    engine.dispose()


@atexit.register
def _close_engines() -> None:
    # Closing the last connection to SQLite merges the log into the file; an abandoned connection leaves it.
    for (_, process), engine in _engines.items():
        if os.getpid() == process:
            engine.dispose()


@contextmanager
def write_session(engine: Engine, idle_seconds: float | None = None) -> Iterator[Session]:
    """Run one transaction: committed at the end, rolled back on any error. Functions inside never commit.

    idle_seconds: time without a statement after which PostgreSQL ends the transaction, so that a frozen process loses
    its locks; ignored on SQLite.
    """
    with Session(engine, expire_on_commit=False) as session, session.begin():
        if idle_seconds is not None and engine.dialect.name == "postgresql":
            limit = str(int(1000 * idle_seconds))
            session.execute(select(func.set_config("idle_in_transaction_session_timeout", limit, True)))
        yield session


@contextmanager
def read_session(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads; on SQLite it does not wait for writers."""
    with Session(engine.execution_options(read_only=True), expire_on_commit=False) as session:
        if engine.dialect.name == "postgresql":
            session.connection(execution_options={"postgresql_readonly": True})
        yield session


def is_in(column: ColumnElement[int] | InstrumentedAttribute[int], ids: Collection[int]) -> ColumnElement[bool]:
    """Return `column IN (ids)` with literal numbers: binding thousands of parameters takes longer than the query.

    It also avoids a database's limit on parameters (32,766 on SQLite by default).
    """
    return column.in_(bindparam(None, list(ids), BigInteger(), unique=True, expanding=True, literal_execute=True))


def update_one(session: Session, statement: Update) -> bool:
    """Execute an UPDATE of one row; return False if its condition is no longer true."""
    result = session.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def insert_ignoring(session: Session, table: type[Base], **values: object) -> None:
    """Insert a row unless its key exists, even if another process inserts it at the same time."""
    from sqlalchemy.dialects import postgresql, sqlite

    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    session.execute(insert(table).values(**values).on_conflict_do_nothing())


def one_at_a_time(session: Session, what: str) -> None:
    """Make other transactions that do `what` wait until this one has ended.

    For functions that create a row unless it exists: two concurrent calls would both create it. On SQLite, write
    transactions take turns anyway.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"shuffleboard {what}"))))
