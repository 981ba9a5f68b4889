"""The time for which a worker has made no progress."""

import time


class Stillness:
    """Measures the seconds since the worker's state last changed.

    Only time in which this process ran counts: a call that is late, because the process was frozen or waited for the
    database, adds at most two periods.
    """

    def __init__(self) -> None:
        self._seen: object = None
        self._looked = time.monotonic()
        self._seconds = 0.0

    def look(self, seen: object, period_s: float) -> float:
        """Return the seconds for which `seen` has not changed. period_s: approximate time between two calls."""
        now = time.monotonic()
        self._seconds = self._seconds + min(now - self._looked, 2 * period_s) if seen == self._seen else 0.0
        self._seen, self._looked = seen, now
        return self._seconds
