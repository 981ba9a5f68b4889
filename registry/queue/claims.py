"""Claim shards, finish them, and return them to the queue.

The database is the truth; messages are only hints. A shard is claimed by one query, scored outside any transaction, and
finished in one transaction that begins with a fenced UPDATE. `fence` rises with each claim, so a worker that was
presumed dead and wakes up finds its fence stale and its result discarded. A claim from before a restore is rejected
because the worker's id or the registry's generation differs. Exceptions count as `failures` and expired leases as
`crashes`; either has a cap, after which the shard is parked with its error while the others go on.
"""

import os
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Row,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.orm import Session, aliased

from registry.db import database_now, insert_ignoring, registry_place, update_one
from registry.digests import specification_digest
from registry.predictions.bulk import insert_predictions
from registry.proposals import propose
from registry.queue import exclusions
from registry.queue.clock import follow_clock
from registry.queue.generation import current
from registry.queue.hints import hint_at
from registry.queue.sizing import Sizes
from registry.scores.question_scores import write_question_scores
from registry.tables import (
    QUEUES,
    EngineFingerprint,
    Evaluation,
    EvaluationQuestion,
    Exclusion,
    Generation,
    RegistryGeneration,
    Shard,
    Worker,
)
from registry.tables.drafts import Draft

MAX_FAILURES: Final = 3
MAX_CRASHES: Final = 10
BACK_OFF_SECONDS: Final = 5.0
"""Wait before the second try of a failed shard; doubled with each further failure."""
ALIVE_SECONDS: Final = 30.0
"""A worker that was silent for longer counts as dead."""
BEAT_SECONDS: Final = ALIVE_SECONDS / 3
"""Longest time between two heartbeats of a worker."""


@dataclass(frozen=True)
class Claim:
    """A worker's right to score one shard, valid while the shard is leased to this worker under this fence.

    generation: the registry's generation when the claim was made; the claim is invalid in any other.
    """

    shard_id: int
    evaluation_id: int
    model_revision_id: int
    fence: int
    worker_id: str
    generation: str
    queue: str = "cpu"


@dataclass(frozen=True)
class ShardResult:
    """The result of scoring one shard.

    rows: columns of `prediction` by name, one dict for each prompt. generations: columns of `generation` by name.
    matching_s: seconds of elapsed_s spent on matching answers with options; None if the protocol does not match.
    """

    rows: Sequence[dict[str, object]]
    fingerprint: dict[str, object]
    tokens_naive: int
    tokens_computed: int
    elapsed_s: float
    generations: Sequence[dict[str, object]] = ()
    matching_s: float | None = None


def claim(
    session: Session,
    worker_id: str,
    *,
    queues: Sequence[str],
    lease_seconds: float,
    loaded_model_revision_id: int | None = None,
    scopes: Sequence[str] = (),
    sizes: Sizes | None = None,
) -> Claim | None:
    """Claim the best queued shard: highest priority, then the loaded model, then the model that most needs a worker.

    scopes: this worker's scopes; shards excluded from one of them are left to others.
    sizes: the worker's measured sizes, to which the shard is fitted; None keeps the planned size.
    Returns None if no shard can be claimed. Workers never wait for each other (SKIP LOCKED); on SQLite the transaction
    is BEGIN IMMEDIATE, with one writer at a time.
    """
    for evaluation in _best_first(session, queues, loaded_model_revision_id, scopes):
        if evaluation.max_workers is not None and not _accepts_worker(session, evaluation, worker_id):
            continue
        first = (
            select(Shard.id)
            .where(
                Shard.evaluation_id == evaluation.id,
                Shard.queue == evaluation.queue,
                _is_free(),
                ~exclusions.match_excluded(scopes, Exclusion.shard_id == Shard.id),
            )
            .order_by(Shard.id)
            .limit(1)
        )
        shard_id = session.scalar(first.with_for_update(skip_locked=True))
        if shard_id is not None:
            break
    else:
        return None
    if sizes is not None:
        sizes.fit(session, shard_id, evaluation.id)
    generation = current(session)
    fence = session.scalar(
        update(Shard)
        .where(Shard.id == shard_id)
        .values(
            state="leased",
            fence=Shard.fence + 1,
            lease_until=database_now(lease_seconds),
            worker_id=worker_id,
            registry_generation=generation,
            claimed_at=database_now(),
        )
        .returning(Shard.fence)
    )
    assert fence is not None
    session.execute(
        update(Evaluation)
        .where(Evaluation.id == evaluation.id, Evaluation.state == "queued")
        .values(state="running", started_at=func.coalesce(Evaluation.started_at, database_now()))
    )
    return Claim(shard_id, evaluation.id, evaluation.model_revision_id, fence, worker_id, generation, evaluation.queue)


