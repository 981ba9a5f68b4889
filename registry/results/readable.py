"""Whether predictions are archived: what every reader of predictions asks, and loads nothing for where none are."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import among
from registry.tables import Archive, Evaluation

if TYPE_CHECKING:
    from registry.files.stores import Store


def readable(
    session: Session,
    evaluation_ids: Iterable[int],
    question_ids: Collection[int] | None = None,
    *,
    alone: bool = False,
) -> None:
    """Makes this transaction's queries find the predictions and texts of these evaluations, archived or not.

    question_ids: those of which they will be asked; None: all. alone: of archived ones no other rows than these, for
    queries that look at every row for each question. Raises ArchiveError where a file is missing or damaged.
    """
    ids = set(evaluation_ids)
    archives = session.execute(_archives(ids)).all() if ids else ()
    if not archives:
        return
    from registry.results.archived import overlay

    overlay(session, archives, question_ids, alone=alone)


def archive_of(session: Session, evaluation_id: int) -> "tuple[Store, str] | None":
    """Where the predictions of an evaluation are archived; None: they are in their tables.

    Raises ArchiveError where the file is missing.
    """
    row = session.execute(_archives([evaluation_id])).one_or_none()
    if row is None:
        return None
    from registry.results.archived import place_of

    return place_of(row.Archive, row.seal)


def _archives(ids: Collection[int]) -> Any:
    query = select(Archive, Evaluation.seal).join(Evaluation, Evaluation.id == Archive.evaluation_id)
    return query.where(among(Archive.evaluation_id, ids), Archive.state == "archived")
