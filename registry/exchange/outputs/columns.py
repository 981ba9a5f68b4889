"""Recorded labels in a table: one row a question (`question_id`), one column a model, a label or nothing in a cell.

A label is a letter, a digit or an option's text, on the original order; `correct` holds the key. An empty cell, and a
letter beyond the options shown, is no valid answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from registry.benchmarks.lines import Place, is_table, read_cells, shorten, shown
from registry.errors import IngestError, UsageError
from registry.exchange.outputs.labels import Written, read_label
from registry.exchange.outputs.record import KnownQuestion, Recorded, find_question
from registry.prompting.labels import LETTERS

ABOUT_THE_QUESTION: Final = ("question_id", "subject", "n_options", "correct")
"""Columns that are no model's."""

KEY: Final = "correct"


@dataclass(frozen=True)
class Table:
    """The cells of some columns. rows: the line, the question and the key of each. labels: by column, row by row."""

    path: Path
    rows: Sequence[tuple[int, KnownQuestion, Written | None]]
    labels: Mapping[str, Sequence[Written]]

    def recorded(self, column: str) -> Iterator[Recorded]:
        """The answers of one column."""
        for (line, question, key), label in zip(self.rows, self.labels[column], strict=True):
            order = tuple(range(len(question.options)))
            yield Recorded(Place(self.path, line), question, 0, order, True, None, answer=label, key=key)


def read_table(path: Path, questions: Mapping[str, KnownQuestion], columns: Sequence[str] = ()) -> Table:
    """The given columns, or those of all models, checked cell by cell.

    Raises UsageError for a column that is not there, IngestError for a heading or a cell that does not hold.
    """
    lines = read_cells(path)
    heading = [name.strip() for name in next(lines)[1]]
    columns = _columns(path, heading, columns)
    places = {name: heading.index(name) for name in columns}
    rows: list[tuple[int, KnownQuestion, Written | None]] = []
    labels: dict[str, list[Written]] = {name: [] for name in columns}
    keyed = heading.index(KEY) if KEY in heading else None
    for place, cells in lines:
        if len(cells) != len(heading):
            place.reject(f"{len(cells)} cells under {len(heading)} headings; give each column one cell")
        question = find_question(place, questions, cells[0])
        key = None if keyed is None or not cells[keyed].strip() else _label(place, KEY, question, cells[keyed])
        rows.append((place.line, question, key))
        for name, at in places.items():
            labels[name].append(_label(place, name, question, cells[at]))
    return Table(path, rows, labels)


def _columns(path: Path, heading: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The columns to be read, in the order of the file."""
    for number, name in enumerate(heading, start=1):
        if not name:
            raise IngestError(f"{path.name} line 1: column {number} has no heading; name its model")
        if name in heading[: number - 1]:
            raise IngestError(f"{path.name} line 1: column {shown(name)} is there twice; give each model one column")
    models = [name for name in heading if name not in ABOUT_THE_QUESTION]
    missing = [name for name in asked if name not in models]
    if missing or not models:
        what = f"--column {missing[0]!r} is not in {path.name}" if missing else f"{path.name} has no model's column"
        raise UsageError(f"{what}; it has one column per model: {shorten(', '.join(models), 400) or 'none'}")
    return [name for name in models if not asked or name in asked]


def is_table_of_columns(path: Path) -> bool:
    """Return whether the file is a table whose heading begins with question_id."""
    if not is_table(path):
        return False
    _, heading = next(read_cells(path), (None, [""]))
    return heading[0] == "question_id"


def _label(place: Place, column: str, question: KnownQuestion, cell: str) -> Written:
    label = read_label(cell, question.options)
    beyond = len(label.value) == 1 and label.value.upper() in LETTERS
    if set(label.positions) == {None} and label.value and not beyond:
        place.reject(
            f"column {shown(column)}: answer {shown(cell)} is neither a letter, nor a number or text of the options; "
            "leave the cell empty for no valid answer, or choose the columns that are models' with --column"
        )
    return label
