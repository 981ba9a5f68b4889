"""Checks of services other than the database: the broker, the clocks, and the servers of models."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError, ResponseError
from sqlalchemy import func, select

from registry.db import database_now, read_session
from registry.errors import ArchiveError, ShuffleboardError, UsageError
from registry.files.stores import Store, store_at
from registry.operations.doctor.database import disk_space, file_system
from registry.operations.doctor.findings import Context, Outcome, ok, problem, warning
from registry.queue.broker import SOCKET_SECONDS, broker_shown, open_broker
from registry.revisions.endpoints import find_endpoint, host_of, load_endpoints
from registry.tables import Archive, Model, ModelRevision

STORE_SECONDS: Final = 2.0
"""Seconds that a store of archives may take for one answer; each request is tried twice."""
PROBE: Final = "shuffleboard.doctor"
"""The key that the doctor writes into Redis, for a second."""
FULL: Final = 0.9
"""Fraction of Redis' memory from which on it counts as nearly full."""
ROOM: Final = "raise maxmemory, also in redis.conf, or move other users of this Redis to another server"
READ_ONLY: Final = frozenset({"proc", "sysfs", "squashfs", "iso9660"})
"""File systems that nobody can write to."""


def host_now() -> datetime:
    """Return the time by this host's clock."""
    return datetime.now(UTC)


@contextmanager
def _broker(context: Context) -> Iterator[Redis]:
    with closing(open_broker(context.settings)) as client:
        yield client


def broker(context: Context) -> Outcome:
    """Check that Redis answers, takes messages, and keeps them."""
    if not context.settings.broker_url:
        return ok("none is set: workers poll the database")
    address = broker_shown(context.settings)
    try:
        with _broker(context) as client:
            facts: Any = client.info()
            refusal = _find_refusal(client)
    except UsageError as error:
        return problem(str(error), "correct SHUFFLEBOARD_BROKER_URL for every process; no worker starts before")
    except (RedisError, OSError) as error:
        return problem(
            f"{address} does not answer ({_one_line(error)})",
            "start Redis, and check URL, password and certificates in SHUFFLEBOARD_BROKER_URL; until then workers "
            "poll the database",
        )
    state = f"Redis {facts['redis_version']} at {address}, {facts['used_memory_human']}"
    used, bound = facts["used_memory"], facts.get("maxmemory", 0)
    if bound:
        state += f" of {facts['maxmemory_human']}"
    policy, clients = facts.get("maxmemory_policy", "noeviction"), facts.get("maxclients", 0)
    if facts.get("role") == "slave":
        primary = f"{facts.get('master_host')}:{facts.get('master_port')}"
        return problem(
            f"{state}; a replica of {primary}, which takes no messages",
            "set SHUFFLEBOARD_BROKER_URL to an address that always leads to the primary; until then workers poll the "
            "database",
        )
    if bound and policy == "noeviction" and used >= bound:
        return problem(
            f"{state}; its memory is full, so it refuses messages", f"{ROOM}; until then workers poll the database"
        )
    if facts.get("rdb_last_bgsave_status") == "err" or facts.get("aof_last_write_status") == "err":
        return warning(
            f"{state}; its last save to disk failed, so it refuses messages",
            'free space on its disk, or disable saving (save ""): messages need not be persisted',
        )
    if refusal:
        return problem(
            f"{state}; refuses to write ({refusal})",
            "let this user write (ACL SETUSER), or fix what Redis names; until then workers poll the database",
        )
    if bound and policy != "noeviction":
        return warning(
            f"{state}; drops messages when its memory is full (maxmemory-policy {policy})",
            "CONFIG SET maxmemory-policy noeviction, also in redis.conf; move other users of this Redis to another "
            "server",
        )
    if bound and used >= FULL * bound:
        return warning(f"{state}; its memory is nearly full, and it will then refuse messages", ROOM)
    if clients and facts["connected_clients"] >= context.limits.connections * clients:
        return warning(
            f"{state}; {facts['connected_clients']} of {clients} connections are taken",
            "CONFIG SET maxclients 10000, also in redis.conf, or find out who keeps them open: redis-cli CLIENT LIST",
        )
    return ok(state)


