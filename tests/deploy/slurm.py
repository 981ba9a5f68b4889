"""A stand-in for Slurm, which reads a script's directives like sbatch and runs a task of its array accordingly."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

# The options that the project's scripts may use, with the pattern of their values; None for options without a value.
OPTIONS: Final[dict[str, str | None]] = {
    "job-name": r"[\w-]+",
    "array": r"\d+-\d+(%\d+)?",
    "nodes": r"[1-9]\d*",
    "ntasks": r"[1-9]\d*",
    "cpus-per-task": r"[1-9]\d*",
    "mem": r"\d+[KMGT]",
    "time": r"(\d+-)?\d\d:\d\d:\d\d",
    "requeue": None,
    "signal": r"(B:)?[A-Z0-9]+@\d+",
    "output": r"[\w%.-]+",
    "open-mode": "append|truncate",
}
JOB: Final = 4711


def directives(script: Path) -> dict[str, str]:
    """Return the script's options for sbatch: its `#SBATCH` lines before the first command, as sbatch reads them."""
    options: dict[str, str] = {}
    for number, line in enumerate(script.read_text(encoding="utf-8").splitlines()):
        if number == 0:
            assert line.startswith("#!"), "sbatch refuses a script without an interpreter"
        elif line.startswith("#SBATCH "):
            match = re.fullmatch(r"#SBATCH --([a-z-]+)(?:=(\S+))?", line)
            assert match is not None, line
            name, value = match.groups()
            form = OPTIONS[name]
            assert (value is None) if form is None else re.fullmatch(form, value or ""), line
            assert name not in options, line
            options[name] = value or ""
        elif line and not line.startswith("#"):
            break
    return options


def array(given: Mapping[str, str]) -> range:
    """Return the tasks of the array."""
    first, last = given["array"].split("%")[0].split("-")
    return range(int(first), int(last) + 1)


class Task:
    """A task of the array that runs as on a node: from a copy in a spool, with Slurm's variables and commands."""

    def __init__(
        self, script: Path, folder: Path, task: int, words: Sequence[str] = (), gpus: int = 0, **environment: str
    ) -> None:
        options = directives(script)
        spooled = folder / "spool" / "slurm_script"
        spooled.parent.mkdir(parents=True, exist_ok=True)
        spooled.write_bytes(script.read_bytes())
        self._requeued = folder / "requeued"
        self._requeued.touch()
        commands = folder / "bin"
        commands.mkdir(exist_ok=True)
        (commands / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {self._requeued}\n')
        (commands / "scontrol").chmod(0o755)
        self._warning = options["signal"]
        numbers = {"SLURM_GPUS_ON_NODE": str(gpus)} if gpus else {}
        self.process = subprocess.Popen(
            ["bash", spooled, *words],
            cwd=folder,
            env={
                "PATH": f"{commands}:{os.environ['PATH']}",
                "SLURM_JOB_ID": str(JOB + 1 + task),
                "SLURM_ARRAY_JOB_ID": str(JOB),
                "SLURM_ARRAY_TASK_ID": str(task),
                "SLURM_CPUS_PER_TASK": options["cpus-per-task"],
                **numbers,
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def time_is_nearly_up(self) -> None:
        """Send the signal of `--signal` to the batch shell only, as `B:` requests."""
        to, name = self._warning.split("@")[0].split(":")
        assert to == "B"
        self.process.send_signal(signal.Signals[f"SIG{name}"])

    def cancel(self) -> None:
        """Send the first signal that scancel sends."""
        self.process.send_signal(signal.SIGTERM)

    def requeued(self) -> list[str]:
        """Return the requests that scontrol received."""
        return self._requeued.read_text(encoding="utf-8").splitlines()
