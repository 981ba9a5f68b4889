"""What docs/boards.md says of the suites that ship: all of them, and the commands and the board of one."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path

from registry.benchmarks import import_benchmark, read_benchmark
from registry.boards.definition import BoardDefinition, parse_definition
from registry.boards.store import every_benchmark_of, find_suite, import_board, load_shipped_suites, suite_definition
from registry.db import get_engine, write_session
from tests.docs.conftest import write_block
from tests.docs.pages import DOCS, blocks, code, first_cells, read, sections

PAGE = DOCS / "boards.md"


def test_every_suite_that_ships_has_a_row() -> None:
    shipped = {
        path.name.removesuffix(".toml")
        for path in files("registry").joinpath("suites").iterdir()
        if path.name.endswith(".toml")
    }
    rows = [name for cell in first_cells(sections(PAGE)["Suites that ship"]) for name in code(cell)]
    assert sorted(rows) == sorted(shipped)


def test_the_commands_import_what_belebele_asks_and_its_board_loads(sqlite_database: str, tmp_path: Path) -> None:
    imported = re.findall(r"import belebele_\w+\.jsonl --name (\S+) --language \w\w ", read(PAGE))
    content = read_benchmark(write_block(tmp_path, "benchmark-files.md", "jsonl benchmark", "b.jsonl"))
    (block,) = blocks(PAGE, "toml belebele")
    definition = parse_definition(tomllib.loads(block.text), BoardDefinition, "board")
    with write_session(get_engine(sqlite_database)) as session:
        load_shipped_suites(session)
        suite = suite_definition(find_suite(session, definition.suite))
        assert imported == every_benchmark_of(suite)
        for name in imported:
            import_benchmark(session, content, name=name)
        board, new = import_board(session, definition)
        assert new
        assert [entry.task for entry in board.entries] == ["english", "afrikaans", "xhosa", "zulu"]
