"""Workers that continue without Redis while it loads, fails over or changes its certificate."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Engine

from registry.db import get_engine
from tests.integration.test_celery import SHARDS, assert_whole, complete, hints_for
from tests.operations.secured import Authority, SecuredRedis
from tests.support.commands import eventually, fake_worker, terminate
from tests.support.population import queue_evaluation
from tests.support.services import Command, RedisServer

pytestmark = pytest.mark.long
KEYS = 120
LOADING_S = 6


@pytest.fixture
def engine(postgresql_database: str) -> Engine:
    return get_engine(postgresql_database)


def assert_goes_on(
    engine: Engine, folder: Path, url: str, begin: Callable[[], object], end: Callable[[], object], url_after: str = ""
) -> None:
    """Check that a worker finishes an evaluation between `begin` and `end`, and reads messages afterwards."""
    settings: dict[str, Any] = {"broker_url": url, "reconcile_seconds": 0.5}
    settings["database_url"] = engine.url.render_as_string(hide_password=False)
    with fake_worker(**settings) as worker:
        begin()
        evaluation_id = queue_evaluation(engine, folder, shards=SHARDS)
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed without messages")
        end()
        eventually(lambda: hints_for(engine, settings) == SHARDS, "messages are sent")
        with closing(Redis.from_url(url_after or url)) as client:
            eventually(lambda: is_empty(client), "the worker reads messages again")
        assert worker.status is None
        assert terminate(worker) == 0
    assert_whole(engine, evaluation_id)


def is_empty(client: Redis) -> bool:
    try:
        return client.llen("cpu") == 0
    except RedisError:
        return False


class LoadingRedis(RedisServer):
    """A Redis that reads its file slowly and answers LOADING meanwhile."""

    slow = False

    def _command(self, folder: Path) -> Command:
        delay = [
            "--key-load-delay",
            str(1_000_000 * LOADING_S // KEYS),
            "--loading-process-events-interval-bytes",
            "1024",
        ]
        return [*super()._command(folder), *(delay if self.slow else [])]


def test_workers_go_on_while_redis_loads_its_file(engine: Engine, tmp_path: Path) -> None:
    with LoadingRedis() as server:
        with closing(Redis.from_url(server.url)) as client:
            client.mset({f"key-{number}": os.urandom(2000) for number in range(KEYS)})
            client.save()

        def begin() -> None:
            server.kill()
            server.slow = True
            server.start()
            with closing(Redis.from_url(server.url)) as client:
                assert client.info("persistence")["loading"] == 1

        assert_goes_on(engine, tmp_path, server.url, begin, lambda: None)


def test_workers_go_on_while_the_certificate_is_another(engine: Engine, tmp_path: Path) -> None:
    ours, another = Authority(tmp_path / "ours"), Authority(tmp_path / "another")
    with SecuredRedis(ours) as server:
        # The trusted authority remains the same, and the server shows a certificate of another authority.
        def change(authority: Authority) -> None:
            server.kill()
            server.authority = authority
            server.start()

        url = server.url_with(ours.ca)
        assert_goes_on(engine, tmp_path, url, lambda: change(another), lambda: change(ours))


class Replica(RedisServer):
    """A replica of another Redis."""

    def __init__(self, primary: RedisServer) -> None:
        super().__init__()
        self.primary = primary

    def _command(self, folder: Path) -> Command:
        return [*super()._command(folder), "--replicaof", "127.0.0.1", str(self.primary.port)]


class SentinelServer(RedisServer):
    """A Sentinel that alone decides which Redis is the primary."""

    name = "Sentinel"

    def __init__(self, primary: RedisServer) -> None:
        super().__init__()
        self.primary = primary

    def _prepare(self, folder: Path) -> None:
        lines = (
            f"port {self.port}",
            "bind 127.0.0.1",
            f"sentinel monitor board 127.0.0.1 {self.primary.port} 1",
            "sentinel down-after-milliseconds board 500",
            "sentinel failover-timeout board 3000",
        )
        (folder / "sentinel.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _command(self, folder: Path) -> Command:
        return [self.program, folder / "sentinel.conf", "--sentinel"]

    def primary_port(self) -> int:
        """Return the port of the primary."""
        with closing(Redis(port=self.port)) as client:
            return int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "board")[1])


@contextmanager
def relay(port_now: Callable[[], int]) -> Iterator[str]:
    """Yield a URL whose connections lead to the port at the time of the connection, as with HAProxy."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def copy(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(65536):
                    target.sendall(data)
            for connection in (source, target):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # the other direction ends, too

        def lead(client: socket.socket) -> None:
            with client, suppress(OSError, RedisError), socket.create_connection(("127.0.0.1", port_now())) as server:
                back = threading.Thread(target=copy, args=(server, client))
                back.start()
                copy(client, server)
                back.join()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    leading.append(threading.Thread(target=lead, args=(listening.accept()[0],)))
                    leading[-1].start()

        leading: list[threading.Thread] = []
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *leading):
                thread.join()


def test_workers_live_through_a_failover_by_sentinel(engine: Engine, tmp_path: Path) -> None:
    with RedisServer() as first, Replica(first) as second, SentinelServer(first) as sentinel:
        with closing(Redis.from_url(first.url)) as client:
            eventually(lambda: client.info("replication")["connected_slaves"] == 1, "the replica follows")
        eventually(lambda: knows_replica(sentinel), "Sentinel knows the replica")
        with relay(sentinel.primary_port) as url:
            assert_goes_on(
                engine,
                tmp_path,
                url,
                first.kill,
                lambda: eventually(lambda: sentinel.primary_port() == second.port, "Sentinel fails over"),
                second.url,
            )


def knows_replica(sentinel: SentinelServer) -> bool:
    with closing(Redis(port=sentinel.port)) as client:
        return len(client.execute_command("SENTINEL", "REPLICAS", "board")) == 1
