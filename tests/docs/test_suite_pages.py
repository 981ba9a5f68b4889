"""The list of packaged suites in docs/boards.md."""

from importlib.resources import files

from tests.docs.pages import DOCS, code, first_cells, sections

PAGE = DOCS / "boards.md"


def test_every_suite_that_ships_has_a_row() -> None:
    shipped = {
        path.name.removesuffix(".toml")
        for path in files("registry.boards").joinpath("suites").iterdir()
        if path.name.endswith(".toml")
    }
    rows = [name for cell in first_cells(sections(PAGE)["Suites that ship"]) for name in code(cell)]
    assert sorted(rows) == sorted(shipped)
