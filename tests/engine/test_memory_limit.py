"""The memory of scoring a question in all 120 orders, which must remain within the limit."""

import json
import subprocess
import sys

import pytest

from tests.support.commands import ROOT

pytestmark = pytest.mark.long


def test_the_memory_limit_holds_with_and_without_copied_weights() -> None:
    command = [sys.executable, "-m", "tests.engine.memory_process", "80:1:2", "160:2:1:fast", "2048:1:1"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    small, large, unlimited = map(json.loads, finished.stdout.splitlines())
    assert small["peak_mb"] <= 80
    assert large["peak_mb"] <= 160
    assert (small["packed_weights"], large["packed_weights"]) == (False, True)
    assert not large["canonical"]
    # The memory that the process had before and uses again differs from run to run.
    assert unlimited["peak_mb"] > small["peak_mb"] + 20
