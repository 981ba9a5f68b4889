"""The one way to predictions and texts of evaluations: in their tables, or archived in a file."""

from collections.abc import Collection, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import Result, Select, select
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.schema.selectables import prediction_detail, rows_of
from registry.tables import Archive, Evaluation

if TYPE_CHECKING:
    from registry.files.stores import Store


def read(
    session: Session,
    evaluation_ids: Iterable[int],
    query: Select[*tuple[Any, ...]],
    question_ids: Collection[int] | None = None,
) -> Result[*tuple[Any, ...]]:
    """What a query over predictions, texts or views of them finds, of these evaluations and no others.

    The database answers it of those whose rows are in the tables, then DuckDB of the files of those that are archived,
    so a query of several evaluations must not join, sort or count across them. question_ids: those that the query asks
    for; None: all. Raises ArchiveError where a file is missing or damaged.
    """
    ids = set(evaluation_ids)
    archives = session.execute(_archives(ids)).all() if ids else ()
    if not archives:
        return session.execute(query)
    from registry.predictions.archived import answers, reads_predictions

    if not reads_predictions(query):
        return session.execute(query)
    names, rows = answers(session, archives, query, question_ids)
    if len(archives) < len(ids):
        rows = chain(map(tuple, session.execute(query)), rows)
    return IteratorResult(SimpleResultMetaData(names), rows)


def details(session: Session, evaluation_id: int, question_id: int) -> list[dict[str, Any]]:
    """The view `prediction_detail` of a question of an evaluation, by variant.

    Of a file without DuckDB, which takes longer to open than a page to make. Raises ArchiveError as `read`.
    """
    archived = session.execute(_archives([evaluation_id])).one_or_none()
    if archived is None:
        c = prediction_detail.c
        query = select(prediction_detail).where(c.evaluation_id == evaluation_id, c.question_id == question_id)
        return rows_of(session, query.order_by(c.variant))
    from registry.predictions import archive_files
    from registry.predictions.archived import predictions_of

    store, name = predictions_of(archived.Archive, archived.seal)
    return archive_files.details(store, name, evaluation_id, question_id, prediction_detail.c.keys())


def archive_of(session: Session, evaluation_id: int) -> "tuple[Store, str] | None":
    """Where the predictions of an evaluation are archived; None: they are in their tables.

    Raises ArchiveError where the file is missing.
    """
    row = session.execute(_archives([evaluation_id])).one_or_none()
    if row is None:
        return None
    from registry.predictions.archived import predictions_of

    return predictions_of(row.Archive, row.seal)


def unwritten(session: Session) -> list[int]:
    """The sealed evaluations of which no file is recorded."""
    query = select(Evaluation.id).where(
        Evaluation.seal.is_not(None), Evaluation.id.not_in(select(Archive.evaluation_id))
    )
    return list(session.scalars(query.order_by(Evaluation.id)))


def _archives(ids: Collection[int]) -> Any:
    query = select(Archive, Evaluation.seal).join(Evaluation, Evaluation.id == Archive.evaluation_id)
    return query.where(is_in(Archive.evaluation_id, ids), Archive.state == "archived").order_by(Evaluation.id)
