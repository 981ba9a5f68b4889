"""What a check is given and what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Engine

from registry.settings import Settings

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Limits:
    """From where on a figure is worth a word.

    free_bytes: of a disk; under it is a problem, under five times it a warning. clock_seconds: between two clocks.
    waiting_seconds: how long a shard may wait although a worker serves its queue. connections: of those the server
    takes, as a fraction. stale_rows: rows that were changed since a table's statistics were made.
    """

    free_bytes: int = 1 << 30
    clock_seconds: float = 5.0
    waiting_seconds: float = 86_400.0
    connections: float = 0.8
    stale_rows: int = 50_000


@dataclass(frozen=True)
class Context:
    """The deployment as this process is set to use it. code_version: of this code, as workers state theirs."""

    settings: Settings
    engine: Engine
    code_version: str
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Outcome:
    """found: what is there, with its numbers. remedy: what to do; empty where nothing is to be done."""

    status: Status
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Finding(Outcome):
    """The outcome of the check `name`."""

    name: str = ""


def ok(found: str) -> Outcome:
    """Nothing to do."""
    return Outcome("ok", found)


def warning(found: str, remedy: str) -> Outcome:
    """Works, but may stop working."""
    return Outcome("warning", found, remedy)


def problem(found: str, remedy: str) -> Outcome:
    """Does not work, or does not protect what it should."""
    return Outcome("problem", found, remedy)


@dataclass(frozen=True)
class Check:
    """One thing to look at.

    needs: what must be in order before it can be looked at. dialect: the only engine on which it means something.
    far: it asks other hosts or programs, which may take their time, so it is looked at next to the others.
    """

    name: str
    look: Callable[[Context], Outcome]
    needs: Literal["", "database", "schema"] = ""
    dialect: Literal["", "sqlite", "postgresql"] = ""
    far: bool = False
