"""Limits on concurrent heavy work such as queries and uploads.

A few pieces of work run at once and others wait for a place; no client occupies all places.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from registry.errors import ShuffleboardError

MOST_AT_ONCE: Final = 4
"""Most pieces of one kind of work that a process runs at once, on a machine with enough cores."""
FEWEST_AT_ONCE: Final = 2
"""Fewest places: with a single one, a client could keep everybody else out."""
WAIT_SECONDS: Final = 30.0
"""Longest wait for a place."""


class BusyError(ShuffleboardError):
    """No place became free in time; the message counts the pieces of work that were ahead."""


@dataclass(eq=False)
class _Piece:
    """A piece of work that waits or runs."""

    client: str
    running: bool = False


def count_places() -> int:
    """Return how many pieces of work to run at once; half of the cores stay free for everything else."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_AT_ONCE, max(FEWEST_AT_ONCE, cores // 2))


class Places:
    """The places of one kind of work in this process. Safe between threads.

    noun: the plural that messages use for the work ("queries"). at_once: how many pieces run at the same time; one
    client has at most `at_once` − 1 of them (one if there is a single place). of_a_client, of_all: how many pieces of
    one client, and of all clients, may run or wait.
    """

    def __init__(self, noun: str, *, at_once: int, of_a_client: int, of_all: int) -> None:
        self._noun = noun
        self._at_once = at_once
        self._running_of_a_client = max(1, at_once - 1)
        self._of_a_client = of_a_client
        self._of_all = of_all
        self._pieces: list[_Piece] = []
        self._changed = threading.Condition()

    @contextmanager
    def take(self, client: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Wait for a place and occupy it.

        Raises BusyError after `wait_seconds`, or at once if too many wait already.
        """
        piece = self._enter(client)
        try:
            self._wait(piece, wait_seconds)
            yield
        finally:
            with self._changed:
                self._pieces.remove(piece)
                self._changed.notify_all()

    def _enter(self, client: str) -> _Piece:
        with self._changed:
            if sum(piece.client == client for piece in self._pieces) >= self._of_a_client:
                raise BusyError(
                    f"{self._of_a_client} {self._noun} of yours are running or waiting; wait until one has ended"
                )
            if len(self._pieces) >= self._of_all:
                raise BusyError(f"{len(self._pieces)} {self._noun} are running or waiting; try again in a moment")
            piece = _Piece(client)
            self._pieces.append(piece)
            return piece

    def _wait(self, piece: _Piece, seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._next() is piece, seconds):
                ahead = self._pieces.index(piece)
                raise BusyError(f"{ahead} {self._noun} were ahead of yours; try again in a moment")
            piece.running = True
            self._changed.notify_all()

    def _next(self) -> _Piece | None:
        """Return the piece that may start now: the first waiting piece whose client has a place left."""
        running = [piece.client for piece in self._pieces if piece.running]
        if len(running) >= self._at_once:
            return None
        waiting = (piece for piece in self._pieces if not piece.running)
        return next((piece for piece in waiting if running.count(piece.client) < self._running_of_a_client), None)
