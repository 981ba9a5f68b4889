"""Simulates many workers on one database: `python -m bench.bench_workers [OPTIONS]`.

The workers are the real loop (workers/loop.py), with its threads for heartbeats and maintenance, and each with its own
connections. Only scoring is simulated: it reads the shard's prompts, sleeps for a time around --shard-seconds, and
derives answers from a digest. The workers share --processes processes of this machine, on which PostgreSQL runs as
well.

For each number of workers: shards begun per second, next to the number if the database took no time; how long claiming,
storing, the search for complete evaluations that follows, and a heartbeat take (median and 95th percentile); CPU of
server and workers for each shard; mean number of sessions that wait for a lock; highest number of connections.

Options: --workers 10,25,50,100,200  --seconds 30  --shard-seconds 10  --processes 4  --pooler
         --shards 0             to be scored; 0: as many as could be, and more
         --queued 0  --done 0   made-up shards that are queued behind those that are scored, or done long ago
"""

import argparse
import logging
import multiprocessing
import os
import random
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from bench.bench_db import BenchServer, cpu_seconds
from registry.db import get_engine, make_engine, write_session
from registry.operations.migrate import upgrade
from registry.process_log import log_to_stderr
from registry.queue import claims
from registry.queue.evaluations import EvaluationRequest, submit
from registry.settings import Settings
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_benchmark, add_model, question
from tests.support.services import PoolerServer, postgres_execute
from workers.loop import WorkerLoop

QUESTIONS = 2000
SHARD_PROMPTS = 32
POOL = 20
LOOK_SECONDS = 0.1
CONNECT_SECONDS = 300
STEPS = ("claim", "store", "complete", "heartbeat")


class Sleeping(FakeScorer):
    """Stands in for a model: each shard takes a random time around `seconds`, so that workers do not keep in step."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._random = random.Random()

    def score(self, engine: Engine, claim: claims.Claim, should_stop: Callable[[], bool]) -> claims.ShardResult:
        time.sleep(self._seconds * self._random.uniform(0.5, 1.5))
        return super().score(engine, claim, should_stop)


class Timed(WorkerLoop):
    """Worker loop with a record of the seconds that each of its steps spends at the database."""

    took: dict[str, list[float]]

    @contextmanager
    def _time(self, step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.took[step].append(time.perf_counter() - began)

    def _next_claim(self) -> claims.Claim | None:
        with self._time("claim"):
            return super()._next_claim()

    def _store(self, shard_claim: claims.Claim, result: claims.ShardResult) -> bool:
        with self._time("store"):
            return super()._store(shard_claim, result)

    def seal_complete(self, *arguments: Any, **options: Any) -> None:
        with self._time("complete"):
            super().seal_complete(*arguments, **options)

    def _keep(self, session: Session) -> None:
        with self._time("heartbeat"):
            super()._keep(session)


@dataclass
class Seen:
    """The measurements for one number of workers. took: step → seconds; client: CPU seconds of the workers."""

    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    client: float = 0.0

    def add(self, took: Mapping[str, Sequence[float]], client: float) -> None:
        """Add the measurements of a process."""
        for step, seconds in took.items():
            self.took[step] += seconds
        self.client += client


def work(url: str, workers: int, seconds: float, shard_seconds: float, home: str, told: Any) -> None:
    """Run this many workers in this process for this time."""
    log_to_stderr(logging.ERROR)
    # A busy machine may take long to connect this many workers; measuring starts only after that.
    settings = Settings(database_url=url, home=Path(home), database_wait_seconds=CONNECT_SECONDS, shard_seconds=0)
    patient = f"{url}?connect_timeout={CONNECT_SECONDS}"
    engines = [make_engine(patient) for _ in range(workers)]
    loops = [Timed(engine, settings, Sleeping(shard_seconds), ["cpu"]) for engine in engines]
    for loop in loops:
        loop.took = defaultdict(list)
        loop.start()
    for loop in loops:
        loop.took.clear()
    began, until = time.process_time(), time.monotonic() + seconds
    threads = [threading.Thread(target=_run, args=(loop, until)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.process_time() - began
    told.put(([dict(loop.took) for loop in loops], spent))
    for loop, engine in zip(loops, engines, strict=True):
        loop.stop()
        engine.dispose()


def _run(loop: Timed, until: float) -> None:
    # Not all at once, since the workers of real hosts do not start that way.
    time.sleep(random.uniform(0.0, 1.0))
    while time.monotonic() < until:
        with suppress(DBAPIError):  # a worker waits, and tries again
            if not loop.work_once():
                raise SystemExit("the queue is empty: nothing more is measured; give more --shards")


def fill(engine: Engine, folder: Path, shards: int, *, queued: int = 0, done: int = 0) -> None:
    """Queue at least this many shards.

    queued, done: numbers of made-up shards, of low priority and of a cancelled evaluation.
    """
    each = QUESTIONS * 4 // SHARD_PROMPTS
    with write_session(engine) as session:
        add_benchmark(session, folder, [question(number, subject=None) for number in range(QUESTIONS)], "bench")
    for number in range(-(-shards // each)):
        with write_session(engine) as session:
            add_model(session, f"m{number}")
            submit(session, _request(f"m{number}"))
    for name, state, many in (("waiting", "queued", queued), ("past", "done", done)):
        if not many:
            continue
        with write_session(engine) as session:
            add_model(session, name)
            evaluation, _ = submit(session, _request(name))
            evaluation.priority = -1
            if state == "done":
                evaluation.state = "cancelled"
            session.flush()
            session.execute(
                text(
                    "INSERT INTO shard (evaluation_id, ordinal, queue, state, prompts, fence, failures, crashes) "
                    "SELECT :id, 100000 + n, 'cpu', :state, 32, 0, 0, 0 FROM generate_series(1, :many) AS n"
                ),
                {"id": evaluation.id, "state": state, "many": many},
            )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def _request(model: str) -> EvaluationRequest:
    return EvaluationRequest(model=model, benchmark="bench", variants="cyclic", shard_prompts=SHARD_PROMPTS)


def cpu_of_server(pid: int) -> float:
    """Return the CPU seconds of a PostgreSQL server: of its running and its ended processes."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
        try:
            return cpu_seconds([pid, *map(int, children)]) + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
        except FileNotFoundError:  # a process ended just now
            continue


