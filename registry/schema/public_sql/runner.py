"""Runs an untrusted query: guarded, as a role that may only read what its audience sees, within limits."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from psycopg import ProgrammingError
from psycopg.conninfo import make_conninfo
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from registry.errors import DatabaseError, QueryRefusedError
from registry.schema.audiences import FILTERED, OPEN, SEES, Audience, schema, sqlite_statements
from registry.schema.public_sql.child import Question
from registry.schema.public_sql.guard import FUNCTIONS, Dialect, checked
from registry.schema.public_sql.results import QueryResult
from registry.schema.roles import reader_settings
from registry.schema.views import VIEWS, view_sql
from registry.settings import Settings

MOST_AT_ONCE: Final = 4
"""Queries that one host runs at the same time, where it has the cores."""
WAIT_SECONDS: Final = 15.0
"""How long a query waits for those of other processes to end: longer than one takes."""
GRACE_SECONDS: Final = 3.0
"""How long after its time limit a query may take to end by itself before its process is killed."""

_CHILD: Final = Path(__file__).with_name("child.py")

# What SQLite calls beside the functions that are written.
_OPERATORS: Final = ("->", "->>", "like", "glob", "current_time", "current_date", "current_timestamp")

_REMEDIES: Final = {
    "refused": "correct the query",
    "time": "query less: fewer evaluations, or a condition on evaluation_id",
    "size": "query less: fewer rows or columns, or sums instead of rows",
    "busy": "try again in a moment",
    "set-up": "see docs/operations.md",
}


def dialect_of(settings: Settings) -> Dialect:
    """The engine that queries are asked of."""
    return "sqlite" if make_url(settings.resolved_database_url()).get_backend_name() == "sqlite" else "postgresql"


def run_query(settings: Settings, audience: Audience, sql: str) -> QueryResult:
    """Asks one query as `audience` and returns its rows, as many as the settings allow.

    Raises QueryRefusedError for a query that is not allowed, that the database refuses, or that a limit ended;
    DatabaseError where the audience has no reader on PostgreSQL, or one who may do too much.
    """
    return ask(settings, audience, checked(sql, dialect_of(settings)))


def ask(settings: Settings, audience: Audience, sql: str) -> QueryResult:
    """Runs a query without checking it, so that only the limits of database and process apply.

    Not for untrusted queries: use `run_query`. Raises as that does.
    """
    return _answered(settings, _question(settings, audience, sql))


def ask_files(settings: Settings, sql: str, files: Sequence[Path], statements: Sequence[str]) -> QueryResult:
    """Runs a checked query over files alone, by DuckDB, which `statements` give their names.

    Raises QueryRefusedError as `run_query` does.
    """
    question: Question = {
        **_limits(settings, sql),
        "engine": "duckdb",
        "files": [str(file) for file in files],
        "statements": list(statements),
    }
    return _answered(settings, question)


def _answered(settings: Settings, question: Question) -> QueryResult:
    with _place(settings):
        answer = _asked(question)
    if "error" in answer:
        raise _error(answer, settings)
    return QueryResult(
        columns=tuple(answer["columns"]),
        rows=tuple(tuple(row) for row in answer["rows"]),
        truncated=bool(answer["truncated"]),
        elapsed_s=answer["elapsed_s"],
        notes=tuple(_notes(answer, settings)),
    )


def places(settings: Settings) -> int:
    """How many queries this host runs at the same time: half of the cores stay for everything else."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return settings.sql_at_once or min(MOST_AT_ONCE, max(1, cores // 2))


@contextmanager
def _place(settings: Settings) -> Iterator[None]:
    """One of the places for queries on this host, whichever process asks.

    A place is a locked file, which the system unlocks when its process dies. Raises QueryRefusedError if none is free.
    """
    there = places(settings)
    folder = settings.home.expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + WAIT_SECONDS
    while True:
        for number in range(there):
            with (folder / f"sql-{number}.lock").open("ab") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        if time.monotonic() > end:
            raise QueryRefusedError(f"{there} queries are already running; {_REMEDIES['busy']}")
        time.sleep(0.02)


