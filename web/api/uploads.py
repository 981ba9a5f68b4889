"""Files as bodies of requests: plain, or as fields of a form."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import request
from werkzeug.exceptions import UnprocessableEntity, UnsupportedMediaType
from werkzeug.utils import secure_filename

from registry.files.storage import writing
from web.urls.parameters import shorten

MAX_UPLOAD: Final = 64 * 1024 * 1024
"""Largest uploaded file, in bytes."""
MULTIPART_ROOM: Final = 64 * 1024
"""Bytes that a form may have in addition to its files: names, boundaries."""
CHUNK: Final = 1 << 20
PREFIX: Final = "shuffleboard-upload-"


@dataclass(frozen=True)
class Upload:
    """A file as the body of a request, plain or in a form.

    types: content type of a plain body → the file name suffix for it. optional: names of further files that a form may
    have besides `file`.
    """

    types: Mapping[str, str]
    optional: tuple[str, ...] = ()


@contextmanager
def receive(upload: Upload) -> Iterator[dict[str, Path]]:
    """Store the request's files in a new folder and yield their paths: `file`, and a form's others.

    The folder is deleted at the end.
    """
    request.max_content_length = MAX_UPLOAD + MULTIPART_ROOM
    # One part for each name, and a few more, so that unknown names can be refused by name.
    request.max_form_parts = 1 + len(upload.optional) + 8
    with upload_folder() as folder:
        with writing(folder):
            files = _from_form(upload, folder) if request.mimetype == "multipart/form-data" else _plain(upload, folder)
        yield files


def _plain(upload: Upload, folder: Path) -> dict[str, Path]:
    if request.mimetype not in upload.types:
        listed = ", ".join([*upload.types, "multipart/form-data"])
        raise UnsupportedMediaType(f"send the file as one of {listed}, not {content_type()}")
    path = folder / f"upload{upload.types[request.mimetype]}"
    request.max_content_length = MAX_UPLOAD
    with path.open("wb") as target:
        while chunk := request.stream.read(CHUNK):
            target.write(chunk)
    return {"file": path}


@contextmanager
def upload_folder() -> Iterator[Path]:
    """Yield a new folder that is locked while it is in use: an unlocked folder belongs to a killed process."""
    folder, lock = _make_locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make_locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):  # deleted by `sweep` before it was locked
            lock = _open_folder(folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def sweep() -> None:
    """Delete uploads of killed processes from the folder for temporary files."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's folder, a link, or one in use
            lock = _open_folder(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


def content_type() -> str:
    """Return the request's content type in a form for messages."""
    return shorten(request.mimetype or "(none)")


def _from_form(upload: Upload, folder: Path) -> dict[str, Path]:
    paths = {}
    unknown = [name for name in (*request.files, *request.form) if name not in ("file", *upload.optional)]
    if unknown:
        raise UnprocessableEntity(
            f"unknown field {shorten(unknown[0])}; known: {', '.join(('file', *upload.optional))}"
        )
    endings = tuple(dict.fromkeys(upload.types.values()))
    for name, file in request.files.items():
        shown = secure_filename(file.filename or "")[-100:]
        if not shown.endswith(endings):
            raise UnprocessableEntity(f"{name}={shorten(shown)}: give a file whose name ends in {' or '.join(endings)}")
        # A separate folder for each file, since two files may have the same name.
        (folder / name).mkdir()
        paths[name] = folder / name / shown
        file.save(paths[name])
    if "file" not in paths:
        raise UnprocessableEntity("field 'file' is missing; give it")
    return paths
