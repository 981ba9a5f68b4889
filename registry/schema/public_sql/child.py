"""The process in which one untrusted query runs. It is started by its path, and imports none of our code.

Why a process: a row or a value may grow until memory is exhausted, and one instruction of SQLite may run for minutes
without checking for interrupts. A process can be limited in memory and killed.

stdin: the question, a JSON document (`Question`). stdout: the answer, a JSON document: `columns`, `rows`, `truncated`,
`cut_cells` and `elapsed_s`, or `error` and `kind` ("refused", "time", "size", "busy", "set-up").
"""

import json
import os
import resource
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypedDict

ADDRESS_SPACE_BYTES: Final = 640 * 2**20
"""What the process may map."""
SQLITE_HEAP_BYTES: Final = 128 * 2**20
"""What SQLite may hold, sorting included, since nothing is spilled to files."""
SQLITE_VALUE_BYTES: Final = 4 * 2**20
"""The longest text or row that SQLite makes."""
DUCKDB_BYTES: Final = 256 * 2**20
"""What DuckDB may hold; nothing is spilled to files."""
FILE_BYTES: Final = 64 * 2**20
"""SQLite keeps a shared index beside its write-ahead log, also for readers; nothing else is written."""
INSTRUCTIONS: Final = 20_000
"""SQLite's instructions between two looks at the clock."""
BATCH: Final = 100
JSON_LEVELS: Final = 50
"""Lists within lists of a value that is given as JSON; a deeper one is given as its text."""


class Question(TypedDict):
    """The query, the database, and the limits."""

    engine: str
    address: str  # SQLite: path of the file; PostgreSQL: how a reader connects, as libpq writes it; DuckDB: nothing
    sql: str
    rows: int
    seconds: float
    size: int  # bytes of all cells, as JSON
    cell: int  # characters of one cell
    # SQLite
    statements: list[str]  # TEMP views; {base} stands for the schema of the file
    barriers: list[str]  # the same, for a registry that holds what the audience may not see
    unseen: str  # asks whether it does
    readable: list[str]  # tables that views read
    views: list[str]
    functions: list[str]
    # PostgreSQL
    schema: str
    settings: dict[str, str]  # limits of the session, whatever the role's are
    # DuckDB, with `statements` as they are
    files: list[str]  # what it may read


class RefusedError(Exception):
    """The query is refused or ended; kind says by what."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Answer:
    """Rows as they come, until one of the limits is met."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.columns: list[str] = []
        self.rows: list[str] = []
        self.begun = 0.0
        self.bytes = 0
        self.cut_cells = 0
        self.truncated = ""

    def add(self, rows: Iterable[Sequence[Any]]) -> bool:
        """Adds rows; False once no more are wanted."""
        for row in rows:
            if len(self.rows) == self.question["rows"]:
                self.truncated = "rows"
                return False
            text = json.dumps([self._cell(value) for value in row], ensure_ascii=False)
            self.bytes += len(text.encode("utf-8", "surrogatepass"))
            if self.bytes > self.question["size"]:
                self.truncated = "size"
                return False
            self.rows.append(text)
        return True

    def _cell(self, value: Any) -> Any:
        """A value as JSON has it; long texts and lists are cut, as text."""
        value = plain(value)
        if isinstance(value, (list, dict)):
            text = json.dumps(value, ensure_ascii=False)
            if len(text) <= self.question["cell"]:
                return value
            value = text
        if isinstance(value, str) and len(value) > self.question["cell"]:
            self.cut_cells += 1
            return value[: self.question["cell"]] + "…"
        return value

    def document(self) -> str:
        """The answer as JSON."""
        elapsed_s = time.monotonic() - self.begun
        rest = {"columns": self.columns, "truncated": self.truncated, "cut_cells": self.cut_cells}
        return f'{{"rows": [{", ".join(self.rows)}], {json.dumps(rest | {"elapsed_s": elapsed_s})[1:]}'


