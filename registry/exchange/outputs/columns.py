"""Recorded letters in a table: one row a question (`question_id`), one column a model, a letter or nothing in a cell.

The letter is the answered position on the original order. An empty cell, and a letter beyond the options shown, is no
valid answer.
"""

import csv
import gzip
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from registry.benchmarks.lines import Place, shown
from registry.errors import IngestError, UsageError
from registry.exchange.outputs.record import KnownQuestion, Recorded, find_question
from registry.prompting.labels import LETTERS


def read_columns(path: Path, questions: Mapping[str, KnownQuestion], column: str | None) -> Iterator[Recorded]:
    """Each row's answer in one model's column. Raises UsageError naming the columns when `column` is not among them."""
    with _open(path) as stream:
        rows = csv.DictReader(stream)
        columns = [
            name for name in rows.fieldnames or () if name not in ("question_id", "subject", "n_options", "correct")
        ]
        if column not in columns:
            given = "is needed" if column is None else f"{column!r} is not in {path.name}"
            raise UsageError(f"--column {given}; it has one column per model: {', '.join(columns)}")
        for number, row in enumerate(rows, start=2):
            place = Place(path, number)
            question = find_question(place, questions, row["question_id"])
            yield Recorded(
                place, question, 0, tuple(range(len(question.options))), True, _position(place, question, row[column])
            )


def is_table_of_columns(path: Path) -> bool:
    """Whether the file is a CSV whose heading begins with question_id."""
    if not path.name.endswith((".csv", ".csv.gz")):
        return False
    try:
        with _open(path) as stream:
            return stream.readline().startswith("question_id,")
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise IngestError(f"{path.name}: cannot be read as CSV ({error}); save it as UTF-8") from None


def _open(path: Path) -> TextIO:
    opened = gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # noqa: SIM115 - the caller closes it
    return io.TextIOWrapper(cast("BinaryIO", opened), encoding="utf-8", newline="")


def _position(place: Place, question: KnownQuestion, cell: str | None) -> int | None:
    letter = (cell or "").strip().upper()
    if not letter:
        return None
    if len(letter) != 1 or letter not in LETTERS:
        place.reject(f"answer {shown(cell)} is not a letter; leave the cell empty for no valid answer")
    position = LETTERS.index(letter)
    return position if position < len(question.options) else None
