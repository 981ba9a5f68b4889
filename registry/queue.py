"""The queue: the database is the truth, messages are hints.

A shard is claimed by one query, scored outside any transaction, and finished in one transaction that begins with a
fenced UPDATE. `fence` rises with each claim, so a worker that was presumed dead and wakes up finds its fence stale and
its result discarded. Exceptions count as `failures` and expired leases as `crashes`; either has a cap, after which the
shard is parked with its error while the others go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import CursorResult, and_, case, func, or_, select, update
from sqlalchemy.orm import Session

from registry.bulk import insert_predictions
from registry.db import database_now
from registry.digests import specification_digest
from registry.models import EngineFingerprint, Evaluation, Prediction, Shard, Worker
from registry.scores import write_question_scores

MAX_FAILURES: Final = 3
MAX_CRASHES: Final = 10
BACK_OFF_SECONDS: Final = 5.0
"""Wait before the second try of a failed shard; doubled with each further failure."""


@dataclass(frozen=True)
class Claim:
    """A worker's right to score one shard, valid while its fence is the shard's and the lease is extended."""

    shard_id: int
    evaluation_id: int
    model_revision_id: int
    fence: int


@dataclass(frozen=True)
class ShardResult:
    """What scoring one shard came to; `rows` are columns of `prediction` by name."""

    rows: Sequence[dict[str, object]]
    fingerprint: dict[str, object]
    tokens_naive: int
    tokens_computed: int
    elapsed_s: float


def claim(
    session: Session,
    worker_id: str,
    *,
    queues: Sequence[str],
    lease_seconds: float,
    loaded_model_revision_id: int | None = None,
) -> Claim | None:
    """Takes the best queued shard: of the loaded model first, then by priority, then the oldest.

    Returns None when there is nothing to do. Several workers never wait for each other (SKIP LOCKED); on SQLite the
    transaction is BEGIN IMMEDIATE and there is one writer at a time.
    """
    loaded = case((Evaluation.model_revision_id == loaded_model_revision_id, 0), else_=1)
    chosen = session.execute(
        select(Shard.id, Shard.evaluation_id, Evaluation.model_revision_id)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(
            Shard.state == "queued",
            Shard.queue.in_(queues),
            or_(Shard.not_before.is_(None), Shard.not_before <= database_now()),
            Evaluation.state.in_(("queued", "running")),
        )
        .order_by(loaded, Evaluation.priority.desc(), Shard.id)
        .limit(1)
        .with_for_update(of=Shard, skip_locked=True)
    ).first()
    if chosen is None:
        return None
    fence = session.scalar(
        update(Shard)
        .where(Shard.id == chosen.id)
        .values(
            state="leased",
            fence=Shard.fence + 1,
            lease_until=database_now(lease_seconds),
            worker_id=worker_id,
            claimed_at=database_now(),
        )
        .returning(Shard.fence)
    )
    assert fence is not None
    session.execute(
        update(Evaluation)
        .where(Evaluation.id == chosen.evaluation_id, Evaluation.state == "queued")
        .values(state="running", started_at=func.coalesce(Evaluation.started_at, database_now()))
    )
    return Claim(chosen.id, chosen.evaluation_id, chosen.model_revision_id, fence)


def _held(shard_claim: Claim) -> object:
    return and_(Shard.id == shard_claim.shard_id, Shard.fence == shard_claim.fence, Shard.state == "leased")


def _update_held(session: Session, shard_claim: Claim, **values: object) -> bool:
    """Updates the shard if the claim still holds; says whether it did."""
    result = session.execute(update(Shard).where(_held(shard_claim)).values(**values))  # type: ignore[arg-type]
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def heartbeat(session: Session, shard_claim: Claim, lease_seconds: float) -> bool:
    """Extends the lease; False when the claim is lost and scoring should stop."""
    return _update_held(session, shard_claim, lease_until=database_now(lease_seconds))


def finish(session: Session, shard_claim: Claim, result: ShardResult) -> bool:
    """Stores a shard's predictions; False, with nothing stored, when the claim is lost.

    A key that is there already or a wrong number of rows is a bug: the database's error rolls the transaction back.
    """
    if not _update_held(
        session,
        shard_claim,
        state="done",
        lease_until=None,
        error=None,
        finished_at=database_now(),
        tokens_naive=result.tokens_naive,
        tokens_computed=result.tokens_computed,
        elapsed_s=result.elapsed_s,
        engine_fingerprint_id=fingerprint_id(session, result.fingerprint),
    ):
        return False
    expected = session.scalar(select(Shard.prompts).where(Shard.id == shard_claim.shard_id))
    if expected != len(result.rows):
        message = f"shard {shard_claim.shard_id} has {expected} prompts, but {len(result.rows)} results were given"
        raise AssertionError(message)
    insert_predictions(session, result.rows)
    write_question_scores(session, shard_claim.evaluation_id, shard_claim.shard_id)
    settle(session, shard_claim.evaluation_id)
    return True


def fingerprint_id(session: Session, document: dict[str, object]) -> int:
    """The row of a fingerprint, made when it is new; two workers may make it at once."""
    digest = specification_digest(document)
    found = session.scalar(select(EngineFingerprint.id).where(EngineFingerprint.digest == digest))
    if found is not None:
        return found
    insert = _insert(session)(EngineFingerprint).values(digest=digest, document=document).on_conflict_do_nothing()
    session.execute(insert)
    return session.scalars(select(EngineFingerprint.id).where(EngineFingerprint.digest == digest)).one()


def _insert(session: Session):  # type: ignore[no-untyped-def]  # noqa: ANN202 - two dialects' functions of one shape
    from sqlalchemy.dialects import postgresql, sqlite

    return postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert


def fail(session: Session, shard_claim: Claim, error: str) -> bool:
    """Counts a failure: queued again after a wait, or parked with its error at the cap. False: the claim was lost."""
    failures = session.scalar(select(Shard.failures).where(_held(shard_claim)))  # type: ignore[arg-type]
    if failures is None:
        return False
    parked = failures + 1 >= MAX_FAILURES
    held = _update_held(
        session,
        shard_claim,
        state="failed" if parked else "queued",
        failures=failures + 1,
        error=error,
        lease_until=None,
        not_before=database_now(BACK_OFF_SECONDS * 2**failures),
    )
    settle(session, shard_claim.evaluation_id)
    return held


def hand_back(session: Session, shard_claim: Claim) -> bool:
    """Returns a shard unscored, counted as neither failure nor crash. False: the claim was lost."""
    return _update_held(session, shard_claim, state="queued", lease_until=None)


def settle(session: Session, evaluation_id: int) -> None:
    """Marks an evaluation failed once nothing of it is left to do and a shard is parked."""
    states = set(session.scalars(select(Shard.state).where(Shard.evaluation_id == evaluation_id).distinct()))
    if "failed" in states and not states & {"queued", "leased"}:
        session.execute(
            update(Evaluation)
            .where(Evaluation.id == evaluation_id, Evaluation.state.in_(("queued", "running")))
            .values(state="failed")
        )


def reconcile(session: Session) -> list[tuple[int, str]]:
    """Queues shards whose lease expired, counting a crash, and parks those at the cap.

    Returns the (shard id, queue) of all that wait for a worker, best first, to be hinted at.

    Harmless when it runs twice at once: each UPDATE repeats its condition.
    """
    expired = and_(Shard.state == "leased", Shard.lease_until < database_now())
    session.execute(
        update(Shard)
        .where(expired, Shard.crashes + 1 >= MAX_CRASHES)
        .values(
            state="failed",
            crashes=Shard.crashes + 1,
            lease_until=None,
            error=f"its worker died {MAX_CRASHES} times; see the workers' logs, then: shuffleboard evaluations retry",
        )
    )
    session.execute(update(Shard).where(expired).values(state="queued", crashes=Shard.crashes + 1, lease_until=None))
    with_parked = (
        select(Shard.evaluation_id)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(Shard.state == "failed", Evaluation.state.in_(("queued", "running")))
    )
    for evaluation_id in session.scalars(with_parked.distinct()).all():
        settle(session, evaluation_id)
    waiting = (
        select(Shard.id, Shard.queue)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(Shard.state == "queued", Evaluation.state.in_(("queued", "running")))
        .order_by(Evaluation.priority.desc(), Shard.id)
    )
    return [(row.id, row.queue) for row in session.execute(waiting)]


def ready_to_seal(session: Session) -> list[int]:
    """Evaluations whose every shard is done but which are not sealed yet."""
    undone = select(Shard.id).where(Shard.evaluation_id == Evaluation.id, Shard.state != "done").exists()
    return list(
        session.scalars(
            select(Evaluation.id)
            .where(Evaluation.seal.is_(None), Evaluation.state.in_(("queued", "running", "paused")), ~undone)
            .order_by(Evaluation.id)
        )
    )


def stored_predictions(session: Session, evaluation_id: int) -> int:
    """How many predictions an evaluation has."""
    query = select(func.count()).select_from(Prediction).where(Prediction.evaluation_id == evaluation_id)
    return session.scalar(query) or 0


def work_remains(session: Session, queues: Sequence[str]) -> bool:
    """Whether any shard of these queues is still to be scored or being scored."""
    query = (
        select(Shard.id)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(
            Shard.queue.in_(queues),
            or_(
                Shard.state == "leased",
                and_(Shard.state == "queued", Evaluation.state.in_(("queued", "running"))),
            ),
        )
        .limit(1)
    )
    return session.scalar(query) is not None


def live_workers(session: Session, silent_seconds: float) -> int:
    """How many workers have shown a sign of life within `silent_seconds` and did not stop."""
    query = select(func.count()).where(Worker.stopped_at.is_(None), Worker.last_seen > database_now(-silent_seconds))
    return session.scalar(query) or 0
