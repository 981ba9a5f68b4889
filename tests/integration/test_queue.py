"""The queue on both engines: which worker may score a shard, and how failures are counted."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from registry.db import database_now, get_engine, read_session, write_session
from registry.errors import NotFoundError, QueueError
from registry.providers.limits import Limits, reserve
from registry.queue import claims
from registry.queue.clock import follow_clock
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.shards import shard_prompts
from registry.sealed.seal import seal
from registry.tables import Evaluation, Shard, Worker
from registry.tables.providers import RateLimit
from tests.support.commands import PATIENCE_S, eventually
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_model, predictions, queue_evaluation, table_counts

WORKERS = ("worker-1", "worker-2")
LONG = 3600.0
EXPIRED = -1.0
"""Duration of a lease that has expired when it is given."""


@pytest.fixture
def engine(database: str) -> Engine:
    created = get_engine(database)
    with write_session(created) as session:
        for name in WORKERS:
            session.add(Worker(id=name, host="here", pid=1, device="fake", versions={}))
    return created


def claim(engine: Engine, worker: str = "worker-1", *, lease: float = LONG, **options: Any) -> claims.Claim | None:
    with write_session(engine) as session:
        return claims.claim(session, worker, **({"queues": ["cpu"], "lease_seconds": lease} | options))


def take(engine: Engine, worker: str = "worker-1", **options: Any) -> claims.Claim:
    """Return a claim; fail the test if there is none."""
    taken = claim(engine, worker, **options)
    assert taken is not None
    return taken


def result_of(engine: Engine, held: claims.Claim) -> claims.ShardResult:
    return FakeScorer().score(engine, held, lambda: False)


def finish(engine: Engine, held: claims.Claim) -> bool:
    result = result_of(engine, held)
    with write_session(engine) as session:
        return claims.finish(session, held, result)


def fail(engine: Engine, held: claims.Claim, error: str = "out of memory") -> bool:
    with write_session(engine) as session:
        return claims.fail(session, held, error)


def reconcile(engine: Engine) -> Any:
    with write_session(engine) as session:
        claims.reconcile(session)
        return claims.waiting(session)


def move_to(engine: Engine, evaluation_id: int, action: str) -> str:
    with write_session(engine) as session:
        return move(session, evaluation_id, action).state


def change_shards(engine: Engine, **values: Any) -> None:
    with write_session(engine) as session:
        session.execute(update(Shard).values(**values))


def shards(engine: Engine, *columns: str) -> list[Any]:
    """Return the columns of every shard by id; bare values for a single column."""
    with read_session(engine) as session:
        rows = session.execute(select(*(getattr(Shard, name) for name in columns)).order_by(Shard.id)).all()
    return [row[0] if len(columns) == 1 else tuple(row) for row in rows]


def state(engine: Engine, evaluation_id: int) -> str:
    with read_session(engine) as session:
        return session.get_one(Evaluation, evaluation_id).state


# Claiming


def test_nothing_queued_is_nothing_to_claim(engine: Engine) -> None:
    assert claim(engine) is None


def test_a_claim_starts_the_evaluation_and_names_its_model(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    assert state(engine, evaluation_id) == "queued"
    claimed = take(engine)
    assert (claimed.evaluation_id, claimed.fence) == (evaluation_id, 1)
    assert state(engine, evaluation_id) == "running"
    assert shards(engine, "state", "worker_id", "fence") == [("leased", "worker-1", 1)]


def test_concurrent_claimers_never_get_the_same_shard(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=12)
    together = threading.Barrier(len(WORKERS))
    got: dict[str, list[int]] = {worker: [] for worker in WORKERS}

    def claim_all(worker: str) -> None:
        together.wait()
        while (claim_of_worker := claim(engine, worker)) is not None:
            got[worker].append(claim_of_worker.shard_id)

    threads = [threading.Thread(target=claim_all, args=(worker,)) for worker in WORKERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    claimed = got["worker-1"] + got["worker-2"]
    assert sorted(claimed) == shards(engine, "id")
    assert set(shards(engine, "fence")) == {1}


def test_a_claimer_passes_by_a_shard_that_another_is_just_claiming(postgresql_database: str, tmp_path: Path) -> None:
    engine = get_engine(postgresql_database)
    queue_evaluation(engine, tmp_path, shards=3)
    with write_session(engine) as session:
        session.add_all(Worker(id=name, host="here", pid=1, device="fake", versions={}) for name in WORKERS)
    first = take(engine)
    with write_session(engine) as first_session, write_session(engine) as second_session:
        claimed = claims.claim(first_session, "worker-1", queues=["cpu"], lease_seconds=LONG)
        second_session.execute(text("SET LOCAL lock_timeout = '5s'"))  # waiting would end in an error
        also = claims.claim(second_session, "worker-2", queues=["cpu"], lease_seconds=LONG)
    assert claimed is not None
    assert also is not None
    assert len({first.shard_id, claimed.shard_id, also.shard_id}) == 3


@pytest.mark.parametrize(
    ("loaded", "priorities", "expected"),
    [
        pytest.param(None, (0, 0), 0, id="the oldest without anything else"),
        pytest.param(None, (0, 5), 1, id="priority before age"),
        pytest.param(1, (0, 0), 1, id="the loaded model before age"),
        pytest.param(0, (0, 5), 1, id="priority before the loaded model"),
    ],
)
def test_the_best_shard_is_claimed_first(
    engine: Engine, tmp_path: Path, loaded: int | None, priorities: tuple[int, int], expected: int
) -> None:
    ids = [
        queue_evaluation(engine, tmp_path, model=f"model-{index}", priority=priority)
        for index, priority in enumerate(priorities)
    ]
    with read_session(engine) as session:
        revisions = [session.get_one(Evaluation, evaluation_id).model_revision_id for evaluation_id in ids]
    claimed = take(engine, loaded_model_revision_id=None if loaded is None else revisions[loaded])
    assert claimed.evaluation_id == ids[expected]


def test_a_worker_claims_from_its_own_queues_only(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, queue="gpu")
    assert claim(engine, queues=["cpu"]) is None
    assert claim(engine, queues=["gpu", "cpu"]) is not None


def test_no_more_workers_than_were_asked_for_are_at_an_evaluation(engine: Engine, tmp_path: Path) -> None:
    capped = queue_evaluation(engine, tmp_path, shards=3, max_workers=1, priority=5)
    other = queue_evaluation(engine, tmp_path, shards=1, model="other")
    claimed = take(engine)
    assert take(engine, "worker-2").evaluation_id == other
    assert claim(engine, "worker-2") is None
    finish(engine, claimed)
    assert take(engine, "worker-2").evaluation_id == capped  # whichever is first; then the other one waits
    assert claim(engine) is None
    assert take(engine, "worker-2").evaluation_id == capped


def test_two_concurrent_requests_do_not_both_join_an_evaluation_for_one(
    postgresql_database: str, tmp_path: Path
) -> None:
    engine = get_engine(postgresql_database)
    queue_evaluation(engine, tmp_path, shards=2, max_workers=1)
    with write_session(engine) as session:
        session.add_all(Worker(id=name, host="here", pid=1, device="fake", versions={}) for name in WORKERS)
    with ThreadPoolExecutor(2) as pool, write_session(engine) as first_session:
        assert claims.claim(first_session, "worker-1", queues=["cpu"], lease_seconds=LONG) is not None
        late = pool.submit(claim, engine, "worker-2")
        time.sleep(0.3)
        assert not late.done()
        first_session.commit()
        assert late.result(timeout=PATIENCE_S) is None


# The fence


def test_finishing_stores_the_shards_predictions_once(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    claimed = take(engine)
    assert finish(engine, claimed)
    stored = predictions(engine, evaluation_id)
    assert sorted(stored) == [("q0", variant) for variant in range(4)]
    assert shards(engine, "state", "lease_until", "error") == [("done", None, None)]
    assert not finish(engine, claimed)  # the claim has ended, so a second time fails
    assert predictions(engine, evaluation_id) == stored


def test_a_stale_claim_stores_nothing_and_counts_nothing(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    slow = take(engine, "worker-1", lease=EXPIRED)
    reconcile(engine)
    quick = take(engine, "worker-2")
    before = table_counts(engine)
    assert not finish(engine, slow)
    assert not fail(engine, slow)
    with write_session(engine) as session:
        assert not claims.hand_back(session, slow)
        assert not claims.heartbeat(session, slow, LONG)
    # A fingerprint may be noted; predictions may not.
    assert table_counts(engine) | {"engine_fingerprint": 0} == before | {"engine_fingerprint": 0}
    assert shards(engine, "state", "worker_id", "fence", "failures") == [("leased", "worker-2", 2, 0)]
    assert finish(engine, quick)
    assert len(predictions(engine, evaluation_id)) == 4


def test_too_few_results_are_a_bug_that_rolls_everything_back(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)
    claimed = take(engine)
    result = result_of(engine, claimed)
    short = claims.ShardResult(result.rows[:-1], result.fingerprint, 1, 1, 1.0)
    before = table_counts(engine)
    with pytest.raises(AssertionError, match="4 prompts, but 3 results"), write_session(engine) as session:
        claims.finish(session, claimed, short)
    assert table_counts(engine) == before
    assert shards(engine, "state") == ["leased"]


def test_a_prediction_that_already_exists_rolls_everything_back(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)
    claimed = take(engine)
    result = result_of(engine, claimed)
    doubled = claims.ShardResult([*result.rows[:-1], result.rows[0]], result.fingerprint, 1, 1, 1.0)
    before = table_counts(engine)
    with pytest.raises(IntegrityError, match=r"(?i)unique"), write_session(engine) as session:
        claims.finish(session, claimed, doubled)
    assert table_counts(engine) == before
    assert shards(engine, "state") == ["leased"]


# Leases


def test_a_heartbeat_extends_the_lease(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)
    claimed = take(engine, lease=1.0)
    before = shards(engine, "lease_until")[0]
    with write_session(engine) as session:
        assert claims.heartbeat(session, claimed, LONG)
    assert (shards(engine, "lease_until")[0] - before).total_seconds() > LONG / 2
    assert reconcile(engine) == []


def test_an_expired_lease_counts_a_crash_and_queues_the_shard(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    take(engine, lease=EXPIRED)
    assert len(reconcile(engine)) == 1
    assert shards(engine, "state", "crashes", "failures", "lease_until") == [("queued", 1, 0, None)]
    assert len(reconcile(engine)) == 1  # twice does no harm
    assert shards(engine, "state", "crashes") == [("queued", 1)]
    assert state(engine, evaluation_id) == "running"


def test_a_lease_that_lasts_is_left_alone(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)
    take(engine)
    assert reconcile(engine) == []
    assert shards(engine, "state", "crashes") == [("leased", 0)]


def test_a_shard_is_parked_at_its_tenth_crash_without_the_others(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    for crash in range(1, claims.MAX_CRASHES + 1):
        claimed = take(engine, lease=EXPIRED)
        assert claimed.fence == crash
        reconcile(engine)
    assert shards(engine, "state", "crashes", "failures") == [("failed", claims.MAX_CRASHES, 0), ("queued", 0, 0)]
    assert "died 10 times" in shards(engine, "error")[0]
    assert state(engine, evaluation_id) == "running"
    assert finish(engine, take(engine))
    assert state(engine, evaluation_id) == "failed"


def test_reconciling_twice_at_once_counts_one_crash(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=5)
    for _ in range(5):
        take(engine, lease=EXPIRED)
    together = threading.Barrier(2)
    errors: list[BaseException] = []

    def run() -> None:
        together.wait()
        try:
            reconcile(engine)
        except DBAPIError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert errors == []
    assert set(shards(engine, "state", "crashes")) == {("queued", 1)}


def test_a_shard_that_somebody_is_just_finishing_is_passed_by(postgresql_database: str, tmp_path: Path) -> None:
    engine = get_engine(postgresql_database)
    with write_session(engine) as session:
        session.add_all(Worker(id=name, host="here", pid=1, device="fake", versions={}) for name in WORKERS)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    slow, dead = take(engine, lease=EXPIRED), take(engine, lease=EXPIRED)
    result = result_of(engine, slow)
    with write_session(engine) as finishing:
        assert claims.finish(finishing, slow, result)
        with write_session(engine) as session:
            session.execute(text("SET LOCAL lock_timeout = '5s'"))  # waiting would end in an error
            claims.reconcile(session)
            assert claims.waiting(session) == [(dead.shard_id, "cpu")]
    assert shards(engine, "state", "crashes") == [("done", 0), ("queued", 1)]
    assert len(predictions(engine, evaluation_id)) == 4


def test_what_cannot_be_claimed_is_not_hinted_at(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=3)
    fail(engine, take(engine))
    waiting = queue_evaluation(engine, tmp_path, model="paused")
    move_to(engine, waiting, "pause")
    assert [shard_id for shard_id, _ in reconcile(engine)] == shards(engine, "id")[1:3]


def test_a_hand_back_counts_nothing(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)
    claimed = take(engine)
    with write_session(engine) as session:
        assert claims.hand_back(session, claimed)
    assert shards(engine, "state", "failures", "crashes", "lease_until") == [("queued", 0, 0, None)]
    assert take(engine, "worker-2").fence == 2


def test_a_worker_hands_back_all_that_it_holds_and_nothing_else(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=3)
    finish(engine, take(engine))
    take(engine)
    take(engine, "worker-2")
    with write_session(engine) as session:
        assert claims.hand_back_all(session, "worker-1") == 1
    assert shards(engine, "state", "worker_id", "crashes") == [
        ("done", "worker-1", 0),
        ("queued", "worker-1", 0),
        ("leased", "worker-2", 0),
    ]


def test_what_was_finished_under_a_claim_is_told_from_what_was_not(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)
    slow = take(engine, lease=EXPIRED)
    reconcile(engine)
    quick = take(engine, "worker-2")

    def list_finished() -> list[bool]:
        with read_session(engine) as session:
            return [claims.is_finished(session, claimed) for claimed in (slow, quick)]

    assert list_finished() == [False, False]
    finish(engine, quick)
    assert list_finished() == [False, True]


# Failures


def test_a_failure_is_counted_and_backs_off_longer_each_time(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    waits = []
    for failure in range(1, claims.MAX_FAILURES):
        assert fail(engine, take(engine), f"trouble {failure}")
        assert shards(engine, "state", "failures", "crashes", "error") == [("queued", failure, 0, f"trouble {failure}")]
        assert claim(engine) is None  # not yet
        with write_session(engine) as session:
            now = session.scalar(select(database_now()))
        waits.append((shards(engine, "not_before")[0] - now).total_seconds())
        change_shards(engine, not_before=None)
    assert waits == sorted(waits)
    assert 4 < waits[0] <= 5
    assert state(engine, evaluation_id) == "running"


def test_a_shard_that_waits_after_a_failure_does_not_hold_others_up(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=2)
    first = take(engine)
    fail(engine, first)
    assert take(engine).shard_id != first.shard_id


def test_after_the_third_failure_the_shard_is_parked_and_the_evaluation_fails(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    for _ in range(claims.MAX_FAILURES):
        fail(engine, take(engine), "out of memory")
        change_shards(engine, not_before=None)
    assert shards(engine, "state", "failures", "error")[0] == ("failed", 3, "out of memory")
    assert state(engine, evaluation_id) == "running"
    assert finish(engine, take(engine))
    assert state(engine, evaluation_id) == "failed"
    assert len(predictions(engine, evaluation_id)) == 4
    assert reconcile(engine) == []
    with write_session(engine) as session:
        assert claims.ready_to_seal(session) == []


# Pausing, resuming, cancelling, retrying


def test_nothing_of_a_paused_evaluation_is_begun_but_what_is_held_finishes(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    claimed = take(engine)
    assert move_to(engine, evaluation_id, "pause") == "paused"
    assert claim(engine, "worker-2") is None
    assert reconcile(engine) == []
    assert finish(engine, claimed)
    assert state(engine, evaluation_id) == "paused"
    assert move_to(engine, evaluation_id, "resume") == "queued"
    assert take(engine).fence == 1


def test_cancelling_discards_work_in_progress_and_keeps_what_is_stored(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)
    assert finish(engine, take(engine))
    claimed = take(engine)
    assert move_to(engine, evaluation_id, "cancel") == "cancelled"
    with write_session(engine) as session:
        assert not claims.heartbeat(session, claimed, LONG)
    assert not finish(engine, claimed)
    assert claim(engine) is None
    assert shards(engine, "state") == ["done", "cancelled", "cancelled"]
    assert len(predictions(engine, evaluation_id)) == 4
    assert reconcile(engine) == []


def test_a_cancelled_evaluation_can_be_taken_up_again(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    finish(engine, take(engine))
    move_to(engine, evaluation_id, "cancel")
    assert move_to(engine, evaluation_id, "retry") == "queued"
    assert finish(engine, take(engine))
    assert len(predictions(engine, evaluation_id)) == 8


def test_retrying_a_failed_evaluation_queues_its_parked_shards_with_counts_at_zero(
    engine: Engine, tmp_path: Path
) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    for _ in range(claims.MAX_FAILURES):
        fail(engine, take(engine))
        change_shards(engine, not_before=None)
    assert state(engine, evaluation_id) == "failed"
    assert move_to(engine, evaluation_id, "retry") == "queued"
    assert shards(engine, "state", "failures", "crashes", "error") == [("queued", 0, 0, None)]
    assert finish(engine, take(engine))


def test_retrying_an_evaluation_that_waits_queues_its_parked_shards_as_well(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    for _ in range(claims.MAX_FAILURES):
        fail(engine, take(engine))
        change_shards(engine, not_before=None)
    move_to(engine, evaluation_id, "pause")
    assert move_to(engine, evaluation_id, "resume") == "queued"
    move_to(engine, evaluation_id, "retry")
    assert shards(engine, "state") == ["queued", "queued"]


def test_retrying_ends_a_failed_shards_wait_and_leaves_running_ones_alone(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    fail(engine, take(engine))
    claimed = take(engine)
    assert claim(engine) is None
    assert move_to(engine, evaluation_id, "retry") == "running"
    assert shards(engine, "state", "failures") == [("queued", 0), ("leased", 0)]
    assert finish(engine, claimed)
    assert finish(engine, take(engine))


def test_retrying_leaves_a_paused_evaluation_paused(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    fail(engine, take(engine))
    move_to(engine, evaluation_id, "pause")
    assert move_to(engine, evaluation_id, "retry") == "paused"
    assert claim(engine) is None


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "retry"])
def test_a_sealed_evaluation_stays_as_it_is(engine: Engine, tmp_path: Path, action: str) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path)
    finish(engine, take(engine))
    with write_session(engine) as session:
        assert seal(session, evaluation_id)
    with pytest.raises(QueueError, match=rf"evaluation {evaluation_id} is complete; {action} works on"):
        move_to(engine, evaluation_id, action)
    assert state(engine, evaluation_id) == "complete"


def waits_for_a_lock(engine: Engine) -> bool:
    """Return whether a session on the database waits for another."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with engine.connect() as connection:
        return connection.exec_driver_sql(waiting).scalar_one() > 0


