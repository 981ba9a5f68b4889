"""The time for which work stands still although no fault lasts."""

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Engine, and_, func, select

from registry.db import database_now, read_session
from registry.tables import Evaluation, Shard

LEASES: Final = 2
"""Leases for which a shard or an evaluation may stand still after a fault."""
BACK_OFF: Final = 60.0
"""Seconds within which a shard's next attempt is a wait that the queue imposes, and no standstill."""


class Watch:
    """A watch over the shards of a database.

    longest: the longest time without progress, in seconds, and `stood` the work that made none. A shard in work makes
    progress when it is stored or another worker has it; queued shards make progress when any shard does.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.longest = 0.0
        self.stood = "nothing"
        self._seen: dict[int, tuple[str, int, bool]] = {}
        self._since: dict[int, float] = {}
        self._sealed = 0
        self._changed = self._calm = time.monotonic()

    def fault(self) -> None:
        """Begin to measure at the end of a fault, which is now or later."""
        self._calm = time.monotonic()

    def look(self) -> int:
        """Measure, and return the number of sealed evaluations."""
        waits = and_(Shard.not_before > database_now(), Shard.not_before < database_now(BACK_OFF))
        with read_session(self.engine) as session:
            rows = session.execute(select(Shard.id, Shard.state, Shard.fence, waits)).all()
            sealed = session.scalar(select(func.count()).where(Evaluation.seal.is_not(None))) or 0
            total = session.scalar(select(func.count()).select_from(Evaluation)) or 0
        now = time.monotonic()
        seen = {shard: (state, fence, bool(waiting)) for shard, state, fence, waiting in rows}
        changed = {shard for shard in seen if self._seen.get(shard) != seen[shard]}
        if changed or sealed != self._sealed:
            self._changed = now
        self._since |= dict.fromkeys(changed, now)
        self._seen, self._sealed = seen, sealed
        work = {f"shard {shard}": self._since[shard] for shard, (state, *_) in seen.items() if state == "leased"}
        if sealed < total and not self._only_waits():
            states = Counter("waiting" if waiting else state for state, _, waiting in seen.values())
            work[f"{total - sealed} evaluations with shards {dict(states)}"] = self._changed
        for name, since in work.items():
            stood = now - max(since, self._calm)
            if stood > self.longest:
                self.longest, self.stood = stood, f"{name} until {datetime.now(UTC):%H:%M:%S}"
        return sealed

    def _only_waits(self) -> bool:
        """Return whether all work that is left is in work, or waits for its next attempt."""
        left = [(state, waiting) for state, _, waiting in self._seen.values() if state != "done"]
        return bool(left) and all(waiting or state == "leased" for state, waiting in left)
