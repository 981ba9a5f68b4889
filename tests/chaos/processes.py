"""Worker processes that tests fork from a server, kill, freeze and wait for."""

import multiprocessing
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.trips import HANGING
from tests.support.forks import FORKS
from tests.support.worker_process import run_celery, run_command, run_worker


@dataclass
class Worker:
    """A worker process with the files of its stdout and stderr.

    trip: the fault that it will cause itself.
    """

    process: "subprocess.Popen[Any] | multiprocessing.context.ForkServerProcess"
    said: Path
    log: Path
    trip: str | None = None
    frozen_until: float | None = None
    told_at: float | None = None

    @property
    def status(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        return self.process.poll() if isinstance(self.process, subprocess.Popen) else self.process.exitcode

    def signal(self, number: int) -> None:
        """Send a signal to the process if it still runs."""
        if self.status is None and self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait at most this number of seconds, and return the exit status."""
        if not isinstance(self.process, subprocess.Popen):
            self.process.join(seconds)
            return self.status
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.status

    @property
    def started(self) -> bool:
        """Return whether the worker has started to work, which it cannot while the database is down."""
        return self.said.exists() and self.said.stat().st_size > 0

    @property
    def hangs(self) -> bool:
        """Return whether the worker's scorer hangs, which the worker may not have noticed yet."""
        return self.said.exists() and HANGING in self.said.read_text(encoding="utf-8").splitlines()

    @property
    def hung(self) -> bool:
        """Return whether the worker noticed that its scorer hung, after which it exits with status 1."""
        return b"shard_given_up" in self.log.read_bytes()

    @property
    def frozen(self) -> bool:
        """Return whether the process is stopped."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return fields[0] in "Tt"


def fork_worker(
    words: Sequence[str], environment: Mapping[str, str], said: Path, log: Path
) -> "multiprocessing.context.ForkServerProcess":
    """Start a worker with the fake scorer and the arguments of `tests.support.worker_process`."""
    return _fork(run_worker, words, environment, said, log)


def fork_command(
    words: Sequence[str], environment: Mapping[str, str], said: Path, log: Path, history: Path | None = None
) -> "multiprocessing.context.ForkServerProcess":
    """Start `shuffleboard WORDS` as a process.

    history: a folder of migrations that replaces the code's own.
    """
    return _fork(run_command, words, environment, said, log, history)


def fork_celery(
    words: Sequence[str], environment: Mapping[str, str], said: Path, log: Path
) -> "multiprocessing.context.ForkServerProcess":
    """Start `celery -A workers.celery WORDS`; its workers have the fake scorer and wait for the file GATE."""
    return _fork(run_celery, words, environment, said, log)


def _fork(target: Callable[..., None], *arguments: object) -> "multiprocessing.context.ForkServerProcess":
    process = FORKS.Process(target=target, args=arguments)
    process.start()
    return process
