"""Simulates a fleet of GPUs with the real queue: `python -m bench.bench_fleet [OPTIONS]`.

Claims, leases, exclusions, sizes of shards and reconciling are the registry's own code on a real database, whose clock
is simulated. Device times, failures, and results, which are not stored, are made up.

There are 200 workers on hosts of eight: three kinds of device, one of them too small for one of eight models; two
models have priority. Every 20 s a worker is killed (less often with fewer workers), and another starts in its place a
minute later. One device always fails, and one host's disk has space for only three models.

Reported: the makespan next to its bound; how the healthy devices spent their time, weighted by their rates; downloads;
parked work. No schedule is shorter than the bound: the work of all models that need more than some amount of memory,
divided by the rate of all healthy devices that have more, for the amount that gives the longest time. It ignores
loading, downloads, deaths, priorities and small disks.

Options: --workers 200  --hours 1.0 (of work)  --seed 0  --postgresql (and its CPU, without stored predictions)
"""

import argparse
import heapq
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest import mock

from sqlalchemy import Engine, event, func, select, update
from sqlalchemy.orm import Session

from bench.bench_db import BenchServer
from bench.bench_workers import cpu_of_server
from registry.db import database_now, make_engine, write_session
from registry.operations.migrate import upgrade
from registry.queue import claims, exclusions
from registry.queue.evaluations import EvaluationRequest, submit
from registry.queue.sizing import Sizes
from registry.tables import Evaluation, Shard, Worker
from tests.support.population import add_benchmark, add_model, question
from tests.support.services import postgres_execute

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_SECONDS: Final = 60.0
SHARD_SECONDS: Final = 40.0
BEAT_SECONDS: Final = 20.0
"""All heartbeats are sent at once, since the simulation covers the queue and not the commits of heartbeats."""
POLL_SECONDS: Final = 5.0
RECONCILE_SECONDS: Final = 5.0
"""Each worker reconciles every 30 s, so that of many workers one does about this often."""
KILL_SECONDS: Final = 20.0
REPLACED_SECONDS: Final = 60.0
DEVICES_OF_HOST: Final = 8
GIB_PER_SECOND: Final = 0.5
VARIANTS: Final = 24
SHARD_PROMPTS: Final = 4 * VARIANTS
"""Prompts of a shard before a rate is known."""


@dataclass(frozen=True)
class Kind:
    """A kind of device: its share of the fleet, prompts per second of the cheapest model, memory."""

    name: str
    share: float
    rate: float
    memory_gib: float


@dataclass(frozen=True)
class Model:
    """A model. cost: cost of a prompt, relative to the cheapest model; work: the model's share of the fleet's hours."""

    name: str
    cost: float
    gib: float
    work: float
    priority: int = 0


KINDS: Final = (Kind("H100", 0.3, 40.0, 80.0), Kind("A100", 0.4, 20.0, 40.0), Kind("T4", 0.3, 5.0, 16.0))
MODELS: Final = (
    Model("0.5B", 1.0, 1.0, 0.05, priority=10),
    Model("1B", 1.5, 2.0, 0.10),
    Model("3B", 2.0, 6.0, 0.10),
    Model("4B", 2.5, 8.0, 0.15, priority=10),
    Model("7B", 3.0, 14.0, 0.15),
    Model("7B-chat", 3.0, 14.0, 0.15),
    Model("7B-code", 3.0, 14.0, 0.10),
    Model("14B", 6.0, 28.0, 0.20),
)
MEMORIES: Final = (0.0, *(kind.memory_gib for kind in KINDS))
BROKEN: Final = 3
"""Number of the worker whose device fails."""
SMALL_DISK_HOST: Final = "host1"
SMALL_DISK_GIB: Final = 20.0


