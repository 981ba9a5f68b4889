"""Sizes of shards, which follow measured rates and do not affect the results."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from registry.db import database_now, get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.queue import claims
from registry.queue.sizing import Sizes
from registry.sealed.seal import seal
from registry.settings import Settings
from registry.tables import Evaluation, Shard, Worker
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_model, predictions, queue_evaluation
from workers.loop import WorkerLoop

pytestmark = pytest.mark.long_on("sqlite")

EACH = 4
"""Prompts per question, which are its rotations."""


@pytest.fixture
def engine(database: str) -> Engine:
    engine = get_engine(database)
    with write_session(engine) as session:
        add_model(session)
        for worker in ("one", "two"):
            session.add(Worker(id=worker, host=worker, pid=1, device="A100", scopes=[], versions={}, queues=["cpu"]))
    return engine


def sizes(engine: Engine, evaluation_id: int, rate: float, seconds: float) -> Sizes:
    """Return the sizes for a worker with this measured rate, in prompts per second."""
    sizes_of_worker = Sizes(seconds, "A100")
    sizes_of_worker.note(evaluation_id, prompts=round(rate * 10), tokens_computed=1, elapsed_s=10.0)
    return sizes_of_worker


def take(engine: Engine, wanted: Sizes | None, worker: str = "one") -> claims.Claim:
    with write_session(engine) as session:
        claim = claims.claim(session, worker, queues=["cpu"], lease_seconds=60.0, sizes=wanted)
    assert claim is not None
    return claim


def finish(engine: Engine, held: claims.Claim, elapsed_s: float | None = None) -> None:
    result = FakeScorer().score(engine, held, lambda: False)
    with write_session(engine) as session:
        assert claims.finish(session, held, result)
        if elapsed_s is not None:
            session.execute(update(Shard).where(Shard.id == held.shard_id).values(elapsed_s=elapsed_s))


def prompts(engine: Engine, *states: str) -> list[int]:
    with read_session(engine) as session:
        return list(session.scalars(select(Shard.prompts).where(Shard.state.in_(states)).order_by(Shard.ordinal)))


def test_what_follows_is_joined_to_a_claimed_shard_up_to_its_time(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=20)
    take(engine, sizes(engine, evaluation_id, rate=6.0, seconds=5.0))
    assert prompts(engine, "leased") == [28]  # 30 at most
    assert prompts(engine, "queued") == [EACH] * 13


def test_what_takes_too_long_is_cut_between_questions_and_the_rest_queued(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=20, shard_prompts=200)
    take(engine, sizes(engine, evaluation_id, rate=2.0, seconds=5.0))
    assert prompts(engine, "leased") == [8]
    assert prompts(engine, "queued") == [72]


def test_shards_get_small_at_the_end_of_a_shared_evaluation(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=40)
    wanted = sizes(engine, evaluation_id, rate=8.0, seconds=10.0)
    shards = [take(engine, None, "two")]
    while prompts(engine, "queued"):
        shards.append(take(engine, wanted))
    sizes_in_order = prompts(engine, "leased")[1:]
    assert sizes_in_order[0] == 36  # a quarter of 156 is left to each of two, twice
    assert sizes_in_order == sorted(sizes_in_order, reverse=True)
    assert sizes_in_order[-1] <= 10
    for shard in shards:
        finish(engine, shard)
    with read_session(engine) as session:
        assert claims.ready_to_seal(session) == [evaluation_id]


def test_a_worker_without_a_rate_uses_its_device_kinds_last_shards(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=20)
    finish(engine, take(engine, None), elapsed_s=1.0)
    take(engine, Sizes(5.0, "T4"))  # there are no measurements of that device
    assert prompts(engine, "leased") == [EACH]
    take(engine, Sizes(5.0, "A100"), "two")  # another is at work: half of its share of 72
    assert prompts(engine, "leased") == [EACH, 16]


def test_a_worker_without_a_model_helps_the_model_with_most_work_left(engine: Engine, tmp_path: Path) -> None:
    with write_session(engine) as session:
        session.add(Worker(id="slow", host="slow", pid=1, device="T4", scopes=[], versions={}, queues=["cpu"]))
    large, small = (
        queue_evaluation(engine, tmp_path, shards=shards, benchmark=f"of-{shards}", model=f"for-{shards}")
        for shards in (20, 12)
    )
    took = {"one": 0.1, "slow": 4.0}
    for order in (("one", "slow"), ("slow", "one")):  # the first takes the larger evaluation, the second the other one
        claimed = [take(engine, None, worker) for worker in order]
        assert [claim.evaluation_id for claim in claimed] == [large, small]
        for claim in claimed:
            finish(engine, claim, elapsed_s=took[claim.worker_id])
    assert [take(engine, None, worker).evaluation_id for worker in ("one", "slow")] == [large, small]
    assert take(engine, None, "two").evaluation_id == small


def test_a_shard_that_failed_is_neither_joined_nor_added_to(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=6)
    wanted = sizes(engine, evaluation_id, rate=8.0, seconds=10.0)
    first, second = take(engine, None), take(engine, None, "two")
    with write_session(engine) as session:
        for shard in (first, second):
            assert claims.fail(session, shard, "out of luck")
        session.execute(update(Shard).values(not_before=database_now(-1)))
    assert [take(engine, wanted).shard_id for _ in range(2)] == [first.shard_id, second.shard_id]
    assert prompts(engine, "leased") == [EACH, EACH]


def test_a_shard_that_is_cut_or_joined_changes_no_result(engine: Engine, tmp_path: Path) -> None:
    planned = queue_evaluation(engine, tmp_path, shards=12, benchmark="planned", shard_prompts=16)
    while prompts(engine, "queued"):
        finish(engine, take(engine, None))
    sized = queue_evaluation(engine, tmp_path, shards=12, benchmark="sized", shard_prompts=16)
    for rate in (3.0, 8.0, 1.0, 20.0, 20.0, 20.0):
        if prompts(engine, "queued"):
            finish(engine, take(engine, sizes(engine, sized, rate=rate, seconds=1.0)))
    with write_session(engine) as session:
        assert seal(session, sized)
        assert find_evaluation(session, sized).prompts == 48

    assert predictions(engine, sized) == predictions(engine, planned)


def test_a_worker_makes_its_shards_as_long_as_the_settings_say(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=30)
    scorer = FakeScorer(seconds_per_prompt=0.01)
    loop = WorkerLoop(engine, Settings(poll_seconds=0.02, shard_seconds=0.2), scorer, ["cpu"])
    loop.start()
    try:
        loop.run(until_idle=True)
    finally:
        loop.stop()
    with read_session(engine) as session:
        assert session.scalars(select(Evaluation.state)).all() == ["complete"]
        done = session.scalars(select(Shard.prompts).order_by(Shard.ordinal)).all()
    assert done[0] == EACH
    assert sum(done) == 30 * EACH
    assert max(done) in range(16, 21)
