"""Checks of what stands beside the database: the broker, the clocks, and the servers of models."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import func, select

from registry.db import database_now, read_session
from registry.errors import ShuffleboardError, UsageError
from registry.files.stores import store_at
from registry.operations.doctor.findings import Context, Outcome, ok, problem, warning
from registry.queue.broker import SOCKET_SECONDS, broker_shown, open_broker
from registry.revisions.endpoints import find_endpoint, host_of, load_endpoints
from registry.tables import Archive, Model, ModelRevision


def host_now() -> datetime:
    """This host's clock."""
    return datetime.now(UTC)


@contextmanager
def _broker(context: Context) -> Iterator[Redis]:
    with closing(open_broker(context.settings)) as client:
        yield client


def broker(context: Context) -> Outcome:
    """Whether Redis answers, takes messages, and keeps them."""
    if not context.settings.broker_url:
        return ok("none is set: workers poll the database")
    shown = broker_shown(context.settings)
    try:
        with _broker(context) as client:
            facts: Any = client.info()
    except (RedisError, OSError, UsageError) as error:
        return problem(
            f"{shown} does not answer ({' '.join(str(error).split())})",
            "start Redis, and check URL, password and certificates in SHUFFLEBOARD_BROKER_URL; until then workers "
            "poll the database",
        )
    found = f"Redis {facts['redis_version']} at {shown}, {facts['used_memory_human']}"
    policy, bound = facts.get("maxmemory_policy", "noeviction"), facts.get("maxmemory", 0)
    if bound and policy != "noeviction":
        return warning(
            f"{found}; drops messages when its memory is full (maxmemory-policy {policy})",
            "CONFIG SET maxmemory-policy noeviction, also in redis.conf; move other users of this Redis to another "
            "server",
        )
    if facts.get("rdb_last_bgsave_status") == "err" or facts.get("aof_last_write_status") == "err":
        return warning(
            f"{found}; its last save to disk failed, so it refuses messages",
            'free space on its disk, or disable saving (save ""): messages need not be persisted',
        )
    return ok(found)


def archives(context: Context) -> Outcome:
    """Whether the file of every archived evaluation is there, and no other."""
    from registry.operations.archiving import orphans

    store = store_at("", context.settings)
    with read_session(context.engine) as session:
        unknown, missing = orphans(session, store)
        number = session.scalar(select(func.count()).select_from(Archive)) or 0
    if missing:
        return problem(
            f"missing or cut off: {', '.join(missing)}",
            "bring the files back from a backup, or set SHUFFLEBOARD_ARCHIVES to where they are",
        )
    if unknown:
        return warning(
            f"files that no evaluation is archived in: {', '.join(unknown)}",
            "left by `evaluations restore`, or by an archiving that was ended; remove them, unless a backup of the "
            "database needs them",
        )
    return ok(f"{number} evaluations, in {store.url} unless archived elsewhere" if number else "nothing is archived")


def clocks(context: Context) -> Outcome:
    """How far the clocks of the database and of Redis are from this host's."""
    offsets = {}
    with read_session(context.engine) as session:
        before = host_now()
        there = session.scalar(select(database_now()))
        assert there is not None
        offsets["the database"] = (there - before).total_seconds()
    if context.settings.broker_url:
        try:
            with _broker(context) as client:
                before = host_now()
                seconds, microseconds = client.time()
            offsets["Redis"] = seconds + microseconds / 1e6 - before.timestamp()
        except (RedisError, OSError, UsageError):
            pass  # the broker's own check says so
    found = ", ".join(f"{name} {offset:+.1f} s" for name, offset in offsets.items())
    if max(map(abs, offsets.values())) > context.limits.clock_seconds:
        return warning(
            f"from this host's clock: {found}",
            "synchronise every host's clock by NTP (timedatectl set-ntp true); leases use only the database's clock",
        )
    return ok(f"from this host's clock: {found}")


def endpoints(context: Context) -> Outcome:
    """Whether the servers of models on endpoints are allowed here, and answer a connection."""
    query = (
        select(Model.name, ModelRevision.location)
        .join(Model, Model.id == ModelRevision.model_id)
        .where(ModelRevision.kind == "openai", ModelRevision.state != "failed")
        .order_by(Model.name)
    )
    with read_session(context.engine) as session:
        located = {str(row.location): str(row.name) for row in session.execute(query)}
    try:
        allowed = load_endpoints(context.settings.endpoints)
        for location in located:
            find_endpoint(allowed, location)
    except ShuffleboardError as error:
        return problem(str(error), "correct the file that SHUFFLEBOARD_ENDPOINTS names, on every worker's host")
    for location, name in located.items():
        parts = urlsplit(location)
        place = (str(parts.hostname), parts.port or {"http": 80, "https": 443}[parts.scheme])
        try:
            socket.create_connection(place, SOCKET_SECONDS).close()
        except OSError as error:
            return problem(
                f"{name}: {host_of(location)} does not answer ({error.strerror or error})",
                "start the server, or let this host reach it; proxies are not used for this check",
            )
    return ok(f"{len(allowed)} allowed, {len(located)} in use")
