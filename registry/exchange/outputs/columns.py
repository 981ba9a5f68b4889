"""Recorded letters in a table: one row a question (`question_id`), one column a model, a letter or nothing in a cell.

The letter is the answered position on the original order. An empty cell, and a letter beyond the options shown, is no
valid answer.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from registry.benchmarks.lines import Place, read_cells, shown
from registry.errors import UsageError
from registry.exchange.outputs.record import KnownQuestion, Recorded, find_question
from registry.prompting.labels import LETTERS


def read_columns(path: Path, questions: Mapping[str, KnownQuestion], column: str | None) -> Iterator[Recorded]:
    """Each row's answer in one model's column. Raises UsageError naming the columns when `column` is not among them."""
    rows = read_cells(path)
    _, heading = next(rows)
    columns = [name for name in heading if name not in ("question_id", "subject", "n_options", "correct")]
    if column not in columns:
        given = "is needed" if column is None else f"{column!r} is not in {path.name}"
        raise UsageError(f"--column {given}; it has one column per model: {', '.join(columns)}")
    of_question, of_model = heading.index("question_id"), heading.index(column)
    for place, cells in rows:
        if len(cells) != len(heading):
            place.reject(f"has {len(cells)} cells, the heading {len(heading)}; repair the row")
        question = find_question(place, questions, cells[of_question])
        position = _position(place, question, cells[of_model])
        yield Recorded(place, question, 0, tuple(range(len(question.options))), True, position)


def is_table_of_columns(path: Path) -> bool:
    """Whether the file is a CSV whose heading begins with question_id."""
    if not path.name.endswith((".csv", ".csv.gz")):
        return False
    _, heading = next(read_cells(path), (None, [""]))
    return heading[0] == "question_id"


def _position(place: Place, question: KnownQuestion, cell: str | None) -> int | None:
    letter = (cell or "").strip().upper()
    if not letter:
        return None
    if len(letter) != 1 or letter not in LETTERS:
        place.reject(f"answer {shown(cell)} is not a letter; leave the cell empty for no valid answer")
    position = LETTERS.index(letter)
    return position if position < len(question.options) else None