def plain(value: Any) -> Any:
    """A value of either engine as JSON has it: times as SQLite stores them, bytes as hexadecimal digits."""
    if isinstance(value, datetime):
        # Without a zone only where the query made it so.
        return value.isoformat() if value.tzinfo is None else f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, (date, clock)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if whole and abs(value) < 10**300 else float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def read_json(content: str | bytes) -> Any:
    """A JSON value of PostgreSQL; as the text it is where Python cannot read it, or would pass it on in vain.

    Python reads, walks and writes lists by recursion, and no integers of thousands of digits.
    """
    text = content if isinstance(content, str) else content.decode()
    try:
        value = json.loads(text)
    except (RecursionError, ValueError):
        return text
    level = [value]
    for _ in range(JSON_LEVELS):
        level = [
            part
            for item in level
            if isinstance(item, (list, dict))
            for part in (item if isinstance(item, list) else item.values())
        ]
        if not level:
            return value
    return text


# SQLite


def ask_sqlite(question: Question, answer: Answer) -> None:
    """Asks a file that is opened read-only, on a connection that may do nothing but read the audience's views."""
    connection = sqlite3.connect(":memory:", uri=True, isolation_level=None)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")
    deadline = time.monotonic() + question["seconds"]
    # Refusing by the name of a view alone would not do: SQLite reports the name of a view and that of a WITH to the
    # authorizer in the same way, and the query chooses the latter. A schema with a random name cannot be named in a
    # query.
    base = f"base_{secrets.token_hex(16)}"
    try:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA hard_heap_limit = {SQLITE_HEAP_BYTES}")
        connection.execute(f"ATTACH ? AS {base}", (f"{Path(question['address']).as_uri()}?mode=ro",))
        tables = {name for (name,) in connection.execute(f"SELECT name FROM {base}.sqlite_master")}  # noqa: S608
        (unseen,) = connection.execute(question["unseen"].format(base=base)).fetchone()
        for statement in question["barriers"] if unseen else question["statements"]:
            connection.execute(statement.format(base=base))
        # SQLite makes these at their first use, with rights that untrusted queries do not get.
        connection.execute("SELECT count(*) FROM json_each('[]'), json_tree('[]')").fetchall()
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except sqlite3.Error as error:
        raise RefusedError("set-up", f"the database cannot be read: {error}") from None
    for limit, value in (
        (sqlite3.SQLITE_LIMIT_LENGTH, SQLITE_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (sqlite3.SQLITE_LIMIT_COLUMN, 500),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (sqlite3.SQLITE_LIMIT_VDBE_OP, 200_000),
        (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 32),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
        (sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        connection.setlimit(limit, value)
    refused: list[str] = []
    connection.set_authorizer(_authorizer(question, base, tables, refused))
    connection.set_progress_handler(lambda: time.monotonic() > deadline, INSTRUCTIONS)
    answer.begun = time.monotonic()
    try:
        cursor = connection.execute(question["sql"])
        answer.columns = [column[0] for column in cursor.description or ()]
        while rows := cursor.fetchmany(BATCH):
            if not answer.add(rows):
                break
    except MemoryError:
        raise RefusedError("size", f"the query needs more than {SQLITE_HEAP_BYTES >> 20} MiB of memory") from None
    except (sqlite3.Error, sqlite3.Warning) as error:
        if refused:
            raise RefusedError("refused", f"{refused[0]} is not allowed") from None
        if str(error) == "interrupted":
            raise RefusedError("time", "interrupted") from None
        raise RefusedError("refused", str(error)) from None


def _authorizer(
    question: Question, base: str, tables: set[str], refused: list[str]
) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    """Allows reading views, what they read, and the listed functions; notes what it refused."""
    views, readable = set(question["views"]), set(question["readable"])
    functions = set(question["functions"])
    table_functions = {"json_each", "json_tree"}

    def allowed(action: int, first: str | None, second: str | None, schema: str | None, within: str | None) -> bool:
        if action == sqlite3.SQLITE_SELECT:
            return True
        if action == sqlite3.SQLITE_FUNCTION:
            return second in functions
        if action != sqlite3.SQLITE_READ or first is None:
            return False
        if first in table_functions:
            return schema in ("main", None)
        if schema is None:
            # Rows are counted, and no column is read: of a relation without a schema, or of a WITH.
            return second == "" and (first in views or first in readable or first not in tables)
        if schema == base and within is None:
            # A view joins a table of whose columns the query needs none. Only a view can name this schema.
            return second == "" and first in readable
        if within is None:
            return schema == "temp" and first in views
        return schema in ("temp", base) and (first in views or first in readable)

    def authorize(action: int, first: str | None, second: str | None, schema: str | None, within: str | None) -> int:
        if allowed(action, first, second, schema, within):
            return sqlite3.SQLITE_OK
        named = second if action == sqlite3.SQLITE_FUNCTION else first
        refused.append(f"{_ACTIONS.get(action, f'action {action}')}{f' {named}' if named else ''}")
        return sqlite3.SQLITE_DENY

    return authorize


_ACTIONS: Final = {
    getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ")
    for name in (
        *("ATTACH", "DETACH", "PRAGMA", "READ", "FUNCTION", "RECURSIVE", "TRANSACTION", "SAVEPOINT"),
        *("INSERT", "UPDATE", "DELETE", "CREATE_TABLE", "CREATE_TEMP_TABLE", "CREATE_VIEW", "CREATE_TEMP_VIEW"),
        *("CREATE_INDEX", "CREATE_TRIGGER", "CREATE_TEMP_TRIGGER", "DROP_TABLE", "DROP_VIEW", "DROP_TRIGGER"),
        *("ALTER_TABLE", "ANALYZE", "REINDEX"),
    )
}


# PostgreSQL

# A reader created by hand, or a URL with more rights, would show visitors what they may not see.
_ROLE_CHECK: Final = """
SELECT
    current_schema(),
    (
        SELECT count(*)
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
        WHERE
            pg_class.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
            AND pg_namespace.nspname NOT IN ('pg_catalog', 'information_schema', %(schema)s)
            AND NOT starts_with(pg_namespace.nspname, 'pg_t')
            AND has_schema_privilege(pg_namespace.oid, 'USAGE')
            AND CASE
                WHEN pg_class.relkind = 'S' THEN has_sequence_privilege(pg_class.oid, 'USAGE, UPDATE')
                ELSE has_table_privilege(pg_class.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
            END
    ),
    (
        SELECT count(*)
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
        WHERE
            pg_namespace.nspname = %(schema)s
            AND (
                NOT coalesce(pg_class.reloptions::text LIKE '%%security_barrier=true%%', false)
                OR has_table_privilege(pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
            )
    )
"""


def ask_postgresql(question: Question, answer: Answer) -> None:
    """Asks as the reader, in a read-only transaction of its own, through a cursor."""
    import psycopg
    from psycopg import errors
    from psycopg.types.json import set_json_loads

    try:
        connection = psycopg.connect(question["address"], connect_timeout=5, application_name="shuffleboard sql")
    except psycopg.OperationalError as error:
        busy = "too many connections" in str(error)
        raise RefusedError("busy" if busy else "set-up", str(error).strip().splitlines()[0]) from None
    connection.set_read_only(True)
    connection.prepare_threshold = None
    set_json_loads(read_json, connection)
    watchdog = threading.Timer(question["seconds"], _end, (connection,))
    watchdog.daemon = True
    try:
        _prepare_postgresql(connection, question)
        watchdog.start()
        answer.begun = time.monotonic()
        # DECLARE takes one SELECT and nothing else, and the protocol of prepared statements one statement.
        with connection.cursor(name="question", scrollable=False) as cursor:
            cursor.execute(question["sql"])
            answer.columns = [column.name for column in cursor.description or ()]
            while rows := cursor.fetchmany(BATCH):
                if not answer.add(rows):
                    break
    except errors.QueryCanceled:
        raise RefusedError("time", "cancelled") from None
    except errors.ConfigurationLimitExceeded:
        raise RefusedError("size", "the query needs more temporary space than its role may use") from None
    except psycopg.Error as error:
        if "memory" in str(error):
            raise RefusedError("size", "the query produces values that are too large") from None
        raise RefusedError("refused", error.diag.message_primary or str(error)) from None
    except MemoryError:
        raise RefusedError("size", "the query produces values that are too large") from None
    finally:
        watchdog.cancel()
        # Not close(): it would wait for nothing, but a rollback before it might.
        connection.close()


def _prepare_postgresql(connection: Any, question: Question) -> None:
    for setting, value in question["settings"].items():
        connection.execute(f"SET LOCAL {setting} = '{value}'")
    first, elsewhere, unguarded = connection.execute(_ROLE_CHECK, {"schema": question["schema"]}).fetchone()
    if first != question["schema"] or elsewhere:
        raise RefusedError(
            "set-up",
            f"this role can read more than the schema {question['schema']}; create readers with: shuffleboard db roles",
        )
    if unguarded:
        raise RefusedError(
            "set-up",
            f"{unguarded} views in {question['schema']} are not security barriers, or can be written to; "
            "run: shuffleboard db roles",
        )


def _end(connection: Any) -> None:
    """Cancels what runs, and ends the process where that does not help."""
    time_left = threading.Timer(1.0, os._exit, (3,))
    time_left.daemon = True
    time_left.start()
    connection.cancel_safe(timeout=1.0)


# DuckDB


def ask_duckdb(question: Question, answer: Answer) -> None:
    """Asks files of predictions, in a database in memory that can read these files and reach nothing else."""
    import duckdb

    limits: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": f"{DUCKDB_BYTES >> 20}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
    }
    connection = duckdb.connect(":memory:", config=limits)
    try:
        connection.execute("SET allowed_paths = ?", [question["files"]])
        connection.execute("SET enable_external_access = false")
        for statement in question["statements"]:
            connection.execute(statement)
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise RefusedError("set-up", _said(error)) from None
    watchdog = threading.Timer(question["seconds"], connection.interrupt)
    watchdog.daemon = True
    watchdog.start()
    answer.begun = time.monotonic()
    try:
        statements = duckdb.extract_statements(question["sql"])
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise RefusedError("refused", "only one SELECT is allowed")
        connection.execute(statements[0])
        answer.columns = [column[0] for column in connection.description or ()]
        while rows := connection.fetchmany(BATCH):
            if not answer.add(rows):
                break
    except duckdb.InterruptException:
        raise RefusedError("time", "interrupted") from None
    except (duckdb.OutOfMemoryException, MemoryError):
        raise RefusedError("size", f"the query needs more than {DUCKDB_BYTES >> 20} MiB of memory") from None
    except duckdb.Error as error:
        said = _said(error)
        if "pytz" in said:
            said = "a time with its zone cannot be given"
        raise RefusedError("refused", said) from None
    finally:
        watchdog.cancel()


def _said(error: Exception) -> str:
    """The first line of an error of DuckDB, without its kind."""
    return str(error).split("\n")[0].partition(": ")[2] or "the query cannot be answered"


_ENGINES: Final = {"sqlite": ask_sqlite, "postgresql": ask_postgresql, "duckdb": ask_duckdb}


# The process


def main() -> None:
    """Reads the question, asks it within the limits of the process, and writes the answer."""
    question: Question = json.loads(sys.stdin.buffer.read())
    seconds = int(question["seconds"]) + 2
    for what, limit in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    os.nice(5)
    answer = Answer(question)
    try:
        _ENGINES[question["engine"]](question, answer)
        text = answer.document()
    except RefusedError as error:
        text = json.dumps({"error": str(error), "kind": error.kind})
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    # Nothing is left to close in good order, and a thread may still wait for a server.
    os._exit(0)


if __name__ == "__main__":
    main()
