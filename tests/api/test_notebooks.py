"""The documentation's notebooks, run cell by cell with a registry on a real socket."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_client import listening
from tests.support.commands import ROOT
from tests.web.conftest import Site

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def address(sqlite_registry: Site) -> Iterator[str]:
    with listening(sqlite_registry.client.application) as where:
        yield where


def last_values(path: Path, address: str) -> Iterator[Any]:
    """Yield the value that each code cell shows, or None; names persist from cell to cell."""
    names: dict[str, Any] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]).replace(ADDRESS, address))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        yield None if last is None else eval(compile(ast.Expression(last.value), path.name, "eval"), names)


def test_there_are_five_notebooks_and_the_page_of_the_api_lists_them() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 5
    assert [path.name for path in NOTEBOOKS if f"notebooks/{path.name}" not in page] == []


@pytest.mark.one_engine
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(path: Path, address: str) -> None:
    board, *shown = last_values(path, address)
    assert {"alpha", "beta"} <= set(board["model"])
    assert len(shown) == 2
    assert shown[-1] is not None
