"""What the readers of other programs' whole logs share: JSON documents and archives, read with errors that say where.

A log is one document, not lines: it is read into memory once, and its answers are kept.
"""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from registry.benchmarks.lines import Place, check_text, shorten, shown
from registry.errors import IngestError
from registry.files.documents import parse_document, read_document
from registry.files.packed import Archive
from registry.logs.record import Recorded
from registry.names import MAX_LABEL

_KINDS: Final[Mapping[type, str]] = {dict: "an object", list: "a list", str: "text", int: "a whole number"}
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Log:
    """The answers of a log and what it says of itself.

    about: the run, the model and the program, kept with the evaluation. metric, stated: the overall score that the log
    states, None where it states none. shots: the most examples that a prompt held, where the log says so. remarks: what
    the importer should know. left_out: answers that the overall score may count and that are not among `recorded`.
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
        """The score that the answers must have; None if the log states none, or one of other answers."""
        return None if self.left_out else self.stated


def load_json(path: Path, *, storable: bool = True) -> Any:
    """The one JSON document of a file; NaN, which some programs write, is let in, and all else unless `storable`.

    Raises IngestError for a missing, cut-off or damaged file, and one that takes too much memory.
    """
    return read_document(path, constants=True, storable=storable)


def open_archive(path: Path) -> Archive:
    """A zip archive for reading. Raises IngestError for a damaged one, and one that unpacks to too much."""
    try:
        return Archive(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise IngestError(f"{path.name}: damaged or cut-off archive ({shorten(str(error))}); fetch it again") from None


def archived_json(archive: Archive, name: str, *, storable: bool = True) -> Any:
    """One JSON document of an archive. Raises IngestError naming archive and entry."""
    where = f"{archive.path.name} {shorten(name)}"
    try:
        content = archive.content(name)
    except (OSError, zipfile.BadZipFile, zlib.error, ValueError) as error:
        raise IngestError(f"{where}: cannot be read ({shorten(str(error))}); fetch the log again") from None
    return parse_document(content, where, constants=True, storable=storable)


def members(place: Place, document: Mapping[str, Any], key: str, kind: type[Kind]) -> Kind:
    """document[key], of the kind that it has to be; rejects anything else."""
    value = document.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        place.reject(f"{key} {shown(value)} is not {_KINDS[kind]}; the log is damaged, or of another version")
    return value


def objects(place: Place, document: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """The objects of the list document[key]."""
    for index, value in enumerate(members(place, document, key, list)):
        if not isinstance(value, dict):
            place.reject(f"{key}[{index}] {shown(value)} is not an object; the log is damaged, or of another version")
        yield value


def texts(place: Place, document: Mapping[str, Any], key: str) -> list[str]:
    """The texts of the list document[key]."""
    values = members(place, document, key, list)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            place.reject(f"{key}[{index}] {shown(value)} is not text; the log is damaged, or of another version")
    return list(values)


def described(path: Path, document: Mapping[str, Any]) -> dict[str, str]:
    """What of a description is known, as texts. Rejects one that is no name: pages show it as a whole."""
    place = Place(path, 1)
    found = {key: str(value) for key, value in document.items() if value is not None}
    for key, text in found.items():
        if len(check_text(place, key, text)) > MAX_LABEL:
            place.reject(f"{key} {shown(text)} has {len(text):,} characters; a name has at most {MAX_LABEL}")
    return found
