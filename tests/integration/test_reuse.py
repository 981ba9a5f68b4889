"""Reused scores: answers of the same model on the same engine to the same prompts are copied, and no others."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.leaderboard.reports import evaluation_metrics
from registry.operations.migrate import upgrade
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.sealed.archiving import archive
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import Evaluation, Prediction, Shard
from tests.conftest import copies_on_sqlite
from tests.support.population import MMLU
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

REQUEST = EvaluationRequest(model="m", benchmark="mmlu", variants="cyclic", limit=2)


@pytest.fixture(scope="module")
def scored_cyclic(home_once: Path) -> Path:
    """Return a home whose registry contains one sealed evaluation under cyclic."""
    engine = get_engine(f"sqlite:///{home_once / 'shuffleboard.db'}")
    evaluate(engine, home_once, REQUEST)
    return home_once


@pytest.fixture(scope="module")
def home_once(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry with a tiny model, the same model in another precision, and a benchmark."""
    home = tmp_path_factory.mktemp("reuse")
    url = f"sqlite:///{home / 'shuffleboard.db'}"
    upgrade(url)
    request = RevisionRequest("huggingface", str(tiny_folder))
    with write_session(get_engine(url)) as session:
        import_benchmark(session, read_benchmark(MMLU), name="mmlu")
        for name, revision in (("m", request), ("m-int8", replace(request, quantisation="int8-weight-only"))):
            add_revision(session, name, revision, {}, inspect_files(revision))
    return home


def evaluate(engine: Engine, home: Path, request: EvaluationRequest, scoring: str = "trie") -> int:
    """Submit an evaluation and score it with a worker's loop; return its id."""
    with write_session(engine) as session:
        evaluation_id = submit(session, request)[0].id
    scorer = TransformersScorer(home, "cpu", engine=scoring)
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.1), scorer, ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    return evaluation_id


def pointers(engine: Engine, evaluation_id: int) -> list[tuple[int, int]]:
    with read_session(engine) as session:
        rows = session.execute(
            select(Prediction.reused_from_evaluation_id, Prediction.reused_from_variant).where(
                Prediction.evaluation_id == evaluation_id, Prediction.reused_from_evaluation_id.is_not(None)
            )
        )
        return [tuple(row) for row in rows]


def test_full_after_cyclic_scores_20_of_24_orders(scored_cyclic: Path) -> None:
    engine = get_engine(f"sqlite:///{scored_cyclic / 'shuffleboard.db'}")
    full = evaluate(engine, scored_cyclic, replace(REQUEST, variants="full"))
    reused = pointers(engine, full)
    assert len(reused) == 2 * 4
    assert {evaluation for evaluation, _ in reused} == {1}
    assert sorted(variant for _, variant in reused) == [0, 0, 1, 1, 2, 2, 3, 3]
    with read_session(engine) as session:
        for shown, copied in session.execute(
            select(Prediction.shown, Prediction.label_logprobs).where(
                Prediction.evaluation_id == full, Prediction.reused_from_evaluation_id.is_not(None)
            )
        ):
            source = session.scalars(
                select(Prediction.label_logprobs).where(Prediction.evaluation_id == 1, Prediction.shown == shown)
            ).all()
            assert copied in source
        shard = session.scalars(select(Shard).where(Shard.evaluation_id == full)).one()
        assert shard.tokens_naive > shard.tokens_computed
        assert verify_evaluation(session, full)["ok"]
        assert evaluation_metrics(session, full)["scored"] == 2


def test_an_evaluation_of_known_prompts_only_asks_nothing(scored_cyclic: Path) -> None:
    engine = get_engine(f"sqlite:///{scored_cyclic / 'shuffleboard.db'}")
    original = evaluate(engine, scored_cyclic, replace(REQUEST, variants="original"))
    assert len(pointers(engine, original)) == 2
    with read_session(engine) as session:
        assert session.scalars(select(Shard.tokens_computed).where(Shard.evaluation_id == original)).one() == 0


def test_results_of_archived_evaluations_are_not_copied(scored_cyclic: Path, tmp_path: Path) -> None:
    request, url = replace(REQUEST, variants="full", limit=1), f"sqlite:///{scored_cyclic / 'shuffleboard.db'}"
    with contextmanager(copies_on_sqlite)(url, tmp_path) as copied:
        engine = get_engine(copied)
        with read_session(engine) as session:
            sealed = session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None))).all()
        for evaluation_id in sealed:
            assert archive(engine, evaluation_id, str(tmp_path / "archives")) is not None
        assert pointers(engine, evaluate(engine, scored_cyclic, request)) == []


@pytest.mark.parametrize(
    ("change", "scoring"),
    [
        ({"model": "m-int8", "variants": "original"}, "trie"),
        ({"variants": "original-inverse", "shots": 1}, "trie"),
        ({"variants": "shuffle:m=1,seed=3"}, "batched"),
        ({"new_replicate": True}, "trie"),
    ],
    ids=["precision", "template", "engine setting", "replicate"],
)
def test_anything_that_could_change_the_number_is_asked_anew(
    scored_cyclic: Path, change: dict[str, object], scoring: str
) -> None:
    engine = get_engine(f"sqlite:///{scored_cyclic / 'shuffleboard.db'}")
    assert pointers(engine, evaluate(engine, scored_cyclic, replace(REQUEST, **change), scoring)) == []
