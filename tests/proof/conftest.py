"""Registries that hold something to verify."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.db import get_engine
from tests.conftest import FilledDatabases
from tests.proof.population import Population, populate


@pytest.fixture
def sqlite_proof(filled_sqlite: FilledDatabases, tmp_path: Path) -> Iterator[tuple[Engine, Population]]:
    """A registry of its own on SQLite."""
    folder = tmp_path / "proof"
    folder.mkdir()
    with filled_sqlite.copy(populate, folder) as (url, found):
        yield get_engine(url), found


@pytest.fixture
def postgresql_proof(filled_postgresql: FilledDatabases, tmp_path: Path) -> Iterator[tuple[Engine, Population]]:
    """A registry of its own on PostgreSQL."""
    with filled_postgresql.copy(populate, tmp_path) as (url, found):
        yield get_engine(url), found


@pytest.fixture(params=("sqlite", "postgresql"))
def proof(request: pytest.FixtureRequest) -> tuple[Engine, Population]:
    """Both of them in turn."""
    found: tuple[Engine, Population] = request.getfixturevalue(f"{request.param}_proof")
    return found
