"""Strict readers of JSON Lines and tables, for every such file from a user."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn

from registry.errors import IngestError
from registry.files.absent import no_such_file
from registry.files.allowance import RECORD
from registry.files.packed import Lines
from registry.untrusted import MAX_ITEMS, RefusedError, TooDeepError, decode, problem_of_text

csv.field_size_limit(RECORD)  # a context may be longer than the default limit of 128 KiB


LONGEST_MESSAGE: Final = 2000
"""Most characters of a message about a line, which may quote a value several times."""


TABLES: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx")
"""Endings of the file names of tables."""


class Place:
    """A line of a user's file, for error messages. named: the file's name in messages; None: its real name."""

    __slots__ = ("line", "named", "path")

    def __init__(self, path: Path, line: int, named: str | None = None) -> None:
        self.path = path
        self.line = line
        self.named = named

    def describe(self) -> str:
        """Return the place within its file."""
        return f"line {self.line}"

    def reject(self, problem: str) -> NoReturn:
        """Raise IngestError for this line. problem: the problem with its value, and the remedy."""
        raise IngestError(f"{self.named or self.path.name} line {self.line}: {shorten(problem, LONGEST_MESSAGE)}")


def shorten(value: Any, limit: int = 80) -> str:
    """Return a value as one line of at most `limit` characters, for messages."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split(None, limit))  # a value may have a million characters
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quote(value: Any) -> str:
    """Return a value as JSON, shortened: texts in quotation marks, numbers without."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str))


def read_lines(path: Path, *, constants: bool = False) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield each JSON object of a `.jsonl` or `.jsonl.gz` file with its place, skipping blank lines.

    constants: accept NaN and Infinity, which the caller then has to refuse in place of numbers. Raises IngestError as
    `raw_lines` does, and for invalid UTF-8, a line that is not a JSON object, NaN or infinity, a repeated key, and
    characters that no database text can contain.
    """
    for place, content in raw_lines(path):
        yield place, _parse(content, place, constants=constants)


def raw_lines(path: Path) -> Iterator[tuple[Place, bytes]]:
    r"""Yield each line of a file, compressed or not, with its place, skipping blank lines.

    Lines end at `\n` only: U+0085 and U+2028 occur inside questions of real benchmarks.
    Raises IngestError for a missing or damaged file, a file that unpacks to too much, and a line that is too long.
    """
    try:
        with Lines(path) as lines:
            for raw in lines:
                lines.begin()
                content = raw.removeprefix(b"\xef\xbb\xbf") if lines.number == 1 else raw
                if content.strip():
                    yield Place(path, lines.number), content
    except FileNotFoundError:
        raise no_such_file(path) from None
    except IsADirectoryError:
        raise IngestError(f"{path}: is a folder; give a file in it") from None
    except PermissionError:
        raise IngestError(f"{path}: permission denied; check who may read it") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise IngestError(f"{path.name}: damaged gzip file ({error}); fetch or compress it again") from None


def is_table(path: Path) -> bool:
    """Return whether `read_cells` reads files with this ending."""
    return path.name.lower().endswith(TABLES)


def read_cells(path: Path) -> Iterator[tuple[Place, list[str]]]:
    """Yield each row of a table with its place, the heading first; empty rows are left out.

    The table is a `.csv` or `.tsv` file, which may be compressed (`.gz`), or an `.xlsx` workbook. The heading
    determines the separator: comma, semicolon, tab or bar.

    The line of a place is the number of the row, 1 for the heading, since a cell may have several lines.
    Raises IngestError for a missing or damaged file, a file that unpacks to too much, and text that is not UTF-8.
    """
    if path.name.lower().endswith(".xlsx"):
        from registry.files.spreadsheets import spreadsheet_rows  # pandas takes long to load

        filled = (cells for cells in spreadsheet_rows(path) if any(cells))
        yield from ((Place(path, number), cells) for number, cells in enumerate(filled, start=1))
        return
    first_line = 1
    try:
        with Lines(path) as lines:
            number = 0
            texts = iter(lines.texts())
            first = next(texts, "")
            reader = csv.reader(chain([first], texts), strict=True, delimiter=_delimiter(first))
            for cells in reader:
                first_line = reader.line_num + 1
                lines.begin()
                if cells:
                    number += 1
                    place = Place(path, number)
                    if len(cells) > MAX_ITEMS:
                        place.reject(f"has {len(cells):,} cells; give at most {MAX_ITEMS:,}")
                    yield place, cells
    except FileNotFoundError:
        raise no_such_file(path) from None
    except csv.Error as error:
        unclosed = "unexpected end of data" in str(error)
        reason = "a cell opens a quotation mark that nothing closes" if unclosed else shorten(str(error))
        Place(path, first_line).reject(f"{reason}; write two quotation marks for one within a cell")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = f"{shorten(str(error))}; check the file, and save it as UTF-8, its lines ended by LF or CRLF"
        raise IngestError(f"{path.name}: cannot be read as a table: {reason}") from None


def _delimiter(heading: str) -> str:
    """Return the separator of a heading: a comma if it contains one, else its most frequent other separator."""
    if "," in heading:
        return ","
    return max(";\t|", key=heading.count) if any(mark in heading for mark in ";\t|") else ","


def _parse(raw: bytes, place: Place, *, constants: bool) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place.reject(f"byte 0x{raw[error.start]:02x} at column {error.start + 1} is not UTF-8; save the file as UTF-8")
    try:
        document = decode(text, constants=constants)
    except TooDeepError:
        place.reject("nested too deeply to be a record; give one flat JSON object per line")
    except RefusedError as error:
        place.reject(str(error))
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        place.reject(f"not JSON ({reason}): {shorten(text.strip())!r}; give one JSON object per line")
    if not isinstance(document, dict):
        place.reject(f"{shorten(document)!r} is not a JSON object; give one object per line")
    return document


def check_text(place: Place, name: str, text: str) -> str:
    """Return the text if a database can store it; NUL and lone surrogates are rejected."""
    problem = problem_of_text(text)
    if problem is not None:
        place.reject(f"{name} {problem}")
    return text
