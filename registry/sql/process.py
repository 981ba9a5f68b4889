"""The process that answers untrusted queries. It is started by its path, and imports none of our code.

DuckDB in memory, over the files that one audience may read, with external access and the local file system switched
off: the process contains nothing that its audience may not see, so a query's text needs no analysis. DuckDB reads the
files through `Sealed`, since its settings would reveal the full path of a local file. The limits are the process's
address space, DuckDB's own memory limit, a watchdog that interrupts a query, and the parent process, which kills it.

stdin and stdout: one JSON document a line. The first line opens the files (`Opening`); the reply is `{}` or an error.
Each further line is a query (`Question`); the reply has `columns`, `types`, `rows`, `truncated`, `cut_cells` and
`elapsed_s`, or `error` and `kind` ("refused", "time", "size", "set-up").
"""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as clock
from decimal import Decimal
from functools import cache
from importlib import import_module
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypedDict

ADDRESS_SPACE_BYTES: Final = 3 * 2**29
"""Most address space of the process, files and libraries included."""
MEMORY_BYTES: Final = 448 * 2**20
"""Most memory of the process: DuckDB's own limit does not count the Python objects for rows."""
DUCKDB_BYTES: Final = 256 * 2**20
"""Most memory of DuckDB; nothing is spilled to files."""
SCHEME: Final = "sealed"
"""Scheme of the files' names in DuckDB: `sealed://` and the path below the working folder."""
BATCH: Final = 100
MOST_COLUMNS: Final = 1000


class Opening(TypedDict):
    """The files of an audience, by their names (`SCHEME`), and the statements that name them."""

    files: list[str]
    statements: list[str]


class Question(TypedDict):
    """A query and the limits of its answer."""

    sql: str
    rows: int
    seconds: float
    size: int  # bytes of all cells, as JSON
    cell: int  # characters of one cell


class Utc(tzinfo):
    """UTC as a replacement for pytz, from which DuckDB requests the zone of each time; all times are in UTC."""

    def tzname(self, _moment: datetime | None) -> str:  # noqa: D102 - as all of `tzinfo`
        return "UTC"

    def utcoffset(self, _moment: datetime | None) -> timedelta:  # noqa: D102
        return timedelta(0)

    dst = utcoffset

    def localize(self, moment: datetime) -> datetime:
        """Set this zone in a time without one."""
        return moment.replace(tzinfo=self)


class RefusedError(Exception):
    """The query is refused or ended; kind names the limit."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Answer:
    """The rows of a query, collected until a limit is reached."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.columns: list[str] = []
        self.types: list[str] = []
        self.rows: list[str] = []
        self.begun = time.monotonic()
        self.bytes = 0
        self.cut_cells = 0
        self.truncated = ""

    def add(self, rows: Iterable[Sequence[Any]]) -> bool:
        """Add rows; return False when a limit is reached."""
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
        """Return a value as JSON; long texts are cut, and long lists are converted to text and cut."""
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
        """Return the answer as JSON."""
        rest = {
            "columns": self.columns,
            "types": self.types,
            "truncated": self.truncated,
            "cut_cells": self.cut_cells,
            "elapsed_s": time.monotonic() - self.begun,
        }
        return f'{{"rows": [{", ".join(self.rows)}], {json.dumps(rest)[1:]}'


def plain(value: Any) -> Any:
    """Return a value of DuckDB as a JSON value: times in UTC and in ISO's form, bytes as hexadecimal digits."""
    if isinstance(value, datetime):
        # The registry's times are in UTC, and have no zone in its files.
        return f"{value if value.tzinfo is None else value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, (date, clock)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Decimal):
        is_integral = value.is_finite() and value == value.to_integral_value()
        return int(value) if is_integral and abs(value) < 10**300 else float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


LOST: Final[list[str]] = []
"""Errors from reading listed files."""


class Positioned(FileIO):
    """A file with a position for each thread, since several threads of DuckDB seek and read in one handle."""

    def __init__(self, path: str) -> None:
        """Open the file at its beginning."""
        super().__init__(path)
        self._of_thread = threading.local()

    def tell(self) -> int:
        """Return this thread's position."""
        return int(getattr(self._of_thread, "offset", 0))

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set this thread's position, from the beginning only."""
        if whence != os.SEEK_SET:
            raise ValueError(f"whence is {whence}; positions are counted from the beginning")
        self._of_thread.offset = offset
        return offset

    def read(self, size: int | None = -1, /) -> bytes:
        """Return this thread's next bytes, up to the end of the file by default."""
        start = self.tell()
        left = os.fstat(self.fileno()).st_size - start if size is None or size < 0 else size
        data = os.pread(self.fileno(), max(0, left), start)
        self._of_thread.offset = start + len(data)
        return data


