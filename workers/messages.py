"""Celery's Redis transport, in which an unreadable message ends no worker.

Anybody with access to the broker may have written the message. A message only permits a worker to score one shard, so
it is dropped and logged, and the reconciler sends another.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES, redis

from registry.process_log import log
from registry.queue.hints import SCORE_TASK
from registry.tables import QUEUES

MAINTENANCE: Final = "maintenance"
"""The queue for everything except scoring."""
PREFIX: Final = "shuffleboard."
"""Prefix of the names of our tasks."""

SHOWN: Final = 100
"""Number of characters of an unreadable message that are logged."""


class Channel(redis.Channel):
    """Reads messages from the queues, dropping any that is not JSON in UTF-8."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, RecursionError) as error:
            _drop(f"{type(error).__name__}: {error}")
            return True  # a message was read


class Transport(redis.Transport):
    """Hands messages to their consumers, dropping messages on our queues that are not our tasks."""

    Channel = Channel

    def _deliver(self, message: Any, queue: str) -> None:
        if (queue in QUEUES or queue == MAINTENANCE) and not _is_ours(message):
            _drop(repr(message))
        else:
            super()._deliver(message, queue)


def _is_ours(message: Any) -> bool:
    """Return whether a message is one of our tasks; Celery does not check these parts."""
    try:
        properties, headers = message["properties"], message["headers"]
        arguments, named, options = json.loads(base64.b64decode(message["body"], validate=True))  # noqa: TID251 - caught below
        return (
            (message["content-type"], message["content-encoding"]) == ("application/json", "utf-8")
            and properties["body_encoding"] == "base64"
            and isinstance(properties["delivery_tag"], str)
            and isinstance(properties["delivery_info"], Mapping)
            and isinstance(headers["id"], str)
            and headers["task"].startswith(PREFIX)
            and all(headers.get(name) is None or _is_time(headers[name]) for name in ("eta", "expires"))
            and all(headers.get(name) is None for name in ("group", "shadow"))
            and headers.get("timelimit") in (None, [None, None])
            and [type(argument) for argument in arguments] == [int] * (headers["task"] == SCORE_TASK)
            and named == {}
            and all(value is None for value in options.values())
        )
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return False


def _is_time(text: str) -> bool:
    return datetime.fromisoformat(text).astimezone(UTC).year > 1


def _drop(what: str) -> None:
    log.warning("message_unreadable", message=what[:SHOWN], remedy="find out who else writes to this Redis")


def use() -> None:
    """Make this the transport of all redis:// and rediss:// connections of this process."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"
