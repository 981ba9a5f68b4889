"""Rows of a dataset's files, and their conversion to questions by a recipe."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, is_table, read_cells, read_lines, shorten
from registry.benchmarks.recipes.recipe import Answer, Columns, Files
from registry.errors import IngestError
from registry.files.documents import read_document

_COLUMN: Final = re.compile(r"\{([^{}:]+)(?::0(\d))?\}")
_LABEL: Final = re.compile(r"\(?([A-Za-z])\)\s*")
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")

Row = dict[str, Any]


def documents(
    files: Iterable[tuple[Path, str, str]], part: Files, columns: Columns, repository: str
) -> Iterator[tuple[Place, Row]]:
    """Yield each row of some files in the form of the benchmark contract.

    files: (path on this machine, text that the pattern's `*` matched, path in the repository).
    Raises IngestError naming repository, file, row, column and value.
    """
    counted = 0
    of_subject: Counter[str | None] = Counter()
    for path, star, name in files:
        for place, row in _read_rows_as(path, f"{repository} {name}"):
            if part.limit is not None and counted == part.limit:
                return
            _extract(place, row, columns)
            numbers: Row = {"row": counted, "part": star}
            subject = _optional_text(place, row | numbers, columns.subject)
            numbers["nth"] = of_subject[subject]
            yield place, _document(place, numbers | row, columns, subject)
            counted += 1
            of_subject[subject] += 1


def _read_rows_as(path: Path, named: str) -> Iterator[tuple[Place, Row]]:
    """Yield the rows of a file. named: the file's name in messages."""
    try:
        for place, row in read_rows(path):
            yield Place(path, place.line, named), row
    except IngestError as error:
        raise IngestError(f"{named}{str(error).removeprefix(path.name)}") from None


def _document(place: Place, row: Row, columns: Columns, subject: str | None) -> Row:
    if isinstance(columns.options, list):
        options = [_text(place, row, template) for template in columns.options]
    else:
        options = _list_texts(place, row, columns.options)
    document = {
        "id": _text(place, row, columns.id),
        "subject": subject,
        "question": _text(place, row, columns.question),
        "options": _strip_labels(place, options) if columns.labelled else options,
        "answer": _answer(place, row, columns.answer, options),
    }
    if columns.context is not None:
        document["context"] = _optional_text(place, row, columns.context)
    return document


def _extract(place: Place, row: Row, columns: Columns) -> None:
    for column, pattern in columns.extract.items():
        text = _value(place, row, column)
        match = re.search(pattern, text) if isinstance(text, str) else None
        if match is None:
            place.reject(
                f"column {column!r} is {shorten(text)!r}, which is not as the recipe expects it; the dataset's form "
                "has changed: name a --revision that has the old one, or write a recipe of your own"
            )
        row |= match.groupdict()


def _value(place: Place, row: Row, path: str) -> Any:
    """Return a column's value; a dot selects a field of a record, or of every record of a list."""
    if path in row:
        return row[path]
    value: Any = row
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and all(isinstance(item, dict) and name in item for item in value):
            value = [item[name] for item in value]
        else:
            place.reject(
                f"there is no column {path!r}; there are {', '.join(sorted(row))[:200]}: name a --revision of the "
                "dataset that has it, or write a recipe of your own"
            )
    return value


def _text(place: Place, row: Row, template: str) -> str:
    def fill(match: re.Match[str]) -> str:
        value = _value(place, row, match[1])
        if isinstance(value, bool) or not isinstance(value, str | int):
            place.reject(f"column {match[1]!r} is {shorten(value)!r}, not a text; check the dataset or the recipe")
        return str(value).zfill(int(match[2] or 0))

    return _COLUMN.sub(fill, template)


def _optional_text(place: Place, row: Row, template: str | None) -> str | None:
    """Return a template's text; None without a template, and if its only column is empty."""
    if template is None:
        return None
    single = _COLUMN.fullmatch(template)
    if single and _value(place, row, single[1]) in (None, ""):
        return None
    return _text(place, row, template)


def _list_texts(place: Place, row: Row, path: str) -> list[str]:
    """Return the texts of a list, or of a record whose keys are the labels."""
    value = _value(place, row, path)
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value) if value[key] is not None]
    if not isinstance(value, list):
        place.reject(f"column {path!r} is {shorten(value)!r}, not a list of options; check the dataset or the recipe")
    return value


def _strip_labels(place: Place, options: Sequence[str]) -> list[str]:
    matches = [_LABEL.match(option) if isinstance(option, str) else None for option in options]
    for index, (match, option) in enumerate(zip(matches, options, strict=True)):
        if match is None or ord(match[1].upper()) - ord("A") != index:
            place.reject(
                f"option {index} is {shorten(option)!r}, which does not begin with its label; check the dataset"
            )
    return [option[match.end() :] for match, option in zip(matches, options, strict=True) if match is not None]


