"""For how long a worker has made no progress."""

import time


class Stillness:
    """Seconds since something last changed, as far as somebody looked.

    Only time in which this process ran counts: a look that comes late, since the process was frozen or waited for the
    database, adds no more than two periods.
    """

    def __init__(self) -> None:
        self._seen: object = None
        self._looked = time.monotonic()
        self._seconds = 0.0

    def look(self, seen: object, period_s: float) -> float:
        """Return the seconds for which `seen` has not changed. period_s: about how often this is called."""
        now = time.monotonic()
        self._seconds = self._seconds + min(now - self._looked, 2 * period_s) if seen == self._seen else 0.0
        self._seen, self._looked = seen, now
        return self._seconds
