"""Hints: after a commit, notify workers through Redis of new work. A lost hint costs time, never work.

Code that queues shards registers them with `hint_at`; the session's commit sends them. Tasks are sent by name, so that
neither the web nor the command line imports the workers.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, event, or_, select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.process_log import log
from registry.queue.broker import configuration, open_broker
from registry.settings import Settings, get_settings
from registry.tables import Evaluation, Shard

SCORE_TASK: Final = "shuffleboard.score"
_CONDITIONS: Final = "shards to hint at"
_HINTS: Final = "hints to send"


@lru_cache(maxsize=4)
def _sender(settings: Settings) -> Any:
    from celery import Celery

    # Limits of kombu's retries: one more try, at once. By default it waits for seven seconds.
    patience = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
    app = Celery("shuffleboard", set_as_current=False)
    app.conf.update(configuration(settings, patience, broker_connection_retry=False))
    return app


def send_hints(settings: Settings, shards: Iterable[tuple[int, str]]) -> int:
    """Send one message for each (shard id, queue); return how many were sent. A broker that is down is no error."""
    shards = list(shards)
    if not settings.broker_url or not shards:
        return 0
    from kombu.exceptions import OperationalError
    from redis.exceptions import RedisError

    sent = 0
    try:
        app = _sender(settings)
        with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
            for shard_id, queue in shards:
                app.send_task(SCORE_TASK, args=[shard_id], queue=queue, producer=producer, retry=False)
                sent += 1
    except (OperationalError, RedisError, OSError, UsageError) as error:
        log.warning("broker_unreachable", error=str(error), remedy="workers find the work in the database")
    return sent


def hints_of(session: Session, condition: ColumnElement[bool]) -> list[tuple[int, str]]:
    """Return (shard id, queue) of the queued shards of active evaluations that meet a condition, by id."""
    query = (
        select(Shard.id, Shard.queue)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(condition, Shard.state == "queued", Evaluation.state.in_(("queued", "running")))
    )
    return [(row.id, row.queue) for row in session.execute(query.order_by(Shard.id))]


def hint_at(session: Session, condition: ColumnElement[bool]) -> None:
    """Register hints for the shards that meet a condition; the commit sends them for shards that are queued by then."""
    if get_settings().broker_url:
        session.info.setdefault(_CONDITIONS, []).append(condition)


@event.listens_for(Session, "before_commit")
def _look_up(session: Session) -> None:
    if _CONDITIONS in session.info and not session.in_nested_transaction():  # a savepoint's release is no commit
        session.flush()
        session.info[_HINTS] = hints_of(session, or_(*session.info.pop(_CONDITIONS)))


@event.listens_for(Session, "after_commit")
def _send(session: Session) -> None:
    if _HINTS in session.info:
        send_hints(get_settings(), session.info.pop(_HINTS))


@event.listens_for(Session, "after_rollback")
def _forget(session: Session) -> None:
    session.info.pop(_CONDITIONS, None)
    session.info.pop(_HINTS, None)


def missing_hints(settings: Settings, queued: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the queued shards that lack a message.

    Each message allows a worker to claim any shard of the queue, so only the number of messages matters. Returns no
    shard if the broker is down.
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
        log.warning("broker_unreachable", error=str(error), remedy="hints are sent again once it is back")
        return []
    return missing
