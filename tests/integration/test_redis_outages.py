"""Workers that continue without Redis while it loads, fails over or changes its certificate."""

import os
from collections.abc import Callable
from contextlib import closing
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
from tests.support.failover import Replica, SentinelServer, relay
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


def test_workers_live_through_a_failover_by_sentinel(engine: Engine, tmp_path: Path) -> None:
    with RedisServer() as first, Replica(first) as second, SentinelServer(first) as sentinel:
        eventually(lambda: second.follows, "the replica follows")
        eventually(sentinel.knows, "Sentinel knows the replica")
        with relay(sentinel.primary_port) as url:
            assert_goes_on(
                engine,
                tmp_path,
                url,
                first.kill,
                lambda: eventually(lambda: sentinel.primary_port() == second.port, "Sentinel fails over"),
                second.url,
            )