def test_an_evaluation_that_is_sealed_meanwhile_is_not_paused(postgresql_database: str, tmp_path: Path) -> None:
    engine = get_engine(postgresql_database)
    with write_session(engine) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))
    evaluation_id = queue_evaluation(engine, tmp_path)
    finish(engine, take(engine))
    outcome: list[object] = []

    def pause() -> None:
        try:
            outcome.append(move_to(engine, evaluation_id, "pause"))
        except QueueError as error:
            outcome.append(error)

    with write_session(engine) as sealing:
        seal(sealing, evaluation_id)
        thread = threading.Thread(target=pause)
        thread.start()
        # It has read "running", and waits for this transaction to write.
        eventually(lambda: waits_for_a_lock(engine), "the pause waits for the seal")
    thread.join()
    assert state(engine, evaluation_id) == "complete"
    assert isinstance(outcome[0], QueueError)


def test_an_evaluation_that_another_is_sealing_is_passed_by(postgresql_database: str, tmp_path: Path) -> None:
    engine = get_engine(postgresql_database)
    with write_session(engine) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))
    evaluation_id = queue_evaluation(engine, tmp_path)
    finish(engine, take(engine))
    with write_session(engine) as sealing:
        assert claims.lock_unsealed(sealing, evaluation_id)
        seal(sealing, evaluation_id)
        with write_session(engine) as session:
            session.execute(text("SET LOCAL lock_timeout = '5s'"))
            assert not claims.lock_unsealed(session, evaluation_id)
    with write_session(engine) as session:
        assert not claims.lock_unsealed(session, evaluation_id)  # it is sealed now
    assert state(engine, evaluation_id) == "complete"


