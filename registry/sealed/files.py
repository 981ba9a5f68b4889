"""The files of an exported evaluation, and their manifest.

An export consists of the files of the folder in which a registry stores the sealed evaluation (`folder.py`), and of

    questions.parquet    every question of the benchmark version and of its few-shot pool, with options and answer
    registry.json        records made after sealing: analyses and withdrawals
    chain.json           the chain of the registry's seals and folders, with signatures of its head if there is a key
    manifest.json        the seal, and the size and SHA-256 of every other file

The other files determine every byte of the manifest.
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
"""Keys of a file's entry in the manifest."""

LONGEST_NAME: Final = 255
"""Maximum length of a file's name, in bytes."""
MAX_ITEMS: Final = 1_000_000
"""Maximum number of items in a list in a column."""
MAX_DOCUMENT: Final = 64 << 20
"""Maximum size of a JSON document, in bytes: it is read into memory."""

QUESTION_COLUMNS: Final = columns_of(Question, "id", "benchmark_version_id")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with sorted keys."""
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def manifest_of(root: Path, seal: str) -> dict[str, Any]:
    """Return the manifest of an export's files."""
    files = [
        {"file": name, "bytes": (root / name).stat().st_size, "sha256": sha256_file(root / name)}
        for name in sorted(FILES)
    ]
    return {"format": FORMAT, formats.NUMBER: formats.EXPORT, "seal": seal, "files": files}


def find_changed_files(root: Path) -> dict[str, str]:
    """Map each file of an exported evaluation that differs from the manifest to the difference.

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
    changed = find_changed_entries(root, entries)
    changed |= {name: f"is missing in {MANIFEST}" for name in FILES if name not in {*changed, *_names(entries)}}
    listed = {*_names(entries), MANIFEST}
    for path in sorted(root.iterdir()):
        if path.name not in listed or not path.is_file() or path.is_symlink():
            changed.setdefault(path.name, f"is not a file that {MANIFEST} lists")
    if not changed:
        seal = read_json(root, EVALUATION).get("seal")
        text = json.dumps(manifest_of(root, seal), ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        if (root / MANIFEST).read_bytes() != text.encode():
            changed[MANIFEST] = "is not the manifest of these files"
    return changed


def find_changed_entries(root: Path, entries: Any) -> dict[str, str]:
    """Map each file that is missing or differs from its entry in the manifest to the difference."""
    changed = {}
    for entry in entries:
        path = safe_path(root, entry["file"])
        if not path.is_file():
            changed[entry["file"]] = "is missing"
        elif sha256_file(path) != entry["sha256"]:
            changed[entry["file"]] = f"is not the file that {MANIFEST} lists (SHA-256 differs)"
    return changed


def _names(entries: Any) -> list[str]:
    return [entry["file"] for entry in entries]


def reject(name: str, problem: str) -> NoReturn:
    """Raise IngestError that names a file and its problem."""
    message = f"{name}: {problem}"
    raise IngestError(message)


def safe_path(root: Path, name: Any) -> Path:
    """Return the path of a file, which may be missing, in a folder that another party wrote.

    Raises IngestError if the path leads out of the folder or contains a link.
    """
    parts = PurePosixPath(name).parts if isinstance(name, str) and len(name.encode()) <= LONGEST_NAME else ()
    # This must come before anything is opened: a path out of the folder would read other files.
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\x00" in name:
        raise IngestError(f"the file {str(name)[:200]!r} is outside the folder; it is refused")
    path = root
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise IngestError(f"{name}: is a link; such a folder has only files")
    return path


def require_file(root: Path, name: Any) -> Path:
    """Return the path of a file in a folder that another party wrote. Raises IngestError if it is missing or unsafe."""
    path = safe_path(root, name)
    if not path.is_file():
        raise IngestError(f"{name}: is missing; fetch the folder again")
    return path


def read_json(root: Path, name: str) -> Any:
    """Return the JSON document of a file. Raises IngestError if it is missing, unsafe, too large or not JSON."""
    path = require_file(root, name)
    if path.stat().st_size > MAX_DOCUMENT:
        raise IngestError(f"{name}: is larger than {MAX_DOCUMENT} bytes")
    return read_document(path, name)


def from_file(table: Any, name: str, value: Any) -> Any:
    """Convert a column's value in a file to the value that the database stores."""
    kind = table.__table__.columns[name].type
    if value is None:
        return None
    if isinstance(kind, UtcDateTime):
        return datetime.fromisoformat(value)
    return decode(value, items=MAX_ITEMS) if isinstance(kind, JsonDocument) else value
