"""The comparison of the chaos tests, which notices lost, doubled, changed, stuck and parked work."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from registry.db import get_engine, write_session
from registry.queue import claims
from registry.sealed.seal import seal
from registry.tables import Worker
from tests.chaos.comparison import Outcome, compare, same, take_down
from tests.chaos.schedules import Schedule
from tests.support.fake_scorer import FakeScorer, fake_logprobs
from tests.support.population import queue_evaluation


@pytest.fixture
def engine(sqlite_database: str) -> Engine:
    created = get_engine(sqlite_database)
    with write_session(created) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))
    return created


def score(engine: Engine, shards: int, scorer: FakeScorer | None = None) -> None:
    for _ in range(shards):
        with write_session(engine) as session:
            claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
        assert claim is not None
        result = (scorer or FakeScorer()).score(engine, claim, lambda: False)
        with write_session(engine) as session:
            assert claims.finish(session, claim, result)


def is_sealed(engine: Engine, folder: Path, scorer: FakeScorer | None = None) -> int:
    """Score a replicate of two shards completely; return its id."""
    evaluation_id = queue_evaluation(engine, folder, shards=2, new_replicate=True)
    score(engine, 2, scorer)
    with write_session(engine) as session:
        assert seal(session, evaluation_id)
    return evaluation_id


@pytest.fixture
def reference(engine: Engine, tmp_path: Path) -> dict[str, Any]:
    return take_down(engine, is_sealed(engine, tmp_path))


def outcome_of(engine: Engine, evaluation_id: int, reference: dict[str, Any]) -> Outcome:
    outcome = Outcome(Schedule(0, "sqlite"))
    compare(engine, [evaluation_id], [reference], outcome)
    return outcome


def test_another_run_without_faults_is_the_same(engine: Engine, tmp_path: Path, reference: dict[str, Any]) -> None:
    assert outcome_of(engine, is_sealed(engine, tmp_path), reference).clean


def test_missing_predictions_are_lost_and_their_shards_stuck(
    engine: Engine, tmp_path: Path, reference: dict[str, Any]
) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2, new_replicate=True)
    score(engine, 1)
    outcome = outcome_of(engine, evaluation_id, reference)
    assert (outcome.lost, outcome.doubled, outcome.stuck, outcome.parked) == (4, 0, 2, 0)  # a shard and the seal


def test_other_numbers_are_lost_ones(engine: Engine, tmp_path: Path, reference: dict[str, Any]) -> None:
    scorer = FakeScorer()
    scorer.logprobs = lambda prompt: fake_logprobs(prompt)[::-1]  # type: ignore[method-assign]
    outcome = outcome_of(engine, is_sealed(engine, tmp_path, scorer), reference)
    assert (outcome.lost, outcome.stuck) == (8, 0)
    assert any("leaves differ" in problem for problem in outcome.problems)
    assert any("metrics differ" in problem for problem in outcome.problems)


def test_more_predictions_than_there_should_be_are_doubled(
    engine: Engine, tmp_path: Path, reference: dict[str, Any]
) -> None:
    fewer = dict(list(reference["predictions"].items())[:-1])
    outcome = outcome_of(engine, is_sealed(engine, tmp_path), reference | {"predictions": fewer})
    assert outcome.doubled == 1


def test_a_counted_failure_is_a_healthy_shard_parked(
    engine: Engine, tmp_path: Path, reference: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BACK_OFF_SECONDS", 0.0)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2, new_replicate=True)
    with write_session(engine) as session:
        claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
        assert claim is not None
        claims.fail(session, claim, "trouble")
    score(engine, 2)
    with write_session(engine) as session:
        assert seal(session, evaluation_id)
    outcome = outcome_of(engine, evaluation_id, reference)
    assert (outcome.lost, outcome.parked, outcome.clean) == (0, 1, False)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-6, False),
        ({"a": (None, 2)}, {"a": (None, 2)}, True),
        ({"a": (None, 2)}, {"a": (0.0, 2)}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1], [1, 2], False),
    ],
)
def test_numbers_are_the_same_within_what_sums_differ_by(one: object, other: object, equal: bool) -> None:
    assert same(one, other) is equal
