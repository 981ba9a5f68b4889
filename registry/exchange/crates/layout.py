"""What a crate holds besides an evaluation's folder (`registry/proof/folder.py`), and how values stand in it."""

from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from registry.db import JsonDocument, UtcDateTime
from registry.digests import sha256_file
from registry.errors import IngestError
from registry.files.documents import read_document
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.proof.folder import ASKED, METRICS, columns_of
from registry.tables import Question
from registry.untrusted import decode

LONGEST_NAME: Final = 255
"""Bytes of a file's name in a folder."""
MAX_ITEMS: Final = 1_000_000
"""Items of a list in a column of a crate."""
MAX_DOCUMENT: Final = 64 << 20
"""Bytes of a JSON document of a folder: it is read whole."""
METADATA: Final = "ro-crate-metadata.json"
QUESTIONS: Final = "questions.parquet"
SAID: Final = "registry.json"
PROOF: Final = "proof.json"
"""The chain and its signatures, where one covers the seal: not every crate has it."""

FILES: Final[dict[str, str]] = {
    EVALUATION: "What was evaluated and how, who scored it, its seal, and the digests of its other files",
    SAID: "What its registry says of it: analyses, withdrawals, and its place in the chain",
    QUESTIONS: "Every question of the benchmark version and of its few-shot pool, with options and answer",
    ASKED: "The questions that were asked, with the digest that the seal covers of each, and its variants and shard",
    PREDICTIONS: "One row for each prompt: what was shown, the answer, probabilities, and what the model wrote",
    METRICS: "Every metric over every part of the benchmark, with its interval",
}
"""File to what it holds."""


def inside(root: Path, name: Any) -> Path:
    """A file of a folder that somebody else wrote. Raises IngestError for one outside, a link, and for none."""
    parts = PurePosixPath(name).parts if isinstance(name, str) and len(name.encode()) <= LONGEST_NAME else ()
    # Before anything is opened: a path that leads out of the folder would read other files.
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\x00" in name:
        raise IngestError(f"the file {str(name)[:200]!r} is outside the folder; it is refused")
    path = root
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise IngestError(f"{name}: is a link; such a folder has only files")
    if not path.is_file():
        raise IngestError(f"{name}: is missing; fetch the folder again")
    return path


def json_of(root: Path, name: str) -> Any:
    """The JSON document of a file. Raises IngestError."""
    path = inside(root, name)
    if path.stat().st_size > MAX_DOCUMENT:
        raise IngestError(f"{name}: is larger than {MAX_DOCUMENT} bytes")
    return read_document(path, name)


def changed_files(root: Path) -> list[str]:
    """The files of a crate that are not those that its metadata describes. Raises IngestError where it is no crate."""
    found = json_of(root, METADATA)
    graph = found.get("@graph") if isinstance(found, dict) else None
    if not isinstance(graph, list) or not all(isinstance(entity, dict) for entity in graph):
        raise IngestError(f"{METADATA}: has no @graph of entities, so it is not an RO-Crate")
    kinds = [(entity, entity.get("@type")) for entity in graph]
    files = [entity for entity, kind in kinds if "File" in (kind if isinstance(kind, list) else [kind])]
    listed = {entity.get("@id"): entity.get("sha256") for entity in files}
    missing = [name for name in FILES if name not in listed]
    if missing:
        raise IngestError(f"{METADATA}: does not list {', '.join(missing)}; the crate is incomplete, fetch it again")
    return [name for name, digest in listed.items() if sha256_file(inside(root, name)) != digest]


QUESTION_COLUMNS: Final = columns_of(Question, "id", "benchmark_version_id")


def from_file(table: Any, name: str, value: Any) -> Any:
    """The same value as the database takes it."""
    kind = table.__table__.columns[name].type
    if value is None:
        return None
    if isinstance(kind, UtcDateTime):
        return datetime.fromisoformat(value)
    return decode(value, items=MAX_ITEMS) if isinstance(kind, JsonDocument) else value
