"""Whose work is done next on this host: one of each client at a time, those of other clients before a client's second.

A query, a picture or an uploaded file holds a ticket while it waits and runs: a locked file, which the system unlocks
when its process dies. So all processes of a website share one line without a server of its own. Names of tickets:
`<since>.<client>.<ticket>`.
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
from uuid import uuid4

from registry.errors import ShuffleboardError

MOST_AT_ONCE: Final = 4
"""Pieces of one kind of work that a host does at the same time, where it has the cores."""
WAIT_SECONDS: Final = 30.0
"""How long a piece of work waits for its turn."""
_LOOK_SECONDS: Final = 0.01
_TICKET: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")


class BusyError(ShuffleboardError):
    """It did not become this client's turn; says how many are before it."""


class CancelledError(ShuffleboardError):
    """A piece of work was cancelled while it waited."""


@dataclass(frozen=True)
class Place:
    """Where a query stands. ahead: how many queries run or wait before it; 0: it runs, or is next."""

    ahead: int
    running: bool


def places() -> int:
    """How many pieces of work a host does at the same time: half of the cores stay for everything else."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_AT_ONCE, max(1, cores // 2))


def is_ticket(text: str) -> bool:
    """Whether a text can be a ticket."""
    return _TICKET.fullmatch(text) is not None


class Line:
    """The tickets of one kind of work on a host, in a folder.

    what: several pieces of it, as messages call them. at_once: how many are done at the same time; of_a_client, of_all:
    how many run or wait.
    """

    def __init__(self, folder: Path, what: str, *, at_once: int, of_a_client: int, of_all: int) -> None:
        self._folder = folder
        self._what = what
        self._at_once = at_once
        self._of_a_client = of_a_client
        self._of_all = of_all

    def standing(self, ticket: str) -> Place | None:
        """Where a query stands; None: it has ended, or there is none with this ticket."""
        order = self._order()
        found = next((index for index, name in enumerate(order) if name.split(".")[2] == ticket), None)
        return None if found is None else Place(found, found < self._at_once)

    def cancel(self, ticket: str) -> None:
        """Ends a query, or its waiting."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.standing(ticket) is not None:
            (self._folder / f"cancel.{ticket}").touch()

    @contextmanager
    def turn(
        self, client: str, ticket: str | None = None, wait_seconds: float = WAIT_SECONDS
    ) -> Iterator[Callable[[], bool]]:
        """Waits for this client's turn, and holds it. Gives what tells whether it was cancelled.

        Raises BusyError after `wait_seconds`, or at once where too many wait; CancelledError once cancelled.
        """
        ticket = ticket or uuid4().hex
        self._folder.mkdir(parents=True, exist_ok=True)
        whose = hashlib.sha256(client.encode()).hexdigest()[:16]
        waiting = self._order()
        if sum(name.split(".")[1] == whose for name in waiting) >= self._of_a_client:
            limit = f"{self._of_a_client} {self._what} of yours"
            raise BusyError(f"{limit} are running or waiting; wait until one has ended")
        if len(waiting) >= self._of_all:
            raise BusyError(f"{len(waiting)} {self._what} are waiting; try again in a moment")
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
                    if was_first and place < self._at_once:
                        break
                    if cancelled.exists():
                        raise CancelledError("it was cancelled")
                    if time.monotonic() > end:
                        raise BusyError(f"{place} {self._what} are before yours; try again in a moment")
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
