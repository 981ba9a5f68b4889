"""Run untrusted queries, each in a process that can read its audience's files and nothing else.

Processes are started ahead and answer one query after the other. A process that breaks a limit is killed; the next
query gets another.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final

from sqlalchemy import Engine

from registry.errors import DatabaseError, QueryRefusedError
from registry.names import plural
from registry.places import Places, count_places
from registry.private import make_folder
from registry.process_log import log
from registry.schema.audiences import Audience
from registry.settings import Settings
from registry.sql.files import Files, Listed
from registry.sql.process import Opening, Question
from registry.sql.results import QueryResult

GRACE_SECONDS: Final = 2.0
"""Time after a query's limit in which it may end by itself before its process is killed."""
OPENING_SECONDS: Final = 60.0
MOST_IDLE: Final = 4
"""Most processes that wait for queries."""
MOST_QUERIES: Final = 500
"""Most queries of a process, before another takes its place."""
MOST_OF_A_CLIENT: Final = 4
"""Most queries of one client that run or wait."""
MOST_WAITING: Final = 6
"""Most queries of all clients that run or wait: each occupies a thread of the website."""
_LOOK_SECONDS: Final = 0.05
_PROCESS: Final = Path(__file__).with_name("process.py")

_REMEDIES: Final = {
    "refused": "correct the query",
    "time": "query less: fewer evaluations, or a condition on evaluation_id",
    "size": "query less: fewer rows or columns, or sums instead of rows",
}


class NotReadyError(DatabaseError):
    """The files that queries read are being written for the first time, or after something was hidden."""


@dataclass(frozen=True)
class Answered:
    """The rows of a query, and the files that it read."""

    result: QueryResult
    listed: Listed


class _Process:
    """A process that answers queries over one audience's files."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.opened: tuple[str, str] | None = None
        self.queries = 0
        self._child = subprocess.Popen(  # noqa: S603 - our own file, by the Python that runs us
            [sys.executable, "-I", str(_PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "MALLOC_ARENA_MAX": "1"},
            start_new_session=True,
        )
        self.folder = folder

    def send(self, document: Opening | Question, seconds: float) -> dict[str, Any]:
        """Send a document and return the process's answer; kill the process if none arrives in time."""
        end = time.monotonic() + seconds
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(document).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            self.kill()
            return {"kind": "died"}
        parts: list[bytes] = []
        output = self._child.stdout.fileno()
        while not parts or not parts[-1].endswith(b"\n"):
            if time.monotonic() > end:
                self.kill()
                return {"kind": "time"}
            if select.select([output], [], [], _LOOK_SECONDS)[0]:
                parts.append(os.read(output, 1 << 20))
                if not parts[-1]:
                    self.kill()
                    return {"kind": "died"}
        answer: dict[str, Any] = json.loads(b"".join(parts))  # noqa: TID251 - our own process's
        return answer

    def kill(self) -> None:
        self._child.kill()
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                stream.close()
        self._child.wait()


class Pool:
    """The processes that are ready for queries. Safe between threads; each process of the website has its own."""

    def __init__(self) -> None:
        self._idle: list[_Process] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def take(self, folder: Path, key: str) -> _Process:
        """Return a process that has opened the list with this key, or else one that has opened none."""
        with self._lock:
            if self._owner != os.getpid():  # a fork must not use its parent's processes
                self._idle, self._owner = [], os.getpid()
            for opened in ((str(folder), key), None):
                for process in self._idle:
                    if process.opened == opened and process.folder == folder:
                        self._idle.remove(process)
                        return process
        return _Process(folder)

    def give_back(self, process: _Process) -> None:
        """Return a process to the pool, which keeps the MOST_IDLE processes of its folder that were used last."""
        with self._lock:
            recent = [*(other for other in self._idle if other.folder == process.folder), process][-MOST_IDLE:]
            replaced = [other for other in self._idle if other not in recent]
            self._idle = recent
        for other in replaced:
            other.kill()

    def close(self) -> None:
        """Kill the idle processes."""
        with self._lock:
            idle, self._idle = (self._idle if self._owner == os.getpid() else []), []
        for process in idle:
            process.kill()


_POOL: Final = Pool()
atexit.register(_POOL.close)


