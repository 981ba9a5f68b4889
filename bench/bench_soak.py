"""Records the resources of `shuffleboard serve` under hours of mixed load: `python -m bench.bench_soak [OPTIONS]`.

bench/generate_registry.py fills a database of a temporary PostgreSQL server. Visitors then request pages, tables,
charts, their own boards, routes of the API and queries, some of them wrong, cut off or never finished, while something
is written every few seconds, so that no cached page stays valid. Once per --every seconds a line shows how much memory
the website and its processes use, how many files, threads and database connections are open, how many temporary files
there are, and how long answers took since the last line. The last lines repeat the first, the middle and the last of
these lines.

Options: --minutes 120  --rate 4  --every 60  --visitors 6  --models 100  --benchmarks 20  --predictions 24000
"""

import argparse
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import httpx2
from sqlalchemy import func, select, text

from bench.bench_web import BOARD, snapshot
from bench.generate_registry import EXPLORED, Filled, Size, fill
from registry.db import get_engine, read_session
from registry.operations.migrate import upgrade
from registry.schema.audiences import dispose
from registry.sql.examples import EXAMPLES
from registry.tables import Evaluation, EvaluationQuestion
from tests.support.services import PostgresServer, postgres_execute

HEADER: Final = (
    "| minute | requests | failed | MiB | MiB of SQL | files | threads | connections | temporary | KiB of them | "
    "median ms | p95 ms |\n" + "|---" * 12 + "|"
)
WRITE_EVERY_S: Final = 5.0


@dataclass
class Load:
    """Requests since the last line."""

    seconds: list[float] = field(default_factory=list)
    requests: int = 0
    failed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seconds: float, *, failed: bool) -> None:
        """Count an answer."""
        with self.lock:
            self.seconds.append(seconds)
            self.requests += 1
            self.failed += failed


def addresses(rng: random.Random, filled: Filled, size: Size, questions: list[int]) -> list[Callable[[], str]]:
    """Return functions that return addresses, each call a newly drawn one."""
    model = lambda: f"model-{rng.randrange(size.models):03}"  # noqa: E731
    benchmark = lambda: f"benchmark-{rng.randrange(size.benchmarks):03}"  # noqa: E731
    evaluation = lambda: filled.evaluation_id + rng.randrange(filled.evaluations - 1)  # noqa: E731
    explored, api = filled.explored_evaluation_id, "/api/v1"
    return [
        lambda: "/",
        lambda: f"/?page={rng.randrange(1, 20)}",
        lambda: f"/?benchmark={benchmark()}&family=family-{rng.randrange(20)}",
        lambda: f"/?q={rng.randrange(10**9)}",
        lambda: f"/boards/{BOARD}",
        lambda: f"/boards/{BOARD}/own?column=accuracy@cyclic&weight.{benchmark()}={rng.randrange(1, 9)}",
        lambda: f"/boards/{BOARD}/pairs?page={rng.randrange(1, 9)}",
        lambda: f"/boards/{BOARD}/trade-offs",
        lambda: f"/models/{model()}",
        lambda: f"/benchmarks/{benchmark()}",
        lambda: "/models",
        lambda: "/overview",
        lambda: "/queue",
        lambda: f"/leaderboard.csv?benchmark={benchmark()}",
        lambda: f"/leaderboard.parquet?benchmark={benchmark()}",
        lambda: f"/evaluations/{evaluation()}",
        lambda: f"/evaluations/{evaluation()}/provenance",
        lambda: f"/evaluations/{explored}?only=flips&page={rng.randrange(1, 20)}",
        lambda: f"/evaluations/{explored}/questions/{rng.choice(questions)}",
        lambda: f"/questions/{rng.choice(questions)}",
        lambda: f"/compare?a={evaluation()}&b={evaluation()}",
        lambda: f"{api}/leaderboard?per_page=1000&benchmark={benchmark()}",
        lambda: f"{api}/models/{model()}",
        lambda: f"{api}/evaluations?page={rng.randrange(1, 20)}",
        lambda: f"{api}/evaluations/{evaluation()}/metrics",
        lambda: f"{api}/evaluations/{explored}/predictions?cursor={rng.choice(questions)}.0",
        lambda: "/feed.atom",
        lambda: "/metrics",
        lambda: f"/no/such/page/{rng.randrange(10**9)}",
        lambda: f"/models/{quote('never seen ' + str(rng.randrange(10**9)))}",
        lambda: f"/?page={'9' * rng.randrange(1, 400)}",
    ]


def query(rng: random.Random) -> str:
    """Return a query at random: a documented, an expensive or a wrong one."""
    return rng.choice(
        (
            *EXAMPLES.values(),
            f"SELECT count(*) + {rng.randrange(10**6)} FROM prediction",
            "SELECT a.model, count(*) FROM prediction a, prediction b GROUP BY 1",
            f"SELECT repeat('x', {rng.randrange(10**7)}) FROM prediction",
            f"SELECT nothing_{rng.randrange(10**6)} FROM nowhere",
        )
    )


