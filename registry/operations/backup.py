"""Backup and restore of the running registry: the database as one file, next to the folders of sealed evaluations.

SQLite's file is a database that can be opened directly; PostgreSQL's is written by its own client (pg_dump, custom
format). Both contain password hashes and hidden benchmarks, so only the owner may read them.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, Engine, text

from registry import formats
from registry.db import get_engine, is_pooled, read_session, write_session
from registry.errors import DatabaseError, UsageError
from registry.files.documents import read_document
from registry.files.storage import writing
from registry.files.stores import store_at
from registry.operations import migrate
from registry.proposals import propose
from registry.queue import generation
from registry.schema import history
from registry.sealed.archiving import YOUNG_SECONDS, bring_along, take_along

SQLITE_MAGIC: Final = b"SQLite format 3\0"
POSTGRESQL_MAGIC: Final = b"PGDMP"
DEBIAN_PROGRAMS: Final = Path("/usr/lib/postgresql")
"""Folder of the clients on Debian, with a folder for each major version."""

_OBJECTS: Final = text(
    "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    "WHERE nspname <> 'information_schema' AND nspname !~ '^pg_' AND relkind IN ('r', 'p', 'v', 'm', 'S') "
    "AND pg_class.oid NOT IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_class'::regclass)"
)


FOLDERS: Final = ".folders"
"""Suffix of the folder next to a backup that contains the folders of sealed evaluations."""
DESCRIPTION: Final = "backup.json"
"""File in that folder with the number of the backup's format. The database's file is in the engine's own format."""
_SCRATCH: Final = ".backup-"
"""Prefix of a folder that contains an incomplete file."""


@dataclass(frozen=True)
class Backup:
    """A written backup: the file, its bytes, its engine, and the revision of its schema.

    folders: number of folders of sealed evaluations next to it. problems: problems with other folders.
    """

    path: Path
    size: int
    engine: str
    revision: str
    folders: int
    problems: list[str]


@dataclass(frozen=True)
class Restored:
    """The outcome of a restore.

    from_revision: the file's revision; an older one was upgraded to `revision`. sealed: number of evaluations whose
    seals were computed again. problems: differences that this found.
    """

    from_revision: str
    revision: str
    sealed: int
    problems: list[str]


def backup(url: str, path: Path) -> Backup:
    """Write the whole database into a new file, as of one moment, and the folders that it refers to.

    Raises UsageError if the file exists, DatabaseError if the database cannot be read, the file cannot be written, or
    PostgreSQL's client is missing or older than the server. A failed backup leaves no file.
    """
    engine = get_engine(url)
    revision = history.current(engine)
    if revision is None:
        raise DatabaseError(f"database {history.name_database(engine)} is empty: there is nothing to back up")
    folders_target = path.with_name(path.name + FOLDERS)
    for existing in (path, folders_target):
        if existing.exists():
            raise UsageError(f"{existing}: already exists; give another file, or move that one away")
    with _write_then_rename(path) as scratch:
        if engine.dialect.name == "sqlite":
            _copy_sqlite(_sqlite_path(engine.url), scratch)
        else:
            _require_no_pooler(engine)
            _dump_postgresql(engine.url, _server_version(url), scratch)
        size = scratch.stat().st_size
        folders = scratch.with_name(folders_target.name)
        # Copied after the database: folders never change, and additional ones do no harm.
        with read_session(engine) as session:
            count, problems = take_along(session, store_at(str(folders)))
        if count:
            (folders / DESCRIPTION).write_text(json.dumps({formats.NUMBER: formats.BACKUP}) + "\n", encoding="utf-8")
            folders.rename(folders_target)
        scratch.rename(path)
    return Backup(path, size, engine.dialect.name, revision, count, problems)


def restore(url: str, path: Path) -> Restored:
    """Fill an empty database with a backup, upgrade it to this code's schema, and verify everything sealed in it.

    Folders of sealed evaluations that are missing or changed here are copied from the backup's.

    Raises UsageError for a file that is no backup or one of the other engine, IngestError for an unknown format,
    DatabaseError for a database that is not empty and for a failed restore, which leaves it empty.
    """
    from registry.sealed.verification import verify_all

    engine = get_engine(url)
    _require_backup_of(engine.dialect.name, path)
    _require_known_folders(path.with_name(path.name + FOLDERS))
    engine.dispose()  # its file is about to be replaced
    if engine.dialect.name == "sqlite":
        _fill_sqlite(engine.url, path)
    else:
        _fill_postgresql(url, path)
    engine.dispose()
    before = history.current(engine)
    assert before is not None
    revision = migrate.upgrade(url)
    # Workers with claims from the original database can store nothing in this one.
    with write_session(engine) as session:
        generation.draw(session, generation.RESTORED)
    with read_session(engine) as session:
        bring_along(session, store_at(str(path.with_name(path.name + FOLDERS))))
        report = verify_all(session)
    return Restored(before, revision, len(report["evaluations"]), problems_of(report))


