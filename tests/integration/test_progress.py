"""The progress of evaluations on the command line."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.queue import claims
from registry.queue.progress import Progress, duration, overall, progress_of, progress_of_several
from registry.settings import Settings
from registry.tables import Worker
from shuffleboard.cli import evaluations  # noqa: F401 - or it is first imported while a test replaces what it imports
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from workers.loop import WorkerLoop


@pytest.fixture
def waiting(sqlite_database: str, tmp_path: Path) -> tuple[int, str]:
    """Return an evaluation that no worker scores, and its database."""
    return queue_evaluation(get_engine(sqlite_database), tmp_path, shards=2), sqlite_database


def score_one(engine: Engine, *, seconds: float) -> None:
    with write_session(engine) as session:
        claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
    assert claim is not None
    scores = FakeScorer().score(engine, claim, lambda: False)
    with write_session(engine) as session:
        claims.finish(session, claim, claims.ShardResult(scores.rows, scores.fingerprint, 200, 50, seconds))


def progress(**changes: Any) -> Progress:
    """Return a progress of 40 of 100 prompts that one worker scored in 20 s, which is 2 prompts a second."""
    values: dict[str, Any] = {
        "evaluation_id": 1,
        "state": "running",
        "questions": 25,
        "prompts": 100,
        "prompts_done": 40,
        "shards": 5,
        "shards_done": 2,
        "shards_leased": 1,
        "shards_failed": 0,
        "failures": 0,
        "crashes": 0,
        "elapsed_s": 20.0,
        "tokens_naive": 400,
        "tokens_computed": 100,
        "workers": 1,
    }
    return Progress(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "seconds_left"),
    [
        pytest.param({}, 30.0, id="60 prompts at 2 a second"),
        pytest.param({"workers": 3}, 10.0, id="shared by three workers"),
        pytest.param({"workers": 0}, None, id="nobody scores it"),
        pytest.param({"state": "paused"}, None, id="paused"),
        pytest.param({"prompts_done": 0, "elapsed_s": None}, None, id="nothing measured"),
        pytest.param({"prompts_done": 100, "state": "complete", "workers": 0}, 0.0, id="nothing left"),
    ],
)
def test_the_time_left(changes: dict[str, Any], seconds_left: float | None) -> None:
    assert progress(**changes).seconds_left == seconds_left


def test_tokens_saved_are_those_not_computed() -> None:
    assert progress().tokens_saved == 300
    assert progress(tokens_naive=None).tokens_saved is None


def test_everything_together_is_shared_by_all_live_workers() -> None:
    # 60 prompts at 2 a second and 10 at half a one: 30 s and 20 s of one worker.
    slow = progress(prompts=20, prompts_done=10, elapsed_s=20.0)
    document = overall([progress(), slow, progress(state="paused")], live_workers=2)
    assert (document["evaluations"], document["prompts"], document["prompts_done"]) == (2, 120, 50)
    assert document["seconds_left"] == 25.0
    assert document["prompts_per_second"] == 2.5
    assert overall([progress()], live_workers=0)["seconds_left"] is None
    assert overall([], live_workers=1)["seconds_left"] == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.0, "59 s"), (90.0, "2 min"), (3600.0, "1 h 00 min"), (9000.0, "2 h 30 min")]
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_progress_counts_the_workers_of_the_last_minute_that_live(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)
    with write_session(engine) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="cpu", versions={}, queues=["cpu"]))
    score_one(engine, seconds=2.0)
    with read_session(engine) as session:
        shown = progress_of(session, evaluation_id)
    assert (shown.workers, shown.prompts_per_second, shown.seconds_left) == (1, 2.0, 4.0)
    with write_session(engine) as session:
        worker = session.get_one(Worker, "worker-1")
        worker.stopped_at = worker.started_at
    with read_session(engine) as session:
        shown = progress_of(session, evaluation_id)
    assert (shown.workers, shown.seconds_left, shown.no_worker) == (0, None, True)


def test_a_parked_shards_error_comes_before_that_of_a_retried_one(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    with write_session(engine) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="cpu", versions={}))
        for shard_error, times in (("tried again", 1), ("given up", claims.MAX_FAILURES)):
            claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
            assert claim is not None
            for time in range(times):
                if time:
                    session.connection().exec_driver_sql(
                        f"UPDATE shard SET not_before = NULL WHERE id = {claim.shard_id}"
                    )
                    claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
                    assert claim is not None
                claims.fail(session, claim, shard_error)
    with read_session(engine) as session:
        assert progress_of(session, evaluation_id).error == "given up"


# The command line


def test_list_and_show_say_that_nobody_scores(waiting: tuple[int, str]) -> None:
    evaluation_id, url = waiting
    (row,) = shuffleboard_json("evaluations", "list", database_url=url)["evaluations"]
    assert row["no_worker"] is True
    message = shuffleboard("evaluations", "list", database_url=url).stderr
    assert f"no live worker: start one with 'shuffleboard worker'; evaluation {evaluation_id} waits" in message
    assert shuffleboard_json("evaluations", "show", evaluation_id, database_url=url)["no_worker"] is True
    assert "no live worker" in shuffleboard("evaluations", "show", evaluation_id, database_url=url).stderr


def test_watching_ends_when_the_evaluation_is_complete(
    waiting: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation_id, url = waiting
    seen = []

    def look_then_score(session: Session, ids: list[int]) -> dict[int, Progress]:
        by_evaluation = progress_of_several(session, ids)
        seen.append(by_evaluation[evaluation_id].state)
        loop = WorkerLoop(get_engine(url), Settings(), FakeScorer(), ["cpu"])
        loop.start()
        loop.run(until_idle=True)
        loop.stop()
        return by_evaluation

    monkeypatch.setattr("registry.queue.progress.progress_of_several", look_then_score)
    watched = shuffleboard("evaluations", "show", evaluation_id, "--watch", database_url=url)
    assert seen == ["queued", "complete"]
    assert "state              complete" in watched.stdout
    assert "fake on bench" in watched.stderr
    assert "no live worker" not in watched.stderr


def test_watching_a_paused_evaluation_does_not_wait(waiting: tuple[int, str]) -> None:
    evaluation_id, url = waiting
    shuffleboard("evaluations", "pause", evaluation_id, database_url=url)
    document = shuffleboard_json("evaluations", "show", evaluation_id, "--watch", database_url=url)
    assert document["state"] == "paused"
