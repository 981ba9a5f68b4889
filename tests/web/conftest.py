"""Fixtures for a seeded registry and a client of it, on each engine in turn.

The website only reads, so all tests share one seeded database per engine; tests that write use `own`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, select

from registry.db import get_engine, read_session
from registry.sealed.archiving import Shared, archive
from registry.tables import Evaluation
from tests.conftest import FilledDatabases, copies_on_sqlite
from tests.web.outputs import Outputs, fill
from tests.web.seed import Seeded, seed
from web import create_app
from web.serving.cache import OfSealed

FilledOnce = Callable[[str, Callable[[Engine, Path], Any]], tuple[str, Any]]


@dataclass(frozen=True)
class Site:
    """A database, its seeded contents, and a client of the application that uses it.

    The engine is stored here, since the registry caches only a few engines, and others could not be closed.
    """

    engine: Engine
    seeded: Seeded
    client: FlaskClient


def _site(url: str, seeded: Seeded) -> Site:
    return Site(get_engine(url), seeded, create_app(database_url=url).test_client())


@pytest.fixture(scope="session")
def sqlite_site(filled_once: FilledOnce) -> Site:
    """Return the shared site on SQLite."""
    return _site(*filled_once("site", seed))


@dataclass(frozen=True)
class Drawn:
    """A site with imported outputs, whose pages have charts."""

    engine: Engine
    outputs: Outputs
    client: FlaskClient


def _draw(url: str, outputs: Outputs) -> Drawn:
    return Drawn(get_engine(url), outputs, create_app(database_url=url).test_client())


@pytest.fixture(scope="session")
def sqlite_drawn(filled_once: FilledOnce) -> Drawn:
    """Return the shared site of imported outputs on SQLite."""
    return _draw(*filled_once("drawn", fill))


def empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty the caches of sealed evaluations during the test, since archived evaluations have the same seals."""
    cached, kept = OfSealed.get, defaultdict[int, OfSealed[Any]](OfSealed)
    monkeypatch.setattr(OfSealed, "get", lambda self, seal, compute: cached(kept[id(self)], seal, compute))


@pytest.fixture(scope="session")
def sqlite_archived(sqlite_drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    """Yield a copy of `sqlite_drawn` in which every evaluation is archived."""
    folder = tmp_path_factory.mktemp("archived")
    url = sqlite_drawn.engine.url.render_as_string(hide_password=False)
    with contextmanager(copies_on_sqlite)(url, folder) as copied:
        shared, engine = Shared(), get_engine(copied)
        with read_session(engine) as session:
            ids = session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None))).all()
        for evaluation_id in ids:
            assert archive(engine, evaluation_id, str(folder / "archives"), shared)
        yield _draw(copied, sqlite_drawn.outputs)


@pytest.fixture(scope="session")
def postgresql_drawn(lasting_postgresql: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """Return the shared site of imported outputs on PostgreSQL."""
    url = lasting_postgresql()
    return _draw(url, fill(get_engine(url), tmp_path_factory.mktemp("drawn")))


@pytest.fixture(params=["sqlite", "postgresql"])
def drawn(request: pytest.FixtureRequest) -> Drawn:
    """Return the shared site of imported outputs on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_drawn")


@pytest.fixture(scope="session")
def postgresql_site(lasting_postgresql: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return the shared site on PostgreSQL."""
    url = lasting_postgresql()
    return _site(url, seed(get_engine(url), tmp_path_factory.mktemp("site")))


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Site:
    """Return the shared site on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_site")


@pytest.fixture
def client(site: Site) -> FlaskClient:
    """Return a client of the shared site."""
    return site.client


@pytest.fixture
def seeded(site: Site) -> Seeded:
    """Return the contents of the shared site."""
    return site.seeded


@pytest.fixture
def engine(site: Site) -> Engine:
    """Return the shared site's engine, which tests may only read from."""
    return site.engine


@pytest.fixture(scope="session")
def leads_to() -> Callable[[FlaskClient, str], int]:
    """Return leads_to(client, link), which returns the status of a link's page and requests each link once.

    Many pages have the same links. It is only for the shared sites, which never change.
    """
    statuses: dict[tuple[Flask, str], int] = {}

    def status(client: FlaskClient, link: str) -> int:
        key = client.application, link
        if key not in statuses:
            statuses[key] = client.get(link).status_code
        return statuses[key]

    return status


@pytest.fixture(params=["one of each kind", pytest.param("all", marks=pytest.mark.long)])
def chosen(request: pytest.FixtureRequest) -> Callable[[Iterable[str]], list[str]]:
    """Return chosen(links), which returns the links to follow: one of each kind, or all links.

    Links are of one kind if they differ only in numbers and in the values of parameters.
    """

    def kind(link: str) -> object:
        path, _, query = link.partition("?")
        return re.sub(r"\d+", "0", path), tuple(sorted(item.partition("=")[0] for item in query.split("&")))

    def choose(links: Iterable[str]) -> list[str]:
        every = sorted(set(links))
        return every if request.param == "all" else list({kind(link): link for link in every}.values())

    return choose


@pytest.fixture
def own(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Site]:
    """Yield a seeded site for one test, on each engine in turn."""
    with filled_databases.copy(seed, tmp_path) as (url, seeded):
        yield Site(get_engine(url), seeded, create_app(database_url=url).test_client())


@pytest.fixture
def empty_client(database: str) -> FlaskClient:
    """Return a client of an empty registry, on each engine in turn."""
    return create_app(database_url=database).test_client()
