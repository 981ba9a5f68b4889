"""Fixtures for registries that tests verify."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import Engine

from registry.db import get_engine
from tests.conftest import FilledDatabases
from tests.proof.population import Population, populate
from tests.support.services import S3Server

URL: Final = "s3://results"


@pytest.fixture
def sqlite_proof(filled_sqlite: FilledDatabases, tmp_path: Path) -> Iterator[tuple[Engine, Population]]:
    """Yield a filled registry on SQLite for one test."""
    folder = tmp_path / "proof"
    folder.mkdir()
    with filled_sqlite.copy(populate, folder) as (url, population):
        yield get_engine(url), population


@pytest.fixture
def postgresql_proof(filled_postgresql: FilledDatabases, tmp_path: Path) -> Iterator[tuple[Engine, Population]]:
    """Yield a filled registry on PostgreSQL for one test."""
    with filled_postgresql.copy(populate, tmp_path) as (url, population):
        yield get_engine(url), population


@pytest.fixture(params=("sqlite", "postgresql"))
def proof(request: pytest.FixtureRequest) -> tuple[Engine, Population]:
    """Return the filled registry, on SQLite and on PostgreSQL in turn."""
    copied: tuple[Engine, Population] = request.getfixturevalue(f"{request.param}_proof")
    return copied


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server("results") as started:
        yield started


@pytest.fixture
def in_s3(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Set the settings to an empty bucket of the store, with its keys in files."""
    shutil.rmtree(s3_server.objects("results"))
    s3_server.objects("results").mkdir()
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES", URL)
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES_ENDPOINT", s3_server.url)
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES_REGION", "eu-central-1")
    for name, key in (("ACCESS_KEY", s3_server.ACCESS_KEY), ("SECRET_KEY", s3_server.SECRET_KEY)):
        (tmp_path / name).write_text(f"{key}\n")
        monkeypatch.setenv(f"SHUFFLEBOARD_ARCHIVES_{name}_FILE", str(tmp_path / name))
    return s3_server
