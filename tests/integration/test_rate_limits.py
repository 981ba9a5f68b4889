"""Rate limits of a key: the times that requests are given, and how workers share them."""

import random
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from registry.db import get_engine, read_session, write_session
from registry.providers.limits import WINDOW_SECONDS, Limits, hold, place, refund, reserve, seconds_held
from registry.revisions.endpoints import Endpoint
from registry.tables.providers import RateLimit
from workers.endpoint.pacing import read_limits, seconds_exhausted
from workers.pace import SharedPace

START = datetime(2026, 1, 1, tzinfo=UTC)


def most_in_a_window(arrivals: Sequence[float], amounts: Sequence[int]) -> int:
    """Return the largest amount that arrived within any minute."""
    ordered = sorted(zip(arrivals, amounts, strict=True))
    times = [at for at, _ in ordered]
    return max(
        sum(amount for _, amount in ordered[place_ : bisect_left(times, at + WINDOW_SECONDS)])
        for place_, (at, _) in enumerate(ordered)
    )


def arrivals(limits: Limits, sizes: Sequence[int], seed: int, threads: int = 16) -> list[float]:
    """Simulate threads that send each request when they may and their last one was answered; return arrival times."""
    draws = random.Random(seed)
    row = RateLimit(key="env:KEY", requests_free_at=START, tokens_free_at=START)
    free = [0.0] * threads
    arrived = []
    for size in sizes:
        at = min(free)
        begins = at + place(row, limits, size, START + timedelta(seconds=at))
        arrived.append(begins + 1.5 * draws.random())  # on its way
        free[free.index(at)] = arrived[-1] + 0.1 * draws.random()
    return arrived


@pytest.mark.parametrize("seed", range(3))
def test_no_minute_exceeds_its_limit_and_little_of_it_is_unused(seed: int) -> None:
    times = arrivals(Limits(requests_per_minute=600), [1] * 1000, seed)
    assert most_in_a_window(times, [1] * 1000) <= 600
    assert max(times) <= 1.1 * 1000 / 600 * 60


@pytest.mark.parametrize("limit", [1, 7])
def test_a_small_limit_is_kept_as_well(limit: int) -> None:
    assert most_in_a_window(arrivals(Limits(limit), [1] * 20, 0), [1] * 20) == limit


def test_no_minute_has_more_tokens_than_allowed() -> None:
    draws = random.Random(4)
    sizes = [draws.choice((200, 900, 1500)) for _ in range(400)]
    assert most_in_a_window(arrivals(Limits(None, 60_000), sizes, 4), sizes) <= 60_000


def test_unneeded_tokens_are_returned_and_a_held_key_stops_every_request(database: str) -> None:
    engine, limits = get_engine(database), Limits(None, 6000)
    with write_session(engine) as session:
        assert reserve(session, "env:A", limits, 3000) == 0.0
        full = reserve(session, "env:A", limits, 3000)
        refund(session, "env:A", limits, 3000, 0)
        refund(session, "env:A", limits, 3000, 0)
        assert reserve(session, "env:A", limits, 3000) < full - 25
        hold(session, "env:A", 100)
        hold(session, "env:A", 1)
        assert reserve(session, "env:A", limits, 1) == pytest.approx(100, abs=20)
    with read_session(engine) as session:
        assert seconds_held(session, "env:A") > 80
        assert seconds_held(session, "env:B") == 0.0


def test_workers_share_the_places_of_a_key(database: str) -> None:
    engine = get_engine(database)
    endpoint = Endpoint(name="hosted", url_prefix="https://api.example.org", key_env="KEY", requests_per_minute=600)
    paces = [SharedPace(engine, endpoint) for _ in range(2)]  # the objects of two processes
    waited: list[float] = []

    def ask(pace: SharedPace) -> None:
        for _ in range(20):
            pace.turn(1, waited.append)

    begun = time.monotonic()
    threads = [threading.Thread(target=ask, args=(pace,)) for pace in paces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The fortieth place is 39 shares of 1/10 s after the first, less the burst that may come at once.
    assert max(waited) == pytest.approx(39 * 62.5 / 600 - 1, abs=0.3 + time.monotonic() - begun)
    assert len({round(wait, 2) for wait in waited}) > 20


def test_limit_headers_of_providers_are_read() -> None:
    openai = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"}
    assert seconds_exhausted(openai) == 60.0
    assert seconds_exhausted(openai | {"x-ratelimit-reset-requests": "120ms"}) == pytest.approx(0.12)
    assert seconds_exhausted(openai | {"x-ratelimit-remaining-requests": "3"}) == 0.0
    soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat().replace("+00:00", "Z")
    anthropic = {"anthropic-ratelimit-input-tokens-remaining": "0", "anthropic-ratelimit-input-tokens-reset": soon}
    assert seconds_exhausted(anthropic) == pytest.approx(30, abs=20)
    assert seconds_exhausted({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "7"}) == 7.0
    assert seconds_exhausted({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "never"}) == 0.0
    assert read_limits({"x-ratelimit-limit-requests": "500"}) == (500, None)
    assert read_limits({"anthropic-ratelimit-tokens-limit": "80000"}) == (None, 80000)
    assert Limits(600).at_most(500, None) == Limits(500)
