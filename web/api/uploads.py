"""Files as bodies of requests: plain, or as fields of a form."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import request
from werkzeug.exceptions import UnprocessableEntity, UnsupportedMediaType
from werkzeug.utils import secure_filename

from web.parameters import shorten

MAX_UPLOAD: Final = 64 * 1024 * 1024
"""Bytes of an uploaded file."""
MULTIPART_ROOM: Final = 64 * 1024
"""Bytes that a form may add to its files: names, boundaries."""
CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Upload:
    """A file as the body of a request, plain or in a form.

    types: content type of a plain body → the ending that stands for the same kind of file. optional: names of further
    files that a form may hold beside `file`.
    """

    types: Mapping[str, str]
    optional: tuple[str, ...] = ()


@contextmanager
def received(upload: Upload) -> Iterator[dict[str, Path]]:
    """The request's files in a folder of their own, by name: `file`, and what else a form holds; gone at the end."""
    request.max_content_length = MAX_UPLOAD + MULTIPART_ROOM
    # As many parts as there are names, and a few that are refused by name.
    request.max_form_parts = 1 + len(upload.optional) + 8
    with tempfile.TemporaryDirectory(prefix="shuffleboard-upload-") as folder:
        if request.mimetype == "multipart/form-data":
            yield _from_form(upload, Path(folder))
        elif request.mimetype in upload.types:
            path = Path(folder) / f"upload{upload.types[request.mimetype]}"
            request.max_content_length = MAX_UPLOAD
            with path.open("wb") as target:
                while chunk := request.stream.read(CHUNK):
                    target.write(chunk)
            yield {"file": path}
        else:
            listed = ", ".join([*upload.types, "multipart/form-data"])
            raise UnsupportedMediaType(f"send the file as one of {listed}, not {content_type()}")


def content_type() -> str:
    """What the request says that its body is, as a message can quote it."""
    return shorten(request.mimetype or "(none)")


def _from_form(upload: Upload, folder: Path) -> dict[str, Path]:
    found = {}
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
        # A folder each: the names of two files may be the same.
        (folder / name).mkdir()
        found[name] = folder / name / shown
        file.save(found[name])
    if "file" not in found:
        raise UnprocessableEntity("field 'file' is missing; give it")
    return found
