"""One-line errors about a disk or a database file that is full, failing or damaged."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from registry.errors import ShuffleboardError, StorageError
from registry.proposals import propose
from registry.settings import get_settings

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Error numbers for no space, no quota, and a file larger than `ulimit -f` allows."""
_SQLITE: Final = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_IOERR: "failing",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
}
_POSTGRESQL: Final = {"53100": "full", "58030": "failing", "XX001": "damaged", "XX002": "damaged"}
"""SQLSTATE to the state of the server's disk."""
_REMEDIES: Final = {
    "full": "the disk is full ({reason}); free space on it and run the command again: what it was storing was undone",
    "failing": "the disk cannot be read or written ({reason}); check it and its free space, and run the command again",
    "damaged": f"is damaged ({{reason}}); see the damage with `{propose('verify', '--all')}`, or restore a backup",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise StorageError naming `path` if the disk under it is full.

    If blocks are nested, the error names the outer path, which the user gave.
    """
    try:
        yield
    except (OSError, StorageError) as error:
        full = error.__cause__ if isinstance(error, StorageError) else error
        if not isinstance(full, OSError) or full.errno not in _FULL:
            raise
        raise StorageError(f"{path}: {_no_room(full, path)}") from full


def explain(error: BaseException) -> ShuffleboardError | None:
    """Return a one-line StorageError if a full or failing disk or a damaged database caused this error; else None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            where = f"{error.filename}: " if error.filename else "the output: "
            return StorageError(where + _no_room(error, Path(error.filename) if error.filename else None))
        trouble = _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF) or _POSTGRESQL.get(
            getattr(error, "sqlstate", None) or ""
        )
        if trouble:
            reason = str(error).splitlines()[0]
            return StorageError(f"database {_database()}: {_REMEDIES[trouble].format(reason=reason)}")
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__  # type: ignore[assignment]
    return None


def _no_room(error: OSError, path: Path | None) -> str:
    place = next((folder for folder in (path, *path.parents) if folder.exists()), None) if path else None
    free = f", {shutil.disk_usage(place).free >> 20} MiB are free on its disk" if place else ""
    remedy = "free space or choose another disk, and run it again: nothing of it was kept"
    return f"cannot be written ({error.strerror}{free}); {remedy}"


def _database() -> str:
    try:
        return make_url(get_settings().resolve_database_url()).render_as_string(hide_password=True)
    except ArgumentError:
        return ""
