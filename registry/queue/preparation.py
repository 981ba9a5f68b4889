"""Prepare registered models: one worker downloads and hashes a model's files, and records whether they are usable."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from registry.db import database_now, update_one
from registry.queue import exclusions
from registry.revisions.store import ModelFiles
from registry.tables import Exclusion, ModelRevision, Worker

MOST_HOSTS: Final = 3
"""Number of hosts that must have failed to prepare a model before it counts as unusable."""


def next_to_prepare(
    session: Session, worker_id: str, lease_seconds: float, scopes: Sequence[str]
) -> ModelRevision | None:
    """Find the oldest revision that no worker is preparing, and lease it to this worker; None if there is none."""
    free = and_(
        ModelRevision.state == "registered",
        or_(ModelRevision.prepare_until.is_(None), ModelRevision.prepare_until < database_now()),
        ~exclusions.match_excluded(scopes, Exclusion.model_revision_id == ModelRevision.id),
    )
    query = select(ModelRevision).where(free).order_by(ModelRevision.id).limit(1)
    revision = session.scalars(query.with_for_update(of=ModelRevision, skip_locked=True)).first()
    if revision is not None:
        revision.prepared_by, revision.prepare_until = worker_id, database_now(lease_seconds)
    return revision


def keep_preparing(session: Session, worker_id: str, lease_seconds: float) -> None:
    """Extend the leases of a live worker's preparations: a download may take an hour."""
    mine = and_(ModelRevision.prepared_by == worker_id, ModelRevision.state == "registered")
    session.execute(update(ModelRevision).where(mine).values(prepare_until=database_now(lease_seconds)))


def finish_preparation(session: Session, revision_id: int, files: ModelFiles) -> None:
    """Record the files of a prepared revision and end its lease, which makes it usable."""
    revision = session.get_one(ModelRevision, revision_id)
    files.record(revision)
    revision.error = revision.prepared_by = revision.prepare_until = None


def fail_preparation(
    session: Session, revision_id: int, worker_id: str, scopes: Sequence[str], live: ColumnElement[bool], problem: str
) -> bool:
    """Leave a revision to other hosts, or mark it as failed if none is left; return whether it was marked.

    Does nothing unless this worker prepares it and no other worker has made it usable.
    """
    leased = update(ModelRevision).where(
        ModelRevision.id == revision_id,
        ModelRevision.prepared_by == worker_id,
        ModelRevision.state == "registered",
    )
    if not update_one(session, leased.values(prepared_by=None, prepare_until=None)):
        return False
    host = scopes[1]
    exclusions.exclude(session, host, problem, model_revision_id=revision_id)
    tried = set(session.scalars(select(Exclusion.scope).where(Exclusion.model_revision_id == revision_id)))
    hosts = {row[1] for row in session.scalars(select(Worker.scopes).where(live)) if row}
    if hosts - tried and len(tried) < MOST_HOSTS:
        return False
    session.execute(update(ModelRevision).where(ModelRevision.id == revision_id).values(state="failed", error=problem))
    # If the revision is requested again, every host may try again.
    session.execute(delete(Exclusion).where(Exclusion.model_revision_id == revision_id))
    return True
