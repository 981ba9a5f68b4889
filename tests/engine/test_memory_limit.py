"""Scoring stays within the memory that it is allowed, on a question in all 120 orders."""

import json
import subprocess
import sys

import pytest

from tests.commands import ROOT


def scored_within(limit_mb: int, threads: int, *mode: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.engine.memory_process", str(limit_mb), str(threads), *mode]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize(("limit_mb", "threads", "mode"), [(80, 1, []), (160, 2, ["fast"])])
def test_the_limit_holds_with_and_without_a_copy_of_the_weights(limit_mb: int, threads: int, mode: list[str]) -> None:
    taken = scored_within(limit_mb, threads, *mode)
    assert taken["peak_mb"] <= limit_mb
    assert taken["packed_weights"] == (limit_mb == 160)
    if mode:
        assert not taken["canonical"]


def test_without_a_limit_it_would_be_exceeded() -> None:
    assert scored_within(2048, 1)["peak_mb"] > 80
