"""Recorded labels in a table: a row for each question (`question_id`), a column for each model, labels in the cells.

A label is a letter, a digit or an option's text, in the original order; the column `correct` contains the key. An empty
cell, or a letter beyond the options shown, is no valid answer.
"""

import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from registry.benchmarks.lines import Place, is_table, quote, read_cells, shorten
from registry.errors import IngestError, UsageError
from registry.logs.format import TABLE, Format
from registry.logs.labels import Written, read_label
from registry.logs.record import Known, KnownQuestion, Recorded, Seen, Source, Unusable, find_question
from registry.prompting.labels import LETTERS

ABOUT_THE_QUESTION: Final = ("question_id", "subject", "n_options", "correct")
"""Columns that do not belong to a model."""

KEY: Final = "correct"


@dataclass(frozen=True)
class Table:
    """The cells of the chosen columns. rows: each row's line, question and key. labels: column → labels, row by row."""

    path: Path
    rows: Sequence[tuple[int, KnownQuestion, Written | None]]
    labels: Mapping[str, Sequence[Written]]

    def recorded(self, column: str) -> Iterator[Recorded]:
        """Yield the answers of one column."""
        for (line, question, key), label in zip(self.rows, self.labels[column], strict=True):
            order = tuple(range(len(question.options)))
            yield Recorded(Place(self.path, line), question, 0, order, True, None, answer=label, key=key)


def read_table(path: Path, questions: Mapping[str, KnownQuestion], columns: Sequence[str] = ()) -> Table:
    """Read the given columns, or all models' columns, and check each cell.

    Raises UsageError for a missing column, IngestError for an invalid heading or cell.
    """
    lines = read_cells(path)
    heading = [name.strip() for name in next(lines)[1]]
    columns = _choose_columns(path, heading, columns)
    places = {name: heading.index(name) for name in columns}
    rows: list[tuple[int, KnownQuestion, Written | None]] = []
    labels: dict[str, list[Written]] = {name: [] for name in columns}
    keyed = heading.index(KEY) if KEY in heading else None
    for place, cells in lines:
        if len(cells) != len(heading):
            place.reject(f"{len(cells)} cells under {len(heading)} headings; give each column one cell")
        question = find_question(place, questions, cells[0])
        key = None if keyed is None or not cells[keyed].strip() else _read_cell(place, KEY, question, cells[keyed])
        rows.append((place.line, question, key))
        for name, at in places.items():
            labels[name].append(_read_cell(place, name, question, cells[at]))
    return Table(path, rows, labels)


def _choose_columns(path: Path, heading: Sequence[str], requested: Sequence[str]) -> list[str]:
    """Return the columns to read, in the order of the file."""
    for number, name in enumerate(heading, start=1):
        if not name:
            raise IngestError(f"{path.name} line 1: column {number} has no heading; name its model")
        if name in heading[: number - 1]:
            raise IngestError(f"{path.name} line 1: column {quote(name)} is there twice; give each model one column")
    models = [name for name in heading if name not in ABOUT_THE_QUESTION]
    missing = [name for name in requested if name not in models]
    if missing or not models:
        problem = f"--column {missing[0]!r} is not in {path.name}" if missing else f"{path.name} has no model's column"
        raise UsageError(f"{problem}; it has one column per model: {shorten(', '.join(models), 400) or 'none'}")
    return [name for name in models if not requested or name in requested]


def is_table_of_columns(path: Path) -> bool:
    """Return whether the file is a table whose heading begins with question_id."""
    if not is_table(path):
        return False
    _, heading = next(read_cells(path), (None, [""]))
    return heading[0] == "question_id"


def _read_cell(place: Place, column: str, question: KnownQuestion, cell: str) -> Written:
    label = read_label(cell, question.options)
    beyond = len(label.value) == 1 and label.value.upper() in LETTERS
    if set(label.positions) == {None} and label.value and not beyond:
        place.reject(
            f"column {quote(column)}: answer {quote(cell)} is neither a letter, nor a number or text of the options; "
            "leave the cell empty for no valid answer, or choose the columns that are models' with --column"
        )
    return label


