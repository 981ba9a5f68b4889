"""Fixtures that return the seeded registry of tests/web with a board and imported results, on each engine in turn."""

import pytest

from registry.db import write_session
from registry.studies.published import load_published
from tests.web.conftest import Site, client, own, postgresql_site, seeded, sqlite_site
from tests.web.test_boards import load

__all__ = ["client", "own", "postgresql_site", "seeded", "sqlite_site"]


def _with_board(site: Site) -> Site:
    load(site)
    with write_session(site.engine) as session:
        load_published(session)
    return site


@pytest.fixture(scope="session")
def sqlite_registry(sqlite_site: Site) -> Site:
    """Return the registry on SQLite."""
    return _with_board(sqlite_site)


@pytest.fixture(scope="session")
def postgresql_registry(postgresql_site: Site) -> Site:
    """Return the registry on PostgreSQL."""
    return _with_board(postgresql_site)


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Site:
    """Return the registry on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_registry")
