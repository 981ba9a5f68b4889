"""Celery's consumer, which no error of Redis ends: workers go on from the database until Redis accepts writes again.

By itself Celery goes on only after a lost connection. A Redis that became a read-only replica, or is full, still
answers, and Celery would end the worker.
"""

import time
from typing import Any, Final

from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from redis.exceptions import RedisError

from registry.process_log import log
from registry.proposals import propose

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
"""Longest pause between two attempts; after this time without an error, the next pause is short again."""
STEP_SECONDS: Final = 0.1


class PatientConsumer(Consumer):
    """Reads messages; treats every error of Redis as a lost connection and connects again after a pause."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.connection_errors = (*self.connection_errors, RedisError)  # type: ignore[has-type]
        self._pause_s = FIRST_PAUSE_SECONDS
        self._last_error = 0.0

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Log the error and wait."""
        self._wait(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Close the connection, log the error and wait."""
        super().on_connection_error_after_connected(exc)
        self._wait(exc)

    def _wait(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._last_error > 2 * LONGEST_PAUSE_SECONDS:
            self._pause_s = FIRST_PAUSE_SECONDS
        log.warning(
            "broker_unusable",
            error=" ".join(str(error).split()),
            next_try_in_s=self._pause_s,
            remedy=f"workers poll the database until then; see: {propose('doctor')}",
        )
        while time.monotonic() < now + self._pause_s:
            maybe_shutdown()  # ends a worker that is stopping
            time.sleep(STEP_SECONDS)
        self._last_error = time.monotonic()
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_SECONDS)
