"""The command `make bench-all`, which runs every bench."""

from bench.__main__ import BENCH, EVERY_MONTH, command


def test_every_bench_is_run_every_month() -> None:
    assert {path.stem.removeprefix("bench_") for path in BENCH.glob("bench_*.py")} == set(EVERY_MONTH)


def test_a_bench_is_a_module_with_its_options() -> None:
    assert command("clusters", ("5",)) == ["-m", "bench.bench_clusters", "5"]