def _best_first(
    session: Session, queues: Sequence[str], loaded_model_revision_id: int | None, scopes: Sequence[str]
) -> list[Row[int, int, int, int | None, str]]:
    """Return (id, model_revision_id, priority, max_workers, queue) of evaluations with claimable shards, best first."""
    queries = []
    for queue in dict.fromkeys(queues):
        free = select(Shard.id).where(
            Shard.evaluation_id == Evaluation.id,
            Shard.queue == queue,
            _is_free(),
            ~exclusions.match_excluded(scopes, Exclusion.shard_id == Shard.id),
        )
        columns = (Evaluation.id, Evaluation.model_revision_id, Evaluation.priority, Evaluation.max_workers)
        queries.append(
            select(*columns, literal(queue).label("queue")).where(
                _is_active(),
                ~exclusions.match_excluded(scopes, Exclusion.model_revision_id == Evaluation.model_revision_id),
                free.exists(),
            )
        )
    rows = session.execute(union_all(*queries)).all()
    rows = sorted(rows, key=lambda row: (-row.priority, row.model_revision_id != loaded_model_revision_id, row.id))
    if not rows or rows[0].model_revision_id == loaded_model_revision_id:
        return rows
    top = [row for row in rows if row.priority == rows[0].priority]
    if len({row.model_revision_id for row in top}) == 1:
        return rows
    needs = _rank_models(session, [row.id for row in top])
    return sorted(top, key=lambda row: needs[row.model_revision_id]) + rows[len(top) :]


def _accepts_worker(session: Session, evaluation: Row[int, int, int, int | None, str], worker_id: str) -> bool:
    """Lock an evaluation's row; return whether fewer than `max_workers` other workers are scoring it."""
    session.execute(select(Evaluation.id).where(Evaluation.id == evaluation.id).with_for_update(key_share=True))
    others = select(func.count(Shard.worker_id.distinct())).where(
        Shard.evaluation_id == evaluation.id, Shard.state == "leased", Shard.worker_id != worker_id
    )
    return bool((session.scalar(others) or 0) < evaluation.max_workers)


def _rank_models(session: Session, evaluations: Sequence[int]) -> dict[int, tuple[bool, float]]:
    """Rank the models of some evaluations by how badly they need another worker; the lowest value needs it most.

    Loading a model takes as long as several shards, so workers spread over the models: first to those without a worker,
    then to the one whose workers would take longest.
    """
    done = Shard.state == "done"
    rows = session.execute(
        select(
            Evaluation.model_revision_id,
            func.sum(case((Shard.state == "queued", Shard.prompts), else_=0)).label("left"),
            func.count(case((Shard.state == "leased", Shard.id))).label("workers"),
            func.coalesce(func.sum(case((done, Shard.prompts))), 0).label("prompts"),
            func.coalesce(func.sum(case((done, Shard.elapsed_s))), 0.0).label("seconds"),
        )
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .outerjoin(Worker, Worker.id == Shard.worker_id)
        .where(Evaluation.id.in_(evaluations))
        .group_by(Evaluation.model_revision_id, Worker.device)
    ).all()
    kinds: dict[int, list[Any]] = {}
    for row in rows:
        kinds.setdefault(row.model_revision_id, []).append(row)
    measured = all(any(row.seconds for row in model_rows) for model_rows in kinds.values())

    def need(model_rows: Sequence[Any]) -> tuple[bool, float]:
        rate = sum(row.workers for row in model_rows)
        if measured:  # a kind of device without results counts at the mean rate
            mean = sum(row.prompts for row in model_rows) / sum(row.seconds for row in model_rows)
            rate = sum(row.workers * (row.prompts / row.seconds if row.seconds else mean) for row in model_rows)
        return rate > 0, -sum(row.left for row in model_rows) / (rate or 1)

    return {model_revision_id: need(model_rows) for model_revision_id, model_rows in kinds.items()}


