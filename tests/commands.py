"""The command line and workers as processes of their own, as users start them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 120.0


def shuffleboard(
    *arguments: object, status: int = 0, timeout_s: float = TIMEOUT_S, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Runs `shuffleboard ARGUMENTS` with SHUFFLEBOARD_<SETTING>; fails the test unless it ends with `status`."""
    outcome = subprocess.run(
        [sys.executable, "-m", "shuffleboard.cli", *map(str, arguments)],
        cwd=ROOT,
        env=_environment(settings),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    assert outcome.returncode == status, (
        f"{' '.join(map(str, arguments))}: {outcome.returncode}\n{outcome.stdout}\n{outcome.stderr}"
    )
    return outcome


def shuffleboard_json(*arguments: object, **options: Any) -> Any:
    """The one JSON document that `shuffleboard ARGUMENTS --json` writes to stdout."""
    return json.loads(shuffleboard(*arguments, "--json", **options).stdout)


@contextmanager
def fake_worker(*arguments: object, **settings: object) -> Iterator[subprocess.Popen[str]]:
    """A worker process with the fake scorer, at work once this yields; killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.worker_process", *map(str, arguments)],
        cwd=ROOT,
        env=_environment(settings),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the worker did not start; see its messages"
            yield process
        finally:
            process.kill()


def _environment(settings: dict[str, object]) -> dict[str, str]:
    return os.environ | {f"SHUFFLEBOARD_{name.upper()}": str(value) for name, value in settings.items()}


def terminate(process: subprocess.Popen[str], within_s: float = 15.0) -> int:
    """Sends SIGTERM and returns the exit status, which must come within the time given."""
    process.send_signal(signal.SIGTERM)
    return process.wait(within_s)


def eventually(condition: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    """Waits until the condition holds; fails the test, saying what did not happen, when it never does."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.05)
