"""Models that visitors would like to be evaluated, with votes and what came of it. A wish queues nothing."""

import re
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from registry.db import one_at_a_time
from registry.errors import NotFoundError, QueueError, UsageError
from registry.tables import Evaluation, Model, ModelRevision
from registry.tables.accounts import Wish, WishVote

MOST_OPEN: Final = 300
"""Wishes that are neither declined nor fulfilled by a registered model, at most."""
MOST_SHOWN: Final = 500
_HUB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")


@dataclass(frozen=True)
class Wanted:
    """A wish. state: `wanted`, `registered`, `evaluated` or `declined`; name: the registered model's, if any."""

    id: int
    model: str
    votes: int
    state: str
    name: str | None
    declined: str | None


def hub_name(text: str) -> str:
    """OWNER/NAME of a model on the hub, of its name or its page there. Raises UsageError for anything else."""
    name = text.strip().removeprefix("https://huggingface.co/").rstrip("/")
    if not _HUB.fullmatch(name):
        raise UsageError(f"model {name[:100]!r}: give its name on the Hugging Face hub, OWNER/NAME")
    return name


def wish(session: Session, name: str, voter: str) -> bool:
    """Counts a vote for a model of the hub, which is a new wish if nobody asked for it; whether the vote is new.

    name: as `hub_name` gives it. voter: a digest. Raises QueueError for a model that was declined, or if MOST_OPEN
    wishes are open.
    """
    one_at_a_time(session, "wishes")
    found = session.scalar(select(Wish).where(func.lower(Wish.model) == name.lower()))
    if found is not None and found.declined is not None:
        raise QueueError(f"{found.model} was declined: {found.declined}")
    if found is None:
        fulfilled = select(ModelRevision.location).where(ModelRevision.location.is_not(None))
        still_open = select(func.count()).where(Wish.declined.is_(None), Wish.model.not_in(fulfilled))
        if (session.scalar(still_open) or 0) >= MOST_OPEN:
            raise QueueError(f"{MOST_OPEN} models are wanted already; vote for one of them")
        found = Wish(model=name)
        session.add(found)
        session.flush()
    if session.get(WishVote, (found.id, voter)) is not None:
        return False
    session.add(WishVote(wish_id=found.id, voter=voter))
    return True


def decline(session: Session, wish_id: int, reason: str) -> None:
    """Declines a wish for a reason, or takes that back without one. Raises NotFoundError for a wish that is none."""
    found = session.get(Wish, wish_id)
    if found is None:
        raise NotFoundError(f"no wish {wish_id}; /wanted lists the existing ones")
    found.declined = reason.strip()[:500] or None


def wanted(session: Session, seen: Session) -> list[Wanted]:
    """Wishes, the most wanted first. seen: a session that sees the models that the viewer may see."""
    votes = select(func.count()).where(WishVote.wish_id == Wish.id).scalar_subquery()
    rows = session.execute(select(Wish, votes).order_by(votes.desc(), Wish.id).limit(MOST_SHOWN)).all()
    query = (
        select(func.lower(ModelRevision.location), Model.name, func.count(Evaluation.id))
        .join(Model, Model.id == ModelRevision.model_id)
        .outerjoin(Evaluation, and_(Evaluation.model_revision_id == ModelRevision.id, Evaluation.seal.is_not(None)))
        .where(func.lower(ModelRevision.location).in_([row.model.lower() for row, _ in rows]))
        .group_by(func.lower(ModelRevision.location), Model.name)
    )
    known = {location: (name, sealed) for location, name, sealed in seen.execute(query)}
    found = []
    for row, count in rows:
        name, sealed = known.get(row.model.lower(), (None, 0))
        state = "evaluated" if sealed else "registered" if name else "declined" if row.declined else "wanted"
        found.append(Wanted(row.id, row.model, count, state, name, row.declined))
    return found
