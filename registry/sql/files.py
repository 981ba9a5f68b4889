"""The files that the SQL page's queries read, written for each audience when its visible rows have changed.

    HOME/sql/<database>-<shape>/
        evaluations/evaluation_id=12/<relation>-<sealed>.parquet   of a sealed evaluation; never changes; predictions
                                                                   are its archive's file, linked or copied
        views/<number>/<name>.parquet                              the small views, as an audience sees them
        <audience>.json                                            the files that a query may read, as of when

All of it is derived, so a deleted folder is written again. A process reads only the files in its audience's list, so an
audience's rights are one list of paths. A list with a file that the audience may no longer see is not used
(`Files.current`).
"""

import fcntl
import filecmp
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from registry.db import database_now, get_engine, read_session, utc_text
from registry.errors import ArchiveError, SealError
from registry.exchange.exports.relations import as_written
from registry.exchange.exports.tables import parquet
from registry.files.stores import store_at
from registry.isolated import Job, run
from registry.predictions.archive_files import PREDICTIONS as PREDICTIONS_FILE
from registry.predictions.archive_files import SCHEMA, copy_completed
from registry.predictions.archived import place_of
from registry.private import close, make_folder
from registry.process_log import log
from registry.schema.audiences import Audience, audience_engine
from registry.sealed.archiving import write
from registry.settings import Settings
from registry.sql.process import SCHEME
from registry.sql.relations import (
    OF_EVALUATION,
    PREDICTIONS,
    TABLES,
    Part,
    query_of,
    shape,
    small_views,
    statements,
    types_of,
)
from registry.tables import Benchmark, BenchmarkVersion, Board, Evaluation, EvaluationMetric, Model, ModelRevision

BATCH: Final = 20_000
"""Rows that are in memory at once while a file is written."""
PATIENCE_SECONDS: Final = 15.0
"""Seconds that a query waits for new files if the existing ones are too old."""
FIRST_PATIENCE_SECONDS: Final = 20.0
"""Seconds that a query waits if there are no files yet."""
PUBLISH_SECONDS: Final = 10.0
"""Seconds after which the list is updated while the files of many evaluations are being written."""
PUBLISH_SHARE: Final = 5.0
"""Least time of writing files between two updates of the list, as a multiple of the time that an update takes."""
CLOCKS_APART_SECONDS: Final = 60.0
"""Most seconds by which the database's clock may be ahead of this host's."""
WRITING_SECONDS: Final = 86_400.0
WRITING_BYTES: Final = 2 << 30
"""Memory of the process that writes; WRITING_SECONDS is its time limit."""
UNUSED_SECONDS: Final = 86_400.0
"""Seconds after which the files of another version of this software are deleted, unless it lists them again."""
KEPT_FOLDERS: Final = 3
"""Number of an audience's folders of views that are not deleted, since a query may still read an older one."""

_SEEN: Final = (Benchmark, BenchmarkVersion, ModelRevision, Model, Board, Evaluation)
"""Tables whose rows show whether an audience sees less than before."""


@dataclass(frozen=True)
class Listed:
    """The files that an audience's queries read.

    as_of: the time of the small views. written, waiting: numbers of sealed evaluations with and without files.
    unsealed: number of evaluations that are missing from the views over predictions, since they are not complete. key:
    a digest of the files' names. folder: that of the small views, which changes only with them. seen: table to ids of
    the rows that the audience saw.
    """

    key: str
    folder: str
    as_of: datetime
    written: int
    waiting: int
    unsealed: int
    files: Sequence[str]
    statements: Sequence[str]
    seen: Mapping[str, Sequence[int]]


