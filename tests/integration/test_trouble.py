"""A worker whose database fails, whose memory runs out, or that must stop during its work."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from registry.db import get_engine, read_session, write_session
from registry.errors import DatabaseError
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.predictions.prompts import ShardPrompt
from registry.queue import claims, stalls
from registry.settings import Settings
from registry.tables import Shard, Worker
from tests.chaos import trips
from tests.chaos.processes import Worker as Process
from tests.support.commands import PATIENCE_S, ROOT, command_process, eventually, fake_worker, terminate
from tests.support.fake_scorer import FakeScorer
from tests.support.population import predictions, queue_evaluation
from tests.support.services import PostgresServer
from workers import loop as loops
from workers.loop import WorkerLoop
from workers.memory import MINIMUM_TOKENS

pytestmark = pytest.mark.long_on("sqlite")


@contextmanager
def working(engine: Engine, scorer: FakeScorer, **settings: Any) -> Iterator[WorkerLoop]:
    """Start a worker in this process; stop it at the end."""
    loop = WorkerLoop(engine, Settings(**({"poll_seconds": 0.05} | settings)), scorer, ["cpu"])
    loop.start()
    try:
        yield loop
    finally:
        loop.stop()


def run(engine: Engine, scorer: FakeScorer | None = None, **settings: Any) -> list[str]:
    """Run a worker until nothing is left; return the events that it logged."""
    with capture_logs() as logs, working(engine, scorer or FakeScorer(), **settings) as loop:
        loop.run(until_idle=True)
    return [entry["event"] for entry in logs]


def shard_rows(engine: Engine, *columns: str) -> list[tuple[Any, ...]]:
    with read_session(engine) as session:
        query = select(*(getattr(Shard, name) for name in columns)).order_by(Shard.id)
        return [tuple(row) for row in session.execute(query)]


def state(engine: Engine, evaluation_id: int) -> str:
    with read_session(engine) as session:
        return find_evaluation(session, evaluation_id).state


def cut_connections(engine: Engine) -> None:
    """Close every connection to the database except this one, as an administrator or a firewall does."""
    with engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )


# The database


class CutsWhileReading(FakeScorer):
    """A scorer that loses its connection while it reads its first shard."""

    cut = False

    def score(self, engine: Engine, *arguments: Any) -> claims.ShardResult:
        if not self.cut:
            self.cut = True
            raise OperationalError("SELECT", None, Exception("server closed the connection unexpectedly"))
        return super().score(engine, *arguments)


def test_a_database_lost_while_reading_is_not_the_shards_failure(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    with capture_logs(), working(engine, CutsWhileReading()) as loop:
        with pytest.raises(OperationalError):
            loop.work_once()
        assert shard_rows(engine, "state", "failures", "crashes") == [("queued", 0, 0)] * 2
        loop.run(until_idle=True)
    assert state(engine, evaluation_id) == "complete"


def test_a_result_survives_a_connection_that_is_cut(postgresql_database: str, tmp_path: Path) -> None:
    engine = get_engine(postgresql_database)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    cuts: list[int] = []

    def cut(item: ShardPrompt) -> None:
        if item.variant.ordinal == 3:  # the last prompt of a shard
            cuts.append(1)
            cut_connections(engine)

    scorer = FakeScorer(before_prompt=cut)
    run(engine, scorer)
    assert len(cuts) == 2  # nothing was scored again
    assert state(engine, evaluation_id) == "complete"
    assert shard_rows(engine, "fence", "failures", "crashes") == [(1, 0, 0)] * 2


def test_a_commit_whose_answer_was_lost_is_found_out(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    finish, lost = claims.finish, []

    def finish_and_lose_the_answer(session: Any, *arguments: Any) -> bool:
        stored = finish(session, *arguments)
        if stored and not lost:
            lost.append(1)
            session.commit()
            raise OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))
        return stored

    monkeypatch.setattr(claims, "finish", finish_and_lose_the_answer)
    events = run(engine)
    assert "shard_done" in events
    assert "shard_discarded" not in events
    assert len(predictions(engine, evaluation_id)) == 4
    assert state(engine, evaluation_id) == "complete"


def test_a_claim_whose_answer_was_lost_is_handed_back(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    claim, lost = claims.claim, []

    def claim_and_lose_the_answer(session: Any, *arguments: Any, **options: Any) -> claims.Claim | None:
        claimed = claim(session, *arguments, **options)
        if not lost:
            lost.append(1)
            session.commit()
            raise OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))
        return claimed

    monkeypatch.setattr(claims, "claim", claim_and_lose_the_answer)
    with capture_logs(), working(engine, FakeScorer()) as loop:
        with pytest.raises(OperationalError):
            loop.work_once()
        assert [row[0] for row in shard_rows(engine, "state")] == ["leased", "queued"]
        loop.run(until_idle=True)
    assert state(engine, evaluation_id) == "complete"
    assert shard_rows(engine, "failures", "crashes") == [(0, 0)] * 2  # nobody waited for the lease


def test_a_full_database_holds_work_up_and_loses_none(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=4)
    limit = tmp_path / "pages"
    limit.write_text("1")  # no more than there are
    settings = {"database_url": sqlite_database, "poll_seconds": 0.1, "lease_seconds": 3.0}
    with fake_worker("--page-limit", limit, **settings) as worker:
        eventually(lambda: "disk is full" in worker.log.read_text(), "the database is full")
        first_lease = min(until for (until,) in shard_rows(engine, "lease_until") if until is not None)
        eventually(lambda: datetime.now(UTC) > first_lease, "the lease that the worker began with has run out")
        assert worker.status is None
        limit.unlink()
        eventually(lambda: state(engine, evaluation_id) == "complete", "the work goes on")
        assert terminate(worker) == 0
    assert shard_rows(engine, "state", "fence", "failures", "crashes") == [("done", 1, 0, 0)] * 4


def test_a_worker_behind_submit_wait_reports_trouble_with_the_database(
    sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = get_engine(sqlite_database)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=4)
    limit = tmp_path / "pages"
    monkeypatch.setattr(loops, "HELPER_PATIENCE_SECONDS", 0.3)
    with capture_logs(), working(engine, FakeScorer()) as loop:
        engine.dispose()
        trips.limit_pages(engine, str(limit))
        limit.write_text("1")
        with pytest.raises(DatabaseError, match="database or disk is full; the work stays queued"):
            loop.run(until_idle=True)
        limit.unlink()
    assert state(engine, evaluation_id) == "running"
    assert set(shard_rows(engine, "failures", "crashes")) == {(0, 0)}


@pytest.mark.long
def test_services_that_are_started_before_postgresql_wait_for_it(private_postgres_server: PostgresServer) -> None:
    settings = {"database_url": private_postgres_server.url}
    upgrade(private_postgres_server.url)
    get_engine(private_postgres_server.url).dispose()
    private_postgres_server.stop()
    with (
        command_process("beat", **settings) as beat,
        command_process("serve", "--port", "0", **settings) as website,
    ):
        with command_process("worker", **settings) as worker:
            for process in (beat, website, worker):
                wait_for_log(process, "database_awaited")
        private_postgres_server.start()  # not for the worker, whose start takes all of torch
        wait_for_log(beat, "beat_started")
        wait_for_log(website, "Shuffleboard is at")


def wait_for_log(process: Process, sign: str) -> None:
    """Wait until the process has logged this text."""
    eventually(lambda: sign in process.log.read_text() or process.status is not None, f"it logs {sign}")
    assert sign in process.log.read_text(), process.log.read_text()


def test_a_service_gives_up_a_database_that_stays_away() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    with command_process("beat", database_url=nowhere, database_wait_seconds=0.1) as beat:
        assert beat.wait(PATIENCE_S) == 1
        *waited, error = beat.log.read_text().splitlines()
        assert {json.loads(line)["event"] for line in waited} == {"database_awaited"}
        assert re.fullmatch(r"Error: database \S+ cannot be opened \(.*\); check SHUFFLEBOARD_DATABASE_URL .*", error)


def test_a_thread_that_breaks_stops_the_worker(sqlite_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = get_engine(sqlite_database)
    monkeypatch.setattr(WorkerLoop, "_keep", lambda *_: 1 / 0)
    with capture_logs() as logs:
        loop = WorkerLoop(engine, Settings(lease_seconds=0.3), FakeScorer(), ["cpu"])
        monkeypatch.setattr(loop, "maintain", lambda: None)
        loop.start()
        assert loop.stopping.wait(PATIENCE_S)
        loop.stop()
    assert loop.broken
    assert "worker_broken" in [entry["event"] for entry in logs]


# Memory


class Cramped(FakeScorer):
    """A scorer that runs out of memory above a number of tokens."""

    def __init__(self, room: int) -> None:
        super().__init__(before_prompt=self._try)
        self.room = room
        self.tried: list[int] = []

    def _try(self, _item: ShardPrompt) -> None:
        self.tried.append(self.budget_tokens)
        if self.budget_tokens > self.room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")


def budgets(engine: Engine) -> list[Any]:
    with read_session(engine) as session:
        return list(session.scalars(select(Worker.token_budgets).order_by(Worker.started_at)))


def test_a_worker_whose_memory_runs_out_makes_smaller_batches_and_remembers(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    scorer = Cramped(1024)
    run(engine, scorer)
    assert state(engine, evaluation_id) == "complete"
    assert shard_rows(engine, "failures", "crashes") == [(0, 0)] * 2
    assert scorer.tried == [4096, 2048] + [1024] * 8
    with read_session(engine) as session:
        revision = find_evaluation(session, evaluation_id).model_revision_id
    assert budgets(engine) == [{str(revision): 1024}]
    # The next worker on this device starts with the size that fitted.
    queue_evaluation(engine, tmp_path, shards=2, new_replicate=True)
    scorer = Cramped(1024)
    run(engine, scorer)
    assert set(scorer.tried) == {1024}


def test_a_shard_that_fits_in_no_batch_fails(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BACK_OFF_SECONDS", 0.05)
    queue_evaluation(engine, tmp_path)
    scorer = Cramped(0)
    run(engine, scorer)
    assert min(scorer.tried) == MINIMUM_TOKENS
    assert shard_rows(engine, "state", "failures", "error") == [
        ("failed", 3, "fake: RuntimeError: DefaultCPUAllocator: can't allocate memory")
    ]


# Models


def test_an_idle_model_is_unloaded(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path)
    scorer = FakeScorer()
    loop = WorkerLoop(engine, Settings(poll_seconds=0.05, reconcile_seconds=0.1), scorer, ["cpu"], unload_seconds=0.5)
    with capture_logs() as logs:
        loop.start()
        assert loop.work_once()
        assert len(scorer.loads) == 1
        eventually(lambda: scorer.loaded_model_revision_id is None, "the model is unloaded")
        loop.stop()
    assert [entry["event"] for entry in logs].count("model_unloaded") == 1


def test_a_model_in_use_is_not_unloaded(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path)
    scorer = FakeScorer(seconds_per_prompt=0.3)
    loop = WorkerLoop(engine, Settings(reconcile_seconds=0.1), scorer, ["cpu"], unload_seconds=0.2)
    with capture_logs() as logs:
        loop.start()
        loop.work_once()
        loop.stop()
    before = [entry["event"] for entry in logs]
    assert "model_unloaded" not in before[: before.index("shard_done")]


def test_two_workers_load_each_of_two_models_once(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    settings = {"database_url": sqlite_database, "poll_seconds": 0.1}
    ids = [queue_evaluation(engine, tmp_path, shards=8, model=name) for name in ("one", "two")]
    pace = ("--until-idle", "--seconds-per-prompt", 0.05)
    with fake_worker(*pace, **settings) as first, fake_worker(*pace, **settings) as second:
        assert [first.wait(PATIENCE_S), second.wait(PATIENCE_S)] == [0, 0]
        loaded = [re.findall(r"^loaded (\d+)$", worker.said.read_text(), re.MULTILINE) for worker in (first, second)]
    assert [state(engine, evaluation_id) for evaluation_id in ids] == ["complete"] * 2
    assert len(shard_rows(engine, "id")) == 16
    for of_worker in loaded:
        assert len(of_worker) == len(set(of_worker)) <= 2


# Stopping


@pytest.mark.long
def test_a_worker_in_an_endless_batch_hands_its_shard_back_in_time(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path, shards=2)
    with fake_worker("--seconds-per-prompt", 600, database_url=sqlite_database, poll_seconds=0.1) as worker:
        eventually(lambda: ("leased",) in shard_rows(engine, "state"), "the worker claims a shard")
        assert terminate(worker) == 0  # long before the 600 s of a prompt
    assert shard_rows(engine, "state", "failures", "crashes", "lease_until") == [("queued", 0, 0, None)] * 2
    with read_session(engine) as session:
        assert session.scalars(select(Worker)).one().stopped_at is not None


def test_a_hanging_scorers_shard_is_given_up_and_its_late_result_discarded(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BACK_OFF_SECONDS", 0.0)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2, variants="original")
    wakes = threading.Event()
    settings = Settings(lease_seconds=1, poll_seconds=0.05, stall_min_seconds=1, stall_max_seconds=1)
    loop = WorkerLoop(engine, settings, FakeScorer(before_prompt=lambda _: wakes.wait()), ["cpu"])
    with capture_logs() as logs:
        loop.start()
        hanging = threading.Thread(target=loop.run)
        hanging.start()
        try:
            eventually(loop.stopping.is_set, "it notices, although its heartbeat goes on")
            assert loop.broken  # the process ends with status 1, so that a supervisor starts another
            assert shard_rows(engine, "state", "failures", "crashes") == [("queued", 1, 0), ("queued", 0, 0)]
            assert run(engine).count("shard_done") == 2  # another worker's
            before = predictions(engine, evaluation_id)
        finally:
            wakes.set()
            hanging.join()
            loop.stop()
    events = [entry["event"] for entry in logs if entry["event"].startswith("shard_")]
    assert events == ["shard_given_up", "shard_discarded"]
    assert (state(engine, evaluation_id), predictions(engine, evaluation_id)) == ("complete", before)
    with read_session(engine) as session:
        (row,) = session.scalars(select(Shard).where(Shard.stalled_at.is_not(None)))
    assert (row.evaluation_id, row.ordinal, row.stalled_worker_id) == (evaluation_id, 0, loop.id)


def test_a_shard_may_stall_for_ten_times_its_expected_duration(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path, shards=3)
    settings = Settings(stall_min_seconds=2, stall_max_seconds=600)
    with write_session(engine) as session:
        session.add(Worker(id="worker", host="here", pid=1, device="fake", versions={}))
        session.flush()
        claim = claims.claim(session, "worker", queues=["cpu"], lease_seconds=60)
        assert claim is not None
        first, *others = session.scalars(select(Shard.id).order_by(Shard.id))
        assert claim.shard_id == first
        for took_s, expected_s in (((), 600), ((20.0,), 200), ((20.0, 0.1), 200), ((1e6, 0.1), 600), ((0.1, 0.1), 2)):
            for shard_id, elapsed_s in zip(others, took_s, strict=False):
                done = update(Shard).where(Shard.id == shard_id).values(state="done", elapsed_s=elapsed_s)
                session.execute(done)
            assert stalls.patience(session, settings, claim) == expected_s
        assert stalls.patience(session, settings, None) == 600  # while its model is loaded


def test_one_thread_at_a_time_scores_while_polling_beside_messages(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path, shards=6)
    inside: list[int] = []
    together: list[int] = []

    def enter(_item: ShardPrompt) -> None:
        inside.append(1)
        together.append(len(inside))
        time.sleep(0.02)
        inside.pop()

    with capture_logs(), working(engine, FakeScorer(before_prompt=enter), reconcile_seconds=0.05) as loop:
        loop.poll_beside_messages()
        threads = [threading.Thread(target=loop.work_for_message) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        eventually(lambda: set(shard_rows(engine, "state")) == {("done",)}, "all is scored")
    assert set(together) == {1}


def test_a_worker_for_each_device(sqlite_database: str) -> None:
    engine = get_engine(sqlite_database)
    devices = ("--device", "cpu", "--device", "cpu", "--threads", "1")
    command = [sys.executable, "-m", "shuffleboard.cli", "worker", *devices]
    environment = os.environ | {"SHUFFLEBOARD_DATABASE_URL": sqlite_database}

    def alive() -> list[Any]:
        with read_session(engine) as session:
            return session.execute(select(Worker.pid, Worker.device).where(Worker.stopped_at.is_(None))).all()

    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True) as parent:
        try:
            eventually(lambda: len(alive()) == 2, "both workers are alive")
            assert {row.device for row in alive()} == {"cpu"}
            assert parent.pid not in {row.pid for row in alive()}
            killed = alive()[0].pid
            os.kill(killed, signal.SIGKILL)
            eventually(lambda: len(alive()) == 3, "a worker that died is started again")
            assert terminate(parent) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
    assert [row.pid for row in alive()] == [killed]


# Frozen transactions


def is_connected(engine: Engine, process: int | None) -> bool:
    with engine.connect() as connection:
        query = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
        return bool(connection.scalar(query, {"pid": process}))


def test_postgresql_ends_a_workers_transaction_that_stands_still(postgresql_database: str, tmp_path: Path) -> None:
    engine = get_engine(postgresql_database)
    queue_evaluation(engine, tmp_path)

    def stand_still() -> None:
        with write_session(engine, 0.2) as session:
            session.execute(update(Shard).values(error="half done"))
            process = session.scalar(text("SELECT pg_backend_pid()"))
            eventually(lambda: not is_connected(engine, process), "PostgreSQL ends the connection")
            session.execute(select(Shard.id))

    with pytest.raises(loops.TROUBLE):
        stand_still()
    assert shard_rows(engine, "error") == [(None,)]
    with write_session(engine) as session:  # others are given their time
        assert session.scalar(text("SHOW idle_in_transaction_session_timeout")) == "0"