def problems_of(report: dict[str, Any]) -> list[str]:
    """Return every problem in a report of `verify_all`, each with its evaluation."""
    in_evaluations = [
        f"evaluation {evaluation['evaluation']}: {problem}"
        for evaluation in report["evaluations"]
        for problem in evaluation["problems"]
    ]
    return [*in_evaluations, *report["problems"]]


@contextmanager
def _write_then_rename(path: Path) -> Iterator[Path]:
    """Yield a file on the same disk that becomes `path` when it is complete; only its owner may read it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{_SCRATCH}*"):  # left by a process that was killed
            if (
                time.time() - max(path_inside.stat().st_mtime for path_inside in (left, *left.rglob("*")))
                > YOUNG_SECONDS
            ):
                shutil.rmtree(left)
        with TemporaryDirectory(prefix=_SCRATCH, dir=path.parent) as folder:
            scratch = Path(folder) / path.name
            scratch.touch(mode=0o600)
            with writing(path):
                yield scratch
    except OSError as error:
        raise DatabaseError(f"{path}: cannot be written ({error.strerror}); check folder and free space") from None


def _require_backup_of(engine_name: str, path: Path) -> None:
    try:
        with path.open("rb") as stream:
            magic = stream.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if magic == SQLITE_MAGIC:
        file_engine = "sqlite"
    elif magic.startswith(POSTGRESQL_MAGIC):
        file_engine = "postgresql"
    else:
        raise UsageError(f"{path}: not a backup (it begins with {magic!r}); give a file that `db backup` wrote")
    if file_engine != engine_name:
        names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
        raise UsageError(
            f"{path}: is a backup of {names[file_engine]}, but the database is on {names[engine_name]}; restore it on "
            f"{names[file_engine]}, then: {propose('db move', '--to', 'URL')}"
        )


def _require_known_folders(folders: Path) -> None:
    """Raise IngestError if a backup's folders, which may be missing, have an unknown format number."""
    if folders.exists():
        description = read_document(folders / DESCRIPTION)
        number = description.get(formats.NUMBER) if isinstance(description, dict) else None
        formats.require_known(str(folders / DESCRIPTION), "backup", number, formats.BACKUP)


# SQLite


def _sqlite_path(url: URL) -> Path:
    if not url.database or url.database == ":memory:":
        raise UsageError("an in-memory database cannot be backed up or restored; use a file")
    return Path(url.database)


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database by SQLite's backup interface in one step, while others go on writing."""
    try:
        with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
            here.backup(there)
            # Wherever this file replaces a database, the registry has another generation.
            if there.execute("SELECT 1 FROM sqlite_master WHERE name = 'registry_generation'").fetchone():
                there.execute("UPDATE registry_generation SET place = NULL")
                there.commit()
            # A single file, without the -wal that the mode of the original would add.
            there.execute("PRAGMA journal_mode=DELETE")
            (verdict,) = there.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        disk = target.parent.parent
        raise DatabaseError(f"{source}: could not be copied to {disk} ({error}); check it and the free space") from None
    if verdict != "ok":
        raise DatabaseError(f"{source}: is damaged ({verdict}); restore an older backup")