def test_an_evaluation_that_is_not_there_is_named(engine: Engine) -> None:
    with pytest.raises(NotFoundError, match="no evaluation 99; the registry has 0"):
        move_to(engine, 99, "pause")


# Submitting


def test_the_same_specification_is_one_evaluation_unless_a_replicate_is_requested(
    engine: Engine, tmp_path: Path
) -> None:
    first = queue_evaluation(engine, tmp_path)
    counts = table_counts(engine)
    request = EvaluationRequest(model="fake", benchmark="bench", variants="cyclic")
    with write_session(engine) as session:
        again, new = submit(session, request)
        assert (again.id, new) == (first, False)
    assert table_counts(engine) == counts
    with write_session(engine) as session:
        replicate, new = submit(
            session, EvaluationRequest(model="fake", benchmark="bench", variants="cyclic", new_replicate=True)
        )
        assert (replicate.replicate, new) == (1, True)
        assert replicate.id != first


def test_the_same_specification_submitted_at_once_is_one_evaluation(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path)  # benchmark and model are there; another limit makes another specification
    with write_session(engine) as session:
        add_model(session, "other")
    together = threading.Barrier(2)
    ids: list[int] = []
    errors: list[Exception] = []

    def run() -> None:
        together.wait()
        try:
            with write_session(engine) as session:
                request = EvaluationRequest(model="other", benchmark="bench", variants="full")
                ids.append(submit(session, request)[0].id)
        except DBAPIError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert errors == []
    assert len(set(ids)) == 1


