"""One filled registry per engine: the assessment protocol only reads."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.audiences import dispose
from tests import services
from tests.assessment.outputs import fill


@pytest.fixture(scope="session")
def sqlite_assessed(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The filled registry on SQLite."""
    folder = tmp_path_factory.mktemp("assessed")
    shutil.copyfile(sqlite_template, folder / "assessed.db")
    engine = fill(f"sqlite:///{folder / 'assessed.db'}", folder)
    yield engine
    dispose(engine)


@pytest.fixture(scope="session")
def postgresql_assessed(
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    postgresql_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Engine]:
    """The filled registry on PostgreSQL."""
    name = f"shuffleboard_assessed_{uuid.uuid4().hex}"
    services.postgres_execute(postgres_server.url, f"CREATE DATABASE {name} TEMPLATE {postgresql_template}")
    engine = fill(postgres_server.database_url(name), tmp_path_factory.mktemp("assessed"))
    yield engine
    dispose(engine)
    services.postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def assessed(request: pytest.FixtureRequest) -> Engine:
    """The filled registry on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_assessed")
