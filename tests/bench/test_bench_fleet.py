"""A simulated fleet, which takes about the time that its devices need, and whose faults affect only one worker each."""

import pytest

from bench import bench_fleet

pytestmark = pytest.mark.long


def test_a_fleet_with_every_trouble_finishes_in_little_more_than_its_bound() -> None:
    report = bench_fleet.main(["--workers", "40", "--hours", "0.5"])
    assert report["makespan_s"] <= 1.25 * report["bound_s"]  # 200 workers for an hour: 1.11
    assert report["most_downloads"] == 1
    assert report["parked"] == report["failures"] == 0
    assert report["counts"]["does not fit"] <= 12  # one kind of device, whose workers may all begin at once
    ended = list(report["ended"])
    assert set(ended[:2]) == {"0.5B", "4B"}  # workers with priority
