"""Imports a million predictions into SQLite and PostgreSQL: `python -m tests.bench.bench_import [LINES]`.

Prints, for each engine, lines per second of the whole command (checking, storing, question scores, sealing), its peak
memory and the bytes per prediction on disk. The outputs are made up, seeded, with probabilities.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from itertools import permutations
from pathlib import Path

from tests.services import postgres, postgres_execute

ORDERS = list(permutations(range(4)))


def write_inputs(folder: Path, lines: int) -> tuple[Path, Path]:
    """A benchmark of four-option questions and outputs for all of their orders."""
    rng = random.Random(0)
    benchmark, outputs = folder / "benchmark.jsonl", folder / "outputs.jsonl"
    questions = lines // len(ORDERS)
    with benchmark.open("w") as stream:
        for q in range(questions):
            options = [f"option {q} {o}" for o in range(4)]
            record = {"id": f"q{q}", "subject": f"s{q % 57}", "question": f"Question {q}?", "options": options}
            stream.write(json.dumps(record | {"answer": q % 4}) + "\n")
    with outputs.open("w") as stream:
        for q in range(questions):
            for variant, order in enumerate(ORDERS):
                weights = [rng.random() for _ in order]
                record = {"question_id": f"q{q}", "variant": variant, "order": order, "probabilities": weights}
                stream.write(json.dumps(record) + "\n")
    return benchmark, outputs


def measure(url: str, benchmark: Path, outputs: Path, lines: int, home: Path) -> None:
    """One engine: the whole import as a user would run it, from a process of its own."""
    environment = {**os.environ, "SHUFFLEBOARD_DATABASE_URL": url, "SHUFFLEBOARD_HOME": str(home)}

    def run(*arguments: str) -> None:
        command = [sys.executable, "-m", "shuffleboard.cli", *arguments]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    run("db", "upgrade")
    run("benchmarks", "import", str(benchmark), "--name", "b")
    run("models", "add", "m", "--kind", "external")
    started = time.perf_counter()
    run("evaluations", "import", str(outputs), "--model", "m", "--benchmark", "b", "--variants", "full")
    elapsed = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{url.split(':')[0]:22} {lines:>9,} lines {elapsed:7.1f} s {lines / elapsed:9,.0f} lines/s {peak:6.0f} MiB peak"
    )


def main() -> None:
    """Measures SQLite, then PostgreSQL."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    lines -= lines % len(ORDERS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        benchmark, outputs = write_inputs(folder, lines)
        measure(f"sqlite:///{folder}/bench.db", benchmark, outputs, lines, folder)
        print(f"  {(folder / 'bench.db').stat().st_size / lines:.0f} bytes per prediction, the whole file")
        with postgres() as server:
            postgres_execute(server.database_url("postgres"), "CREATE DATABASE bench")
            url = server.database_url("bench")
            measure(url, benchmark, outputs, lines, folder)


if __name__ == "__main__":
    main()