def is_of(shard_claim: Claim, state: str = "leased") -> ColumnElement[bool]:
    """Return the condition that a row of `shard` still belongs to this claim and has this state.

    It also requires that the claim was made in this database's present generation and place.
    """
    return and_(
        Shard.id == shard_claim.shard_id,
        Shard.state == state,
        Shard.fence == shard_claim.fence,
        Shard.worker_id == shard_claim.worker_id,
        Shard.registry_generation == shard_claim.generation,
        select(RegistryGeneration.generation)
        .where(RegistryGeneration.generation == shard_claim.generation, RegistryGeneration.place == registry_place())
        .exists(),
    )


def _update_claimed(session: Session, shard_claim: Claim, **values: object) -> bool:
    """Update the shard if the claim is still valid; return whether it was."""
    return update_one(session, update(Shard).where(is_of(shard_claim)).values(**values))


def heartbeat(session: Session, shard_claim: Claim, lease_seconds: float) -> bool:
    """Extend the lease. Returns False if the claim is lost and scoring should stop."""
    return _update_claimed(session, shard_claim, lease_until=database_now(lease_seconds))


def finish(session: Session, shard_claim: Claim, result: ShardResult) -> bool:
    """Store a shard's predictions. Returns False, with nothing stored, if the claim is lost.

    A duplicate key or a wrong number of rows is a bug: the database's error rolls the transaction back.
    """
    if not _update_claimed(
        session,
        shard_claim,
        state="done",
        lease_until=None,
        error=None,
        finished_at=database_now(),
        tokens_naive=result.tokens_naive,
        tokens_computed=result.tokens_computed,
        elapsed_s=result.elapsed_s,
        matching_s=result.matching_s,
        engine_fingerprint_id=fingerprint_id(session, result.fingerprint),
    ):
        return False
    expected = session.scalar(select(Shard.prompts).where(Shard.id == shard_claim.shard_id))
    if expected != len(result.rows):
        message = f"shard {shard_claim.shard_id} has {expected} prompts, but {len(result.rows)} results were given"
        raise AssertionError(message)
    insert_predictions(session, result.rows)
    if result.generations:
        session.execute(insert(Generation), list(result.generations))
        questions = select(EvaluationQuestion.question_id).where(EvaluationQuestion.shard_id == shard_claim.shard_id)
        drafts = (Draft.evaluation_id == shard_claim.evaluation_id, Draft.question_id.in_(questions))
        session.execute(delete(Draft).where(*drafts).execution_options(synchronize_session=False))
    write_question_scores(session, shard_claim.evaluation_id, shard_claim.shard_id)
    fail_if_over(session, shard_claim.evaluation_id)
    return True


def is_finished(session: Session, shard_claim: Claim) -> bool:
    """Return whether the shard was finished under this claim; for when the reply to the commit was lost."""
    return session.scalar(select(Shard.id).where(is_of(shard_claim, "done"))) is not None


def fingerprint_id(session: Session, document: dict[str, object]) -> int:
    """Return the id of a fingerprint's row, inserting a new one; two workers may insert it at once."""
    digest = specification_digest(document)
    existing_id = session.scalar(select(EngineFingerprint.id).where(EngineFingerprint.digest == digest))
    if existing_id is not None:
        return existing_id
    insert_ignoring(session, EngineFingerprint, digest=digest, document=document)
    return session.scalars(select(EngineFingerprint.id).where(EngineFingerprint.digest == digest)).one()


def fail(session: Session, shard_claim: Claim, error: str, *, final: bool = False, of_all: bool = False) -> bool:
    """Count a failure: queue the shard again after a wait, or park it with its error at the cap.

    final: park it at once, since another try would fail too. of_all: park all queued shards of the evaluation as well.
    Returns False if the claim was lost.
    """
    failures = session.scalar(select(Shard.failures).where(is_of(shard_claim)))
    if failures is None:
        return False
    parked = final or failures + 1 >= MAX_FAILURES
    updated = _update_claimed(
        session,
        shard_claim,
        state="failed" if parked else "queued",
        failures=failures + 1,
        error=error,
        lease_until=None,
        not_before=database_now(BACK_OFF_SECONDS * 2**failures),
    )
    if updated and of_all:
        rest = update(Shard).where(Shard.evaluation_id == shard_claim.evaluation_id, Shard.state == "queued")
        session.execute(rest.values(state="failed", error=error))
    fail_if_over(session, shard_claim.evaluation_id)
    return updated