class Watch:
    """Samples the sessions: how many wait for a lock, and how many there are."""

    def __init__(self, url: str) -> None:
        self.waiting: list[int] = []
        self.most = 0
        self._ended = threading.Event()
        self._engine = make_engine(url)
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._engine.dispose()

    def _look(self) -> None:
        query = (
            "SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        while not self._ended.wait(LOOK_SECONDS):
            with self._engine.connect() as connection:
                waiting, connections = connection.exec_driver_sql(query).one()
            self.waiting.append(waiting)
            self.most = max(self.most, connections)


def measure(url: str, direct: str, pid: int, workers: int, options: argparse.Namespace, home: str) -> str:
    """Return a line of the table.

    direct: URL that bypasses the pooler, if there is one; pid: process id of the server.
    """
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    shares = [len(range(first, workers, options.processes)) for first in range(min(options.processes, workers))]
    seen, server, load = Seen(), cpu_of_server(pid), os.getloadavg()[0]
    processes = [
        context.Process(target=work, args=(url, share, options.seconds, options.shard_seconds, home, results))
        for share in shares
    ]
    for process in processes:
        process.start()
    with Watch(direct) as watch:
        for _ in processes:
            of_loops, client = results.get()
            for took in of_loops:
                seen.add(took, client / len(of_loops))
    server = cpu_of_server(pid) - server
    for process in processes:
        process.join()
    stored = len(seen.took["store"])
    ideal = workers / options.shard_seconds if options.shard_seconds else float("nan")
    cells = [str(workers), f"{stored / options.seconds:.1f} of {ideal:.1f}"]
    for step in STEPS:
        in_order = sorted(seen.took[step]) or [0.0]
        p95 = in_order[min(len(in_order) - 1, int(0.95 * len(in_order)))]
        cells.append(f"{1000 * statistics.median(in_order):.0f} ({1000 * p95:.0f})")
    cells += [f"{1000 * server / max(1, stored):.0f}", f"{1000 * seen.client / max(1, stored):.0f}"]
    cells += [f"{statistics.mean(watch.waiting or [0]):.2f}", str(watch.most), f"{(load + os.getloadavg()[0]) / 2:.0f}"]
    return f"| {' | '.join(cells)} |"


def show(line: str) -> None:
    """Print a line of the table immediately."""
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None, report: Callable[[str], None] = show) -> None:
    """Fill a database and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="10,25,50,100,200")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--shard-seconds", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--pooler", action="store_true")
    parser.add_argument("--shards", type=int, default=0, help="to be scored; 0: as many as could be, and more")
    parser.add_argument("--queued", type=int, default=0)
    parser.add_argument("--done", type=int, default=0)
    options = parser.parse_args(arguments)
    numbers = [int(number) for number in options.workers.split(",")]
    shards = options.shards or round(sum(numbers) * (options.seconds / max(0.1, options.shard_seconds) + 2))
    with BenchServer() as server, tempfile.TemporaryDirectory() as home:
        server.stop()
        server.settings |= {"max_connections": "700", "shared_buffers": "256MB"}
        server.start()
        postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
        direct = server.database_url("bench")
        upgrade(direct)
        fill(get_engine(direct), Path(home), shards, queued=options.queued, done=options.done)
        get_engine(direct).dispose()  # no connection may cross a fork
        report(f"{shards} shards of {SHARD_PROMPTS} prompts, {options.queued} more queued, {options.done} done before")
        report(f"| workers | begun/s | {' | '.join(STEPS)} | server, ms | client, ms | waiting | connections | load |")
        report("|---" * (len(STEPS) + 7) + "|")
        if not options.pooler:
            for number in numbers:
                report(measure(direct, direct, server.pid, number, options, home))
            return
        with PoolerServer(server, connections=POOL) as pooler:
            for number in numbers:
                report(measure(pooler.database_url("bench"), direct, server.pid, number, options, home))


if __name__ == "__main__":
    main()
