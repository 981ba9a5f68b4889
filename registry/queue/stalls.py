"""Stalls: a live worker that makes no progress with its shard.

Its heartbeat would extend the lease for ever, so the worker watches its progress separately, gives up a shard without
progress, and exits. The doctor makes the same check in the database, since a worker may be too broken to notice.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.queue.claims import Claim, fail
from registry.settings import Settings
from registry.tables import Evaluation, Shard, Worker

TIMES_AS_LONG: Final = 10
"""A shard may go without progress for this multiple of the time that scoring all of it should take."""


class Overdue(NamedTuple):
    """A shard whose worker has probably hung. seconds: time since the claim."""

    shard_id: int
    evaluation_id: int
    host: str
    pid: int
    seconds: float


class Stalled(NamedTuple):
    """A shard that was taken from a hung worker."""

    shard_id: int
    evaluation_id: int
    host: str
    pid: int
    at: datetime


def patience(session: Session, settings: Settings, shard_claim: Claim | None) -> float:
    """Return the seconds that a shard may go without progress.

    This is ten times the shard's time at the slowest rate measured for its model in this queue, within the bounds of
    the settings. It is the upper bound if no rate was measured, and while the model is being loaded (no claim).
    """
    longest = max(settings.stall_min_seconds, settings.stall_max_seconds)
    if shard_claim is None:
        return longest
    slowest = session.scalar(
        select(func.max(Shard.elapsed_s / Shard.prompts))
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(
            Evaluation.model_revision_id == shard_claim.model_revision_id,
            Shard.queue == shard_claim.queue,
            Shard.state == "done",
        )
    )
    if slowest is None:
        return longest
    prompts = session.get_one(Shard, shard_claim.shard_id).prompts
    return max(settings.stall_min_seconds, min(longest, TIMES_AS_LONG * prompts * slowest))


def give_up(session: Session, shard_claim: Claim, worker_id: str, error: str) -> bool:
    """Take a shard from its hung worker and count a failure. Returns False if the claim was already lost."""
    if not fail(session, shard_claim, error):
        return False
    of_shard = update(Shard).where(Shard.id == shard_claim.shard_id)
    session.execute(of_shard.values(stalled_at=database_now(), stalled_worker_id=worker_id))
    return True


def overdue(session: Session, settings: Settings) -> list[Overdue]:
    """Return the leased shards that should have been done long ago, by id."""
    query: Any = (
        select(Shard, Evaluation.model_revision_id, Worker.host, Worker.pid, database_now().label("now"))
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .join(Worker, Worker.id == Shard.worker_id)
        .where(Shard.state == "leased", Shard.claimed_at < database_now(-settings.stall_min_seconds))
        .order_by(Shard.id)
    )
    hung = []
    for shard, model_revision_id, host, pid, now in session.execute(query):
        seconds = (now - shard.claimed_at).total_seconds()
        generation = shard.registry_generation or ""
        shard_claim = Claim(
            shard.id, shard.evaluation_id, model_revision_id, shard.fence, shard.worker_id, generation, shard.queue
        )
        if seconds > patience(session, settings, shard_claim):
            hung.append(Overdue(shard.id, shard.evaluation_id, host, pid, seconds))
    return hung


def list_stalled(session: Session, within_seconds: float) -> list[Stalled]:
    """Return the shards that were taken from hung workers within this time, the newest first."""
    query = (
        select(Shard.id, Shard.evaluation_id, Shard.stalled_worker_id, Shard.stalled_at)
        .where(Shard.stalled_at > database_now(-within_seconds))
        .order_by(Shard.stalled_at.desc(), Shard.id.desc())
    )
    stalled = []
    for shard_id, evaluation_id, worker_id, at in session.execute(query):
        assert at is not None
        worker = session.get(Worker, worker_id)  # a worker that stored nothing may be pruned
        host, pid = ("a forgotten host", 0) if worker is None else (worker.host, worker.pid)
        stalled.append(Stalled(shard_id, evaluation_id, host, pid, at))
    return stalled
