"""The servers that all schedules share."""

import errno
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from alembic import command
from redis import Redis
from sqlalchemy import Engine

from registry.db import get_engine, make_engine
from registry.operations import migrate
from registry.operations.migrate import upgrade
from registry.schema import history
from tests.migration.next_revision import draft_next
from tests.support import services
from tests.support.failover import Replica, SentinelServer, relay


def _to_first(url: str) -> None:
    """Create the tables of the first revision, without views and triggers; none while there is only one revision."""
    if len(history.revisions()) == 1:
        return
    with get_engine(url).begin() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, min(history.revisions()))


TEMPLATES: Final = {"head": upgrade, "first": _to_first}


SENTINELS: Final = 3
SMALL_DISK_MIB: Final = 320


class SmallPostgresServer(services.PostgresServer):
    """A PostgreSQL whose data and log of changes are on a small file system of their own, which can be filled.

    Only root can mount a file system. `is_small` is False where that is refused; the server is then on the disk of the
    other servers.
    """

    is_small = False
    removal = "umount --lazy $2; rm -rf -- $2"

    def _prepare(self, folder: Path) -> None:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MIB}m", "tmpfs", str(folder)]
        try:
            outcome = subprocess.run(mount, check=False, capture_output=True, text=True)
        except FileNotFoundError as error:
            reason = str(error)
        else:
            self.is_small, reason = outcome.returncode == 0, outcome.stderr.strip()
        if not self.is_small:
            print(f"no small disk, so PostgreSQL only reports a full one: {reason}", file=sys.stderr)
        super()._prepare(folder)

    def fill(self) -> None:
        """Fill the file system to the last byte."""
        assert self.is_small
        with self._filling.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def free(self) -> None:
        """Free the space, and start the server if it ended without any."""
        self._filling.unlink(missing_ok=True)
        if self._running().poll() is not None:
            self.kill()
            self.start()

    @property
    def _filling(self) -> Path:
        assert self.folder is not None
        return self.folder / "filling"

    def remove(self) -> None:
        """Stop the server, and delete its folder with the file system."""
        self.kill()
        if self.is_small and self.folder is not None:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
        super().remove()


class Servers:
    """The PostgreSQL, which keeps its commits, and the Redis that all schedules share, with a database for each.

    redis: the primary, which a failover replaces.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = services.PostgresServer(durable=True)
        self.redis = services.RedisServer()
        self._asked: SentinelServer | None = None
        self._sqlite = {at: folder / f"template-{at}.db" for at in TEMPLATES}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.postgres.start()
        self.redis.start()
        self._add_templates(self.postgres)
        for at, make in TEMPLATES.items():
            self._make(make, f"sqlite:///{self._sqlite[at]}")
            with closing(sqlite3.connect(self._sqlite[at])) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the main file is copied
        return self

    def _add_templates(self, server: services.PostgresServer) -> None:
        for at, make in TEMPLATES.items():
            services.postgres_execute(server.url, f"CREATE DATABASE template_{at}")
            self._make(make, server.database_url(f"template_{at}"))

    @staticmethod
    def _make(make: Callable[[str], None], url: str) -> None:
        make(url)
        get_engine(url).dispose()  # a database in use cannot be copied

    @cached_property
    def small_postgres(self) -> SmallPostgresServer:
        """Return the PostgreSQL with a small disk."""
        server = SmallPostgresServer(durable=True)
        server.start()
        self._stack.callback(server.remove)
        self._add_templates(server)
        return server

    @cached_property
    def relayed_url(self) -> str:
        """Return an address of Redis that leads to the primary after every failover."""
        return self._stack.enter_context(relay(self._primary_port))

    def _primary_port(self) -> int:
        return self._asked.primary_port() if self._asked else self.redis.port

    def fail_over(self, wait: Callable[[Callable[[], bool]], None], *, by_death: bool) -> None:
        """Let Sentinels replace the primary by a new replica, because it was killed or because they were told to.

        wait: waits until a condition is true.
        """
        old, new = self.redis, Replica(self.redis)
        sentinels = [SentinelServer(old, votes=2) for _ in range(SENTINELS)]
        with closing(Redis.from_url(old.url)) as client:
            client.config_set("repl-diskless-sync-delay", 0)
        try:
            for server in (new, *sentinels):
                server.start()
            wait(lambda: new.follows and all(sentinel.knows(sentinels=SENTINELS - 1) for sentinel in sentinels))
            self._asked = sentinels[-1]
            if by_death:
                old.kill()

            def is_promoted() -> bool:
                if not by_death and sentinels[0].primary_port() == old.port:
                    sentinels[0].fail_over()
                return all(sentinel.primary_port() == new.port for sentinel in sentinels)

            wait(is_promoted)
            new.primary, self.redis = None, new
        finally:
            self._asked = None
            for server in (*sentinels, old if self.redis is new else new):
                server.remove()
            if self.redis is old and by_death:
                with suppress(services.ServiceError):
                    old.start()

    @cached_property
    def next_history(self) -> Path:
        """Return migrations with a revision that is newer than the code."""
        return draft_next(self.folder / "migrations")

    def __exit__(self, *_: object) -> None:
        self.redis.remove()
        self.postgres.remove()
        self._stack.close()

    def database(self, engine: str, name: str, at: str = "head", *, small_disk: bool = False) -> str:
        """Return the URL of a new database with the schema at head, or with the tables of the `first` revision."""
        if engine == "sqlite":
            path = self.folder / f"{name}.db"
            shutil.copyfile(self._sqlite[at], path)
            return f"sqlite:///{path}"
        server = self.small_postgres if small_disk else self.postgres
        services.copy_database(server.url, name, f"template_{at}")
        return server.database_url(name)


@contextmanager
def own_engine(url: str) -> Iterator[Engine]:
    """Yield an engine without shared connections, for a server that may be restarted meanwhile."""
    engine = make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()