class Files:
    """The files of one database below the data directory. Safe between threads and processes."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._seconds = settings.sql_refresh_seconds
        self._home = settings.home.expanduser()
        url = engine.url.set(password=None).render_as_string()
        name = f"{hashlib.sha256(url.encode()).hexdigest()[:12]}-{shape()}"
        self.folder = self._home / "sql" / name
        self._read: dict[Audience, tuple[tuple[int, int], Listed]] = {}
        self._lock = threading.Lock()
        self._writing: dict[Audience, threading.Thread] = {}

    def current(self, audience: Audience) -> Listed | None:
        """Return the files for an audience's queries, writing them again if that is due; None while they are written.

        Writing is due from half of the files' maximal age; a query waits for it only beyond that age. A list with
        anything that the audience no longer sees is written again before any answer.
        """
        listed = self._read_usable(audience)
        if listed is not None:
            age = _age(listed)
            if age >= self._seconds / 2 or listed.waiting:
                writing = self.renew(audience)
                if age >= self._seconds:
                    writing.join(PATIENCE_SECONDS)
            return self._read_usable(audience)
        for _ in range(2):  # a thread that was already writing may have begun too early
            self.renew(audience).join(FIRST_PATIENCE_SECONDS)
            if (listed := self._read_usable(audience)) is not None:
                break
        return listed

    def may_answer(self, audience: Audience, older: Listed) -> bool:
        """Return whether queries may still be answered from an older list."""
        return _age(older) < self._seconds and not self._sees_less(audience, older)

    def _read_usable(self, audience: Audience) -> Listed | None:
        """Return an audience's last list, unless it contains something that the audience may no longer see."""
        listed = self.listed(audience)
        return None if listed is None or self._sees_less(audience, listed) else listed

    def listed(self, audience: Audience) -> Listed | None:
        """Return an audience's last list, usable or not; None if there is none."""
        path = self.folder / f"{audience}.json"
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_ino)
            with self._lock:
                cached = self._read.get(audience)
            if cached is not None and cached[0] == mark:
                return cached[1]
            document = json.loads(path.read_text(encoding="utf-8"))  # noqa: TID251 - our own
        except FileNotFoundError:
            return None
        listed = Listed(**{**document, "as_of": datetime.fromisoformat(document["as_of"])})
        with self._lock:
            self._read[audience] = (mark, listed)
        return listed

    def _sees_less(self, audience: Audience, listed: Listed) -> bool:
        with read_session(audience_engine(self._engine, audience)) as session:
            return any(not set(listed.seen[name]) <= set(ids) for name, ids in _list_seen(session).items())

    def renew(self, audience: Audience) -> threading.Thread:
        """Start a thread that writes an audience's missing files, unless one is running; return the thread."""
        with self._lock:
            thread = self._writing.get(audience)
            if thread is None or not thread.is_alive():
                thread = threading.Thread(target=self._write, args=(audience,), name="sql files", daemon=True)
                self._writing[audience] = thread
                thread.start()
            return thread

    def _write(self, audience: Audience) -> None:
        """Write the files in another process, so that this process's pages stay fast."""
        url = self._engine.url.render_as_string(hide_password=False)
        job = Job(f"{__name__}:write_files", WRITING_SECONDS, WRITING_BYTES, dict(os.environ))
        try:
            run(job, {"url": url, "home": str(self._home), "audience": audience})
        except Exception:  # noqa: BLE001 - a query that waits reports that there is no list
            log.exception("the files for SQL queries could not be written")

    def write(self, audience: Audience) -> Listed:
        """Write missing files, and list them; one process at a time. Raises StorageError, ArchiveError."""
        started = time.time()
        with self._lock_folder():
            listed = self.listed(audience)
            since = 0.0 if listed is None or listed.waiting else listed.as_of.timestamp() - started
            if listed is not None and 0 < since <= CLOCKS_APART_SECONDS + time.time() - started:
                return listed  # another process has written them in the meantime
            listing_began = time.monotonic()
            listed, failed = self._list(audience), 0
            while listed.waiting > failed:
                seconds = max(PUBLISH_SECONDS, PUBLISH_SHARE * (time.monotonic() - listing_began))
                failed = self._write_evaluations(audience, seconds)
                listing_began = time.monotonic()
                listed = self._list(audience)
            self._tidy()
            return listed

    def _tidy(self) -> None:
        """Delete the files of deleted evaluations, and unused files of another shape."""
        expected = {f"evaluation_id={number}" for number in self._places("all")}
        for folder in (self.folder / "evaluations").glob("evaluation_id=*"):
            if folder.name not in expected:
                shutil.rmtree(folder, ignore_errors=True)
        for folder in self.folder.parent.glob(f"{self.folder.name.partition('-')[0]}-*"):
            if folder != self.folder and time.time() - folder.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        make_folder(self.folder)
        with (self.folder / "lock").open("ab") as file:
            close(self.folder / "lock")
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # An evaluation's files

    def _places(self, audience: Audience) -> dict[int, dict[str, Path]]:
        """Map each sealed evaluation that an audience sees to its files: relation to path below the folder."""
        sealed = select(Evaluation.id, Evaluation.seal, Evaluation.sealed_at).where(Evaluation.seal.is_not(None))
        # An upgrade adds new metrics to sealed evaluations.
        counted = select(EvaluationMetric.evaluation_id, func.count()).group_by(EvaluationMetric.evaluation_id)
        with read_session(audience_engine(self._engine, audience)) as session:
            metrics = {row[0]: row[1] for row in session.execute(counted)}
            rows = session.execute(sealed.order_by(Evaluation.id)).all()
        places = {}
        for number, seal, at in rows:
            assert at is not None
            mark = hashlib.sha256(f"{seal} {utc_text(at)}".encode()).hexdigest()[:12]
            folder = Path("evaluations") / f"evaluation_id={number}"
            places[number] = {
                name: folder
                / f"{name}-{mark}{f'-{metrics.get(number, 0)}' if name == 'evaluation_metrics' else ''}.parquet"
                for name in (*OF_EVALUATION, PREDICTIONS)
            }
        return places

    def _write_evaluations(self, audience: Audience, seconds: float) -> int:
        """Write missing files of evaluations for about `seconds`; return how many evaluations have no readable file.

        The newest are first, so that new evaluations do not wait for all older ones.
        """
        end, failed = time.monotonic() + seconds, 0
        for number, places in reversed(self._places(audience).items()):
            missing = {name: path for name, path in places.items() if not (self.folder / path).exists()}
            if missing:
                try:
                    if (path := missing.pop(PREDICTIONS, None)) is not None:
                        self._link_predictions(number, path)
                except (ArchiveError, SealError) as error:
                    log.warning("file_not_written", evaluation=number, error=str(error))
                    failed += 1
                    continue
                with read_session(self._engine) as session:
                    for name, path in missing.items():
                        with self._write_whole(path) as part:
                            save(session, name, part, Part((number,)), by_folder=True)
                current_files = {self.folder / path for path in places.values()}
                for old in set(next(iter(current_files)).parent.iterdir()) - current_files:
                    old.unlink(missing_ok=True)
                if time.monotonic() > end:
                    break
        return failed

    def _link_predictions(self, number: int, path: Path) -> None:
        """Link or copy an evaluation's file of predictions to this path; archive the evaluation first if necessary."""
        row = write(self._engine, number, store_at("", self._settings).url)
        with read_session(self._engine) as session:
            store, name = place_of(row, session.get_one(Evaluation, number).seal or "")
        with self._write_whole(path) as part:
            copy_completed(store, f"{name}/{PREDICTIONS_FILE}", part)

    @contextmanager
    def _write_whole(self, path: Path) -> Iterator[Path]:
        """Yield a temporary path for a file that gets its real name when it is complete."""
        target = self.folder / path
        make_folder(target.parent)
        part = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
        try:
            yield part
            if part.stat().st_nlink == 1:  # a hard link to an archive's file keeps that file's mode
                close(part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    # An audience's list

    def _list(self, audience: Audience) -> Listed:
        """Write the small views as the audience sees them, and list the files that its queries may read."""
        before = self.listed(audience)
        folder = Path("views") / f"{audience}-{time.time_ns()}"
        others: dict[str, str] = {}
        with read_session(audience_engine(self._engine, audience)) as session:
            as_of = session.scalar(select(database_now()))
            assert as_of is not None
            seen = _list_seen(session)
            unsealed = (
                session.scalar(select(func.count()).select_from(Evaluation).where(Evaluation.seal.is_(None))) or 0
            )
            for name in (*TABLES, *small_views()):
                path = folder / f"{name}.parquet"
                with self._write_whole(path) as part:
                    save(session, name, part)
                others[name] = _name(path)
        views = [f"{name}.parquet" for name in others]
        if (
            before is not None
            and views
            == filecmp.cmpfiles(self.folder / "views" / before.folder, self.folder / folder, views, shallow=False)[0]
        ):
            # Processes that have opened the previous folder can continue.
            shutil.rmtree(self.folder / folder)
            folder = Path("views") / before.folder
            others = {name: _name(folder / f"{name}.parquet") for name in others}
        places, seen_numbers = self._places(audience), set(seen["evaluation"])
        complete = [
            evaluation_files
            for number, evaluation_files in places.items()
            if number in seen_numbers and all((self.folder / path).exists() for path in evaluation_files.values())
        ]
        if complete:
            of_evaluations = {
                name: [_name(evaluation_files[name]) for evaluation_files in complete] for name in complete[0]
            }
        else:
            # A file without rows, so that each relation has its columns. It is never combined with others: DuckDB
            # estimates the rows of all files from the first, and would begin each join with the predictions.
            nothing = folder / "evaluation_id=0"
            of_evaluations = {name: [_name(nothing / f"{name}.parquet")] for name in (*OF_EVALUATION, PREDICTIONS)}
            for name in OF_EVALUATION:
                with self._write_whole(nothing / f"{name}.parquet") as part:
                    save(session, name, part, Part(()), by_folder=True)
            with self._write_whole(nothing / f"{PREDICTIONS}.parquet") as part:
                pq.write_table(SCHEMA.empty_table(), part)
        files = [*others.values(), *(path for paths in of_evaluations.values() for path in paths)]
        document = {
            "key": hashlib.sha256("\n".join(files).encode()).hexdigest(),
            "folder": folder.name,
            "as_of": utc_text(as_of),
            "written": len(complete),
            "waiting": len(places) - len(complete),
            "unsealed": unsealed,
            "files": files,
            "statements": statements(of_evaluations, others),
            "seen": seen,
        }
        part = self.folder / f"{audience}.json.part"
        part.write_text(json.dumps(document), encoding="utf-8")
        close(part)
        part.replace(self.folder / f"{audience}.json")
        for old in sorted((self.folder / "views").glob(f"{audience}-*"))[:-KEPT_FOLDERS]:
            shutil.rmtree(old, ignore_errors=True)  # never the listed one, which is the newest
        listed = self.listed(audience)
        assert listed is not None
        return listed


def save(session: Session, name: str, path: Path, part: Part | None = None, *, by_folder: bool = False) -> None:
    """Write the rows of a relation that the session sees. part: limits the rows; None writes all.

    by_folder: leave out the evaluation's id, which is in the name of the file's folder.
    """
    types = types_of(name)
    columns = {column: kind for column, kind in types.items() if not (by_folder and column == "evaluation_id")}
    parts = [part]
    if part is not None and name in OF_EVALUATION:  # one evaluation at a time, so that no engine sorts the rows of all
        parts = [replace(part, evaluations=(number,)) for number in part.evaluations]
    queries = (query_of(name, relation_part).execution_options(yield_per=BATCH) for relation_part in parts)
    values = as_written((row for query in queries for row in session.execute(query)), types)
    with parquet(path, columns) as append:
        while rows := list(islice(values, BATCH)):
            append(rows)


def write_files(order: Mapping[str, Any]) -> None:
    """Write an audience's files, in a separate process. order: url, home and audience."""
    engine = get_engine(order["url"])
    settings = Settings(database_url=order["url"], home=Path(order["home"]))
    Files(engine, settings).write(order["audience"])


def _name(path: Path) -> str:
    """Return the name of a file in a query's process."""
    return f"{SCHEME}://{path}"


def _age(listed: Listed) -> float:
    """Return the age of a list in seconds; infinite for a list of the future, after the clock was set back."""
    age = time.time() - listed.as_of.timestamp()
    return age if age > -CLOCKS_APART_SECONDS else inf


def _list_seen(session: Session) -> dict[str, list[int]]:
    """Map each table to the ids of the rows that this session's audience sees."""
    return {table.__tablename__: list(session.scalars(select(table.id))) for table in _SEEN}
