"""Two workers that alternate at a queue of evaluations that decide when to stop, with and without failures."""

from unittest.mock import patch

from sqlalchemy import Engine

from registry.db import get_engine, write_session
from registry.queue import claims
from registry.sealed.seal import seal
from registry.tables import Shard, Worker
from tests.chaos.comparison import take_down
from tests.support.fake_scorer import FakeScorer


def with_two_workers(database: str) -> Engine:
    """Return the database's engine, after registering the workers w1 and w2."""
    created = get_engine(database)
    with write_session(created) as session:
        session.add_all(Worker(id=name, host="here", pid=1, device="fake", versions={}) for name in ("w1", "w2"))
    return created


def take(engine: Engine, worker: str = "w1") -> claims.Claim | None:
    """Claim a shard; return None if nothing is queued."""
    with write_session(engine) as session:
        return claims.claim(session, worker, queues=["cpu"], lease_seconds=60)


def finish(engine: Engine, held: claims.Claim, scorer: FakeScorer | None = None) -> bool:
    """Score a shard and store it; return False if its lease was lost."""
    result = (scorer or FakeScorer()).score(engine, held, lambda: False)
    with write_session(engine) as session:
        return claims.finish(session, held, result)


def score_all(engine: Engine, evaluation_id: int, scorer: FakeScorer | None = None) -> None:
    """Score and seal all queued work."""
    while (claim := take(engine)) is not None:
        assert finish(engine, claim, scorer)
    with write_session(engine) as session:
        assert claims.ready_to_seal(session) == [evaluation_id]
        assert seal(session, evaluation_id)


def score_in_trouble(engine: Engine, evaluation_id: int, scorer: FakeScorer | None = None) -> None:
    """Score and seal all queued work despite failures, lost workers, and shards that finish in another order."""
    turns = 0
    with patch.object(claims, "BACK_OFF_SECONDS", 0.0):
        while (claim := take(engine)) is not None:
            turns += 1
            if turns % 4 == 1:
                with write_session(engine) as session:
                    assert claims.fail(session, claim, "out of memory")
            elif turns % 4 == 2:  # its lease expires, and another worker takes the shard
                with write_session(engine) as session:
                    session.get_one(Shard, claim.shard_id).state = "queued"
                    session.get_one(Shard, claim.shard_id).lease_until = None
                other = take(engine, "w2")
                assert other is not None
                assert finish(engine, other, scorer)
                assert not finish(engine, claim, scorer)
            elif (other := take(engine, "w2")) is not None:  # the later shard is finished first
                assert finish(engine, other, scorer)
                assert finish(engine, claim, scorer)
            else:
                assert finish(engine, claim, scorer)
    with write_session(engine) as session:
        assert seal(session, evaluation_id)


def assert_alike(engine: Engine, calm: int, troubled: int) -> None:
    """Check that both evaluations have the same predictions, leaves, specification and metrics, and can be verified."""
    one, two = take_down(engine, calm), take_down(engine, troubled)
    assert two["problems"] == []
    for name in ("predictions", "leaves", "specification", "metrics"):
        assert one[name] == two[name], name
