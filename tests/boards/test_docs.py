"""The examples of docs/boards.md are valid."""

import tomllib

import pytest
from sqlalchemy import text

from registry.boards.definition import BoardDefinition, SuiteDefinition, parse_definition
from registry.db import get_engine, read_session
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "boards.md"


def test_the_example_files_are_valid() -> None:
    suite, board, chosen, ruled = (tomllib.loads(block.text) for block in blocks(PAGE, "toml"))
    assert len(parse_definition(suite, SuiteDefinition, "suite").tasks) == 3
    assert parse_definition(board, BoardDefinition, "board").sort_column == "worst_accuracy@cyclic"
    assert parse_definition({**board, **chosen}, BoardDefinition, "chosen").models is not None
    assert parse_definition(ruled, BoardDefinition, "ruled").submissions is not None


@pytest.mark.parametrize("block", blocks(PAGE, "sql"), ids=lambda block: block.text.split("\n")[0][:40])
def test_queries_run_on_both_engines(block, database: str) -> None:
    with read_session(get_engine(database)) as session:
        session.execute(text(block.text)).all()
