"""Work that takes seconds is done a little at a time: one piece for each client, the rest in turn.

Each piece occupies a thread of the server, and so does each that waits. So few may wait, one of each client, and
whoever comes beyond that is told to come again. Of those who wait, it is the turn of the one whose client had none for
longest.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PAUSE_SECONDS: Final = 0.05
"""How long after its turn a client waits for the next: other processes of this host look for a place as often."""
_REMEMBERED: Final = 1000
"""Clients of which it is known when they had a turn."""


class BusyError(Exception):
    """It did not become this client's turn. Says why."""


class Turns:
    """The turns of one kind of work in this process. Safe between threads.

    at_once: pieces of work at the same time; waiting: how many may wait.
    """

    def __init__(self, at_once: int, waiting: int) -> None:
        self._at_once = at_once
        self._most_waiting = waiting
        self._running: set[str] = set()
        self._waiting: list[str] = []
        self._ended: OrderedDict[str, float] = OrderedDict()
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, client: str, seconds: float) -> Iterator[None]:
        """This client's turn, once it is. Raises BusyError after so many seconds, or at once where too many wait."""
        with self._changed:
            self._wait(client, seconds)
            self._running.add(client)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(client)
                self._ended.pop(client, None)
                self._ended[client] = time.monotonic()
                if len(self._ended) > _REMEMBERED:
                    self._ended.popitem(last=False)
                self._changed.notify_all()

    def _wait(self, client: str, seconds: float) -> None:
        if not self._waiting and self._may_begin(client):
            return
        if client in self._waiting:
            raise BusyError("another of yours is waiting already")
        if len(self._waiting) >= self._most_waiting:
            raise BusyError(f"{len(self._running)} are at work and {len(self._waiting)} wait")
        end = time.monotonic() + seconds
        self._waiting.append(client)
        try:
            while not (self._may_begin(client) and self._next() == client):
                left = end - time.monotonic()
                if left <= 0:
                    raise BusyError(f"{len(self._running)} are at work")
                self._changed.wait(min(left, PAUSE_SECONDS))
        finally:
            self._waiting.remove(client)
            self._changed.notify_all()

    def _may_begin(self, client: str) -> bool:
        """Whether there is room for work of this client."""
        rested = time.monotonic() - self._ended.get(client, float("-inf")) >= PAUSE_SECONDS
        return rested and client not in self._running and len(self._running) < self._at_once

    def _next(self) -> str | None:
        """Who of those who wait and could begin had no turn for longest; the first of equals."""
        ready = [client for client in self._waiting if self._may_begin(client)]
        return min(ready, key=lambda client: self._ended.get(client, float("-inf")), default=None)