def _asked(question: Question) -> dict[str, Any]:
    """What the process answers; it is killed when it does not."""
    seconds = question["seconds"] + GRACE_SECONDS
    with subprocess.Popen(  # noqa: S603 - our own file, by the Python that runs us
        [sys.executable, "-I", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        start_new_session=True,
    ) as process:
        try:
            answer, trouble = process.communicate(json.dumps(question).encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"kind": "time", "error": "killed"}
    if process.returncode == 0 and answer:
        return json.loads(answer)  # type: ignore[no-any-return]
    if process.returncode in (3, -signal.SIGXCPU, -signal.SIGKILL):  # 3: the server did not take the cancelling
        return {"kind": "time", "error": "killed"}
    # Memory may run out anywhere, in the driver or while Python says so.
    if process.returncode < 0 or b"MemoryError" in trouble or b"cannot allocate memory" in trouble:
        return {"kind": "size", "error": "the query produces values that are too large"}
    raise RuntimeError(f"{_CHILD.name} ended with status {process.returncode}: {trouble.decode(errors='replace')}")


def _environment() -> dict[str, str]:
    """What PostgreSQL's client may need, and nothing of ours: settings hold other passwords."""
    wanted = {name: value for name, value in os.environ.items() if name.startswith("PG") or name in ("HOME", "PATH")}
    # Otherwise each of DuckDB's nine threads maps 64 MiB that it never fills.
    return wanted | {"MALLOC_ARENA_MAX": "1"}


def _limits(settings: Settings, sql: str) -> Question:
    """A query and what its answer may come to, not yet said of whom it is asked."""
    return {
        "engine": "",
        "address": "",
        "sql": sql,
        "rows": settings.sql_rows,
        "seconds": settings.sql_seconds,
        "size": settings.sql_bytes,
        "cell": settings.sql_cell_characters,
        "statements": [],
        "barriers": [],
        "unseen": "",
        "readable": [],
        "views": [],
        "functions": [],
        "schema": "",
        "settings": {},
        "files": [],
    }


def _question(settings: Settings, audience: Audience, sql: str) -> Question:
    dialect = dialect_of(settings)
    question: Question = {
        **_limits(settings, sql),
        "engine": dialect,
        "address": _address(settings, audience, dialect),
        "readable": [*FILTERED, *OPEN],
        "views": list(VIEWS),
        "functions": [*FUNCTIONS[dialect], *_OPERATORS],
        "schema": schema(audience),
        "settings": _session_settings(settings, schema(audience)) if dialect == "postgresql" else {},
    }
    if dialect == "sqlite":
        question["statements"] = _sqlite_views(audience, "")
        # LIMIT keeps SQLite from evaluating the query's condition on rows before the audience's filter: an error in
        # it would reveal hidden rows. It prevents the use of indexes, so it is added only where there is something to
        # hide.
        question["barriers"] = _sqlite_views(audience, " LIMIT -1 OFFSET 0")
        seen = ", ".join(f"'{visibility}'" for visibility in SEES[audience])
        question["unseen"] = (
            f"SELECT EXISTS (SELECT 1 FROM {{base}}.benchmark_version WHERE visibility NOT IN ({seen})) "  # noqa: S608
            "OR EXISTS (SELECT 1 FROM {base}.embargo)"
        )
    return question


def _session_settings(settings: Settings, name: str) -> dict[str, str]:
    """Those of the role, which whoever has its password may have changed, and what only these queries need."""
    own = reader_settings(name, settings.sql_seconds)
    for of_the_role in ("temp_file_limit", "default_transaction_read_only"):  # a superuser's; said by the transaction
        del own[of_the_role]
    return own | {
        "idle_in_transaction_session_timeout": own["statement_timeout"],
        "standard_conforming_strings": "on",
        # The whole answer is wanted, not its first rows soon.
        "cursor_tuple_fraction": "1",
    }


def _sqlite_views(audience: Audience, ending: str) -> list[str]:
    """TEMP views for the audience; {base} stands for the schema of the file."""
    filtered = sqlite_statements(audience)[: len(FILTERED)]
    documented = (
        f"CREATE TEMP VIEW {name} AS SELECT * FROM (\n{view_sql(name, 'sqlite')}\n){ending}"  # noqa: S608
        if ending
        else f"CREATE TEMP VIEW {name} AS\n{view_sql(name, 'sqlite')}"
        for name in VIEWS
    )
    texts = [*(statement.replace("main.", "\0") for statement in filtered), *documented]
    return [text.replace("{", "{{").replace("}", "}}").replace("\0", "{base}.") for text in texts]


def _address(settings: Settings, audience: Audience, dialect: Dialect) -> str:
    """SQLite: the path of the file. PostgreSQL: where the audience's reader connects, as libpq writes it."""
    if dialect == "sqlite":
        path = make_url(settings.resolved_database_url()).database
        if not path or path == ":memory:":
            raise DatabaseError("an in-memory database cannot be queried; use a file, see SHUFFLEBOARD_DATABASE_URL")
        return str(Path(path).resolve())
    name = {"public": "reader_url", "members": "member_reader_url"}.get(audience)
    if name is None:
        raise DatabaseError(
            "on PostgreSQL there is no reader role for hidden data; query it with psql and your own role"
        )
    url: str = getattr(settings, name)
    if not url:
        raise DatabaseError(
            f"SHUFFLEBOARD_{name.upper()} is not set, so {audience} queries are not answered; create the reader with: "
            "shuffleboard db roles"
        )
    try:
        reader = make_url(url)
        place: dict[str, Any] = {**reader.translate_connect_args(username="user", database="dbname"), **reader.query}
        return make_conninfo(**place)
    except (ArgumentError, ProgrammingError):
        # Without its value, which holds a password.
        raise DatabaseError(
            f"SHUFFLEBOARD_{name.upper()} is not a postgresql:// URL; use the one that `shuffleboard db roles` prints"
        ) from None


def _error(answer: dict[str, Any], settings: Settings) -> DatabaseError | QueryRefusedError:
    kind, reason = answer["kind"], answer["error"]
    if kind == "set-up":
        return DatabaseError(f"the SQL page cannot run queries: {reason}; {_REMEDIES[kind]}")
    if kind == "time":
        reason = f"the query did not finish within {settings.sql_seconds:g} s"
    return QueryRefusedError(f"{reason}; {_REMEDIES[kind]}")


def _notes(answer: dict[str, Any], settings: Settings) -> list[str]:
    notes = []
    if answer["truncated"] == "rows":
        notes.append(f"These are the first {settings.sql_rows} rows; there are more.")
    if answer["truncated"] == "size":
        notes.append(f"These are the first {len(answer['rows'])} rows, {settings.sql_bytes} bytes; there are more.")
    if answer["cut_cells"]:
        notes.append(f"{answer['cut_cells']} cells were cut to {settings.sql_cell_characters} characters and end in ….")
    return notes