def hand_back(session: Session, shard_claim: Claim, wait_s: float = 0.0) -> bool:
    """Return a shard to the queue unscored, without counting a failure or crash. Returns False if the claim was lost.

    wait_s: seconds before it can be claimed again.
    """
    if wait_s > 0:
        return _update_claimed(session, shard_claim, state="queued", lease_until=None, not_before=database_now(wait_s))
    # The shard's first hint is used up. Without a new one other workers would wait for the reconciler.
    hint_at(session, Shard.id == shard_claim.shard_id)
    return _update_claimed(session, shard_claim, state="queued", lease_until=None)


def leave_to_others(
    session: Session, shard_claim: Claim, scope: str, error: str, *, model: bool = False, lasting: bool = False
) -> bool:
    """Return a shard that this worker cannot score to the queue, without counting a failure, and exclude the scope.

    scope: the worker's scope that cannot score it, for the reason in `error`.
    model: whether the reason applies to every shard of the model.
    lasting: whether another try in that scope would fail too. Returns False if the claim was lost.
    """
    if not hand_back(session, shard_claim):
        return False
    target = {"model_revision_id": shard_claim.model_revision_id} if model else {"shard_id": shard_claim.shard_id}
    exclusions.exclude(session, scope, error, lasting=lasting, **target)
    return True


def hand_back_all(session: Session, worker_id: str) -> int:
    """Put all shards that are leased to a worker back in the queue; return how many there were.

    Call it for a worker without a claim: the reply to the commit of a claim may have been lost.
    """
    leased = update(Shard).where(Shard.worker_id == worker_id, Shard.state == "leased")
    result = session.execute(leased.values(state="queued", lease_until=None))
    assert isinstance(result, CursorResult)
    return result.rowcount


def fail_if_over(session: Session, evaluation_id: int) -> None:
    """Mark an evaluation as failed if one of its shards is parked and no shard is queued or leased."""
    shards = select(Shard.id).where(Shard.evaluation_id == evaluation_id)
    # `state` is indexed: an evaluation may have thousands of shards, nearly all of them done.
    if not session.scalar(select(shards.where(Shard.state == "failed").exists())):
        return
    if not session.scalar(select(shards.where(Shard.state.in_(("queued", "leased"))).exists())):
        active = update(Evaluation).where(Evaluation.id == evaluation_id, Evaluation.state.in_(("queued", "running")))
        session.execute(active.values(state="failed", failed_at=database_now()))


def reconcile(session: Session) -> None:
    """Queue shards whose lease expired, counting a crash, and park those at the limit.

    Safe to run concurrently: each UPDATE repeats its condition. A shard whose row is locked is skipped:
    another process is finishing it, or was frozen while doing so, and nobody should wait for that.
    """
    follow_clock(session)
    leased = aliased(Shard)
    expired = Shard.id.in_(
        select(leased.id)
        .where(leased.state == "leased", leased.lease_until < database_now())
        .with_for_update(skip_locked=True)
    )
    session.execute(
        update(Shard)
        .where(expired, Shard.crashes + 1 >= MAX_CRASHES)
        .values(
            state="failed",
            crashes=Shard.crashes + 1,
            lease_until=None,
            error=(
                f"its worker died {MAX_CRASHES} times; see the workers' logs, then: "
                f"{propose('evaluations retry', 'ID')}"
            ),
        )
    )
    session.execute(update(Shard).where(expired).values(state="queued", crashes=Shard.crashes + 1, lease_until=None))
    with_parked = (
        select(Shard.evaluation_id)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(Shard.state == "failed", Evaluation.state.in_(("queued", "running")))
    )
    unservable = exclusions.fail_unservable(session, worker_is_live(), MAX_FAILURES, BACK_OFF_SECONDS)
    for evaluation_id in unservable.union(session.scalars(with_parked.distinct())):
        fail_if_over(session, evaluation_id)