def open_connection(opening: Opening) -> Any:
    """Return a connection that can read these files and nothing else."""
    import duckdb
    from fsspec import AbstractFileSystem

    class Sealed(AbstractFileSystem):  # type: ignore[misc] # it has no types
        """The files below the working folder, which never change. DuckDB opens only the listed ones."""

        protocol, cachable = SCHEME, False

        def open(self, path: str, mode: str = "rb", **_: Any) -> Positioned:
            if mode != "rb":
                raise PermissionError("files are only read here")
            try:
                return Positioned(path.removeprefix(f"{SCHEME}://"))
            except OSError as error:
                LOST.append(str(error))
                raise

        @cache  # noqa: B019 - there is one for the life of the process
        def size(self, path: str) -> int:
            try:
                return Path(path.removeprefix(f"{SCHEME}://")).stat().st_size
            except OSError as error:
                LOST.append(str(error))
                raise

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": self.size(path), "type": "file"}

        def modified(self, _path: str) -> datetime:
            return datetime.fromtimestamp(0, UTC)

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

    limits: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": f"{DUCKDB_BYTES >> 20}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "secret_directory": "none",
        "default_null_order": "nulls_last",
        "enable_external_file_cache": False,  # useless for local files, and checks each of them
    }
    connection = duckdb.connect(":memory:", config=limits)
    connection.register_filesystem(Sealed())
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET allowed_paths = ?", [opening["files"]])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
        for statement in opening["statements"]:
            connection.execute(statement)
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise RefusedError("set-up", LOST[0] if LOST else describe_error(error)) from None
    return connection


def ask(connection: Any, question: Question) -> Answer:
    """Run one SELECT and return its rows. Raises RefusedError for another statement, an error, or a limit."""
    import duckdb

    answer = Answer(question)
    watchdog = threading.Timer(question["seconds"], connection.interrupt)
    watchdog.daemon = True
    watchdog.start()
    try:
        statements = connection.extract_statements(question["sql"])
        if len(statements) != 1:
            raise RefusedError("refused", f"{len(statements)} statements; write one SELECT")
        if statements[0].type != duckdb.StatementType.SELECT:
            kind = statements[0].type.name
            raise RefusedError("refused", f"{kind} is not allowed; write a SELECT (WITH … SELECT too)")
        result = connection.execute(statements[0])
        described = result.description or ()
        if len(described) > MOST_COLUMNS:
            raise RefusedError("size", f"a result of {len(described):,} columns; up to {MOST_COLUMNS:,} are shown")
        answer.columns = [column[0] for column in described]
        answer.types = [str(column[1]) for column in described]
        while rows := result.fetchmany(BATCH):
            if not answer.add(rows):
                break
    except duckdb.InterruptException:
        raise RefusedError("time", "interrupted") from None
    except (duckdb.OutOfMemoryException, MemoryError):
        raise RefusedError("size", f"the query needs more than {DUCKDB_BYTES >> 20} MiB of memory") from None
    except duckdb.Error as error:
        if LOST:
            raise RefusedError("set-up", LOST[0]) from None
        raise RefusedError("refused", describe_error(error)) from None
    finally:
        watchdog.cancel()
    return answer


def describe_error(error: Exception) -> str:
    """Return an error of DuckDB without its kind: the problem, similar names, and the line with the place."""
    # Python's errors contain paths.
    text = str(error).partition("Traceback (most")[0].strip()
    first, _, rest = text.partition("\n")
    return f"{(first.partition(': ')[2] or first).rstrip('!')}\n{rest}".strip()[:2000] or "the query cannot be answered"


def reply(document: str) -> None:
    """Write a document to stdout as one line."""
    sys.stdout.buffer.write(document.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Open the files, and answer queries until the parent process closes the pipe."""
    for what, limit in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    os.nice(10)
    sys.modules["pytz"] = SimpleNamespace(timezone=lambda _name: Utc())  # type: ignore[assignment]
    for slow in ("duckdb", "fsspec"):  # so that no query waits for these imports
        import_module(slow)
    connection = None
    for line in sys.stdin.buffer:
        document = json.loads(line)  # noqa: TID251 - our own process's
        try:
            if "statements" in document:
                connection = open_connection(document)
                reply("{}")
            else:
                reply(ask(connection, document).document())
        except RefusedError as error:
            reply(json.dumps({"error": str(error), "kind": error.kind}))
    # Exit at once: nothing needs to be closed.
    os._exit(0)


if __name__ == "__main__":
    main()
