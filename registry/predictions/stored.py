"""Checks of where an evaluation's predictions and texts are stored: as rows, or only in its folder."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.errors import ArchivedError
from registry.tables import Archive, Evaluation


def filter_archived(session: Session, evaluation_ids: Iterable[int]) -> list[int]:
    """Return the ids of the evaluations that are archived, among these, sorted."""
    ids = set(evaluation_ids)
    query = select(Archive.evaluation_id).where(is_in(Archive.evaluation_id, ids), Archive.state == "archived")
    return list(session.scalars(query.order_by(Archive.evaluation_id))) if ids else []


def require_rows(session: Session, *evaluation_ids: int) -> None:
    """Raise ArchivedError if any of these evaluations is archived; it names the command that restores them.

    Call it before a query over predictions, texts or views of them: an archived evaluation has no rows there.
    """
    if archived := filter_archived(session, evaluation_ids):
        raise ArchivedError(archived)


def unwritten(session: Session) -> list[int]:
    """Return the ids of sealed evaluations for which no folder is recorded."""
    query = select(Evaluation.id).where(
        Evaluation.seal.is_not(None), Evaluation.id.not_in(select(Archive.evaluation_id))
    )
    return list(session.scalars(query.order_by(Evaluation.id)))
