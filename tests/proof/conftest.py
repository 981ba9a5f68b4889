"""Registries that hold something to verify."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.db import get_engine
from tests.proof.population import Population, populate


@pytest.fixture(scope="session")
def proof_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Population]:
    """A SQLite file with a population, to be copied."""
    folder = tmp_path_factory.mktemp("proof")
    path = folder / "proof.db"
    shutil.copyfile(sqlite_template, path)
    engine = get_engine(f"sqlite:///{path}")
    found = populate(engine, folder)
    engine.dispose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file alone is copied
    return path, found


@pytest.fixture
def sqlite_proof(proof_template: tuple[Path, Population], tmp_path: Path) -> Iterator[tuple[Engine, Population]]:
    """A registry of its own on SQLite."""
    path = tmp_path / "proof.db"
    shutil.copyfile(proof_template[0], path)
    engine = get_engine(f"sqlite:///{path}")
    yield engine, proof_template[1]
    engine.dispose()


@pytest.fixture
def postgresql_proof(postgresql_database: str, tmp_path: Path) -> tuple[Engine, Population]:
    """A registry of its own on PostgreSQL."""
    engine = get_engine(postgresql_database)
    return engine, populate(engine, tmp_path)


@pytest.fixture(params=("sqlite", "postgresql"))
def proof(request: pytest.FixtureRequest) -> tuple[Engine, Population]:
    """Both of them in turn."""
    found: tuple[Engine, Population] = request.getfixturevalue(f"{request.param}_proof")
    return found
