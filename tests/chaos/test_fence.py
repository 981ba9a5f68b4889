"""A worker that was frozen past its lease, which changes nothing after it wakes because of the fence."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from registry.db import database_now, get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.queue.shards import shard_prompts
from registry.tables import Shard
from tests.support.commands import eventually, fake_worker
from tests.support.fake_scorer import fake_logprobs
from tests.support.population import predictions, queue_evaluation

ENDED = re.compile("shard_(done|discarded|handed_back)")
SETTINGS = {"lease_seconds": 2.0, "poll_seconds": 0.1, "reconcile_seconds": 0.3}


def the_shard(engine: Engine) -> Any:
    with read_session(engine) as session:
        return session.scalars(select(Shard)).one()


def freeze_and_wake(engine: Engine, url: str, folder: Path, trip: str, *sabotage: str) -> int:
    """Freeze a worker in its shard, wake it while another worker scores the same shard, and wait for both.

    The frozen worker computes different numbers, so that anything it stores is noticed. Returns the evaluation's id.
    """
    evaluation_id = queue_evaluation(engine, folder)
    gate = folder / "gate"
    settings = {"database_url": url, **SETTINGS}
    # During a shard, no thread of the worker may be in a transaction, which would block everybody on SQLite.
    calm = {"lease_seconds": 60, "reconcile_seconds": 60} if trip.startswith("scoring") else {}
    with fake_worker("--trip", trip, "--wrong-numbers", *sabotage, **settings | calm) as sleeper:
        eventually(lambda: sleeper.frozen, "the worker freezes")
        if calm:
            with write_session(engine) as session:
                session.execute(update(Shard).values(lease_until=database_now(-1)))
        with fake_worker("--gate", gate, *sabotage, **settings | {"lease_seconds": 60}) as second_worker:
            eventually(lambda: the_shard(engine).fence == 2, "another worker is given the shard")
            sleeper.signal(signal.SIGCONT)
            eventually(lambda: ENDED.search(sleeper.log.read_text()), "the frozen one is done with the shard")
            gate.touch()
            eventually(lambda: the_shard(engine).state in ("done", "failed"), "the shard is scored")
            eventually(
                lambda: the_shard(engine).state != "done" or state(engine, evaluation_id) == "complete",
                "the evaluation is sealed",
            )
            assert (sleeper.status, second_worker.status) == (None, None)
    return evaluation_id


def state(engine: Engine, evaluation_id: int) -> str:
    with read_session(engine) as session:
        return find_evaluation(session, evaluation_id).state


def numbers(engine: Engine, evaluation_id: int) -> tuple[Any, Any]:
    """Return the stored log-probabilities, and those that the other worker's engine computes."""
    with read_session(engine) as session:
        right = {
            (item.question.external_id, item.variant.ordinal): fake_logprobs(item.prompt)
            for item in shard_prompts(session, the_shard(engine).id)
        }
    stored = predictions(engine, evaluation_id)
    return {key: row["label_logprobs"] for key, row in stored.items()}, right


def assert_nothing_changed(engine: Engine, evaluation_id: int) -> None:
    """Check that the other worker's numbers are stored, once, and only one crash was counted."""
    shard = the_shard(engine)
    assert (shard.state, shard.fence, shard.failures, shard.crashes) == ("done", 2, 0, 1)
    stored, right = numbers(engine, evaluation_id)
    assert stored == right


def test_a_worker_that_wakes_after_its_lease_changes_nothing(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    evaluation_id = freeze_and_wake(engine, database, tmp_path, "scoring:2:STOP")
    assert_nothing_changed(engine, evaluation_id)


def test_a_worker_that_was_frozen_while_it_stored_changes_nothing(postgresql_database: str, tmp_path: Path) -> None:
    # PostgreSQL ends its transaction, or nobody could be given the shard. SQLite's writers would have to wait.
    engine = get_engine(postgresql_database)
    evaluation_id = freeze_and_wake(engine, postgresql_database, tmp_path, "storing:1:STOP")
    assert_nothing_changed(engine, evaluation_id)


def test_without_the_fence_its_numbers_would_be_stored(database: str, tmp_path: Path) -> None:
    # The first test without the fence in the queue's checks, which must fail then.
    engine = get_engine(database)
    evaluation_id = freeze_and_wake(engine, database, tmp_path, "scoring:2:STOP", "--without-fence")
    stored, right = numbers(engine, evaluation_id)
    assert stored.keys() == right.keys()
    assert stored != right
    with pytest.raises(AssertionError):
        assert_nothing_changed(engine, evaluation_id)
