"""The rows that `db prune` removes, and the data that it never removes, on both engines."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, update

from registry.db import get_engine, read_session, write_session
from registry.errors import UsageError
from registry.operations.retention import prune
from registry.queue import claims
from registry.queue.evaluations import move
from registry.sealed.seal import seal
from registry.sealed.verification import verify_evaluation
from registry.tables import Evaluation, EvaluationQuestion, Generation, Prediction, QuestionScore, Shard, Worker
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation

DAYS = 30
"""Age in days from which data is pruned; `age` makes everything 40 days old."""


@pytest.fixture
def engine(database: str) -> Engine:
    created = get_engine(database)
    with write_session(created) as session:
        session.add_all(Worker(id=name, host="here", pid=1, device="fake", versions={}) for name in ("one", "idle"))
    return created


def score(engine: Engine, *, text: str | None = None) -> None:
    """Score the next shard, with a text for each of its prompts."""
    with write_session(engine) as session:
        claim = claims.claim(session, "one", queues=["cpu"], lease_seconds=3600)
    assert claim is not None
    result = FakeScorer().score(engine, claim, lambda: False)
    if text is not None:
        keys = ("evaluation_id", "question_id", "variant")
        written = [{**{key: row[key] for key in keys}, "text": text} for row in result.rows]
        result = replace(result, generations=written)
    with write_session(engine) as session:
        assert claims.finish(session, claim, result)


def give_up(engine: Engine, evaluation_id: int, how: str) -> None:
    """End an evaluation without a seal: cancelled, or failed with its last shard parked."""
    with write_session(engine) as session:
        if how == "cancelled":
            move(session, evaluation_id, "cancel")
        else:
            waiting = update(Shard).where(Shard.evaluation_id == evaluation_id, Shard.state == "queued")
            session.execute(waiting.values(state="failed", error="out of memory"))
            claims.fail_if_over(session, evaluation_id)


def age(engine: Engine, days: int = 40) -> None:
    """Move all stored times back by this number of days."""
    then = datetime.now(UTC) - timedelta(days=days)
    with write_session(engine) as session:
        session.execute(update(Evaluation).where(Evaluation.seal.is_(None)).values(created_at=then, started_at=then))
        unsealed = select(Evaluation.id).where(Evaluation.seal.is_(None))
        of_unsealed = update(Shard).where(Shard.evaluation_id.in_(unsealed))
        session.execute(of_unsealed.values(claimed_at=then, finished_at=then))
        session.execute(update(Worker).values(last_seen=then))


def rows(engine: Engine, evaluation_id: int) -> dict[str, int]:
    """Return the number of an evaluation's rows in each table of answers."""
    tables = (Generation, Prediction, QuestionScore, EvaluationQuestion)
    with read_session(engine) as session:
        return {
            table.__tablename__: session.scalar(
                select(func.count()).select_from(table).where(table.evaluation_id == evaluation_id)
            )
            or 0
            for table in tables
        }


def shard_states(engine: Engine, evaluation_id: int) -> list[str]:
    with read_session(engine) as session:
        return list(session.scalars(select(Shard.state).filter_by(evaluation_id=evaluation_id).order_by(Shard.id)))


def test_a_cancelled_evaluation_loses_all_answers_and_can_be_asked_again(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)
    score(engine, text="The answer is A.")
    score(engine)
    give_up(engine, evaluation_id, "cancelled")
    age(engine)
    pruned = prune(engine, DAYS)
    assert [
        (
            pruned_evaluation.evaluation_id,
            pruned_evaluation.state,
            pruned_evaluation.texts,
            pruned_evaluation.predictions,
        )
        for pruned_evaluation in pruned.evaluations
    ] == [(evaluation_id, "cancelled", 4, 8)]
    assert rows(engine, evaluation_id) == {
        "generation": 0,
        "prediction": 0,
        "question_score": 0,
        "evaluation_question": 3,
    }
    assert shard_states(engine, evaluation_id) == ["cancelled"] * 3
    with write_session(engine) as session:
        move(session, evaluation_id, "retry")
    for _ in range(3):
        score(engine)
    with write_session(engine) as session:
        assert seal(session, evaluation_id)
    with read_session(engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []


def test_a_failed_evaluation_loses_what_was_written_and_keeps_the_rest(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)
    score(engine, text="I think it is B")
    score(engine)
    give_up(engine, evaluation_id, "failed")
    age(engine)
    pruned = prune(engine, DAYS)
    assert [
        (pruned_evaluation.state, pruned_evaluation.texts, pruned_evaluation.predictions)
        for pruned_evaluation in pruned.evaluations
    ] == [("failed", 4, 4)]
    assert rows(engine, evaluation_id) == {
        "generation": 0,
        "prediction": 4,
        "question_score": 1,
        "evaluation_question": 3,
    }
    assert shard_states(engine, evaluation_id) == ["cancelled", "done", "failed"]
    assert prune(engine, DAYS).evaluations == []


def test_what_is_recent_waits_or_is_sealed_is_left_alone(engine: Engine, tmp_path: Path) -> None:
    sealed = queue_evaluation(engine, tmp_path, shards=1, benchmark="sealed")
    score(engine, text="C")
    with write_session(engine) as session:
        seal(session, sealed)
    waiting = queue_evaluation(engine, tmp_path, shards=2, benchmark="waiting")
    score(engine, text="D")
    age(engine)
    recent = queue_evaluation(engine, tmp_path, shards=2, benchmark="recent", priority=1)
    score(engine, text="A")
    give_up(engine, recent, "cancelled")
    before = {evaluation_id: rows(engine, evaluation_id) for evaluation_id in (sealed, waiting, recent)}
    assert all(counts["generation"] == 4 for counts in before.values())
    assert prune(engine, DAYS).evaluations == []
    assert {evaluation_id: rows(engine, evaluation_id) for evaluation_id in before} == before


def test_an_old_evaluation_that_was_worked_on_of_late_is_left_alone(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    age(engine)
    score(engine, text="A")
    give_up(engine, evaluation_id, "cancelled")
    assert prune(engine, DAYS).evaluations == []
    assert prune(engine, 1).evaluations == []


def test_workers_go_when_nothing_names_them(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=1)
    score(engine)
    assert prune(engine, DAYS).workers == 0
    age(engine)
    assert prune(engine, DAYS, dry_run=True).workers == 1
    assert prune(engine, DAYS).workers == 1
    with read_session(engine) as session:
        assert list(session.scalars(select(Worker.id))) == ["one"]


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_a_number_of_days_that_makes_no_sense_is_refused(engine: Engine, days: int) -> None:
    with pytest.raises(UsageError, match=f"--older-than {days}: give a number of days from 1 to 36500"):
        prune(engine, days)


def test_the_command_counts_before_it_removes(engine: Engine, database: str, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    score(engine, text="A")
    give_up(engine, evaluation_id, "cancelled")
    age(engine)
    before = rows(engine, evaluation_id)
    outcome = shuffleboard("db", "prune", "--older-than", DAYS, "--dry-run", database_url=database)
    assert "4 answers, 4 texts" in outcome.stdout
    assert "would be removed: 4 answers of 1 evaluation, 1 worker" in outcome.stdout
    assert rows(engine, evaluation_id) == before
    document = shuffleboard_json("db", "prune", "--older-than", DAYS, database_url=database)
    assert document["dry_run"] is False
    assert document["workers"] == 1
    assert [pruned_evaluation["predictions"] for pruned_evaluation in document["evaluations"]] == [4]
    assert rows(engine, evaluation_id)["prediction"] == 0
