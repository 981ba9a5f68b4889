"""The servers that all schedules share."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from alembic import command
from sqlalchemy import Engine

from registry.db import get_engine, make_engine
from registry.operations import migrate
from registry.operations.migrate import upgrade
from registry.schema import history
from tests.migration.next_revision import draft_next
from tests.support import services


def _to_first(url: str) -> None:
    """Create the tables of the first revision, without views and triggers; none while there is only one revision."""
    if len(history.revisions()) == 1:
        return
    with get_engine(url).begin() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, min(history.revisions()))


TEMPLATES: Final = {"head": upgrade, "first": _to_first}


class Servers:
    """The PostgreSQL, which keeps its commits, and the Redis that all schedules share, with a database for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = services.PostgresServer(durable=True)
        self.redis = services.RedisServer()
        self._sqlite = {at: folder / f"template-{at}.db" for at in TEMPLATES}

    def __enter__(self) -> Self:
        self.postgres.start()
        self.redis.start()
        for at, make in TEMPLATES.items():
            services.postgres_execute(self.postgres.url, f"CREATE DATABASE template_{at}")
            for url in (self.postgres.database_url(f"template_{at}"), f"sqlite:///{self._sqlite[at]}"):
                make(url)
                get_engine(url).dispose()  # a database in use cannot be copied
            with closing(sqlite3.connect(self._sqlite[at])) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the main file is copied
        return self

    @cached_property
    def next_history(self) -> Path:
        """Return migrations with a revision that is newer than the code."""
        return draft_next(self.folder / "migrations")

    def __exit__(self, *_: object) -> None:
        self.redis.remove()
        self.postgres.remove()

    def database(self, engine: str, name: str, at: str = "head") -> str:
        """Return the URL of a new database with the schema at head, or with the tables of the `first` revision."""
        if engine == "sqlite":
            path = self.folder / f"{name}.db"
            shutil.copyfile(self._sqlite[at], path)
            return f"sqlite:///{path}"
        services.copy_database(self.postgres.url, name, f"template_{at}")
        return self.postgres.database_url(name)


@contextmanager
def own_engine(url: str) -> Iterator[Engine]:
    """Yield an engine without shared connections, for a server that may be restarted meanwhile."""
    engine = make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()
