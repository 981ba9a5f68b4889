"""Tables from users: text with any separator, and Excel workbooks."""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.lines import read_cells
from registry.errors import IngestError
from registry.files import spreadsheets

ROWS: tuple[tuple[Any, ...], ...] = (
    ("id", "subject", "question", "options", "answer"),
    ("q1", None, "Which is missing?", json.dumps(["None", "NA", "NaN"]), 1),
    (2, "a\nb", "Is it “nan”; or, 1|2?", json.dumps(["null", "=1+1"]), 0),
    (None, None, None, None, None),
    ("q3", "x", "1.5", json.dumps(["TRUE", "1.0"]), 1),
)
SHEET = "xl/worksheets/sheet1.xml"


def workbook(folder: Path, *sheets: tuple[tuple[Any, ...], ...]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for rows in sheets or (ROWS,):
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    path = folder / "questions.xlsx"
    book.save(path)
    return path


def separate(folder: Path, separator: str, ending: str) -> Path:
    path = folder / f"questions.{ending}"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=separator).writerows(row for row in ROWS if any(row))
    return path


def with_sheet(path: Path, content: bytes) -> Path:
    """Return the workbook with other content in the place of its first sheet."""
    copied = path.with_name("other.xlsx")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(copied, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, content if name == SHEET else source.read(name))
    return copied


def test_a_workbook_and_every_separator_give_the_same_benchmark(tmp_path: Path) -> None:
    expected = read_benchmark(workbook(tmp_path)).questions
    assert [question.external_id for question in expected] == ["q1", "2", "q3"]
    assert expected[0].options == ("None", "NA", "NaN")
    assert expected[0].subject is None
    assert expected[1].subject == "a\nb"
    for separator, ending in ((",", "csv"), (";", "csv"), ("\t", "tsv"), ("|", "csv")):
        assert read_benchmark(separate(tmp_path, separator, ending)).questions == expected, separator


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ((ROWS, (("note",),)), "has 2 sheets with rows (Sheet, Sheet1); save one sheet with the table"),
        (((),), "has no row"),
        (((("id", "answer"), ("q1", "#N/A")),), "questions.xlsx line 2: cell 2 has an error such as #N/A or #DIV/0!"),
    ],
)
def test_a_workbook_without_one_plain_table_is_refused(
    tmp_path: Path, sheets: tuple[tuple[tuple[Any, ...], ...], ...], message: str
) -> None:
    with pytest.raises(IngestError) as raised:
        list(read_cells(workbook(tmp_path, *sheets)))
    assert message in str(raised.value)


def test_a_file_that_is_no_workbook_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "plain.xlsx"
    with pytest.raises(IngestError, match="no such file"):
        list(read_cells(path))
    for content in (b"id,question\n", b"PK\x03\x04" + bytes(100), b""):
        path.write_bytes(content)
        with pytest.raises(IngestError, match=r"plain\.xlsx: cannot be read as an Excel workbook .*save it as \.xlsx"):
            list(read_cells(path))


@pytest.mark.long
def test_a_workbook_that_unpacks_to_too_much_ends_within_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreadsheets, "_MEMORY", 64 << 20)
    path = workbook(tmp_path)
    row = b'<row><c t="inlineStr"><is><t>' + b"x" * 1000 + b"</t></is></c></row>"
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    with pytest.raises(IngestError, match="cannot be read within the limit of 64 MiB"):
        list(read_cells(with_sheet(path, head + row * 100_000 + b"</sheetData></worksheet>")))
    laughs = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + head + b"&b;</sheetData></worksheet>"
    with pytest.raises(IngestError, match="cannot be read as an Excel workbook"):
        list(read_cells(with_sheet(path, laughs)))
