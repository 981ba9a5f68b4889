"""Which program wrote a log, told by its form."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from registry.benchmarks.lines import Place
from registry.errors import IngestError
from registry.exchange.outputs.forms import (
    HELM,
    KEYS,
    LIGHTEVAL,
    OPENCOMPASS,
    STATE_FILE,
    form_of_document,
    is_archive,
    is_document,
)
from registry.exchange.outputs.helm import helm_questions, read_helm
from registry.exchange.outputs.inspect_log import inspect_archive, inspect_document, inspect_questions, read_inspect
from registry.exchange.outputs.lighteval import read_lighteval
from registry.exchange.outputs.logs import Log, load_json
from registry.exchange.outputs.opencompass import read_opencompass
from registry.exchange.outputs.record import KnownQuestion
from registry.files.parquet import parquet_columns


def log_file(path: Path) -> Path | None:
    """The file of a log: `path` itself, or the state file of HELM's run folder; None where it is no log of a program.

    Logs are folders, archives and `.json` files that hold one document. Other files hold lines.
    Raises IngestError for a folder that holds no run.
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
        return None  # whoever reads it as lines says why it cannot be read
    return path if is_log else None


def read_log(path: Path, questions: Mapping[str, KnownQuestion]) -> Log:
    """The answers of a log, `path` being what `log_file` returned. Raises IngestError for one of another program."""
    if is_archive(path):
        header, samples = inspect_archive(path)
        return read_inspect(path, header, samples, questions)
    if _is_details(path):
        return read_lighteval(path, questions)
    form, document = _document(path)
    if form == HELM:
        return read_helm(path, document, questions)
    if form == OPENCOMPASS:
        return read_opencompass(path, document, questions)
    header, samples = inspect_document(path, document)
    return read_inspect(path, header, samples, questions)


def log_questions(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The questions of a log as lines of a benchmark file. Raises IngestError for a log of another program."""
    if is_archive(path):
        return inspect_questions(inspect_archive(path)[1])
    if _is_details(path):
        raise IngestError(f"{path.name}: lighteval's details have no lists of options; import the benchmark itself")
    form, document = _document(path)
    if form == HELM:
        return helm_questions(path, document)
    if form == OPENCOMPASS:
        raise IngestError(
            f"{path.name}: OpenCompass's predictions have no lists of options; import the benchmark itself"
        )
    return inspect_questions(inspect_document(path, document)[1])


def _is_details(path: Path) -> bool:
    """Whether a Parquet file is one of lighteval's details."""
    return path.suffix == ".parquet" and set(parquet_columns(path)) >= KEYS[LIGHTEVAL]


def _document(path: Path) -> tuple[str, dict[str, Any]]:
    """(format, content) of a log that is one document."""
    document = load_json(path)
    form = form_of_document(document) if isinstance(document, dict) else None
    if form is None:
        raise IngestError(
            f"{path.name}: is neither a scenario state of HELM, a log of Inspect AI nor predictions of OpenCompass; "
            "give JSON Lines (.jsonl, for Every Eval Ever NAME_samples.jsonl), or a file of a program that "
            "`shuffleboard evaluations import --help` lists"
        )
    return form, document
