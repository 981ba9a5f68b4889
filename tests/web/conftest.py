"""A seeded registry and a client on it, on each engine in turn.

The web only reads, so all tests share one seeded database per engine; a test that adds to it asks for `own`.
"""

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine

from registry.audiences import dispose
from registry.db import get_engine
from tests import services
from tests.conftest import FilledDatabases
from tests.web.outputs import Outputs, fill
from tests.web.seed import Seeded, seed
from web import create_app


@dataclass(frozen=True)
class Site:
    """A database, what it holds, and a client of the application on it.

    The engine is kept: the registry remembers only a few, and one that it forgot could not be closed.
    """

    engine: Engine
    seeded: Seeded
    client: FlaskClient


def _site(url: str, folder: Path) -> Site:
    engine = get_engine(url)
    return Site(engine, seed(engine, folder), create_app(database_url=url).test_client())


@pytest.fixture(scope="session")
def sqlite_site(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shared site on SQLite."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copyfile(sqlite_template, folder / "site.db")
    site = _site(f"sqlite:///{folder / 'site.db'}", folder)
    yield site
    dispose(site.engine)


@dataclass(frozen=True)
class Drawn:
    """A site of imported outputs, whose pages have charts."""

    engine: Engine
    outputs: Outputs
    client: FlaskClient


def _drawn(url: str, folder: Path) -> Drawn:
    engine = get_engine(url)
    return Drawn(engine, fill(engine, folder), create_app(database_url=url).test_client())


@pytest.fixture(scope="session")
def sqlite_drawn(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    """The shared site of imported outputs on SQLite."""
    folder = tmp_path_factory.mktemp("drawn")
    shutil.copyfile(sqlite_template, folder / "drawn.db")
    drawn = _drawn(f"sqlite:///{folder / 'drawn.db'}", folder)
    yield drawn
    dispose(drawn.engine)


@pytest.fixture(scope="session")
def postgresql_drawn(
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    postgresql_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Drawn]:
    """The shared site of imported outputs on PostgreSQL."""
    name = f"shuffleboard_drawn_{uuid.uuid4().hex}"
    services.postgres_execute(postgres_server.url, f"CREATE DATABASE {name} TEMPLATE {postgresql_template}")
    drawn = _drawn(postgres_server.database_url(name), tmp_path_factory.mktemp("drawn"))
    yield drawn
    dispose(drawn.engine)
    services.postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def drawn(request: pytest.FixtureRequest) -> Drawn:
    """The shared site of imported outputs on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_drawn")


@pytest.fixture(scope="session")
def postgresql_site(
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    postgresql_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """The shared site on PostgreSQL."""
    name = f"shuffleboard_site_{uuid.uuid4().hex}"
    services.postgres_execute(postgres_server.url, f"CREATE DATABASE {name} TEMPLATE {postgresql_template}")
    site = _site(postgres_server.database_url(name), tmp_path_factory.mktemp("site"))
    yield site
    dispose(site.engine)
    services.postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Site:
    """The shared site on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_site")


@pytest.fixture
def client(site: Site) -> FlaskClient:
    """A client of the shared site."""
    return site.client


@pytest.fixture
def seeded(site: Site) -> Seeded:
    """What the shared site holds."""
    return site.seeded


@pytest.fixture
def engine(site: Site) -> Engine:
    """The shared site's engine, to read with."""
    return site.engine


@pytest.fixture
def own(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Site]:
    """A seeded site of the test's own, on each engine in turn."""
    with filled_databases.copy(seed, tmp_path) as (url, seeded):
        yield Site(get_engine(url), seeded, create_app(database_url=url).test_client())


@pytest.fixture
def empty_client(database: str) -> FlaskClient:
    """A client of a registry that holds nothing, on each engine in turn."""
    return create_app(database_url=database).test_client()
