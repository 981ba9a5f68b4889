"""The descriptions in columns.toml and docs/views.md of every view and column of a migrated database."""

import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.dialects.postgresql import ARRAY

from registry.db import get_engine
from registry.schema.documented import columns_of
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


TYPES = {
    "BIGINT": "integer",
    "INTEGER": "integer",
    "SMALLINT": "integer",
    "NUMERIC": "integer",  # a sum of integers
    "DOUBLE PRECISION": "double",
    "BOOLEAN": "boolean",
    "TEXT": "text",
    "TIMESTAMP": "time",
    "BYTEA": "digest",
    "JSONB": "json",
}


def test_every_column_has_the_type_that_it_has_in_postgresql(postgresql_database: str) -> None:
    inspector = inspect(get_engine(postgresql_database))
    for view in VIEWS:
        types = {name: column.type for name, column in columns_of(view).items()}
        assert types == {column["name"]: _type(column["type"]) for column in inspector.get_columns(view)}, view


def _type(found: object) -> str:
    return f"{TYPES[str(found.item_type)]}[]" if isinstance(found, ARRAY) else TYPES[str(found)]