class Nothing(Sequence[Any]):
    """A sequence of results with a length only; none of them is stored."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        raise IndexError(place)


@dataclass
class Simulated:
    """A simulated worker.

    life: number of its earlier lives. Events scheduled in an earlier life do not happen.
    """

    number: int
    kind: Kind
    host: str
    id: str = ""
    life: int = 0
    model: int | None = None
    claim: claims.Claim | None = None
    prompts: int = 0
    restarts: int = 0
    sizes: Sizes = field(default_factory=lambda: Sizes(0, ""))
    loads: int = 0
    doing: str = "dead"
    since: float = 0.0

    @property
    def scopes(self) -> list[str]:
        return exclusions.scopes_of(self.host, self.kind.name, f"GPU {self.number}")


class Fleet:
    """All workers, their hosts, and the clock."""

    def __init__(self, engine: Engine, workers: int, seed: int) -> None:
        self.engine = engine
        self.now = 0.0
        self.random = random.Random(seed)
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.counter = 0
        self.kinds = [kind for kind in KINDS for _ in range(round(kind.share * workers))]
        hosts = range(len(self.kinds))
        self.workers = [Simulated(number, self.kinds[number], f"host{number // DEVICES_OF_HOST}") for number in hosts]
        self.models: dict[int, Model] = {}
        self.there: dict[tuple[str, int], float] = {}
        """(host, model) to when its download ends or ended."""
        self.disk: dict[str, float] = defaultdict(lambda: 1e9, {SMALL_DISK_HOST: SMALL_DISK_GIB})
        self.downloads: Counter[tuple[str, int]] = Counter()
        self.counts: Counter[str] = Counter()
        self.seconds_of_shards: list[float] = []
        self.ended: dict[int, float] = {}
        self.spent: Counter[str] = Counter()
        """Prompts of the cheapest model that healthy devices could have computed meanwhile."""

    # The clock

    def time(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.now)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self.counter += 1
        heapq.heappush(self.events, (self.now + seconds, self.counter, what))

    def schedule(self, worker: Simulated, seconds: float, action: Callable[[Simulated], None]) -> None:
        """Schedule an event of a worker; it is dropped if the worker ends before it."""
        life = worker.life
        self.after(seconds, lambda: action(worker) if worker.life == life else None)

    def run(self, longest: float) -> None:
        """Run until all work is done, or until this time."""
        for worker in self.workers:
            self.schedule(worker, self.random.uniform(0, 5), self.start)
        self.after(BEAT_SECONDS, self.beat)
        self.after(KILL_SECONDS * 200 / len(self.workers), self.kill)
        self.after(RECONCILE_SECONDS, self.reconcile)
        while self.events and len(self.ended) < len(self.models) and self.now < longest:
            self.now, _, what = heapq.heappop(self.events)
            what()
        for worker in self.workers:
            self.goes_on_to(worker, "")

    def goes_on_to(self, worker: Simulated, what: str) -> None:
        if worker.number != BROKEN:
            self.spent[worker.doing] += (self.now - worker.since) * worker.kind.rate
        worker.doing, worker.since = what, self.now

    # Workers

    def start(self, worker: Simulated) -> None:
        worker.id = f"{worker.number}-{worker.life}"
        worker.sizes = Sizes(SHARD_SECONDS, worker.kind.name)
        with write_session(self.engine) as session:
            row = {"id": worker.id, "host": worker.host, "pid": worker.number, "device": worker.kind.name}
            session.add(Worker(**row, scopes=worker.scopes, versions={}, queues=["gpu"]))
        self.step(worker)

    def end(self, worker: Simulated, again_s: float) -> None:
        if worker.doing == "computing":
            worker.doing = "computed in vain"
        self.goes_on_to(worker, "dead")
        worker.life += 1
        worker.id, worker.model, worker.claim = "", None, None
        self.schedule(worker, again_s, self.start)

    def beat(self) -> None:
        live = [worker.id for worker in self.workers if worker.id]
        with write_session(self.engine) as session:
            session.execute(update(Worker).where(Worker.id.in_(live)).values(last_seen=database_now()))
            for worker in self.workers:
                if worker.claim is not None and not claims.heartbeat(session, worker.claim, LEASE_SECONDS):
                    self.counts["leases lost"] += 1
        self.after(BEAT_SECONDS, self.beat)

    def step(self, worker: Simulated) -> None:
        with write_session(self.engine) as session:
            claim = claims.claim(
                session,
                worker.id,
                queues=["gpu"],
                lease_seconds=LEASE_SECONDS,
                loaded_model_revision_id=worker.model,
                scopes=worker.scopes,
                sizes=worker.sizes,
            )
            worker.prompts = session.get_one(Shard, claim.shard_id).prompts if claim else 0
        self.counts["claims"] += 1
        worker.claim = claim
        if claim is None:
            self.counts["polls"] += 1
            self.goes_on_to(worker, "idle, of the small disk" if worker.host == SMALL_DISK_HOST else "idle")
            self.schedule(worker, POLL_SECONDS, self.step)
        elif worker.model == claim.model_revision_id:
            self.score(worker)
        else:
            self.fetch(worker)

    def fetch(self, worker: Simulated) -> None:
        """Download the model of a claim unless the host has it; wait if another worker downloads it."""
        assert worker.claim is not None
        model = self.models[worker.claim.model_revision_id]
        place = (worker.host, worker.claim.model_revision_id)
        if place not in self.there:
            if self.disk[worker.host] < model.gib:
                self.counts["disk full"] += 1
                self.leave(worker, f"host {worker.host}", "no space left", model=True)
                self.schedule(worker, 1.0, self.step)
                return
            self.disk[worker.host] -= model.gib
            self.downloads[place] += 1
            self.there[place] = self.now + model.gib / GIB_PER_SECOND
        wait = max(0.0, self.there[place] - self.now)
        seconds = 5.0 + model.gib
        self.goes_on_to(worker, "loading")
        worker.model = None
        worker.loads += 1
        self.schedule(worker, wait + seconds, self.loaded)

    def loaded(self, worker: Simulated) -> None:
        assert worker.claim is not None
        model = self.models[worker.claim.model_revision_id]
        if model.gib > worker.kind.memory_gib:
            self.counts["does not fit"] += 1
            self.leave(worker, worker.kind.name, "out of memory", model=True, lasting=True)
            self.step(worker)
            return
        worker.model = worker.claim.model_revision_id
        self.score(worker)

    def leave(self, worker: Simulated, scope: str, error: str, **how: bool) -> None:
        assert worker.claim is not None
        with write_session(self.engine) as session:
            claims.leave_to_others(session, worker.claim, scope, error, **how)
        worker.claim = None

    def score(self, worker: Simulated) -> None:
        assert worker.claim is not None
        if worker.number == BROKEN:
            self.counts["device errors"] += 1
            self.leave(worker, worker.scopes[2], "CUDA error: an illegal memory access was encountered")
            worker.restarts += 1
            self.end(worker, min(300.0, 2.0**worker.restarts))
            return
        model = self.models[worker.claim.model_revision_id]
        self.goes_on_to(worker, "computing")
        seconds = worker.prompts * model.cost / worker.kind.rate * self.random.uniform(0.9, 1.1)
        self.schedule(worker, seconds, lambda worker: self.finish(worker, seconds))

    def finish(self, worker: Simulated, seconds: float) -> None:
        claim, prompts = worker.claim, worker.prompts
        assert claim is not None
        result = claims.ShardResult(
            rows=Nothing(prompts),
            fingerprint={"device": worker.kind.name},
            tokens_naive=prompts,
            tokens_computed=prompts,
            elapsed_s=seconds,
        )
        with write_session(self.engine) as session:
            stored = claims.finish(session, claim, result)
            if stored and claims.ready_to_seal(session, claim.evaluation_id):
                self.ended[claim.evaluation_id] = self.now
        self.counts["shards" if stored else "results discarded"] += 1
        worker.sizes.note(claim.evaluation_id, prompts, prompts, seconds)
        self.seconds_of_shards.append(seconds)
        worker.claim = None
        self.step(worker)

    # Everything else

    def kill(self) -> None:
        self.counts["kills"] += 1
        self.end(self.random.choice(self.workers), REPLACED_SECONDS)
        self.after(KILL_SECONDS * 200 / len(self.workers), self.kill)

    def reconcile(self) -> None:
        with write_session(self.engine) as session:
            claims.reconcile(session)
        self.after(RECONCILE_SECONDS, self.reconcile)

    def rate(self, gib: float = 0.0) -> float:
        """Return the prompts of the cheapest model per second, for all healthy devices with more memory than this."""
        able = [worker for worker in self.workers if worker.number != BROKEN and worker.kind.memory_gib > gib]
        return sum(worker.kind.rate for worker in able)


def fill(fleet: Fleet, folder: Path, hours: float) -> tuple[int, float]:
    """Queue this many hours of the fleet's work; return the prompts, and the bound of the makespan in seconds."""
    total = 3600.0 * hours * fleet.rate()
    questions = {model: max(1, round(total * model.work / model.cost / VARIANTS)) for model in MODELS}
    work = {model: number * VARIANTS * model.cost for model, number in questions.items()}
    with write_session(fleet.engine) as session:
        lines = [question(number, subject=None) for number in range(max(questions.values()))]
        add_benchmark(session, folder, lines, "bench")
        for model, limit in questions.items():
            revision = add_model(session, model.name)
            fleet.models[revision.id] = model
            more = {"queue": "gpu", "priority": model.priority, "shard_prompts": SHARD_PROMPTS}
            submit(session, EvaluationRequest(model.name, "bench", "full", limit=limit, **more))
    needing = {gib: sum(work[model] for model in MODELS if model.gib > gib) for gib in MEMORIES}
    bound = max(needed / fleet.rate(gib) for gib, needed in needing.items() if needed)
    return VARIANTS * sum(questions.values()), bound


