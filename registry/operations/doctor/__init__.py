"""`shuffleboard doctor`: checks a deployment and reports what was found and what to do.

One small function a check; CHECKS lists them all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

from registry.errors import ShuffleboardError
from registry.operations.doctor import database, host, queue, services
from registry.operations.doctor.findings import Check, Context, Finding, Limits, Outcome, ok, problem, warning

__all__ = ["CHECKS", "Check", "Context", "Finding", "Limits", "Outcome", "examine", "ok", "problem", "warning"]

CHECKS: Final = (
    Check("database", database.reachable),
    Check("schema", database.revision, "database"),
    Check("writing", database.writable, "schema"),
    Check("triggers", database.triggers, "schema"),
    Check("views", database.views, "schema"),
    Check("rights", database.rights, "schema", "postgresql"),
    Check("readers", database.readers, "schema", "postgresql"),
    Check("database file", database.sqlite_file, "schema", "sqlite"),
    Check("database space", database.database_space, "database"),
    Check("connections", database.connections, "schema", "postgresql"),
    Check("replica", database.replica, "schema", "postgresql"),
    Check("statistics", database.statistics, "schema", "postgresql"),
    Check("archives", services.archives, "schema"),
    Check("broker", services.broker),
    Check("clocks", services.clocks, "database"),
    Check("workers", queue.workers, "schema"),
    Check("queues", queue.queues, "schema"),
    Check("versions", queue.versions, "schema"),
    Check("leases", queue.leases, "schema"),
    Check("progress", queue.progress, "schema"),
    Check("parked shards", queue.parked, "schema"),
    Check("waiting", queue.waiting, "schema"),
    Check("sealing", queue.sealing, "schema"),
    Check("models", host.models, "schema"),
    Check("endpoints", services.endpoints, "schema"),
    Check("data directory", host.data_directory),
    Check("secret key", host.secret_key),
    Check("accelerator", host.accelerator),
)
"""Every check of the registry, in this order."""


def examine(context: Context, checks: Iterable[Check] = CHECKS) -> Iterator[Finding]:
    """The finding of each check that means something on this engine.

    A check whose needs are not met is skipped, and says so. Nothing is changed.
    """
    in_order = {""}
    for check in checks:
        if check.dialect not in ("", context.engine.dialect.name):
            continue
        outcome = _look(check, context) if check.needs in in_order else _unmet(check)
        if check.name in ("database", "schema") and outcome.status == "ok":
            in_order.add(check.name)
        yield Finding(**asdict(outcome), name=check.name)


def _look(check: Check, context: Context) -> Outcome:
    try:
        return check.look(context)
    except (DBAPIError, RedisError, ShuffleboardError, OSError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        return problem(f"could not be checked: {reason}", "give this account permission, or fix what is named here")


def _unmet(check: Check) -> Outcome:
    return warning(f"not checked: needs the {check.needs}", f"fix the problem with the {check.needs} first")