def _find_refusal(client: Redis) -> str:
    """Return Redis' reason for refusing a write; empty if it takes one."""
    try:
        client.set(PROBE, "", ex=1)
    except ResponseError as error:
        return _one_line(error)
    return ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def archives(context: Context) -> Outcome:
    """Check that archives can be written and read, and contain the folder of every sealed evaluation and no other."""
    from registry.sealed.archiving import open_predictions, strays

    store = store_at("", context.settings, seconds=STORE_SECONDS)
    try:
        if not store.has_bucket():
            return problem(f"{store.url}: no such bucket", _remedy_of_store("not found", store))
        store.folders()
    except ArchiveError as error:
        return problem(str(error), _remedy_of_store(str(error), store))
    if store.folder is not None and (fault := _check_folder(context, store.folder)):
        return fault
    with read_session(context.engine) as session:
        stray = strays(session, store)
        number = session.scalar(select(func.count()).select_from(Archive)) or 0
        opened, unreadable = open_predictions(session, STORE_SECONDS)
    if stray.lost:
        return problem(
            f"missing or not whole, and archived: {', '.join(stray.lost)}",
            "bring the folders back from a backup, or set SHUFFLEBOARD_ARCHIVES to where they are",
        )
    if stray.missing:
        return warning(
            f"missing or not whole: {_join_some(stray.missing)}",
            "their predictions are in the database too, so `evaluations archive` and the SQL page write them again; if "
            "several hosts serve this registry, set SHUFFLEBOARD_ARCHIVES to a place that all of them reach",
        )
    if unreadable:
        return problem(f"cannot be read: {'; '.join(unreadable[:3])}", "bring them back from a backup, or upgrade")
    if stray.unknown:
        return warning(
            f"folders of no evaluation: {_join_some(stray.unknown)}",
            "left by a process that was ended, or by another registry; remove them, unless a backup of the database "
            "needs them",
        )
    return ok(
        f"{number} folders of sealed evaluations, in {store.url} unless archived elsewhere; {opened} were opened"
        if number
        else "none yet"
    )


def _join_some(names: Sequence[str], most: int = 10) -> str:
    """Join the first names, followed by the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _check_folder(context: Context, folder: Path) -> Outcome | None:
    """Return the problem with a folder for archives, which need not exist yet; None if there is none."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    remedy = "set SHUFFLEBOARD_ARCHIVES to a folder that this account can write to, or make this one so"
    if not existing.is_dir():
        return problem(f"{folder}: {existing} is a file, not a folder", remedy)
    if not os.access(existing, os.W_OK | os.X_OK) or file_system(existing) in READ_ONLY:
        return problem(f"{folder}: cannot be created or written to", remedy)
    if not context.settings.archives and not folder.exists():
        return None  # nobody archives here; the data directory's own check looks at its disk
    outcome = disk_space(context, existing, str(folder))
    return None if outcome.status == "ok" else outcome


def _remedy_of_store(error: str, store: Store) -> str:
    """Return the remedy for an error of an S3-compatible store."""
    text = error.lower()
    bucket = urlsplit(store.url).netloc
    keys = "SHUFFLEBOARD_ARCHIVES_ACCESS_KEY and SHUFFLEBOARD_ARCHIVES_SECRET_KEY"
    if store.folder is not None:
        return "set SHUFFLEBOARD_ARCHIVES to a folder that this account can read and write"
    if "signature" in text:
        return f"correct the secret key: {keys} do not belong together"
    if "access key id" in text or "invalidaccesskeyid" in text:
        return f"correct the access key: the store does not know it ({keys})"
    if "access_denied" in text or "access denied" in text or "403" in text or "forbidden" in text:
        return f"correct {keys}, or give this key the right to list, read and write bucket {bucket}"
    if "no_such_bucket" in text or "does not exist" in text or "not found" in text or "404" in text:
        return f"make bucket {bucket} in the store, or correct SHUFFLEBOARD_ARCHIVES"
    if "certificate" in text or "ssl" in text:
        return "give the host the certificate of the store's authority (AWS_CA_BUNDLE), or correct its address"
    return "start the store, let this host reach it, or correct SHUFFLEBOARD_ARCHIVES_ENDPOINT"


def clocks(context: Context) -> Outcome:
    """Compare the clocks of the database and of Redis with this host's."""
    offsets = {}
    with read_session(context.engine) as session:
        before = host_now()
        database_time = session.scalar(select(database_now()))
        assert database_time is not None
        offsets["the database"] = (database_time - before).total_seconds()
    if context.settings.broker_url:
        try:
            with _broker(context) as client:
                before = host_now()
                seconds, microseconds = client.time()
            offsets["Redis"] = seconds + microseconds / 1e6 - before.timestamp()
        except (RedisError, OSError, UsageError):
            pass  # the broker's own check reports it
    state = ", ".join(f"{name} {offset:+.1f} s" for name, offset in offsets.items())
    if max(map(abs, offsets.values())) > context.limits.clock_seconds:
        return warning(
            f"from this host's clock: {state}",
            "synchronise every host's clock by NTP (timedatectl set-ntp true); leases use only the database's clock",
        )
    return ok(f"from this host's clock: {state}")


def endpoints(context: Context) -> Outcome:
    """Check that the servers of models are on allowed endpoints, and accept a connection."""
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