class Visitors:
    """Threads that together make requests at a given rate."""

    def __init__(self, base: str, rng: random.Random, makers: list[Callable[[], str]], load: Load) -> None:
        self.base, self.rng, self.makers, self.load = base, rng, makers, load
        self.stop = threading.Event()

    def run(self, pause_s: float) -> None:
        """Make requests until `stop` is set."""
        with httpx2.Client(base_url=self.base, timeout=120) as client:
            while not self.stop.wait(self.rng.expovariate(1 / pause_s)):
                kind = self.rng.random()
                if kind < 0.03:
                    self.leave_early()
                    continue
                started = time.monotonic()
                try:
                    if kind < 0.08:
                        answer = client.post("/api/v1/sql", json={"query": query(self.rng)})
                    elif kind < 0.10:
                        answer = client.post("/sign-in", data={"name": "nobody", "password": "x" * 2000})
                    elif kind < 0.12:
                        body = os.urandom(self.rng.randrange(1 << 22))
                        answer = client.post("/api/v1/benchmarks?name=x", content=body)
                    else:
                        answer = client.get(self.rng.choice(self.makers)())
                    failed = answer.status_code >= 500 and answer.status_code != 503
                    if failed:
                        print(f"{answer.status_code} for {answer.request.url}: {answer.text[:300]}", flush=True)
                except httpx2.HTTPError as error:
                    print(f"{type(error).__name__}: {error}", flush=True)
                    failed = True
                self.load.add(time.monotonic() - started, failed=failed)

    def leave_early(self) -> None:
        """Send half of a request, or read nothing of an answer, and close the connection."""
        parts = urlsplit(self.base)
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as connection:
            sent = f"GET {self.rng.choice(self.makers)()} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
            connection.sendall(sent if self.rng.random() < 0.5 else sent[: len(sent) // 2])


def resident_kib(pid: int) -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        match = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1]) if match else 0


def entries(pid: int, folder: str) -> int:
    """Return the number of entries in a folder of /proc for a process: its open files or its threads."""
    return sum(1 for _ in Path(f"/proc/{pid}/{folder}").iterdir())


def children(pid: int) -> list[int]:
    """Return the descendants of a process."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    own = [int(line) for line in listed.stdout.split()]
    return own + [below for child in own for below in children(child)]


def connections(url: str) -> int:
    """Return the number of open connections to the database, other than this one."""
    with get_engine(url).connect() as connection:
        counted = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return int(connection.scalar(text(counted)) or 0)


def line(minutes: float, pid: int, url: str, temporary: Path, load: Load, total: Load) -> str:
    """Return one line of the table, and reset the counts."""
    with load.lock:
        seconds, requests, failed = sorted(load.seconds), load.requests, load.failed
        load.seconds, load.requests, load.failed = [], 0, 0
    total.requests, total.failed = total.requests + requests, total.failed + failed
    files = [path for path in temporary.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files if path.exists())
    median = statistics.median(seconds) if seconds else 0.0
    p95 = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))] if seconds else 0.0
    below = sum(map(resident_kib, children(pid)))
    values = (
        *(f"{minutes:.0f}", f"{total.requests:,}", total.failed, resident_kib(pid) >> 10, below >> 10),
        *(entries(pid, "fd"), entries(pid, "task"), connections(url), len(files), size >> 10),
        *(f"{1000 * median:.0f}", f"{1000 * p95:.0f}"),
    )
    return f"| {' | '.join(map(str, values))} |"


def soak(url: str, folder: Path, filled: Filled, size: Size, options: argparse.Namespace) -> None:
    """Serve, make requests and print the table."""
    engine = get_engine(url)
    with read_session(engine) as session:
        explored = select(EvaluationQuestion.question_id).filter_by(evaluation_id=filled.explored_evaluation_id)
        questions = list(session.scalars(explored))
        evaluations = session.scalar(select(func.count()).select_from(Evaluation))
    print(f"{evaluations} evaluations, {len(questions)} questions of {EXPLORED}, {options.rate} requests a second\n")
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = os.environ | {
        "SHUFFLEBOARD_HOME": str(folder / "home"),
        "SHUFFLEBOARD_DATABASE_URL": url,
        "SHUFFLEBOARD_BROKER_URL": "",
        "TMPDIR": str(temporary),
    }
    with (folder / "serve.log").open("w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "shuffleboard.cli", "serve", "--port", "0"]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        base = _address(server, folder / "serve.log")
        rng, load, total = random.Random(0), Load(), Load()
        visitors = Visitors(base, rng, addresses(rng, filled, size, questions), load)
        pause_s = options.visitors / options.rate
        threads = [threading.Thread(target=visitors.run, args=(pause_s,)) for _ in range(options.visitors)]
        print(HEADER, flush=True)
        lines = []
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for number in range(1, int(options.minutes * 60 / options.every) + 1):
            while time.monotonic() < started + number * options.every:
                time.sleep(min(WRITE_EVERY_S, options.every))
                with engine.begin() as connection:
                    connection.execute(text("SELECT pg_current_xact_id()"))
            lines.append(line(number * options.every / 60, server.pid, url, temporary, load, total))
            print(lines[-1], flush=True)
        visitors.stop.set()
        for thread in threads:
            thread.join()
        print(f"\nBeginning, middle and end:\n\n{HEADER}")
        print("\n".join((lines[0], lines[len(lines) // 2], lines[-1])), flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    while (match := re.search(r"http://\S+", log.read_text(encoding="utf-8"))) is None:
        assert server.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.2)
    return match[0]


def main() -> None:
    """Fill a database and record the resources."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=float, default=4)
    parser.add_argument("--every", type=float, default=60)
    parser.add_argument("--visitors", type=int, default=6)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--benchmarks", type=int, default=20)
    parser.add_argument("--predictions", type=int, default=24_000)
    options = parser.parse_args()
    size = Size(options.models, options.benchmarks, 10, options.predictions)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        with PostgresServer() as database:
            postgres_execute(database.url, "CREATE DATABASE bench TEMPLATE template0")
            url = database.database_url("bench")
            upgrade(url)
            filled = fill(get_engine(url), folder, size)
            snapshot(get_engine(url))
            soak(url, folder, filled, size, options)
            dispose(get_engine(url))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
