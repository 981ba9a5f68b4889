"""Recognition of a file's format by its form."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place
from registry.errors import IngestError
from registry.files.packed import ZIP_MAGIC
from registry.logs.documents import Log, load_json
from registry.logs.format import INSPECT, LIGHTEVAL, OPENCOMPASS, STATE_FILE, Format
from registry.logs.formats import FORMATS
from registry.logs.formats.inspect_log import inspect_archive, inspect_document
from registry.logs.record import KnownQuestion
from registry.proposals import propose
from registry.untrusted import decode_answer

_LONGEST_LINE: Final = 1 << 20
"""A longer first line is a whole document: lines of JSON Lines are shorter."""


def form_of_line(line: Mapping[str, Any]) -> str | None:
    """Return the format of JSON Lines, by the first line; None if it is unknown."""
    return next((form for form in _LINES if line.keys() >= FORMATS[form].keys), None)


def form_of_document(document: Mapping[str, Any]) -> str | None:
    """Return the format of a log of one document; None if it is unknown.

    OpenCompass's predictions are numbered from 0, each with its prediction.
    """
    first = document.get("0")
    if isinstance(first, dict) and "prediction" in first and ("gold" in first or "origin_prompt" in first):
        return OPENCOMPASS
    return next((form for form in _DOCUMENTS if document.keys() >= FORMATS[form].keys), None)


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive, or should be one by its name."""
    with path.open("rb") as stream:
        return stream.read(len(ZIP_MAGIC)) == ZIP_MAGIC or path.suffix == ".eval"


def is_document(path: Path) -> bool:
    """Return whether a file's name and first line show one JSON document, not JSON Lines."""
    if path.suffix != ".json":
        return False
    with path.open("rb") as stream:
        first = stream.readline(_LONGEST_LINE)
        if not first.endswith(b"\n") and stream.read(1):
            return True
    try:
        line = decode_answer(first.decode("utf-8-sig"))
    except ValueError:
        return True
    return not isinstance(line, dict) or form_of_document(line) is not None


_LINES: Final = tuple(name for name, format_ in FORMATS.items() if format_.layout == "lines")
_DOCUMENTS: Final = tuple(
    name for name, format_ in FORMATS.items() if format_.layout == "document" and name != OPENCOMPASS
)


def log_file(path: Path) -> Path | None:
    """Return a log's file: `path` itself, or the state file of HELM's run folder; None if it is not a program's log.

    Logs are folders, archives and `.json` files with one document. Other files contain lines.
    Raises IngestError for a folder without a run.
    """
    if path.is_dir():
        state = path / STATE_FILE
        if not state.is_file():
            raise IngestError(f"{path}: is a folder without {STATE_FILE}, so not a HELM run; give a file in it")
        return state
    if not path.is_file():
        return None
    try:
        is_log = is_archive(path) or _is_details(path) or is_document(path)
    except OSError:
        return None  # the reader of lines reports why it cannot be read
    return path if is_log else None


def read_log(path: Path, questions: Mapping[str, KnownQuestion]) -> Log:
    """Read the answers of a log. path: from `log_file`. Raises IngestError for an unknown program's log."""
    format_, head = _recognise(path)
    assert format_.read_log is not None
    return format_.read_log(path, head, questions)


def log_questions(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Return the questions of a log as lines of a benchmark file. Raises IngestError if it has none."""
    format_, head = _recognise(path)
    if format_.questions is None:
        raise IngestError(f"{path.name}: logs of {format_.title} have no lists of options; import the benchmark itself")
    return format_.questions(path, head)


def _recognise(path: Path) -> tuple[Format, Any]:
    """Return the format and the head of a log; the head is its parsed content, as the format's functions take it."""
    if is_archive(path):
        return FORMATS[INSPECT], inspect_archive(path)
    if _is_details(path):
        return FORMATS[LIGHTEVAL], None
    recognised = document_of(path)
    if recognised is None:
        raise IngestError(
            f"{path.name}: is neither a scenario state of HELM, a log of Inspect AI nor predictions of OpenCompass; "
            "give JSON Lines (.jsonl, for Every Eval Ever NAME_samples.jsonl), or a file of a program that "
            f"`{propose('evaluations import', '--help')}` lists"
        )
    return recognised


def document_of(path: Path, *, storable: bool = True) -> tuple[Format, Any] | None:
    """Return the format and the head of a log that is one document; None for another document."""
    document = load_json(path, storable=storable)
    form = form_of_document(document) if isinstance(document, dict) else None
    if form is None:
        return None
    return FORMATS[form], inspect_document(path, document) if form == INSPECT else document


def _is_details(path: Path) -> bool:
    """Return whether a file is a Parquet file with lighteval's details."""
    if path.suffix != ".parquet":
        return False
    from registry.files.parquet import parquet_columns  # loads pyarrow

    return set(parquet_columns(path)) >= FORMATS[LIGHTEVAL].keys