def _fill_sqlite(url: URL, path: Path) -> None:
    target = _sqlite_path(url)
    if target.exists():
        try:
            with closing(sqlite3.connect(target)) as connection:
                (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError:
            objects = 1  # something else
        if objects:
            raise DatabaseError(f"{target}: is not empty; move the file away, with {target.name}-wal if that exists")
    _check_revision(path)
    with _write_then_rename(target) as scratch:
        _copy_sqlite(path, scratch)
        for ending in ("-wal", "-shm"):
            target.with_name(target.name + ending).unlink(missing_ok=True)
        scratch.replace(target)


def _check_revision(path: Path) -> None:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            (version,) = connection.execute(f"SELECT version FROM {history.STAMP}").fetchone()  # noqa: S608 - our own
    except (sqlite3.Error, TypeError):
        raise UsageError(f"{path}: is an SQLite file, but not a registry; give a file that `db backup` wrote") from None
    history.require_known(str(path), history.SchemaOrigin(revision, version))


# PostgreSQL


def _server_version(url: str) -> int:
    """Return the server's major version."""
    with get_engine(url).connect() as connection:
        return int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10000


def _require_no_pooler(engine: Engine) -> None:
    """Raise UsageError if the database's URL leads to a connection pooler.

    pg_dump and pg_restore empty the search path of their connection, so its next user would find no table.
    """
    if is_pooled(engine):
        raise UsageError(
            f"{history.name_database(engine)} is a connection pooler; set SHUFFLEBOARD_DIRECT_DATABASE_URL to the "
            "URL of the server behind it"
        )


def client_program(name: str, at_least: int) -> Path:
    """Return the PostgreSQL program `name`: from PATH if it is new enough, else the newest one installed.

    Raises DatabaseError if there is none of at least that major version.
    """
    on_path = shutil.which(name)
    candidates = [Path(on_path)] if on_path else []
    folders = [folder for folder in DEBIAN_PROGRAMS.glob("*/bin") if folder.parent.name.isdecimal()]
    candidates += [folder / name for folder in sorted(folders, key=lambda one: -int(one.parent.name))]
    versions: list[int] = []
    for program in candidates:
        if program.exists():
            versions.append(_major_version(program))
            if versions[-1] >= at_least:
                return program
    if not versions:
        raise DatabaseError(f"{name} is not installed here; install PostgreSQL's client programs, {at_least} or newer")
    raise DatabaseError(
        f"{name} is from PostgreSQL {max(versions)}, older than the server's {at_least}; install the client programs "
        f"of PostgreSQL {at_least}"
    )


def _major_version(program: Path) -> int:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    number = re.search(r"\) (\d+)", output)
    return int(number[1]) if number else 0


def _connection_string(url: URL) -> tuple[str, dict[str, str]]:
    """Return a client's connection string without the password, and the environment with it."""
    place: dict[str, Any] = {**url.translate_connect_args(username="user", database="dbname"), **url.query}
    password = place.pop("password", None)
    place.pop("sslpassword", None)
    environment = os.environ | ({"PGPASSWORD": str(password)} if password else {})
    return make_conninfo(**place), environment


def _run(program: Path, arguments: Sequence[str], url: URL | None, doing: str) -> str:
    """Run a client program, connected to `url` if given, and return its output.

    Raises DatabaseError with its first error.
    """
    conninfo, environment = ("", dict(os.environ)) if url is None else _connection_string(url)
    connected = () if url is None else ("--no-password", f"--dbname={conninfo}")
    done = subprocess.run(  # noqa: S603 - our own arguments
        [program, *connected, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines()
        reason = lines[0].removeprefix(f"{program.name}: ") if lines else f"status {done.returncode}"
        raise DatabaseError(f"{doing} failed: {program.name}: {reason}; fix that and run it again")
    return done.stdout


def _dump_postgresql(url: URL, server: int, target: Path) -> None:
    _run(client_program("pg_dump", server), ["--format=custom", f"--file={target}"], url, "the backup")


def _fill_postgresql(url: str, path: Path) -> None:
    engine = get_engine(url)
    history.current(engine)  # raises the right error if it cannot be reached
    with engine.connect() as connection:
        objects = connection.scalar(_OBJECTS)
    if objects:
        raise DatabaseError(f"database {history.name_database(engine)} is not empty; create an empty one and use that")
    _require_no_pooler(engine)
    program = client_program("pg_restore", _server_version(url))
    listing = ["--file=-", "--data-only", "--table=alembic_version", f"--table={history.STAMP}", str(path)]
    output = _run(program, listing, None, "reading the backup")
    revision = re.search(r"^COPY \S*alembic_version .*\n(\w+)$", output, re.MULTILINE)
    version = re.search(rf"^COPY \S*{history.STAMP} .*\n(\S+)$", output, re.MULTILINE)
    if revision is None or version is None:
        raise UsageError(f"{path}: does not contain a registry; give a file that `db backup` wrote")
    history.require_known(str(path), history.SchemaOrigin(revision[1], version[1]))
    # In one transaction. Tables are filled before their triggers are made. Owners and rights are those of another
    # server's roles: `db roles` sets this one's.
    options = ["--single-transaction", "--no-owner", "--no-privileges", str(path)]
    _run(program, options, engine.url, "the restore")