def waiting(session: Session) -> list[tuple[int, str]]:
    """Return (shard id, queue) of all shards that a worker could claim now, best first, for hints."""
    query = (
        select(Shard.id, Shard.queue)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(_is_free(), _is_active())
        .order_by(Evaluation.priority.desc(), Shard.id)
    )
    return [(row.id, row.queue) for row in session.execute(query)]


def _is_free() -> ColumnElement[bool]:
    return and_(Shard.state == "queued", or_(Shard.not_before.is_(None), Shard.not_before <= database_now()))


def _is_active() -> ColumnElement[bool]:
    return Evaluation.state.in_(("queued", "running"))


def ready_to_seal(session: Session, evaluation_id: int | None = None) -> list[int]:
    """Return the ids of unsealed evaluations whose shards are all done.

    evaluation_id: check this evaluation only; None checks all.
    """
    undone = select(Shard.id).where(Shard.evaluation_id == Evaluation.id, Shard.state != "done").exists()
    query = select(Evaluation.id).where(
        Evaluation.seal.is_(None), Evaluation.state.in_(("queued", "running", "paused")), ~undone
    )
    if evaluation_id is not None:
        query = query.where(Evaluation.id == evaluation_id)
    return list(session.scalars(query.order_by(Evaluation.id)))


def lock_unsealed(session: Session, evaluation_id: int) -> bool:
    """Lock an evaluation for sealing. Returns False if it is sealed, or another worker is sealing it.

    A locked row is skipped, not waited for, since the process with the lock may be frozen.
    """
    query = select(Evaluation.id).where(Evaluation.id == evaluation_id, Evaluation.seal.is_(None))
    return session.scalar(query.with_for_update(skip_locked=True)) is not None


def work_remains(session: Session, queues: Sequence[str]) -> bool:
    """Return whether these queues have a shard that is queued or being scored."""
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


def live_workers(session: Session, silent_seconds: float = ALIVE_SECONDS) -> int:
    """Return the number of workers that were seen within `silent_seconds`, did not stop and still have a process."""
    query = (
        select(func.count())
        .select_from(Worker)
        .where(worker_is_live(silent_seconds), Worker.id.not_in(list_gone(session)))
    )
    return session.scalar(query) or 0


def list_gone(session: Session) -> list[str]:
    """Return the ids of this host's workers that missed a heartbeat and whose process has ended.

    A worker with a recent heartbeat is never listed: its process may be in a container, with another process id.
    """
    query = select(Worker.id, Worker.pid).where(
        Worker.stopped_at.is_(None),
        Worker.host == socket.gethostname(),
        Worker.last_seen < database_now(-BEAT_SECONDS - 1),
        Worker.last_seen > database_now(-ALIVE_SECONDS),
    )
    return [row.id for row in session.execute(query) if not _process_exists(row.pid)]


def _process_exists(pid: int) -> bool:
    """Return whether this host runs the process, under any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def worker_is_live(silent_seconds: float = ALIVE_SECONDS) -> ColumnElement[bool]:
    """Return the condition that a worker is running, seen within `silent_seconds` by the database's clock."""
    return and_(Worker.stopped_at.is_(None), Worker.last_seen > database_now(-silent_seconds))


def queues_without_worker(session: Session) -> list[str]:
    """Return the names of queues with waiting work that no live worker serves."""
    served: set[str] = set()
    for queues in session.scalars(select(Worker.queues).where(worker_is_live(), Worker.id.not_in(list_gone(session)))):
        served.update(QUEUES if queues is None else queues)
    waiting = (
        select(Shard.queue)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(Shard.state == "queued", Evaluation.state.in_(("queued", "running")))
        .distinct()
    )
    return sorted(set(session.scalars(waiting)) - served)


def differing_versions(versions: Iterable[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Count workers by package and version, for packages that workers have in several versions."""
    counted: dict[str, Counter[str]] = {}
    for packages in versions:
        for package, version in packages.items():
            counted.setdefault(package, Counter())[version] += 1
    return {package: dict(counts) for package, counts in sorted(counted.items()) if len(counts) > 1}
