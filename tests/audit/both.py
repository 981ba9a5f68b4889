"""Reads one log by the audit and by the import, so that tests can compare the results."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from registry.logs.audit.checks import check
from registry.logs.audit.gathered import Gathered, Questions
from registry.logs.audit.readers import files_of, sources_of
from registry.logs.beside import overall_beside
from registry.logs.formats import FORMATS
from registry.logs.formats.table import read_table
from registry.logs.recognition import log_file, read_log
from registry.logs.record import KnownQuestion, Recorded
from tests.audit.logs import Log
from tests.outputs.logs import agree


@dataclass
class Both:
    """Answers and right options of a log, by position, as the audit and the import read them; −1 for none."""

    audited: list[int]
    audited_keys: list[int]
    imported: list[int]
    imported_keys: list[int]

    @property
    def accuracy(self) -> float:
        """Return the share of imported answers that are right."""
        right = sum(at == key for at, key in zip(self.imported, self.imported_keys, strict=True))
        return right / len(self.imported)


def list_known(log: Log) -> dict[str, KnownQuestion]:
    """Return the questions of a log in the form of a benchmark's questions."""
    questions: dict[str, KnownQuestion] = {}
    for item in log.items:
        number = len(questions)
        questions.setdefault(
            item.id, KnownQuestion(number, item.id, number, item.question, tuple(item.options), item.key)
        )
    return questions


def run_import(path: Path, format_: str, questions: dict[str, KnownQuestion]) -> list[Recorded]:
    """Return the answers of a log as an import reads them. Raises IngestError if the import would."""
    stated = None
    recorded: Iterable[Recorded]
    if format_ == "table":
        table = read_table(path, questions)
        recorded = table.recorded(next(iter(table.labels)))
    elif (read_lines := FORMATS[format_].read_lines) is not None:
        recorded, stated = read_lines(path, questions), overall_beside(path, format_)
    else:
        file = log_file(path)
        assert file is not None
        log = read_log(file, questions)
        recorded, stated = log.recorded, log.overall
    return agree(recorded, stated, path.name)


def log_in(folder: Path) -> Path:
    """Return the only log in a folder."""
    (path,) = (file for file in files_of(folder) if sources_of(file, {}))
    return path


def both(folder: Path, format_: str, log: Log) -> Both:
    """Read the log in a folder by the audit and by the import."""
    path = log_in(folder)
    source = sources_of(path, {})[0]  # an import uses the filter of the first sample, too
    seen = Gathered(source, Questions()).read()
    once = ~check(seen).again
    taken = run_import(path, format_, list_known(log))
    return Both(
        seen.column("position")[once].tolist(),
        seen.column("key")[once].tolist(),
        [-1 if item.shown_position is None else item.shown_position for item in taken],
        [item.order.index(item.question.answer) for item in taken],
    )
