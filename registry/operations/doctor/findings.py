"""A check's input and result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Engine

from registry.settings import Settings

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Limits:
    """Thresholds of warnings and problems.

    free_bytes: free space on a disk; less is a problem, less than five times as much a warning. clock_seconds:
    difference between two clocks. waiting_seconds: waiting time of a shard. connections: used fraction of a server's
    connections. stale_rows: rows that changed since the planner's statistics of a table were made.
    """

    free_bytes: int = 1 << 30
    clock_seconds: float = 5.0
    waiting_seconds: float = 86_400.0
    connections: float = 0.8
    stale_rows: int = 50_000


@dataclass(frozen=True)
class Context:
    """The deployment to check, as this process is configured for it.

    code_version: version of this code, in the form in which workers report theirs.
    """

    settings: Settings
    engine: Engine
    code_version: str
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check.

    found: the state, with its numbers. remedy: empty if nothing needs to be done.
    """

    status: Status
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Finding(Outcome):
    """The outcome of the check `name`."""

    name: str = ""


def ok(found: str) -> Outcome:
    """Return the outcome of a check that found no problem."""
    return Outcome("ok", found)


def warning(found: str, remedy: str) -> Outcome:
    """Return the outcome for something that works now, but may stop working."""
    return Outcome("warning", found, remedy)


def problem(found: str, remedy: str) -> Outcome:
    """Return the outcome for something that does not work, or is not safe."""
    return Outcome("problem", found, remedy)


@dataclass(frozen=True)
class Check:
    """One check.

    needs: the check that must pass first. dialect: the only engine to which it applies. far: it depends on other hosts
    or programs, which may be slow, so it runs in parallel.
    """

    name: str
    look: Callable[[Context], Outcome]
    needs: Literal["", "database", "schema"] = ""
    dialect: Literal["", "sqlite", "postgresql"] = ""
    far: bool = False
