"""A short form of `make chaos` and quick checks of it: no kind of fault changes a result."""

import re
from collections.abc import Iterator

import pytest

from tests.chaos import schedules
from tests.chaos.harness import Chaos
from tests.chaos.schedules import UPGRADE, draw, short
from tests.chaos.servers import Servers


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    with Servers(tmp_path_factory.mktemp("chaos")) as servers:
        yield Chaos(servers)


@pytest.mark.long
@pytest.mark.parametrize("schedule", [pytest.param(one, id=one.name) for one in short()])
def test_faults_change_nothing(chaos: Chaos, schedule) -> None:
    outcome = chaos.run(schedule)
    assert outcome.problems == []
    assert (outcome.lost, outcome.doubled, outcome.stuck, outcome.parked) == (0, 0, 0, 0)
    assert outcome.faults.total() >= len(schedule.strikes)


def test_the_schedule_of_a_seed_is_always_the_same() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_every_kind_of_fault_is_drawn_among_the_schedules_of_make_chaos() -> None:
    drawn = {kind for seed in range(1, 24) for _, kind in draw(seed).strikes}
    tables = [table for name, table in vars(schedules).items() if name.startswith("WITH_")]
    assert drawn == {UPGRADE, *schedules.ANYWHERE, *(kind for table in tables for kind in table)}
    drawn |= {schedules.kind_of(trip) for seed in range(1, 24) for trip in draw(seed).trips}
    for name, pattern in schedules.CLASSES.items():
        assert any(re.search(pattern, kind) for kind in drawn), name