@contextmanager
def clock_of(engine: Engine, fleet_time: Callable[[], datetime]) -> Iterator[None]:
    """Make the database's connections use the simulated time."""
    if engine.dialect.name == "sqlite":

        def strftime(_form: str, *arguments: str) -> str:
            plus = float(arguments[1].split()[0]) if len(arguments) > 1 else 0.0
            return (fleet_time() + timedelta(seconds=plus)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]

        def connect(connection: Any, _record: Any) -> None:
            connection.create_function("strftime", -1, strftime)
            connection.execute("PRAGMA synchronous = OFF")  # nothing needs to survive a crash

        event.listen(engine, "connect", connect)
    else:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE SCHEMA simulated")
            connection.exec_driver_sql(
                "CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS "
                "$$ SELECT current_setting('simulated.now')::timestamptz $$"
            )

        def begin(connection: Any) -> None:
            connection.exec_driver_sql(f"SET simulated.now = '{fleet_time().isoformat()}'")

        event.listen(engine, "begin", begin)
    yield


def simulate(
    url: str, folder: Path, *, workers: int, hours: float, seed: int, pid: int | None = None
) -> dict[str, Any]:
    """Run a fleet on an empty database. pid: process id of the database server, to measure its CPU."""
    engine = make_engine(url, search_path="simulated, public, pg_catalog")
    fleet = Fleet(engine, workers, seed)
    with (
        clock_of(engine, fleet.time),
        mock.patch.object(claims, "insert_predictions"),
        mock.patch.object(claims, "write_question_scores"),
    ):
        prompts, bound = fill(fleet, folder, hours)
        planned = count(engine, Shard.id)
        before = cpu_of_server(pid) if pid else 0.0
        fleet.run(longest=5 * bound + 3600)
        spent = cpu_of_server(pid) - before if pid else None
    with Session(engine) as session:
        parked = session.scalar(select(func.count()).where(Shard.state == "failed"))
        failures = session.scalar(select(func.sum(Shard.failures)))
        names = {
            row.id: row.model_revision_id
            for row in session.execute(select(Evaluation.id, Evaluation.model_revision_id))
        }
    engine.dispose()
    in_order = sorted(fleet.seconds_of_shards)
    return {
        "prompts": prompts,
        "bound_s": bound,
        "makespan_s": max(fleet.ended.values()) if len(fleet.ended) == len(MODELS) else None,
        "ended": {fleet.models[names[key]].name: round(at) for key, at in fleet.ended.items()},
        "downloads": len(fleet.downloads),
        "most_downloads": max(fleet.downloads.values()),
        "parked": parked,
        "failures": failures,
        "planned": planned,
        "shard_s": [round(in_order[int(share * (len(in_order) - 1))], 1) for share in (0.05, 0.5, 0.95, 1.0)],
        "loads": sum(worker.loads for worker in fleet.workers),
        "time": {what: round(spent / fleet.spent.total(), 4) for what, spent in fleet.spent.most_common()},
        "counts": dict(fleet.counts),
        "database_ms_per_1000_prompts": None if spent is None else round(1e6 * spent / prompts, 1),
        "database_ms_per_shard": None if spent is None else round(1e3 * spent / len(in_order), 1),
    }


def count(engine: Engine, column: Any) -> int:
    """Return the number of rows in a column's table."""
    with Session(engine) as session:
        return session.scalar(select(func.count(column))) or 0


def main(arguments: Sequence[str] | None = None, report: Callable[[str], None] = print) -> dict[str, Any]:
    """Run one simulation and report its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args(arguments)
    how = {"workers": options.workers, "hours": options.hours, "seed": options.seed}
    with tempfile.TemporaryDirectory() as folder:
        if options.postgresql:
            with BenchServer() as server:
                postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
                url = server.database_url("bench")
                upgrade(url)
                figures = simulate(url, Path(folder), **how, pid=server.pid)
        else:
            url = f"sqlite:///{folder}/fleet.db"
            upgrade(url)
            figures = simulate(url, Path(folder), **how)
    for name, value in figures.items():
        report(f"{name}: {value}")
    if figures["makespan_s"]:
        report(f"makespan over bound: {figures['makespan_s'] / figures['bound_s']:.3f}")
    return figures


if __name__ == "__main__":
    main()
