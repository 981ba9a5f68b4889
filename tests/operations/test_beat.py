"""Beat, which keeps the queue moving without workers, and `alive`, which reports whether it or a worker runs."""

import json
import os
import re
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, select, update
from structlog.testing import capture_logs

from registry.db import database_now, read_session, write_session
from registry.lookups import find_evaluation
from registry.operations.maintenance import Maintenance
from registry.queue import claims
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import ChainLink, Shard, Worker
from shuffleboard.cli.beat import alive
from tests.support.commands import celery_process, command_process, eventually, shuffleboard, terminate
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from workers.loop import WorkerLoop


def score_and_not_sealed(engine: Engine, folder: Path) -> tuple[int, str]:
    """Return an evaluation and its worker, which was killed after storing the last shard and before sealing."""
    evaluation_id = queue_evaluation(engine, folder, shards=2)
    loop = WorkerLoop(engine, Settings(), FakeScorer(), ["cpu"])
    loop.seal_complete = lambda *_: None  # type: ignore[method-assign]
    loop.start()
    while loop.work_once():
        pass
    loop.stop()
    return evaluation_id, loop.id


def test_celery_s_beat_seals_what_the_dead_left(engine: Engine, database: str, redis_url: str, tmp_path: Path) -> None:
    evaluation_id, _ = score_and_not_sealed(engine, tmp_path)
    settings = {"database_url": database, "broker_url": redis_url, "reconcile_seconds": 0.5, "home": tmp_path / "home"}
    with celery_process("worker", "-B", "-Q", "maintenance", **settings) as process:

        def is_sealed() -> bool:
            with read_session(engine) as session:
                return find_evaluation(session, evaluation_id).seal is not None

        eventually(is_sealed, "it is sealed")
        assert terminate(process) == 0
    with read_session(engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []


def test_beat_seals_and_frees_what_the_dead_left_and_ends_well(
    database: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed_later, dead = score_and_not_sealed(engine, tmp_path)
    queue_evaluation(engine, tmp_path, shards=2, model="other")
    with write_session(engine) as session:
        claim = claims.claim(session, dead, queues=["cpu"], lease_seconds=0.05)
    assert claim is not None
    with command_process("beat", database_url=database, reconcile_seconds=0.2, home=tmp_path / "home") as process:

        def finish() -> bool:
            with read_session(engine) as session:
                return (
                    find_evaluation(session, sealed_later).seal is not None
                    and session.get_one(Shard, claim.shard_id).state == "queued"
                )

        eventually(finish, "the one is sealed, the other's shard is queued again")
        monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path / "home"))
        eventually((tmp_path / "home" / "beat").exists, "the sign of life")
        shown = CliRunner().invoke(alive, ["beat"])
        assert shown.exit_code == 0, shown.output
        assert terminate(process) == 0
        assert json.loads(process.log.read_text().splitlines()[-1])["event"] == "beat_stopped"
    long_ago = time.time() - 1000
    os.utime(tmp_path / "home" / "beat", (long_ago, long_ago))
    silent = CliRunner().invoke(alive, ["beat", "--seconds", "500"])
    assert (silent.exit_code, "has shown a sign of life for 500 s; the last one was 10" in silent.stderr) == (1, True)
    with read_session(engine) as session:
        assert verify_evaluation(session, sealed_later)["problems"] == []
        assert session.get_one(Shard, claim.shard_id).crashes == 1


def test_several_at_once_do_everything_once(engine: Engine, tmp_path: Path) -> None:
    evaluation_id, _ = score_and_not_sealed(engine, tmp_path)
    together = threading.Barrier(3)
    failures = []

    def maintain() -> None:
        maintenance = Maintenance(engine, Settings())
        together.wait()
        try:
            maintenance.maintain()
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    with capture_logs() as logs:
        threads = [threading.Thread(target=maintain) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert [line["event"] for line in logs].count("evaluation_sealed") == 1
    with read_session(engine) as session:
        assert session.scalars(select(ChainLink.kind)).all().count("seal") == 1
        assert verify_evaluation(session, evaluation_id)["problems"] == []


def test_a_worker_is_alive_from_its_first_sign_until_it_signs_off(
    database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", database)
    none = CliRunner().invoke(alive, ["worker"])
    assert (none.exit_code, "no worker on" in none.stderr) == (1, True)
    loop = WorkerLoop(engine, Settings(), FakeScorer(), ["cpu"])
    loop.start()
    outcome = CliRunner().invoke(alive, ["worker"])
    assert outcome.exit_code == 0
    assert re.fullmatch(r"alive: \d+ s since the last sign of life\n", outcome.stdout)
    with write_session(engine) as session:
        session.execute(update(Worker).values(last_seen=database_now(-1000)))
    silent = CliRunner().invoke(alive, ["worker", "--seconds", "500"])
    assert (silent.exit_code, "the last one was 10" in silent.stderr) == (1, True)
    loop.stop()
    assert CliRunner().invoke(alive, ["worker"]).exit_code == 1


def test_once_says_what_is_wrong_in_one_line(sqlite_database: str, tmp_path: Path) -> None:
    shuffleboard("beat", "--once", database_url=sqlite_database)
    nowhere = shuffleboard("beat", "--once", database_url="postgresql://nobody@127.0.0.1:1/none", status=1)
    assert (nowhere.stderr.count("\n"), nowhere.stderr.startswith("Error: ")) == (1, True)
