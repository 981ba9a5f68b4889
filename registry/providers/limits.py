"""Rate limits of a key, shared by all workers through the database.

This is the generic cell rate algorithm: a limit is stored as the time until which the requests admitted so far use it
up. Each request reserves a slot in a transaction of its own, by the database's clock, and waits until the slot begins.
If a worker is killed while it waits, only its slot is lost.
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
"""Seconds of unused limit that can be used later, so that a short pause costs nothing."""
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

    tokens: tokens of the prompt and of the longest possible answer; `refund` returns unused tokens.
    """
    row, now = _lock(session, key)
    return place(row, limits, tokens, now)


def place(row: RateLimit, limits: Limits, tokens: int, now: datetime) -> float:
    """Reserve a slot in a locked row, as `reserve` does; return the seconds until the request may begin."""
    start = waits_until(row, now) or now
    if limits.requests_per_minute is not None:
        row.requests_free_at = max(row.requests_free_at, start) + _share(limits.requests_per_minute, 1)
    if limits.tokens_per_minute is not None:
        row.tokens_free_at = max(row.tokens_free_at, start) + _share(limits.tokens_per_minute, tokens)
    return (start - now).total_seconds()


def waits_until(row: RateLimit, now: datetime) -> datetime | None:
    """Return the time from which a new request may begin; None: at once."""
    burst = timedelta(seconds=BURST_SECONDS)
    start = max(row.not_before or now, row.requests_free_at - burst, row.tokens_free_at - burst)
    return start if start > now else None


def _share(limit: int, amount: int) -> timedelta:
    """Return the time for which an amount uses up a limit.

    The number of such amounts per minute is rounded down, so that part of the limit can stay unused.
    """
    if amount <= 0:
        return timedelta()
    return timedelta(seconds=(WINDOW_SECONDS + SLACK_SECONDS) / max(1, limit // amount))


def refund(session: Session, key: str, limits: Limits, reserved: int, used: int) -> None:
    """Correct a reservation when the real number of an answer's tokens is known."""
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
    """Return the seconds until a blocked key may be used again; 0 if it is not blocked."""
    row = session.execute(select(RateLimit.not_before, database_now()).where(RateLimit.key == key)).one_or_none()
    if row is None or row[0] is None:
        return 0.0
    return max(0.0, (row[0] - row[1]).total_seconds())


def _lock(session: Session, key: str) -> tuple[RateLimit, datetime]:
    """Return the locked row of a key, and the time after locking."""
    query = select(RateLimit).where(RateLimit.key == key).with_for_update()
    row = session.scalar(query)
    if row is None:
        now = session.scalars(select(database_now())).one()
        insert_ignoring(session, RateLimit, key=key, requests_free_at=now, tokens_free_at=now)
        row = session.scalars(query).one()
    return row, session.scalars(select(database_now())).one()
