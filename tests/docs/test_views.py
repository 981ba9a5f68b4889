"""docs/views.md documents every view and every column of a migrated database, and nothing else."""

import pytest
from sqlalchemy import create_engine, inspect

from registry.db import get_engine
from registry.schema.views import VIEWS
from tests.docs.pages import DOCS, code, first_cells, sections

PAGE = DOCS / "views.md"


def test_every_view_has_a_section(database: str) -> None:
    assert set(inspect(get_engine(database)).get_view_names()) == set(VIEWS) == set(sections(PAGE))


@pytest.mark.parametrize("view", VIEWS)
def test_every_column_of_a_view_is_documented(view: str, sqlite_database: str) -> None:
    engine = create_engine(sqlite_database)
    columns = [column["name"] for column in inspect(engine).get_columns(view)]
    engine.dispose()
    documented = [name for cell in first_cells(sections(PAGE)[view]) for name in code(cell)]
    assert sorted(documented) == sorted(columns)


@pytest.mark.parametrize("view", VIEWS)
def test_every_column_says_what_it_means_and_when_it_is_null(view: str) -> None:
    rows = [row for row in sections(PAGE)[view].splitlines() if row.startswith("| `")]
    for row in rows:
        _, _, meaning, _, null, _ = row.split("|")
        assert meaning.strip(), row
        assert null.strip(), row
