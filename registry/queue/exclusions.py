"""Exclusions: work that failed on a device, a kind of device or a host is left to other workers.

A model that does not fit in one kind of GPU fits in another; a full disk and a defective card are no fault of a shard.
The work waits for a worker that is not excluded. If every live worker of its queue is excluded, the shard fails with
the error: at once if another try would fail too, otherwise by its count of failures.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, false, insert, or_, select, update
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.tables import Evaluation, Exclusion, Shard, Worker

LASTS_SECONDS: Final = 3600.0
"""Seconds until the work is tried again: the disk may have been tidied, memory freed or a card replaced."""


def scopes_of(host: str, device: str, place: str) -> list[str]:
    """Return the scopes of a worker: its kind of device (for a CPU, its host's memory), its host, its device.

    place: distinguishes the device from others of the same host.
    """
    kind = f"memory of {host}" if device == "cpu" else device
    return [kind, f"host {host}", f"{place} of {host}"]


def exclude(
    session: Session,
    scope: str,
    error: str,
    *,
    model_revision_id: int | None = None,
    shard_id: int | None = None,
    lasting: bool = False,
) -> None:
    """Exclude workers of this scope from a model revision or from one shard."""
    row = {"scope": scope, "error": error, "lasting": lasting}
    session.execute(insert(Exclusion).values(row | {"model_revision_id": model_revision_id, "shard_id": shard_id}))


def match_excluded(scopes: Sequence[str], covers_work: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that workers of these scopes are excluded from some work.

    covers_work: the condition on `exclusion` that selects the exclusions from this work.
    """
    if not scopes:
        return false()
    return select(Exclusion.id).where(covers_work, _is_in_force(), Exclusion.scope.in_(scopes)).exists()


def _is_in_force() -> ColumnElement[bool]:
    return Exclusion.created_at > database_now(-LASTS_SECONDS)


def forget(session: Session, evaluation: Evaluation) -> None:
    """Delete the exclusions from an evaluation and its model, so that every worker may try again."""
    shards = select(Shard.id).where(Shard.evaluation_id == evaluation.id)
    covers_evaluation = or_(Exclusion.shard_id.in_(shards), Exclusion.model_revision_id == evaluation.model_revision_id)
    session.execute(delete(Exclusion).where(covers_evaluation).execution_options(synchronize_session=False))


def fail_unservable(session: Session, live: ColumnElement[bool], most_failures: int, wait_s: float) -> set[int]:
    """Count a failure of shards that every live worker is excluded from; return the evaluations concerned.

    If a queue has no live worker, its shards go on waiting.
    """
    query = select(Exclusion.model_revision_id, Exclusion.shard_id).where(_is_in_force()).distinct()
    excluded_work = session.execute(query).all()
    if not excluded_work:
        return set()
    workers = [(set(row.queues or ()), list(row.scopes)) for row in session.scalars(select(Worker).where(live))]
    touched: set[int] = set()
    for model_revision_id, shard_id in excluded_work:
        covers_work = Exclusion.shard_id == shard_id if shard_id else Exclusion.model_revision_id == model_revision_id
        reasons = session.scalars(select(Exclusion).where(covers_work, _is_in_force()).order_by(Exclusion.id)).all()
        queued = _match_queued(shard_id, model_revision_id)
        for queue in session.scalars(select(Shard.queue).where(queued).distinct()).all():
            serving = [set(scopes) for queues, scopes in workers if queue in queues]
            covering = {reason.scope for reason in reasons}
            if not serving or any(not scopes & covering for scopes in serving):
                continue
            touched |= _count_failure(session, and_(queued, Shard.queue == queue), reasons, most_failures, wait_s)
    return touched


def _match_queued(shard_id: int | None, model_revision_id: int | None) -> ColumnElement[bool]:
    active = select(Evaluation.id).where(Evaluation.state.in_(("queued", "running")))
    if shard_id is not None:
        return and_(Shard.state == "queued", Shard.id == shard_id, Shard.evaluation_id.in_(active))
    of_model = active.where(Evaluation.model_revision_id == model_revision_id)
    return and_(Shard.state == "queued", Shard.evaluation_id.in_(of_model))


def _count_failure(
    session: Session, shards: ColumnElement[bool], reasons: Sequence[Exclusion], most_failures: int, wait_s: float
) -> set[int]:
    touched = set(session.scalars(select(Shard.evaluation_id).where(shards).distinct()))
    error = f"{reasons[-1].scope}: {reasons[-1].error}"[:2000]
    if all(reason.lasting for reason in reasons):
        session.execute(update(Shard).where(shards).values(state="failed", error=error))
        return touched
    session.execute(
        update(Shard)
        .where(shards, Shard.failures + 1 >= most_failures)
        .values(state="failed", failures=Shard.failures + 1, error=error)
    )
    session.execute(
        update(Shard).where(shards).values(failures=Shard.failures + 1, error=error, not_before=database_now(wait_s))
    )
    tried_again = [reason.id for reason in reasons if not reason.lasting]
    session.execute(delete(Exclusion).where(Exclusion.id.in_(tried_again)))
    return touched
