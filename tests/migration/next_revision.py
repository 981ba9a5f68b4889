"""A revision after the newest for tests that upgrade databases, which adds a column to the table `benchmark`.

It is drafted like any other, in a copy of `migrations/`.
"""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import Column, MetaData, Text

from migrations import draft
from registry.schema import history
from registry.tables import Base

TITLE: Final = "Add the colour of the cover"
NEXT: Final = "299901010000"


def draft_next(folder: Path) -> Path:
    """Copy `migrations/` into the folder, add a drafted revision, and return the folder."""
    shutil.copytree(draft.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    tables = MetaData(naming_convention=Base.metadata.naming_convention)
    for table in Base.metadata.sorted_tables:
        table.to_metadata(tables)
    tables.tables["benchmark"].append_column(Column("colour", Text))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Base, "metadata", tables)
        draft.draft(TITLE, datetime.strptime(NEXT, "%Y%m%d%H%M"), folder)  # noqa: DTZ007 - it is for its name
    return folder


@pytest.fixture(scope="session")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of `migrations/` with a drafted revision."""
    return draft_next(tmp_path_factory.mktemp("drafted") / "migrations")


@pytest.fixture
def next_schema(
    drafted: Path, sqlite_template: Path, postgresql_template: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Make the drafted revision the newest of the code during the test; return the folder with the history.

    The fixture requests the templates of other tests so that they are created before, without the revision.
    """
    monkeypatch.setattr(history, "migrations_folder", lambda: drafted)
    return drafted