def _answer(place: Place, row: Row, answer: Answer, options: Sequence[str]) -> int:
    """Return the 0-based index of the right option. Rejects a value that matches none, quoting the row's value."""
    index = _index(place, row, answer, options)
    if not 0 <= index < len(options):
        column = answer.letter or answer.index or answer.number
        value = _value(place, row, str(column))
        count = len(options)
        last = chr(ord("A") + count - 1)
        expected = {
            "letter": f"the {count} options have the letters A to {last}",
            "index": f"index counts the {count} options from 0 to {count - 1}; if it counts from 1, use answer.number",
            "number": f"number counts the {count} options from 1 to {count}; if it counts from 0, use answer.index",
        }
        form = next(name for name in expected if getattr(answer, name) is not None)
        place.reject(f"column {column!r} is {shorten(value)!r}, which is none of its options: {expected[form]}")
    return index


def _index(place: Place, row: Row, answer: Answer, options: Sequence[str]) -> int:
    if answer.first:
        return 0
    if answer.label is not None:
        assert answer.among is not None
        return _find_option(place, answer.label, _value(place, row, answer.label), _value(place, row, answer.among))
    if answer.text is not None:
        return _find_option(place, answer.text, _value(place, row, answer.text), list(options))
    if answer.one_hot is not None:
        return _find_option(place, answer.one_hot, 1, _value(place, row, answer.one_hot))
    if answer.letter is not None:
        letter = _value(place, row, answer.letter)
        if not (
            isinstance(letter, str)
            and len(letter.strip()) == 1
            and letter.strip().isascii()
            and letter.strip().isalpha()
        ):
            place.reject(
                f"column {answer.letter!r} is {shorten(letter)!r}, not a letter such as 'A'; check the dataset"
            )
        return ord(letter.strip().upper()) - ord("A")
    column = answer.index if answer.index is not None else answer.number
    assert column is not None
    number = _value(place, row, column)
    if isinstance(number, list) and len(number) == 1:
        [number] = number
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    text = str(number).strip()
    if isinstance(number, bool) or not isinstance(number, int | str) or not _NUMBER.fullmatch(text):
        place.reject(f"column {column!r} is {shorten(number)!r}, not a number; check the dataset or the recipe")
    return int(text) if answer.index is not None else int(text) - 1


def _find_option(place: Place, column: str, value: Any, among: Any) -> int:
    if not isinstance(among, list) or among.count(value) != 1:
        place.reject(
            f"column {column!r} does not single out one option: {shorten(value)!r} among {shorten(among)!r}; check "
            "the dataset"
        )
    return among.index(value)


def read_rows(path: Path) -> Iterator[tuple[Place, Row]]:
    """Yield the rows of a Parquet, Arrow, JSON Lines, JSON, CSV, TSV or Excel file; a row's number is its line.

    Raises IngestError for a file that is damaged or unpacks to too much. Values that no database can store are left to
    the caller.
    """
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        yield from read_lines(path)
    elif name.endswith(".parquet"):
        from registry.files.parquet import parquet_rows  # pyarrow takes long to load

        yield from _number_rows(path, parquet_rows(path))
    elif name.endswith(".arrow"):
        from registry.files.arrow import arrow_rows

        yield from _number_rows(path, arrow_rows(path))
    elif is_table(path):
        yield from _cells(path)
    elif name.endswith(".json"):
        yield from _records(path)
    else:
        raise IngestError(
            f"{path.name}: unknown kind of file; a recipe reads .parquet, .arrow, .jsonl, .json, .csv, .tsv, .xlsx"
        )


def _number_rows(path: Path, rows: Iterable[Row]) -> Iterator[tuple[Place, Row]]:
    yield from ((Place(path, number), row) for number, row in enumerate(rows, start=1))


def _cells(path: Path) -> Iterator[tuple[Place, Row]]:
    heading: list[str] | None = None
    for place, cells in read_cells(path):
        if heading is None:
            heading = cells
        elif len(cells) != len(heading):
            place.reject(f"has {len(cells)} cells, not {len(heading)} as the heading; check the file")
        else:
            yield place, dict(zip(heading, cells, strict=True))


def _records(path: Path) -> Iterator[tuple[Place, Row]]:
    """Yield the records of a JSON document, which is in memory as a whole."""
    listed = read_document(path)
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise IngestError(f"{path.name}: is not a list of records; choose another file of the dataset")
    yield from _number_rows(path, listed)
