"""Runs the command line in this process, and commands and workers as separate processes."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from tests.chaos.processes import Worker, fork_celery, fork_command, fork_worker

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 300.0
PATIENCE_S = float(os.environ.get("PATIENCE", "300"))
Fork = Callable[[Sequence[str], Mapping[str, str], Path, Path], Any]


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def shuffleboard(
    *arguments: object, status: int | None = 0, width: int | None = None, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Run `shuffleboard ARGUMENTS` with SHUFFLEBOARD_<SETTING>; fail the test unless it ends with `status`, if given.

    It runs in this process, because starting Python and importing the modules takes far longer than the command. width:
    stdout is a terminal with this number of columns; None for a pipe.
    """
    from shuffleboard import cli

    command = ["shuffleboard", *map(str, arguments)]
    out = (io.TextIOWrapper if width is None else _Terminal)(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    ended = 0
    columns = {} if width is None else {"COLUMNS": str(width)}
    environment = mock.patch.dict(os.environ, _environment(settings) | columns)
    # gc is replaced, since a command freezes all objects, which would include the imports of every test.
    with environment, mock.patch.object(sys, "argv", command), mock.patch.object(cli, "gc"):
        try:
            with redirect_stdout(out), redirect_stderr(err):
                cli.main()
        except SystemExit as end:
            ended = int(end.code or 0)
    outcome = subprocess.CompletedProcess(command, ended, _write(out), _write(err))
    return _check(outcome, status)


def shuffleboard_process(
    *arguments: object, status: int | None = 0, timeout_s: float = TIMEOUT_S, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process, for tests of signals, exit and other properties of processes."""
    command = [sys.executable, "-m", "shuffleboard.cli", *map(str, arguments)]
    outcome = subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(settings),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    return _check(outcome, status)


def shuffleboard_json(*arguments: object, **options: Any) -> Any:
    """Return the JSON document that `shuffleboard ARGUMENTS --json` writes to stdout."""
    return json.loads(shuffleboard(*arguments, "--json", **options).stdout)


def _write(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _check(outcome: subprocess.CompletedProcess[str], status: int | None) -> subprocess.CompletedProcess[str]:
    command = " ".join(map(str, outcome.args))
    assert status is None or outcome.returncode == status, (
        f"{command}: {outcome.returncode}\n{outcome.stdout}\n{outcome.stderr}"
    )
    return outcome


def worker_process(*arguments: object, **settings: object) -> AbstractContextManager[Worker]:
    """Start a worker process with the fake scorer, and kill it at the end if it still runs."""
    return _process(fork_worker, arguments, settings)


@contextmanager
def fake_worker(*arguments: object, **settings: object) -> Iterator[Worker]:
    """Start a worker process with the fake scorer, and wait until it is ready to work."""
    with worker_process(*arguments, **settings) as worker:
        eventually(lambda: worker.started or worker.status is not None, "the worker starts")
        assert worker.started, f"the worker did not start: {worker.log.read_text()}"
        yield worker


def command_process(*arguments: object, **settings: object) -> AbstractContextManager[Worker]:
    """Start `shuffleboard ARGUMENTS` as a process, and kill it at the end if it still runs."""
    return _process(fork_command, arguments, settings)


def celery_process(*arguments: object, **settings: object) -> AbstractContextManager[Worker]:
    """Start `celery -A workers.celery ARGUMENTS` as a process, and kill it at the end if it still runs."""
    return _process(fork_celery, arguments, settings)


@contextmanager
def _process(fork: Fork, arguments: Sequence[object], settings: dict[str, object]) -> Iterator[Worker]:
    with tempfile.TemporaryDirectory() as folder:
        output, log = Path(folder) / "said", Path(folder) / "log"
        for file in (output, log):
            file.touch()
        process = Worker(
            fork([str(argument) for argument in arguments], _environment(settings), output, log), output, log
        )
        try:
            yield process
        finally:
            process.signal(signal.SIGKILL)
            process.wait()


def _environment(settings: dict[str, object]) -> dict[str, str]:
    return os.environ | {f"SHUFFLEBOARD_{name.upper()}": str(value) for name, value in settings.items()}


def terminate(process: Worker | subprocess.Popen[str]) -> int | None:
    """Send SIGTERM and return the exit status; None if the process still runs after a generous time limit."""
    if isinstance(process, Worker):
        process.signal(signal.SIGTERM)
    else:
        process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE_S)


def eventually(condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait until the condition is true; fail the test after the time limit. what: the event, for the message."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.05)
