"""A revision after the newest, for tests that upgrade stored databases.

It is drafted like any other, in a copy of `migrations/`: the table `benchmark` gets a column, which the view
`extraction_counts` counts.
"""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import Column, MetaData, Text

import registry.schema.views
from migrations import frozen
from migrations.draft import draft
from registry.schema import history
from registry.tables import Base

TITLE: Final = "Add the colour of the cover"
NEXT: Final = "299901010000"
CHANGED: Final = "extraction_counts"


def draft_next(folder: Path) -> Path:
    """Makes the folder a copy of `migrations/` with one revision more, and returns it."""
    shutil.copytree(frozen.SQL.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    tables = MetaData(naming_convention=Base.metadata.naming_convention)
    for table in Base.metadata.sorted_tables:
        table.to_metadata(tables)
    tables.tables["benchmark"].append_column(Column("colour", Text))
    today = registry.schema.views.view_sql

    def tomorrow(name: str, dialect: str) -> str:
        select = today(name, dialect)
        if name != CHANGED:
            return select
        return f"SELECT counts.*, (SELECT count(colour) FROM benchmark) AS coloured FROM (\n{select}\n) AS counts"

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Base, "metadata", tables)
        patched.setattr(registry.schema.views, "view_sql", tomorrow)
        patched.setattr(frozen, "SQL", folder / "sql")
        draft(TITLE, datetime.strptime(NEXT, "%Y%m%d%H%M"))  # noqa: DTZ007 - it is for its name
    return folder


@pytest.fixture(scope="session")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `migrations/` with one revision more."""
    return draft_next(tmp_path_factory.mktemp("drafted") / "migrations")


@pytest.fixture
def next_schema(
    drafted: Path, sqlite_template: Path, postgresql_template: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """From here on, the code's newest revision is the drafted one; returns the folder with the history.

    The templates of other tests are asked for so that they are made before, without it.
    """
    monkeypatch.setattr(history, "migrations_folder", lambda: drafted)
    monkeypatch.setattr(frozen, "SQL", drafted / "sql")
    return drafted
