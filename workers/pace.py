"""The pace of requests with one key, which all workers share: its limits are stored in the database."""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from sqlalchemy import Engine

from registry.db import read_session, write_session
from registry.providers import limits
from registry.revisions.endpoints import Endpoint
from workers.endpoint.pacing import read_limits, seconds_exhausted

IDLE_SECONDS: Final = 10.0
"""Seconds after which PostgreSQL frees a row that a frozen worker has locked."""


class SharedPace:
    """The limits of an endpoint's key. Threads and processes may share it."""

    def __init__(self, engine: Engine, endpoint: Endpoint) -> None:
        self.key = endpoint.limits_key()
        self._engine = engine
        self._lock = threading.Lock()
        self._limits = limits.Limits(endpoint.requests_per_minute, endpoint.tokens_per_minute)

    @property
    def limits(self) -> limits.Limits:
        """Return the configured limits, or the server's if those are lower."""
        with self._lock:
            return self._limits

    def turn(self, tokens: int, pause: Callable[[float], None]) -> None:
        """Wait with `pause` until a request of this many tokens may begin."""
        while True:
            with write_session(self._engine, IDLE_SECONDS) as session:
                wait_s = limits.reserve(session, self.key, self.limits, tokens)
            if not self.wait(wait_s, pause):
                return

    def wait(self, seconds: float, pause: Callable[[float], None]) -> bool:
        """Wait for a slot; return whether the provider required a wait in the meantime, so that another is needed."""
        if seconds <= 0:
            return False
        pause(seconds)
        with read_session(self._engine) as session:
            return limits.seconds_held(session, self.key) > 0

    def done(self, reserved: int, used: int | None, headers: Mapping[str, str]) -> None:
        """Give back unused tokens, and apply the limits in the headers."""
        self.heed(headers)
        if used is not None and self.limits.tokens_per_minute is not None:
            with write_session(self._engine, IDLE_SECONDS) as session:
                limits.refund(session, self.key, self.limits, reserved, used)

    def heed(self, headers: Mapping[str, str]) -> None:
        """Lower the limits to those in an answer, and delay requests if one is used up."""
        stated = read_limits(headers)
        with self._lock:
            self._limits = self._limits.at_most(*stated)
        wait_s = seconds_exhausted(headers)
        if wait_s > 0:
            self.hold(wait_s)

    def hold(self, seconds: float) -> None:
        """Delay the requests of all workers by this time."""
        with write_session(self._engine, IDLE_SECONDS) as session:
            limits.hold(session, self.key, seconds)
