"""Search for the files that may be logs, and for the logs in them.

An import refuses a file for one bad record or line; an audit reports it and goes on. Lines are streamed; a log that is
one document is in memory while it is read.
"""

import os
from pathlib import Path
from typing import Final

from registry.benchmarks.lines import TABLES, is_table
from registry.errors import IngestError
from registry.files.absent import no_such_file, refuse_pipe
from registry.logs.files import lines_of
from registry.logs.format import INSPECT, LIGHTEVAL, OUTPUTS, QUESTIONS, STATE_FILE, TABLE
from registry.logs.formats import FORMATS
from registry.logs.formats.inspect_log import inspect_archive
from registry.logs.recognition import document_of, form_of_line, is_archive, is_document
from registry.logs.record import Known, Source

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".eval", ".parquet", *TABLES)
MOST_FILES: Final = 10_000
"""The most files of a folder that are examined."""


def files_of(path: Path) -> list[Path]:
    """Return the files that may be logs: `path` itself, or a folder's files. Raises IngestError if there is none."""
    if not path.is_dir():
        if not path.exists():
            raise no_such_file(path)
        return [path]
    files: list[Path] = []

    def note_unreadable(error: OSError) -> None:
        files.append(Path(error.filename))

    for folder, folders, names in os.walk(path, onerror=note_unreadable):
        folders.sort()
        if STATE_FILE in names:
            files.append(Path(folder, STATE_FILE))
            continue
        files += [Path(folder, name) for name in sorted(names) if name.endswith(SUFFIXES)]
        if len(files) > MOST_FILES:
            raise IngestError(f"{path}: holds more than {MOST_FILES:,} files; audit its folders one by one")
    if not files:
        raise IngestError(f"{path}: holds no log; logs end in {', '.join(SUFFIXES)}")
    return files


def sources_of(path: Path, known: Known) -> list[Source]:
    """Return the logs in a file; empty if no import reads its format. Raises IngestError for a damaged file."""
    name = path.name
    if not path.is_file():
        path.stat()
        if path.is_dir():
            next(path.iterdir(), None)
        refuse_pipe(path)
    if is_table(path):
        return FORMATS[TABLE].sources(path, None, known)
    if name.endswith(".parquet"):
        return FORMATS[LIGHTEVAL].sources(path, None, known)
    if is_archive(path):
        return FORMATS[INSPECT].sources(path, inspect_archive(path, storable=False), known)
    if is_document(path):
        document = document_of(path, storable=False)
        return [] if document is None else document[0].sources(path, document[1], known)
    problem = "is empty; give a log with at least one answer"
    for number, line in lines_of(path):
        if isinstance(line, dict):
            form = form_of_line(line)
            return [] if form is None else FORMATS[form].sources(path, line, known)
        problem = f"line {number}: {line}"
        if number >= _UNREADABLE:
            break
    raise IngestError(f"{name} {problem}" if problem.startswith("line") else f"{name}: {problem}")


_UNREADABLE: Final = 100
"""If this many lines at the beginning of a file are damaged, it is not a file of lines."""


_OWN: Final = [f"{FORMATS[name].title} ({', '.join(sorted(FORMATS[name].keys))})" for name in (OUTPUTS, QUESTIONS)]
_PROGRAMS: Final = [format_.title for name, format_ in FORMATS.items() if name not in {TABLE, OUTPUTS, QUESTIONS}]
READ_FORMATS: Final = (
    f"give a log of {', '.join(_PROGRAMS[:-1])} or {_PROGRAMS[-1]}, a table whose first column is question_id, or JSON "
    f"Lines of {' or '.join(_OWN)}"
)
"""The formats that can be audited, for the message about a file of another format."""
