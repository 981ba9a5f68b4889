"""Embargoes: what only its submitter and maintainers see until a moment.

The moment is in the condition by which audiences see rows (`registry.schema.audiences`), so that an embargo ends by
itself. Here it is set, moved and lifted early.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.errors import NotFoundError, QueueError
from registry.lookups import published
from registry.people.accounts import Viewer, record
from registry.queue.evaluations import check_embargo
from registry.tables import Embargo, Evaluation, ModelRevision


def set_embargo(
    session: Session, viewer: Viewer, of: Evaluation | ModelRevision, until: datetime, *, address: str | None = None
) -> Embargo:
    """Hides an evaluation, or a model's revision with all its evaluations, until a moment; or moves that moment.

    Raises ForbiddenError, UsageError for a moment that has passed, and QueueError for what is sealed and was seen: what
    was published cannot be taken back, only withdrawn.
    """
    viewer.require("maintain")
    moment = check_embargo(session, until)
    column = Embargo.evaluation_id if isinstance(of, Evaluation) else Embargo.model_revision_id
    evaluations = Evaluation.id == of.id if isinstance(of, Evaluation) else Evaluation.model_revision_id == of.id
    seen = session.scalar(
        select(Evaluation.id).where(evaluations, Evaluation.seal.is_not(None), published(session)).limit(1)
    )
    if seen is not None:
        raise QueueError(
            f"evaluation {seen} is sealed and was published; an embargo must be set before. To take it back: "
            f"shuffleboard evaluations withdraw {seen}"
        )
    row = session.scalar(select(Embargo).where(column == of.id))
    if row is None:
        row = Embargo(**{column.key: of.id}, until=moment)
        session.add(row)
    else:
        row.until = moment
    session.flush()
    record(
        session, viewer, "embargo.set", subject(session, row), address=address, details={"until": f"{moment:%FT%TZ}"}
    )
    return row


def lift_embargo(session: Session, viewer: Viewer, embargo_id: int, *, address: str | None = None) -> Embargo:
    """Ends an embargo now. Raises ForbiddenError, NotFoundError, and QueueError for one that has ended."""
    viewer.require("maintain")
    row = session.get(Embargo, embargo_id)
    if row is None:
        raise NotFoundError(f"no embargo {embargo_id}; see: shuffleboard embargoes list")
    now = session.scalars(select(database_now())).one()
    if row.until <= now:
        raise QueueError(f"embargo {embargo_id} ended at {row.until:%Y-%m-%d %H:%M} UTC")
    row.until = now
    session.flush()
    record(session, viewer, "embargo.lift", subject(session, row), address=address)
    return row


def embargoes(session: Session) -> list[dict[str, Any]]:
    """Every embargo, those that end last first; `ended`: whether what it hid is seen by now."""
    now = session.scalars(select(database_now())).one()
    rows = session.scalars(select(Embargo).order_by(Embargo.until.desc(), Embargo.id))
    return [
        {"embargo": row.id, "of": subject(session, row), "until": row.until, "ended": row.until <= now} for row in rows
    ]


def subject(session: Session, embargo: Embargo) -> str:
    """What an embargo hides, in words."""
    if embargo.evaluation_id is not None:
        return f"evaluation {embargo.evaluation_id}"
    revision = session.get_one(ModelRevision, embargo.model_revision_id)
    return f"model {revision.model.name}@{revision.number}"
