"""Whose query runs next on this host: one of each client at a time, those of other clients before a client's second.

A query holds a ticket while it waits and runs: a locked file, which the system unlocks when its process dies. So all
processes of a website share one line without a server of its own. Names of tickets: `<since>.<client>.<ticket>`.
"""

import fcntl
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from registry.errors import QueryRefusedError
from registry.settings import Settings

MOST_AT_ONCE: Final = 4
"""Queries that one host runs at the same time, where it has the cores."""
MOST_OF_A_CLIENT: Final = 4
"""Queries of one client that run or wait."""
MOST_WAITING: Final = 100
"""Queries of all clients that run or wait."""
WAIT_SECONDS: Final = 30.0
"""How long a query waits for its turn."""
_LOOK_SECONDS: Final = 0.01
_TICKET: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")


class TooManyError(QueryRefusedError):
    """Too many queries wait; the position says how many are before this one."""


@dataclass(frozen=True)
class Place:
    """Where a query stands. ahead: how many queries run or wait before it; 0: it runs, or is next."""

    ahead: int
    running: bool


def places_of(settings: Settings) -> int:
    """How many queries this host runs at the same time: half of the cores stay for everything else."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return settings.sql_at_once or min(MOST_AT_ONCE, max(1, cores // 2))


def is_ticket(text: str) -> bool:
    """Whether a text can be a ticket."""
    return _TICKET.fullmatch(text) is not None


class Line:
    """The tickets of a host, in a folder."""

    def __init__(self, settings: Settings) -> None:
        self._places = places_of(settings)
        self._folder = settings.home.expanduser() / "sql" / "line"

    def standing(self, ticket: str) -> Place | None:
        """Where a query stands; None: it has ended, or there is none with this ticket."""
        order = self._order()
        found = next((index for index, name in enumerate(order) if name.split(".")[2] == ticket), None)
        return None if found is None else Place(found, found < self._places)

    def cancel(self, ticket: str) -> None:
        """Ends a query, or its waiting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.standing(ticket) is not None:
            (self._folder / f"cancel.{ticket}").touch()

    @contextmanager
    def turn(self, client: str, ticket: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[Callable[[], bool]]:
        """Waits for this query's turn, and holds it. Gives what tells whether it was cancelled.

        Raises TooManyError after `wait_seconds`, or at once where too many wait; QueryRefusedError once cancelled.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        whose = hashlib.sha256(client.encode()).hexdigest()[:16]
        waiting = self._order()
        if sum(name.split(".")[1] == whose for name in waiting) >= MOST_OF_A_CLIENT:
            raise TooManyError(
                f"{MOST_OF_A_CLIENT} queries of yours are running or waiting; wait until one has ended, or cancel it"
            )
        if len(waiting) >= MOST_WAITING:
            raise TooManyError(f"{len(waiting)} queries are waiting; try again in a moment")
        cancelled = self._folder / f"cancel.{ticket}"
        name = f"{time.time_ns():020d}.{whose}.{ticket}"
        with _held(self._folder / name) as file:
            try:
                end = time.monotonic() + wait_seconds
                was_first = self._is_first(name)
                while True:
                    order = self._order()
                    if not was_first and self._is_first(name):
                        # From now on it waits in line with the other clients' first ones, behind those.
                        renamed = f"{time.time_ns():020d}.{whose}.{ticket}"
                        (self._folder / name).rename(self._folder / renamed)
                        name, was_first = renamed, True
                        continue
                    place = order.index(name)
                    if was_first and place < self._places:
                        break
                    if cancelled.exists():
                        raise QueryRefusedError("the query was cancelled")
                    if time.monotonic() > end:
                        raise TooManyError(f"{place} queries are before yours; try again in a moment")
                    time.sleep(_LOOK_SECONDS)
                yield cancelled.exists
            finally:
                del file
                (self._folder / name).unlink(missing_ok=True)
                cancelled.unlink(missing_ok=True)

    def _is_first(self, name: str) -> bool:
        """Whether a ticket is the oldest of its client."""
        whose = name.split(".")[1]
        return name == min(other for other in self._names() if other.split(".")[1] == whose)

    def _names(self) -> list[str]:
        return [path.name for path in self._folder.glob("[0-9]*.*.*")]

    def _order(self) -> list[str]:
        """The tickets in the order of their turns; those of dead processes are removed."""
        alive = [name for name in sorted(self._names()) if self._is_held(name)]
        before: Counter[str] = Counter()
        ranked = []
        for name in alive:
            whose = name.split(".")[1]
            ranked.append((before[whose], name))
            before[whose] += 1
        return [name for _, name in sorted(ranked)]

    def _is_held(self, name: str) -> bool:
        path = self._folder / name
        try:
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
                # A ticket is locked before it has its name, so this one's process has died.
                path.unlink(missing_ok=True)
                return False
        except FileNotFoundError:
            return False


@contextmanager
def _held(path: Path) -> Iterator[IO[bytes]]:
    """A new locked file, which has its name only once it is locked."""
    own = path.with_name(f"new.{path.name}")
    with own.open("xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        own.rename(path)
        try:
            yield file
        finally:
            with suppress(FileNotFoundError):
                own.unlink()
