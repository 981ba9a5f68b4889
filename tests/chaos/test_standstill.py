"""The watch of the chaos tests, which measures how long work stands still without a fault."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from registry.db import database_now, get_engine, write_session
from registry.queue import claims
from registry.tables import Shard, Worker
from tests.chaos import standstill
from tests.chaos.standstill import Watch
from tests.support.population import queue_evaluation


class Clock:
    """A clock that moves only when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    created = Clock()
    monkeypatch.setattr(standstill, "time", created)
    return created


@pytest.fixture
def engine(sqlite_database: str, tmp_path: Path) -> Engine:
    created = get_engine(sqlite_database)
    queue_evaluation(created, tmp_path, shards=2)
    with write_session(created) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))
    return created


def claim(engine: Engine) -> None:
    with write_session(engine) as session:
        assert claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)


def test_queued_shards_progress_with_any_shard_and_leased_ones_alone(engine: Engine, clock: Clock) -> None:
    watch = Watch(engine)
    lengths = []
    for seconds in (0, 3, 2, 4):
        clock.now += seconds
        watch.look()
        lengths.append(watch.longest)
        if seconds in (3, 2):
            claim(engine)  # seen by the next look
    assert lengths == [0, 3, 3, 4]
    assert watch.stood.startswith("shard ")


def test_only_the_time_after_a_fault_counts(engine: Engine, clock: Clock) -> None:
    watch = Watch(engine)
    watch.look()
    clock.now += 9
    watch.fault()
    clock.now += 2
    watch.look()
    assert watch.longest == 2


@pytest.mark.parametrize(("wait_seconds", "longest"), [(30, 0), (3600, 7)])
def test_a_back_off_is_no_standstill_but_an_hour_is(
    engine: Engine, clock: Clock, wait_seconds: int, longest: float
) -> None:
    with write_session(engine) as session:
        session.execute(update(Shard).values(not_before=database_now(wait_seconds)))
    watch = Watch(engine)
    watch.look()
    clock.now += 7
    watch.look()
    assert watch.longest == longest