def test_the_prompts_of_a_shard_are_its_questions_under_every_variant(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=2, variants="original-inverse")
    claimed = take(engine)
    with read_session(engine) as session:
        shown = [(item.question.external_id, item.variant.name) for item in shard_prompts(session, claimed.shard_id)]
    assert shown == [("q0", "original"), ("q0", "inverse")]


@pytest.mark.parametrize("worker_beats", [False, True])
def test_nothing_waits_longer_after_the_clock_is_set_back(engine: Engine, tmp_path: Path, worker_beats: bool) -> None:
    queue_evaluation(engine, tmp_path, shards=3)
    claimed = take(engine, lease=60)
    other = take(engine, "worker-2", lease=60)
    fail(engine, other)  # waits for some seconds
    hour = 3600  # a clock that is set back leaves all stored times ahead of it
    with write_session(engine) as session:
        session.execute(update(Worker).values(last_seen=database_now(hour)))
        session.execute(update(Shard).where(Shard.id == claimed.shard_id).values(lease_until=database_now(hour + 60)))
        session.execute(update(Shard).where(Shard.id == other.shard_id).values(not_before=database_now(hour + 5)))
        reserve(session, "endpoint", Limits(requests_per_minute=60), 1)
        session.execute(update(RateLimit).values(requests_free_at=database_now(hour)))
    with write_session(engine) as session:
        if worker_beats:
            assert follow_clock(session) == pytest.approx(hour, abs=5)
        claims.reconcile(session)
        later = database_now(61)
        assert session.scalars(select(Shard.id).where(Shard.lease_until > later)).all() == []
        assert session.scalars(select(Shard.id).where(Shard.not_before > later)).all() == []
        assert session.scalars(select(Worker.id).where(Worker.last_seen > database_now(1))).all() == []
        assert reserve(session, "endpoint", Limits(requests_per_minute=60), 1) < 10
        assert session.scalars(select(Shard.state).where(Shard.id == claimed.shard_id)).one() == "leased"
    assert finish(engine, claimed)


def test_two_processes_that_notice_the_clock_move_times_once(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=1)
    claimed = take(engine, lease=60)
    with write_session(engine) as session:
        session.execute(update(Worker).values(last_seen=database_now(3600)))
        session.execute(update(Shard).values(lease_until=database_now(3660)))

    def follow() -> float:
        with write_session(engine) as session:
            return follow_clock(session)

    with ThreadPoolExecutor(2) as pool:
        moved = [future.result() for future in [pool.submit(follow) for _ in range(2)]]
    assert min(moved) == 0
    assert sum(moved) == pytest.approx(3600, abs=5)
    reconcile(engine)
    assert finish(engine, claimed)
