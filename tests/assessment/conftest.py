"""Fixtures for tests of the assessment protocol, which share one filled registry per engine since they only read."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from tests.assessment.outputs import fill


@pytest.fixture(scope="session")
def sqlite_assessed(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Return the filled registry on SQLite."""
    return fill(lasting_sqlite(), tmp_path_factory.mktemp("assessed"))


@pytest.fixture(scope="session")
def postgresql_assessed(lasting_postgresql: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Return the filled registry on PostgreSQL."""
    return fill(lasting_postgresql(), tmp_path_factory.mktemp("assessed"))


@pytest.fixture(params=["sqlite", "postgresql"])
def assessed(request: pytest.FixtureRequest) -> Engine:
    """Return the filled registry on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_assessed")
