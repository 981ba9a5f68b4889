"""The servers that all schedules share."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import Engine

from registry.db import get_engine, make_engine
from registry.operations.migrate import upgrade
from tests import services


class Servers:
    """One PostgreSQL that keeps its commits and one Redis for all schedules; a database of its own for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = services.PostgresServer(durable=True)
        self.redis = services.RedisServer()
        self._sqlite = folder / "template.db"

    def __enter__(self) -> Self:
        self.postgres.start()
        self.redis.start()
        services.postgres_execute(self.postgres.url, "CREATE DATABASE template_of_all")
        for url in (self.postgres.database_url("template_of_all"), f"sqlite:///{self._sqlite}"):
            upgrade(url)
            get_engine(url).dispose()  # a database in use cannot be copied
        with closing(sqlite3.connect(self._sqlite)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file alone is
        return self

    def __exit__(self, *_: object) -> None:
        self.redis.remove()
        self.postgres.remove()

    def database(self, engine: str, name: str) -> str:
        """URL of a new database with the schema at head."""
        if engine == "sqlite":
            path = self.folder / f"{name}.db"
            shutil.copyfile(self._sqlite, path)
            return f"sqlite:///{path}"
        services.copy_database(self.postgres.url, name, "template_of_all")
        return self.postgres.database_url(name)


@contextmanager
def own_engine(url: str) -> Iterator[Engine]:
    """An engine that nobody else has: its server may be restarted under it."""
    engine = make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()
