"""docs/exports.md: its examples run on an export, and its tables name what there is."""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from registry.exports import FORMATS, ExportRequest, export
from registry.exports.relations import RELATIONS
from tests.docs.pages import DOCS, Block, blocks, code, first_cells, sections
from tests.exports.conftest import Filled

PAGE = DOCS / "exports.md"


@pytest.fixture
def exported(sqlite_filled: Filled, tmp_path: Path) -> Path:
    """A folder with `results`, which holds an export in each of the forms that the examples read."""
    results = tmp_path / "results"
    results.mkdir()
    for format_ in ("parquet", "csv", "jsonl"):
        export(sqlite_filled.engine, ExportRequest(format_), tmp_path / format_)
        for path in (tmp_path / format_).glob(f"*.{format_}"):
            path.rename(results / path.name)
    return tmp_path


def test_the_tables_name_every_format_and_every_file() -> None:
    every_format = [
        name for cell in first_cells(PAGE.read_text(encoding="utf-8").partition("\n## ")[0]) for name in code(cell)
    ]
    assert every_format == list(FORMATS)
    assert [name for cell in first_cells(sections(PAGE)["What goes along"]) for name in code(cell)] == list(RELATIONS)


def test_the_python_examples_run(exported: Path) -> None:
    for block in blocks(PAGE, "python"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block.text],
            capture_output=True,
            text=True,
            cwd=exported,
            env={**os.environ, "PYTHONPATH": ""},
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_sql_examples_run_in_duckdb(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(exported)
    asked: list[Block] = [*blocks(PAGE, "sql duckdb"), *blocks(PAGE, "sql")]
    counts = [len(duckdb.sql(block.text).fetchall()) for block in asked]
    # Three subjects, of which one is not given; three questions.
    assert counts == [3, 3]


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