# Records as written, for an audit


def _list_sources(path: Path, _head: None, known: Known) -> list[Source]:
    """Return a log for each model's column of letters; the key is in `correct`, else in a file of questions."""
    lines = read_cells(path)
    heading = [name.strip() for name in next(lines, (None, [""]))[1]]
    if heading[0] != "question_id":
        return []
    about = {
        name: heading.index(name) for name in ("question_id", "subject", "n_options", "correct") if name in heading
    }
    rows: list[_Row] = []
    columns: dict[str, list[str]] = {name: [] for name in heading if name not in about}
    places = {name: heading.index(name) for name in columns}
    for where, cells in lines:
        if len(cells) != len(heading):
            raise IngestError(f"{path.name} line {where.line}: {len(cells)} cells under {len(heading)} headings")
        text, options, key = known.get(cells[0], (None, (), None))
        count = cells[about["n_options"]].strip() if "n_options" in about else ""
        if not options and count.isdecimal() and int(count) < len(LETTERS):
            options = tuple(LETTERS[: int(count)])
        correct = cells[about["correct"]].strip() if "correct" in about else ""
        rows.append(_Row(where.line, cells[0], text, options, correct, key))
        for column, at in places.items():
            columns[column].append(sys.intern(cells[at].strip()))
    task = path.name.split(".")[0]
    width = _count_options(rows, columns.values())
    rows = [_read_key(row, width) for row in rows]
    return [Source(path, TABLE, name, task, _column(name, rows, column), part=name) for name, column in columns.items()]


class _Row(NamedTuple):
    """A row of a table. correct: its key as written. key: the position of its question's right option.

    keyed: the key as written, read among the options, or among as many letters as the table has.
    """

    line: int
    name: str
    text: str | None
    options: tuple[str, ...]
    correct: str
    key: int | None
    keyed: Written | None = None


def _read_key(row: _Row, width: int) -> _Row:
    options = row.options or tuple(LETTERS[:width])
    return row._replace(options=options, keyed=read_label(row.correct, options) if row.correct else None)


def _count_options(rows: Sequence[_Row], columns: Iterable[Sequence[str]]) -> int:
    """Return the number of options that the labels of a table without option texts can name: at least four."""
    values = {row.correct for row in rows}.union(*columns)
    letters = [LETTERS.find(unicodedata.normalize("NFKC", value).upper()) for value in values if len(value) == 1]
    numbers = [int(value) for value in values if value.isdecimal() and len(value) < _LONG_NUMBER]
    return min(max([4, *(at + 1 for at in letters), *numbers]), len(LETTERS))


_LONG_NUMBER: Final = 3


def _column(name: str, rows: Sequence[_Row], column: Sequence[str]) -> Iterator[Seen | Unusable]:
    for row, cell in zip(rows, column, strict=True):
        answer = read_label(cell, row.options)
        beyond = len(cell) == 1 and cell.upper() in LETTERS
        if cell and not beyond and set(answer.positions) == {None}:
            yield Unusable(f"line {row.line}", f"column {shorten(name, 40)}: {shorten(cell, 40)!r} is no label")
            continue
        yield Seen(
            f"line {row.line}",
            row.name,
            row.text,
            row.options,
            row.key,
            None,
            texts=row.text is not None,
            answer=answer,
            keyed=row.keyed,
        )


FORMAT: Final = Format(
    TABLE,
    "table",
    "table",
    frozenset({"question_id"}),
    {"question_id": "q1", "correct": "A", "my-model": "B"},
    _list_sources,
    program="Table of letters",
    recognised="`.csv`, `.tsv` or `.xlsx` whose heading begins with `question_id`",
    becomes="An evaluation for each column, on the original order",
)
