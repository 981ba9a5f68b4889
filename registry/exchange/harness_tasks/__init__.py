"""Tasks of lm-evaluation-harness as benchmarks, read by the harness itself in a separate process."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.contract import BenchmarkFile, check_benchmark
from registry.benchmarks.lines import Place, read_lines, shorten
from registry.digests import sha256_file
from registry.errors import IngestError, UsageError

PATIENCE_S: Final = 3600.0
_EXPORT: Final = Path(__file__).parent / "export.py"


def harness_task(
    task: str, *, include_path: Path | None = None, python: str | None = None, shuffle_seed: int | None = None
) -> tuple[BenchmarkFile, str]:
    """Return the questions and few-shot pool of a task, and their source: task, version, digest of its YAML.

    include_path: a folder with your own tasks; functions that their YAML names are run. python: an interpreter that has
    `lm_eval`; by default this one. The harness downloads the task's dataset by the hub's own settings.
    Raises IngestError with the reason if the task is not a multiple choice between answers to one question.
    """
    if include_path is not None and not include_path.is_dir():
        raise UsageError(f"--include-path {include_path}: is not a folder; give the one that holds the task's YAML")
    with tempfile.TemporaryDirectory(prefix="shuffleboard-") as folder:
        written = Path(folder) / f"{Path(task).name or 'task'}.jsonl"
        _export(task, include_path, python or sys.executable, written)
        lines = read_lines(written)
        _, head = next(lines, (None, None))
        if head is None:
            raise IngestError(f"task {task}: the harness wrote nothing; run it with lm_eval to see why")
        content = check_benchmark(
            _drop_empty_context(lines), name=f"task {task}", file_digest=sha256_file(written), shuffle_seed=shuffle_seed
        )
    source = (
        f"lm-evaluation-harness {head['harness']}, task {head['task']} version {head['version']}, "
        f"dataset {head['dataset']}, YAML {head['yaml_digest'][:12]}"
    )
    return content, source


def _drop_empty_context(lines: Iterator[tuple[Place, dict[str, Any]]]) -> Iterator[tuple[Place, dict[str, Any]]]:
    for place, document in lines:
        yield place, {key: value for key, value in document.items() if key != "context" or value is not None}


def _export(task: str, include_path: Path | None, python: str, written: Path) -> None:
    command = [python, "-I", str(_EXPORT), task, *([] if include_path is None else [str(include_path.resolve())])]
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    try:
        with written.open("wb") as stream:
            result = subprocess.run(  # noqa: S603 - the program is ours, the Python the user's own
                command, stdout=stream, stderr=subprocess.PIPE, env=environment, timeout=PATIENCE_S, check=False
            )
    except FileNotFoundError:
        raise UsageError(f"{python}: no such program; name a Python with SHUFFLEBOARD_HARNESS_PYTHON") from None
    except subprocess.TimeoutExpired:
        raise IngestError(
            f"task {task}: the harness took longer than {PATIENCE_S / 3600:.0f} h; check the connection"
        ) from None
    if result.returncode == 0:
        return
    errors = result.stderr.decode("utf-8", "replace").strip().splitlines()
    last = next(
        (line for line in reversed(errors) if line.startswith(("REFUSED ", "MISSING ", "FAILED "))),
        "FAILED " + " ".join(errors[-1:]),
    )
    kind, _, reason = last.partition(" ")
    if kind == "MISSING" and reason == "lm_eval":
        raise UsageError(
            f"lm_eval is not installed for {python}; make an environment with `pip install lm_eval` and name its "
            "Python with SHUFFLEBOARD_HARNESS_PYTHON"
        )
    if kind == "REFUSED":
        raise IngestError(f"task {task}: cannot be a benchmark: {shorten(reason, 300)}")
    raise IngestError(f"task {task}: the harness failed ({shorten(reason, 300)}); check its YAML and its dataset")


__all__ = ["harness_task"]
