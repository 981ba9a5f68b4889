"""The files of an exported evaluation, and their manifest.

An export is the folder in which a registry keeps the sealed evaluation (`folder.py`), file by file, with

    questions.parquet    every question of the benchmark version and of its few-shot pool, with options and answer
    registry.json        records made after sealing: analyses and withdrawals
    chain.json           the chain of the registry's seals and folders, with signatures of its head if there is a key
    manifest.json        the seal, and the size and SHA-256 of every other file

Nothing in the manifest is free: the other files determine all of its bytes.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from registry import formats
from registry.db import JsonDocument, UtcDateTime
from registry.digests import sha256_file
from registry.errors import IngestError
from registry.files.documents import read_document
from registry.files.manifests import MANIFEST
from registry.predictions.archive_files import EVALUATION
from registry.sealed import folder
from registry.sealed.folder import columns_of
from registry.tables import Question
from registry.untrusted import decode

FORMAT: Final = "evaluation"
QUESTIONS: Final = "questions.parquet"
RECORDED: Final = "registry.json"
CHAIN: Final = "chain.json"
FILES: Final = (*folder.FILES, QUESTIONS, RECORDED, CHAIN)
"""Files that the manifest lists."""
_ENTRY: Final = frozenset({"file", "bytes", "sha256"})
"""Keys of a file in the manifest."""

LONGEST_NAME: Final = 255
"""Bytes of a file's name in a folder."""
MAX_ITEMS: Final = 1_000_000
"""Items of a list in a column of a file."""
MAX_DOCUMENT: Final = 64 << 20
"""Bytes of a JSON document of a folder, which is read whole."""

QUESTION_COLUMNS: Final = columns_of(Question, "id", "benchmark_version_id")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with sorted keys."""
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def manifest_of(root: Path, seal: str) -> dict[str, Any]:
    """Return the manifest of the files that are in a folder."""
    files = [
        {"file": name, "bytes": (root / name).stat().st_size, "sha256": sha256_file(root / name)}
        for name in sorted(FILES)
    ]
    return {"format": FORMAT, formats.NUMBER: formats.EXPORT, "seal": seal, "files": files}


def find_changed_files(root: Path) -> dict[str, str]:
    """Return the files of an exported evaluation that are not as they were written, each with the difference.

    Raises IngestError if the manifest cannot be read, or has another format or number.
    """
    document = read_json(root, MANIFEST)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        reject(MANIFEST, "is not the manifest of an exported evaluation; give the folder of `evaluations export`")
    formats.require_known(MANIFEST, "export", document.get(formats.NUMBER), formats.EXPORT)
    entries = document.get("files")
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and entry.keys() >= _ENTRY for entry in entries
    ):
        reject(MANIFEST, "does not list its files as this program does; fetch the folder again")
    found = find_changed_entries(root, entries)
    found |= {name: f"is missing in {MANIFEST}" for name in FILES if name not in {*found, *_names(entries)}}
    listed = {*_names(entries), MANIFEST}
    for path in sorted(root.iterdir()):
        if path.name not in listed or not path.is_file() or path.is_symlink():
            found.setdefault(path.name, f"is not a file that {MANIFEST} lists")
    if not found:
        seal = read_json(root, EVALUATION).get("seal")
        text = json.dumps(manifest_of(root, seal), ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        if (root / MANIFEST).read_bytes() != text.encode():
            found[MANIFEST] = "is not the manifest of these files"
    return found


def find_changed_entries(root: Path, entries: Any) -> dict[str, str]:
    """Return the files that are missing or differ from these entries of a manifest, each with the difference."""
    found = {}
    for entry in entries:
        path = safe_path(root, entry["file"])
        if not path.is_file():
            found[entry["file"]] = "is missing"
        elif sha256_file(path) != entry["sha256"]:
            found[entry["file"]] = f"is not the file that {MANIFEST} lists (SHA-256 differs)"
    return found


def _names(entries: Any) -> list[str]:
    return [entry["file"] for entry in entries]


def reject(name: str, problem: str) -> NoReturn:
    """Raise IngestError about a file."""
    message = f"{name}: {problem}"
    raise IngestError(message)


def safe_path(root: Path, name: Any) -> Path:
    """Return the path of a file of a folder that someone else wrote; it may be missing.

    Raises IngestError for a path out of the folder, and for a link.
    """
    parts = PurePosixPath(name).parts if isinstance(name, str) and len(name.encode()) <= LONGEST_NAME else ()
    # Before anything is opened: a path that leads out of the folder would read other files.
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\x00" in name:
        raise IngestError(f"the file {str(name)[:200]!r} is outside the folder; it is refused")
    path = root
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise IngestError(f"{name}: is a link; such a folder has only files")
    return path


def require_file(root: Path, name: Any) -> Path:
    """Return the path of a file of a folder that someone else wrote. Raises IngestError, also if it is missing."""
    path = safe_path(root, name)
    if not path.is_file():
        raise IngestError(f"{name}: is missing; fetch the folder again")
    return path


def read_json(root: Path, name: str) -> Any:
    """Return the JSON document of a file. Raises IngestError."""
    path = require_file(root, name)
    if path.stat().st_size > MAX_DOCUMENT:
        raise IngestError(f"{name}: is larger than {MAX_DOCUMENT} bytes")
    return read_document(path, name)


def from_file(table: Any, name: str, value: Any) -> Any:
    """Return a column's value in a file as the database takes it."""
    kind = table.__table__.columns[name].type
    if value is None:
        return None
    if isinstance(kind, UtcDateTime):
        return datetime.fromisoformat(value)
    return decode(value, items=MAX_ITEMS) if isinstance(kind, JsonDocument) else value
