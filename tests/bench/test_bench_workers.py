"""The simulation of many workers at a small size."""

import pytest

from bench import bench_workers

pytestmark = pytest.mark.long


@pytest.mark.parametrize("pooler", [(), ("--pooler",)])
def test_it_runs_through_at_a_small_size(pooler: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_workers, "QUESTIONS", 200)
    printed: list[str] = []
    options = ("--workers", "2", "--seconds", "1", "--shard-seconds", "0.2", "--processes", "2", "--queued", "10")
    bench_workers.main([*options, "--done", "10", *pooler], report=printed.append)
    line = printed[-1].strip("| ").split(" | ")
    assert line[0] == "2"
    assert float(line[1].split(" of ")[0]) > 0
