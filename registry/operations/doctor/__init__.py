"""`shuffleboard doctor`: checks a deployment and reports findings with remedies.

CHECKS lists all checks, one small function each. Checks that depend on other hosts run in parallel and are given up
after a few seconds, so that the doctor finishes soon even if a server hangs.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

from registry.errors import ShuffleboardError
from registry.operations.doctor import database, host, queue, services, settings
from registry.operations.doctor.findings import Check, Context, Finding, Limits, Outcome, ok, problem, warning

__all__ = ["CHECKS", "Check", "Context", "Finding", "Limits", "Outcome", "examine", "ok", "problem", "warning"]

CHECKS: Final = (
    Check("settings", settings.names),
    Check("public address", settings.addresses),
    Check("files", settings.files),
    Check("prices", settings.prices),
    Check("database", database.reachable, far=True),
    Check("schema", database.revision, "database"),
    Check("writing", database.writable, "schema"),
    Check("tables", database.tables, "schema"),
    Check("triggers", database.triggers, "schema"),
    Check("views", database.views, "schema"),
    Check("rights", database.rights, "schema", "postgresql"),
    Check("readers", database.readers, "schema", "postgresql", far=True),
    Check("database file", database.sqlite_file, "schema", "sqlite"),
    Check("database space", database.database_space, "database"),
    Check("connections", database.connections, "schema", "postgresql"),
    Check("statistics", database.statistics, "schema", "postgresql"),
    Check("archives", services.archives, "schema", far=True),
    Check("broker", services.broker, far=True),
    Check("clocks", services.clocks, "database", far=True),
    Check("workers", queue.workers, "schema"),
    Check("queues", queue.queues, "schema"),
    Check("versions", queue.versions, "schema"),
    Check("leases", queue.leases, "schema"),
    Check("progress", queue.progress, "schema"),
    Check("parked shards", queue.check_parked, "schema"),
    Check("waiting", queue.waiting, "schema"),
    Check("sealing", queue.sealing, "schema"),
    Check("models", host.models, "schema"),
    Check("endpoints", services.endpoints, "schema", far=True),
    Check("data directory", host.data_directory),
    Check("secret key", host.secret_key),
    Check("signing key", settings.signing_key),
    Check("accelerator", host.accelerator, far=True),
)
"""Every check of the registry, in this order."""


FAR_SECONDS: Final = 5.0
"""Time limit for all checks of other hosts together."""


def examine(context: Context, checks: Iterable[Check] = CHECKS) -> Iterator[Finding]:
    """Yield the finding of each check that applies to this engine.

    A check whose needs are not met is reported as skipped. Nothing is changed.
    """
    until = time.monotonic() + FAR_SECONDS
    applicable = [check for check in checks if check.dialect in ("", context.engine.dialect.name)]
    passed = {""}
    far: dict[str, _FarCheck] = {}
    for number, check in enumerate(applicable):
        if check.far and check.name not in far and check.needs in passed:
            far[check.name] = _FarCheck(check, context)
        if check.name in far:
            outcome = far[check.name].outcome(until)
        else:
            outcome = _run_check(check, context) if check.needs in passed else _unmet(check)
        if check.name in ("database", "schema") and outcome.status == "ok":
            passed.add(check.name)
        if check.name in ("database", "schema"):  # checks that can run from here on start at once
            for later in applicable[number + 1 :]:
                if later.far and later.needs in passed and later.name not in far:
                    far[later.name] = _FarCheck(later, context)
        yield Finding(**asdict(outcome), name=check.name)


class _FarCheck:
    """A check that runs in a thread of its own, and is abandoned when its time is up."""

    def __init__(self, check: Check, context: Context) -> None:
        self._outcomes: list[Outcome] = []
        self._thread = threading.Thread(target=lambda: self._outcomes.append(_run_check(check, context)), daemon=True)
        self._thread.start()

    def outcome(self, until: float) -> Outcome:
        """Return the check's outcome; a problem if there is none by this time of the monotonic clock."""
        self._thread.join(max(0.0, until - time.monotonic()))
        if self._outcomes:
            return self._outcomes[0]
        return problem(
            f"no answer within {FAR_SECONDS:g} s",
            "what is asked here accepts connections and does not answer, or is behind a firewall that drops packets: "
            "look at its own log, and at the address in the settings",
        )


def _run_check(check: Check, context: Context) -> Outcome:
    try:
        return check.look(context)
    except (DBAPIError, RedisError, ShuffleboardError, OSError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        return problem(f"could not be checked: {reason}", "give this account permission, or fix what is named here")
    except Exception as error:  # noqa: BLE001 - one check that breaks must not silence the others
        return problem(f"could not be checked: {type(error).__name__}: {error}", "report this as a bug")


def _unmet(check: Check) -> Outcome:
    return warning(f"not checked: needs the {check.needs}", f"fix the problem with the {check.needs} first")
