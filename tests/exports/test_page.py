"""The tables of docs/exports.md, which list existing objects, and the examples on an export's own page."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from registry.exchange.exports import FORMATS, ExportRequest, export
from registry.exchange.exports.relations import RELATIONS
from tests.docs.pages import DOCS, blocks, code, first_cells, sections
from tests.exports.conftest import Filled

PAGE = DOCS / "exports.md"


def test_the_tables_name_every_format_and_every_file() -> None:
    every_format = [
        name for cell in first_cells(PAGE.read_text(encoding="utf-8").partition("\n## ")[0]) for name in code(cell)
    ]
    assert every_format == list(FORMATS)
    assert [name for cell in first_cells(sections(PAGE)["What is included"]) for name in code(cell)] == list(RELATIONS)


@pytest.mark.parametrize("format_", ["parquet", "csv", "jsonl"])
def test_the_examples_of_an_exports_own_readme_run(
    sqlite_filled: Filled, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(sqlite_filled.engine, ExportRequest(format_), tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    readme = tmp_path / "out" / "README.md"
    (python,), (sql,) = blocks(readme, "python"), blocks(readme, "sql")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", python.text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(duckdb.sql(sql.text).fetchall()) == 3
