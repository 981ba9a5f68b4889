"""The worker loop, in this process and as real processes that are stopped and killed."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from structlog.testing import capture_logs

from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.predictions.prompts import ShardPrompt
from registry.queue import claims
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.sealed.manifest import leaves
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import EvaluationMetric, ModelRevision, Prediction, Shard, Worker
from tests.support.commands import eventually, fake_worker, terminate
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_benchmark, add_model, predictions, question, queue_evaluation
from tests.support.services import PostgresServer
from tests.support.weights import whole_weights
from workers.errors import PermanentError
from workers.loop import WorkerLoop

pytestmark = pytest.mark.long_on("sqlite")

SHORT_LEASE = 2.0


def run(engine: Engine, scorer: FakeScorer | None = None, **settings: Any) -> list[dict[str, Any]]:
    """Run a worker until nothing is left; return its log entries."""
    with capture_logs() as logs:
        loop = WorkerLoop(engine, Settings(**({"poll_seconds": 0.05} | settings)), scorer or FakeScorer(), ["cpu"])
        loop.start()
        try:
            loop.run(until_idle=True)
        finally:
            loop.stop()
    return logs


def shard_rows(engine: Engine, *columns: str) -> list[Any]:
    with read_session(engine) as session:
        rows = session.execute(select(*(getattr(Shard, name) for name in columns)).order_by(Shard.id)).all()
    return [row[0] if len(columns) == 1 else tuple(row) for row in rows]


def state(engine: Engine, evaluation_id: int) -> str:
    with read_session(engine) as session:
        return find_evaluation(session, evaluation_id).state


def run_undisturbed(tmp_path: Path, shards: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the predictions of the same evaluation by a worker without faults."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    url = f"sqlite:///{folder / 'other.db'}"
    upgrade(url)
    engine = get_engine(url)
    try:
        evaluation_id = queue_evaluation(engine, folder, shards=shards)
        run(engine)
        return predictions(engine, evaluation_id)
    finally:
        engine.dispose()


# In this process


def test_a_worker_scores_seals_and_says_that_it_stopped(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)
    run(engine)
    with read_session(engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        assert (evaluation.state, evaluation.seal is None) == ("complete", False)
        assert evaluation.started_at is not None
        assert evaluation.started_at <= evaluation.sealed_at
        assert verify_evaluation(session, evaluation_id)["problems"] == []
        scopes = set(session.scalars(select(EvaluationMetric.scope).distinct()))
        assert scopes >= {"all", "unflagged", "subject:subject 0", "subject:subject 1", "subject:subject 2"}
        worker = session.scalars(select(Worker)).one()
        assert worker.stopped_at is not None
        assert claims.live_workers(session, 60) == 0
    assert len(predictions(engine, evaluation_id)) == 12
    assert shard_rows(engine, "state", "fence", "worker_id") == [("done", 1, worker.id)] * 3


def test_both_engines_store_the_same_predictions(
    sqlite_database: str, postgresql_database: str, tmp_path: Path
) -> None:
    stored, digests = [], []
    for url in (sqlite_database, postgresql_database):
        engine = get_engine(url)
        evaluation_id = queue_evaluation(engine, tmp_path, shards=3, variants="full")
        run(engine)
        stored.append(predictions(engine, evaluation_id))
        with read_session(engine) as session:
            digests.append(dict(leaves(session, evaluation_id)))
    assert stored[0] == stored[1]
    assert len(digests[0]) == 3
    assert digests[0] == digests[1]


@pytest.mark.one_engine
def test_a_refusal_that_lasts_counts_one_failure_and_says_its_reason(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=2)

    def refuse(_item: ShardPrompt) -> None:
        raise PermanentError("the model is an encoder; use another", of_all=True)

    logs = run(engine, FakeScorer(before_prompt=refuse))
    failed = shard_rows(engine, "state", "failures", "error")
    assert sorted(failed) == [("failed", count, "the model is an encoder; use another") for count in (0, 1)]
    assert sum(entry["event"] == "shard_failed" for entry in logs) == 1


def test_a_failing_shard_is_parked_while_the_others_are_scored(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BACK_OFF_SECONDS", 0.05)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)

    def trip(item: ShardPrompt) -> None:
        if item.question.external_id == "q1":
            raise ValueError("no such token")

    logs = run(engine, FakeScorer(before_prompt=trip))
    assert shard_rows(engine, "state", "failures", "crashes", "error") == [
        ("done", 0, 0, None),
        ("failed", 3, 0, "ValueError: no such token"),
        ("done", 0, 0, None),
    ]
    assert state(engine, evaluation_id) == "failed"
    assert sum(entry["event"] == "shard_failed" for entry in logs) == 3
    with write_session(engine) as session:
        move(session, evaluation_id, "retry")
    run(engine)
    assert state(engine, evaluation_id) == "complete"


def test_a_shard_that_takes_longer_than_its_lease_keeps_it(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    leases: list[datetime] = []

    def outlast(_item: ShardPrompt) -> None:
        leases.extend(shard_rows(engine, "lease_until"))
        eventually(lambda: datetime.now(UTC) > leases[0], "the lease that the worker began with has run out")

    run(engine, FakeScorer(before_prompt=outlast), lease_seconds=SHORT_LEASE, reconcile_seconds=0.3)
    assert state(engine, evaluation_id) == "complete"
    assert shard_rows(engine, "state", "fence", "crashes") == [("done", 1, 0)]


def test_a_worker_whose_shard_is_taken_away_stops_scoring_it(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, variants="full")
    scored: list[int] = []

    def cancel_meanwhile(item: ShardPrompt) -> None:
        scored.append(item.variant.ordinal)
        if len(scored) == 1:
            with write_session(engine) as session:
                move(session, evaluation_id, "cancel")

    run(engine, FakeScorer(seconds_per_prompt=1.0, before_prompt=cancel_meanwhile), lease_seconds=SHORT_LEASE)
    assert len(scored) < 24
    assert predictions(engine, evaluation_id) == {}
    assert state(engine, evaluation_id) == "cancelled"


def test_an_evaluation_whose_worker_died_before_sealing_is_sealed_by_the_next(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    with write_session(engine) as session:
        session.add(Worker(id="dead", host="here", pid=1, device="fake", versions={}))
    with write_session(engine) as session:
        claim = claims.claim(session, "dead", queues=["cpu"], lease_seconds=60)
    assert claim is not None
    result = FakeScorer().score(engine, claim, lambda: False)
    with write_session(engine) as session:
        claims.finish(session, claim, result)
    assert state(engine, evaluation_id) == "running"
    run(engine)
    assert state(engine, evaluation_id) == "complete"


def model_files(folder: Path, **changes: bytes | None) -> Path:
    """Return a folder with the files of a transformers model; a change to None leaves a file out."""
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": whole_weights()} | changes
    folder.mkdir()
    for name, content in files.items():
        if content is not None:
            (folder / name).write_bytes(content)
    return folder


def test_a_worker_hashes_the_files_of_a_registered_model(engine: Engine, tmp_path: Path) -> None:
    folder = model_files(tmp_path / "model")
    with write_session(engine) as session:
        add_revision(session, "waiting", RevisionRequest("huggingface", str(folder)))
    run(engine)
    with read_session(engine) as session:
        revision = session.scalars(select(ModelRevision)).one()
        assert (revision.state, revision.error) == ("ready", None)
        assert revision.weights_digest is not None
        assert len(revision.weights_digest) == 64


def test_a_model_whose_files_vanished_is_marked_failed_with_the_reason(engine: Engine, tmp_path: Path) -> None:
    folder = model_files(tmp_path / "model")
    with write_session(engine) as session:
        add_revision(session, "waiting", RevisionRequest("huggingface", str(folder)))
    (folder / "model.safetensors").unlink()
    run(engine)
    with read_session(engine) as session:
        revision = session.scalars(select(ModelRevision)).one()
        assert revision.state == "failed"
        assert "contains no weights" in (revision.error or "")


def test_more_waiting_shards_than_parameters_of_a_statement_stop_no_worker(
    sqlite_database: str, tmp_path: Path
) -> None:
    engine = get_engine(sqlite_database)
    evaluation_id = queue_evaluation(engine, tmp_path)
    many = 40_000  # SQLite takes 32,766 parameters, PostgreSQL's protocol 65,535
    with write_session(engine) as session:
        row = {"evaluation_id": evaluation_id, "queue": "gpu", "prompts": 1}
        session.bulk_insert_mappings(Shard, [row | {"ordinal": 1 + n} for n in range(many)])  # type: ignore[arg-type]
    run(engine)
    assert shard_rows(engine, "state").count("done") == 1


# The scalars that are stored with every prompt. Log-probabilities over the vocabulary, by position.


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        # L = 2, p = (.8, .2). Brier: .2² + .2² = .08. Entropy: −.8·log₂.8 − .2·log₂.2 = .7219.
        pytest.param(
            [-0.22314355131420976, -1.6094379124341003],
            {
                "chosen_position": 0,
                "tied": False,
                "label_mass": 1.0,
                "label_probabilities": [0.8, 0.2],
                "answer_probability": 0.8,
                "brier_score": 0.08,
                "entropy": 0.7219280948873623,
            },
            id="probabilities .8 and .2",
        ),
        # p = (.04, .16), so .2 and .8 of the labels' mass of .2. Brier: .8² + .8² = 1.28.
        pytest.param(
            [-3.2188758248682006, -1.8325814637483102],
            {
                "chosen_position": 1,
                "tied": False,
                "label_mass": 0.2,
                "label_probabilities": [0.2, 0.8],
                "answer_probability": 0.2,
                "brier_score": 1.28,
                "entropy": 0.7219280948873623,
            },
            id="labels that hold a fifth of the mass",
        ),
        pytest.param(
            [-2.0, -2.0],
            {
                "chosen_position": 0,
                "tied": True,
                "label_probabilities": [0.5, 0.5],
                "answer_probability": 0.5,
                "brier_score": 0.5,
                "entropy": 1.0,
            },
            id="a tie goes to the lowest position and is flagged",
        ),
        pytest.param(
            [0.0, -800.0],
            {
                "chosen_position": 0,
                "tied": False,
                "label_probabilities": [1.0, 0.0],
                "brier_score": 0.0,
                "entropy": 0.0,
            },
            id="certainty: 0·log 0 = 0",
        ),
        pytest.param(
            [-800.0, -801.0],
            {"chosen_position": 0, "label_probabilities": [0.7310585786300049, 0.2689414213699951], "label_mass": 0.0},
            id="labels that hold next to no mass are still renormalised",
        ),
    ],
)
def test_what_is_stored_of_a_prompt(
    engine: Engine, tmp_path: Path, logprobs: list[float], expected: dict[str, Any]
) -> None:
    class Given(FakeScorer):
        def logprobs(self, _prompt: object) -> list[float]:
            return logprobs

    with write_session(engine) as session:
        add_benchmark(session, tmp_path, [question(0, options=2, answer=0)])
        add_model(session)
        submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="original-inverse"))
    run(engine, Given())
    with read_session(engine) as session:
        first, inverse = session.scalars(select(Prediction).order_by(Prediction.variant)).all()
    for name, value in expected.items():
        assert getattr(first, name) == pytest.approx(value, abs=1e-12), name
    assert first.label_logprobs == logprobs
    # With the order reversed, the same position is the other option.
    assert (inverse.shown, inverse.chosen_position) == ([1, 0], first.chosen_position)
    assert inverse.chosen_option == 1 - first.chosen_option
    assert inverse.answer_probability == pytest.approx(1 - first.answer_probability, abs=1e-12)
    assert (first.correct, inverse.correct) == (first.chosen_option == 0, inverse.chosen_option == 0)
    assert (first.unchanged, inverse.unchanged, inverse.own_options) == (True, False, True)


# As processes


def is_claimed(engine: Engine) -> Callable[[], bool]:
    return lambda: "leased" in shard_rows(engine, "state")


def test_a_stopped_worker_hands_its_shard_back_with_status_0(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path, shards=2, variants="full")  # 24 s of work in each shard
    with fake_worker("--seconds-per-prompt", 1, database_url=sqlite_database, poll_seconds=0.1) as worker:
        eventually(is_claimed(engine), "the worker claims a shard")
        assert terminate(worker) == 0
    assert shard_rows(engine, "state", "failures", "crashes", "lease_until") == [("queued", 0, 0, None)] * 2
    with read_session(engine) as session:
        assert session.scalar(select(func.count()).where(Worker.stopped_at.is_not(None))) == 1


def test_an_idle_worker_told_to_stop_ends_with_status_0(sqlite_database: str) -> None:
    with fake_worker(database_url=sqlite_database, poll_seconds=60) as worker:
        assert terminate(worker) == 0


def test_a_worker_lives_through_a_restart_of_postgresql(
    private_postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = private_postgres_server.url
    upgrade(url)
    engine = get_engine(url)
    try:
        with fake_worker(database_url=url, poll_seconds=0.1, lease_seconds=SHORT_LEASE) as worker:
            private_postgres_server.kill()
            eventually(lambda: "database_trouble" in worker.log.read_text(), "the worker notices")
            assert worker.status is None
            private_postgres_server.start()
            engine.dispose()
            evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
            eventually(lambda: state(engine, evaluation_id) == "complete", "the worker goes on")
            assert terminate(worker) == 0
    finally:
        engine.dispose()
