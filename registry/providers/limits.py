"""Rate limits of a key, shared by all workers through the database.

The generic cell rate algorithm: each limit is one time, until when the requests that were let through use it up. A
request waits for its place, and places are given out in one transaction each, by the database's clock. A worker that is
killed while it waits leaves a place unused and nothing else.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import database_now, insert_ignoring
from registry.tables.providers import RateLimit

WINDOW_SECONDS: Final = 60.0
BURST_SECONDS: Final = 1.0
"""How much of a limit that was not used may be used later, so that a short pause costs nothing."""
SLACK_SECONDS: Final = BURST_SECONDS + 1.5
"""Additional seconds over which a minute's requests are spread, since a provider counts arrivals and travel times vary:
a limit of 600 a minute becomes 576.
"""


@dataclass(frozen=True)
class Limits:
    """Limits per minute; None: no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def at_most(self, requests: int | None, tokens: int | None) -> "Limits":
        """Return the stricter of these and other limits."""
        return Limits(_least(self.requests_per_minute, requests), _least(self.tokens_per_minute, tokens))


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def reserve(session: Session, key: str, limits: Limits, tokens: int) -> float:
    """Reserve a slot for a request of this many tokens; return the seconds until it may begin.

    tokens: of the prompt and the longest answer; `refund` returns the unused ones.
    """
    row, now = _lock(session, key)
    return place(row, limits, tokens, now)


def place(row: RateLimit, limits: Limits, tokens: int, now: datetime) -> float:
    """Reserve as `reserve` does, on a locked row; return the seconds until the request may begin."""
    start = waits_until(row, now) or now
    if limits.requests_per_minute is not None:
        row.requests_free_at = max(row.requests_free_at, start) + _share(limits.requests_per_minute, 1)
    if limits.tokens_per_minute is not None:
        row.tokens_free_at = max(row.tokens_free_at, start) + _share(limits.tokens_per_minute, tokens)
    return (start - now).total_seconds()


def waits_until(row: RateLimit, now: datetime) -> datetime | None:
    """Return when a new request could begin; None: at once."""
    burst = timedelta(seconds=BURST_SECONDS)
    start = max(row.not_before or now, row.requests_free_at - burst, row.tokens_free_at - burst)
    return start if start > now else None


def _share(limit: int, amount: int) -> timedelta:
    """Return the time that an amount uses of a limit. Sizes that do not fill a minute evenly leave the rest free."""
    if amount <= 0:
        return timedelta()
    return timedelta(seconds=(WINDOW_SECONDS + SLACK_SECONDS) / max(1, limit // amount))


def refund(session: Session, key: str, limits: Limits, reserved: int, used: int) -> None:
    """Replace the tokens reserved for an answer by its real tokens."""
    if limits.tokens_per_minute is not None and used != reserved:
        row, _ = _lock(session, key)
        row.tokens_free_at += _share(limits.tokens_per_minute, used) - _share(limits.tokens_per_minute, reserved)


def hold(session: Session, key: str, seconds: float) -> None:
    """Block all requests with a key for some seconds, as its provider requires."""
    row, now = _lock(session, key)
    until = now + timedelta(seconds=seconds)
    row.not_before = max(until, row.not_before or until)
    # Requests with earlier slots reserve again. The new slots follow one another as usual.
    row.requests_free_at = max(row.requests_free_at, until)


def seconds_held(session: Session, key: str) -> float:
    """Return the seconds for which no request with a key may begin."""
    found = session.execute(select(RateLimit.not_before, database_now()).where(RateLimit.key == key)).one_or_none()
    if found is None or found[0] is None:
        return 0.0
    return max(0.0, (found[0] - found[1]).total_seconds())


def _lock(session: Session, key: str) -> tuple[RateLimit, datetime]:
    """Return the locked row of a key, and the time after locking."""
    query = select(RateLimit).where(RateLimit.key == key).with_for_update()
    row = session.scalar(query)
    if row is None:
        now = session.scalars(select(database_now())).one()
        insert_ignoring(session, RateLimit, key=key, requests_free_at=now, tokens_free_at=now)
        row = session.scalars(query).one()
    return row, session.scalars(select(database_now())).one()
