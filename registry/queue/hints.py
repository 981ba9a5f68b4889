"""Hints: after a commit, tells workers through Redis that there is work. Losing one costs time, never work.

The web and the command line send tasks by name, so that neither imports the workers.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.queue.broker import BROKER_OPTIONS, broker_address, open_broker
from registry.settings import Settings
from registry.tables import Shard

SCORE_TASK: Final = "shuffleboard.score"
_log = structlog.get_logger()


@lru_cache(maxsize=4)
def _celery(broker_url: str) -> Any:
    from celery import Celery

    app = Celery("shuffleboard", broker=broker_url)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        # kombu's own patience: one more try, at once. Its default waits for seven seconds.
        broker_transport_options={**BROKER_OPTIONS, "max_retries": 1, "interval_start": 0, "interval_step": 0},
        broker_connection_retry=False,
    )
    return app


def send_hints(settings: Settings, shards: Iterable[tuple[int, str]]) -> int:
    """Sends one message for each (shard id, queue); returns how many went out. A broker that is down is no error."""
    if not settings.broker_url:
        return 0
    from kombu.exceptions import OperationalError
    from redis.exceptions import RedisError

    app = _celery(broker_address(settings))
    sent = 0
    try:
        with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
            for shard_id, queue in shards:
                app.send_task(SCORE_TASK, args=[shard_id], queue=queue, producer=producer, retry=False)
                sent += 1
    except (OperationalError, RedisError, OSError) as error:
        _log.warning("broker_unreachable", error=str(error), remedy="workers pick up the work once it is back")
    return sent


def hints_of(session: Session, evaluation_id: int) -> list[tuple[int, str]]:
    """(shard id, queue) of an evaluation's queued shards, in order."""
    query = select(Shard.id, Shard.queue).where(Shard.evaluation_id == evaluation_id, Shard.state == "queued")
    return [(row.id, row.queue) for row in session.execute(query.order_by(Shard.id))]


def missing_hints(settings: Settings, queued: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Those queued shards for which the broker holds no message: as many per queue as its list is too short.

    Messages are entitlements to any shard, so only their number matters. Empty when the broker is down.
    """
    from redis.exceptions import RedisError

    by_queue: dict[str, list[tuple[int, str]]] = {}
    for shard_id, queue in queued:
        by_queue.setdefault(queue, []).append((shard_id, queue))
    missing: list[tuple[int, str]] = []
    try:
        with open_broker(settings) as client:
            for queue, shards in by_queue.items():
                waiting = client.llen(queue)
                assert isinstance(waiting, int)
                missing += shards[waiting:]
    except (RedisError, OSError, UsageError) as error:
        _log.warning("broker_unreachable", error=str(error), remedy="hints are sent again once it is back")
        return []
    return missing