class Queries:
    """Runs the queries of one registry."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._settings = settings
        self.files = Files(engine, settings)
        self._opened: dict[Audience, Listed] = {}
        self._opening: dict[Audience, threading.Thread] = {}
        self._lock = threading.Lock()
        self._places = Places(
            "queries",
            at_once=settings.sql_at_once or count_places(),
            of_a_client=MOST_OF_A_CLIENT,
            of_all=MOST_WAITING,
        )

    def ask(self, audience: Audience, sql: str, client: str) -> Answered:
        """Run one query as `audience`, once the client gets a place, and return as many rows as the settings allow.

        Raises QueryRefusedError for a query that is not allowed, that DuckDB refuses or that a limit ended;
        NotReadyError while the files are being written; BusyError if too many queries wait.
        """
        if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
            raise QueryRefusedError("the query has a NUL character or half of a surrogate pair; remove it")
        self.files.current(audience)  # waiting here blocks no other query
        with self._places.take(client):
            listed = self._find_list(audience)
            if listed is None:
                raise NotReadyError("the files that queries read are being written; try again in a moment")
            answer = self._answer(audience, listed, sql)
        if "rows" not in answer:
            raise self._error(audience, answer)
        result = QueryResult(
            columns=tuple(answer["columns"]),
            types=tuple(answer["types"]),
            rows=tuple(tuple(row) for row in answer["rows"]),
            truncated=bool(answer["truncated"]),
            elapsed_s=answer["elapsed_s"],
            notes=tuple(self._notes(answer, listed)),
        )
        return Answered(result, listed)

    def _find_list(self, audience: Audience) -> Listed | None:
        """Return the list for a query; while a process opens newer files, which takes seconds, the previous list."""
        listed, before = self.files.current(audience), self._opened.get(audience)
        if listed is None or before is None or before.key == listed.key or not self.files.may_answer(audience, before):
            return listed
        self._open_ahead(audience, listed)
        return before

    def _answer(self, audience: Audience, listed: Listed, sql: str) -> dict[str, Any]:
        settings, folder = self._settings, self.files.folder
        process = _POOL.take(folder, listed.key)
        if answer := self._open(audience, process, listed):
            return answer
        question: Question = {
            "sql": sql,
            "rows": settings.sql_rows,
            "seconds": settings.sql_seconds,
            "size": settings.sql_bytes,
            "cell": settings.sql_cell_characters,
        }
        answer = process.send(question, settings.sql_seconds + GRACE_SECONDS)
        process.queries += 1
        if answer.get("kind") == "set-up":
            process.kill()
        elif answer.get("kind") in ("time", "died", "size") or process.queries >= MOST_QUERIES:
            process.kill()  # it is dead already, or keeps the memory of a large query
            self._open_ahead(audience, listed)
        else:
            _POOL.give_back(process)
        return answer

    def _open(self, audience: Audience, process: _Process, listed: Listed) -> dict[str, Any]:
        """Open the files of a list in a process; return {}, or the error after killing the process."""
        if process.opened is None:
            opening: Opening = {"files": list(listed.files), "statements": list(listed.statements)}
            if answer := process.send(opening, OPENING_SECONDS):
                process.kill()
                return answer
            process.opened = (str(self.files.folder), listed.key)
        self._opened[audience] = listed
        return {}

    def _open_ahead(self, audience: Audience, listed: Listed) -> None:
        """Prepare a process for the next query in a thread, unless one is being prepared."""

        def open_one() -> None:
            process = _POOL.take(self.files.folder, listed.key)
            if not self._open(audience, process, listed):
                _POOL.give_back(process)

        with self._lock:
            opening = self._opening.get(audience)
            if opening is None or not opening.is_alive():
                self._opening[audience] = threading.Thread(target=open_one, name="sql process", daemon=True)
                self._opening[audience].start()

    def _error(self, audience: Audience, answer: dict[str, Any]) -> DatabaseError | QueryRefusedError:
        kind, reason = answer["kind"], answer.get("error", "")
        if kind == "set-up":
            log.error("files for SQL queries cannot be read", reason=reason, folder=str(self.files.folder))
            self.files.renew(audience)
            return NotReadyError(
                "the files that queries read are being written again; try again in a moment, and ask whoever runs this"
                " board if it lasts"
            )
        if kind == "time":
            reason = f"the query did not finish within {self._settings.sql_seconds:g} s"
        if kind == "died":
            kind, reason = "size", "the query needs more memory than it may have"
        first, newline, rest = reason.partition("\n")
        return QueryRefusedError(f"{first}; {_REMEDIES[kind]}{newline}{rest}")

    def _notes(self, answer: dict[str, Any], listed: Listed) -> list[str]:
        settings, notes = self._settings, []
        if listed.waiting:
            total = plural(listed.written + listed.waiting, "sealed evaluation")
            notes.append(
                f"The views over questions and prompts have {listed.written:,} of {total} so far; the files of the "
                "others are being written, the newest first."
            )
        if answer["truncated"] == "rows":
            notes.append(f"These are the first {settings.sql_rows:,} rows; there are more.")
        if answer["truncated"] == "size":
            notes.append(
                f"These are the first {len(answer['rows']):,} rows, {settings.sql_bytes:,} bytes; there are more."
            )
        if answer["cut_cells"]:
            notes.append(
                f"{answer['cut_cells']} cells were cut to {settings.sql_cell_characters} characters and end in …."
            )
        cells = zip(*answer["rows"], strict=True)
        unknown = [
            name for name, column in zip(answer["columns"], cells, strict=False) if set(map(type, column)) == {NoneType}
        ]
        if unknown:
            notes.append(f"NULL in every row: {', '.join(unknown)}. The columns of the views say when a value is NULL.")
        return notes
