"""Helpers for logs of other programs that are JSON documents or archives; errors name the place in the log.

Such a log is one document, not lines: it is read into memory once, and its answers are kept.
"""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from registry.benchmarks.lines import Place, check_text, quote, shorten
from registry.errors import IngestError
from registry.files.documents import parse_document, read_document
from registry.files.packed import Archive
from registry.logs.record import Recorded
from registry.names import MAX_LABEL

_KINDS: Final[Mapping[type, str]] = {dict: "an object", list: "a list", str: "text", int: "a whole number"}
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Log:
    """The answers of a log, and its description of itself.

    about: the run, the model and the program, stored with the evaluation. metric, stated: the overall score that the
    log states, None if it states none. shots: the most examples in a prompt, if the log records them. remarks: notes
    for the importer. left_out: number of answers that are not among `recorded` although the overall score may count
    them.
    """

    format: str
    recorded: list[Recorded]
    about: dict[str, str]
    metric: str
    stated: float | None
    shots: int | None = None
    remarks: list[str] = field(default_factory=list)
    left_out: int = 0

    @property
    def overall(self) -> float | None:
        """Return the overall score to compare with the answers; None if the log states none, or for other answers."""
        return None if self.left_out else self.stated


def load_json(path: Path, *, storable: bool = True) -> Any:
    """Return a file's JSON document. NaN is allowed, since some programs write it.

    storable: whether to refuse values that no database stores. Raises IngestError for a missing, cut-off or damaged
    file, or if it takes too much memory.
    """
    return read_document(path, constants=True, storable=storable)


def open_archive(path: Path) -> Archive:
    """Open a zip archive for reading. Raises IngestError if it is damaged or unpacks to too much."""
    try:
        return Archive(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise IngestError(f"{path.name}: damaged or cut-off archive ({shorten(str(error))}); fetch it again") from None


def read_archived_json(archive: Archive, name: str, *, storable: bool = True) -> Any:
    """Return a JSON document of an archive. Raises IngestError naming archive and entry."""
    where = f"{archive.path.name} {shorten(name)}"
    try:
        content = archive.content(name)
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError) as error:
        raise IngestError(f"{where}: cannot be read ({shorten(str(error))}); fetch the log again") from None
    return parse_document(content, where, constants=True, storable=storable)


def members(place: Place, document: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
    """Return document[key] if it is of the required kind; reject anything else."""
    value = document.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        place.reject(f"{key} {quote(value)} is not {_KINDS[kind]}; the log is damaged, or of another version")
    return value


def objects(place: Place, document: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of the list document[key]."""
    for index, value in enumerate(members(place, document, key, list)):
        if not isinstance(value, dict):
            place.reject(f"{key}[{index}] {quote(value)} is not an object; the log is damaged, or of another version")
        yield value


def texts(place: Place, document: Mapping[str, Any], key: str) -> list[str]:
    """Return the texts of the list document[key]."""
    values = members(place, document, key, list)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            place.reject(f"{key}[{index}] {quote(value)} is not text; the log is damaged, or of another version")
    return list(values)


def read_description(path: Path, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the known parts of a log's description as texts. Rejects text that is too long for a name."""
    place = Place(path, 1)
    texts_by_key = {key: str(value) for key, value in document.items() if value is not None}
    for key, text in texts_by_key.items():
        if len(check_text(place, key, text)) > MAX_LABEL:
            place.reject(f"{key} {quote(text)} has {len(text):,} characters; a name has at most {MAX_LABEL}")
    return texts_by_key
