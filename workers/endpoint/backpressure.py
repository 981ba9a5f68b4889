"""The number of open requests: it grows while nothing waits in a server's queue and shrinks while requests wait.

vLLM and SGLang show their queue at /metrics, in Prometheus's text format. All other servers get the configured number
of requests at once.
"""

import re
import time
from collections.abc import Callable
from typing import Final

WAITING: Final = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
"""Gauges of the waiting requests of all clients, one line for each engine of a server.

SGLang with priorities has a line for each priority besides the total, whose label `priority` is empty.
"""
BLOCK_SIZE: Final = re.compile(r'^vllm:cache_config_info\{.*?\bblock_size="(\d{1,6})"', re.MULTILINE)
"""Matches the number of tokens in a block of vLLM's prefix cache."""
SECONDS: Final = 0.5
"""Seconds between two reads of a server's metrics; longer if reading is slow."""
_VALUE: Final = re.compile(r"^([a-z_:]+)(\{[^\n]*\})? +([0-9.e+]+)", re.MULTILINE)
_OF_ONE_PRIORITY: Final = re.compile(r'[{,]priority="[^"]')


class Backpressure:
    """The limit on open requests.

    read: returns a server's /metrics, or None. first: the initial limit, used throughout if the server shows no queue.
    most: the highest limit.
    """

    def __init__(
        self, read: Callable[[], str | None], first: int, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._first = self._limit = first
        self._most = max(first, most)
        self._next = clock()
        self._silent = False
        self.block_tokens: int | None = None

    def limit(self) -> int:
        """Return the current limit, reading the server's metrics when they are due."""
        if self._silent or self._clock() < self._next:
            return self._limit
        begun = self._clock()
        figures = self._read()
        waiting = None if figures is None else _waiting(figures)
        if figures is None or waiting is None:
            self._silent, self._limit = True, self._first  # a server without these metrics does not get them later
            return self._limit
        block_size = BLOCK_SIZE.search(figures)
        self.block_tokens = int(block_size[1]) if block_size else None
        if waiting == 0:
            self._limit = min(self._most, 2 * self._limit)
        elif waiting > self._limit // 4:  # a few in the queue keep its batch full
            self._limit = max(1, self._limit - waiting)
        self._next = self._clock() + max(SECONDS, 10 * (self._clock() - begun))
        return self._limit


def _waiting(figures: str) -> int | None:
    """Return the number of waiting requests over all engines; None if the metrics lack it."""
    queue_lengths = [
        value
        for name, labels, value in _VALUE.findall(figures)
        if name in WAITING and not _OF_ONE_PRIORITY.search(labels)
    ]
    try:
        return round(sum(map(float, queue_lengths))) if queue_lengths else None
    except (ValueError, OverflowError):
        return None
