"""A schema that is newer than the stored databases, and databases that begin without any."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import FilledDatabases, copies_on_postgresql, copies_on_sqlite
from tests.migration.next_revision import drafted, next_schema
from tests.services import OutsidePostgres, PostgresServer

__all__ = ["drafted", "next_schema"]


@pytest.fixture(scope="session")
def loaded_sqlite(tmp_path_factory: pytest.TempPathFactory) -> FilledDatabases:
    """SQLite databases, empty before they are filled."""

    def folder() -> Path:
        return tmp_path_factory.mktemp("loaded")

    return FilledDatabases(lambda: f"sqlite:///{folder() / 'test.db'}", copies_on_sqlite, folder)


@pytest.fixture(scope="session")
def loaded_postgresql(
    postgres_server: PostgresServer | OutsidePostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilledDatabases]:
    """PostgreSQL databases, empty before they are filled."""
    copies = partial(copies_on_postgresql, postgres_server)
    empty = postgres_server.database_url("template0")
    with ExitStack() as made:

        def create() -> str:
            return made.enter_context(contextmanager(copies)(empty, Path()))

        yield FilledDatabases(create, copies, lambda: tmp_path_factory.mktemp("loaded"))
