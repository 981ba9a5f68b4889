"""Deletion of old data: answers of abandoned evaluations, and workers without any result.

A seal covers every prediction, every text and every worker, so nothing of a sealed evaluation is deleted, and its
triggers would refuse it. Only evaluations that were cancelled or have failed lose answers. They keep their row, their
questions and their shards; a shard that loses its answers is `cancelled`, so that a retry scores them again.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Engine, Select, and_, delete, func, select, update
from sqlalchemy.orm import Session

from registry.db import database_now, read_session, write_session
from registry.errors import UsageError
from registry.providers.calls import forget_texts
from registry.queue import drafts
from registry.tables import Evaluation, EvaluationQuestion, Generation, Prediction, QuestionScore, Shard, Worker

GIVEN_UP: Final = ("cancelled", "failed")
"""States of evaluations whose answers may be removed."""

MAX_DAYS: Final = 36_500
SECONDS_A_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Removed:
    """The numbers of answers that an evaluation lost, or would lose.

    last_activity: time of its request, its start or the last work on it.
    """

    evaluation_id: int
    state: str
    last_activity: datetime
    texts: int
    predictions: int


@dataclass
class Pruned:
    """The deleted data: answers by evaluation, and the number of workers."""

    evaluations: list[Removed] = field(default_factory=list)
    workers: int = 0


def prune(engine: Engine, days: int, *, dry_run: bool = False) -> Pruned:
    """Delete data older than this many days, in one transaction for each evaluation; with dry_run only count it.

    A cancelled evaluation loses all answers. A failed one loses the answers of shards with texts, and the texts: an
    answer without its text cannot be checked. Its other answers are kept for a retry. Workers are deleted if they were
    silent for this many days and have no stored result.
    Raises UsageError for days outside 1 to MAX_DAYS.
    """
    if not 1 <= days <= MAX_DAYS:
        raise UsageError(f"--older-than {days}: give a number of days from 1 to {MAX_DAYS}")
    with read_session(engine) as session:
        ids = [row.id for row in session.scalars(select(Evaluation).where(_GIVEN_UP).order_by(Evaluation.id))]
    pruned = Pruned()
    for evaluation_id in ids:
        with read_session(engine) if dry_run else write_session(engine) as session:
            removed = _prune_one(session, evaluation_id, days, dry_run=dry_run)
            if removed is not None:
                pruned.evaluations.append(removed)
    with read_session(engine) if dry_run else write_session(engine) as session:
        traceless = session.scalars(_select_traceless(days)).all()
        pruned.workers = len(traceless)
        if not dry_run:
            session.execute(delete(Worker).where(Worker.id.in_(traceless)))
    return pruned


_GIVEN_UP: Final = and_(Evaluation.seal.is_(None), Evaluation.state.in_(GIVEN_UP))


def _prune_one(session: Session, evaluation_id: int, days: int, *, dry_run: bool) -> Removed | None:
    query = select(Evaluation).where(Evaluation.id == evaluation_id, _GIVEN_UP)
    # Locked and queried again, since it may have been retried in the meantime.
    evaluation = session.scalar(query if dry_run else query.with_for_update())
    if evaluation is None:
        return None
    worked_on = select(func.max(Shard.claimed_at), func.max(Shard.finished_at)).filter_by(evaluation_id=evaluation_id)
    times = (evaluation.created_at, evaluation.started_at, *session.execute(worked_on).one())
    latest = max(time for time in times if time is not None)
    if latest >= session.scalars(select(database_now(-days * SECONDS_A_DAY))).one():
        return None
    shards = select(Shard.id).where(Shard.evaluation_id == evaluation_id, Shard.state == "done")
    if evaluation.state == "failed":
        shards = shards.where(
            Shard.id.in_(_select_of_questions(EvaluationQuestion.shard_id, Generation, evaluation_id))
        )
    lost = list(session.scalars(shards))
    questions = select(EvaluationQuestion.question_id).where(
        EvaluationQuestion.evaluation_id == evaluation_id, EvaluationQuestion.shard_id.in_(lost)
    )
    counts = {}
    for table in (Generation, Prediction, QuestionScore):
        conditions = (table.evaluation_id == evaluation_id, table.question_id.in_(questions))
        counts[table] = session.scalar(select(func.count()).select_from(table).where(*conditions)) or 0
        if not dry_run:
            session.execute(delete(table).where(*conditions).execution_options(synchronize_session=False))
    if not dry_run:
        every = select(EvaluationQuestion.question_id).where(EvaluationQuestion.evaluation_id == evaluation_id)
        forget_texts(session, evaluation_id, questions if evaluation.state == "failed" else every)
        drafts.forget(session, evaluation_id, every)
        session.execute(update(Shard).where(Shard.id.in_(lost)).values(state="cancelled"))
    if not counts[Prediction]:
        return None
    return Removed(evaluation_id, evaluation.state, latest, counts[Generation], counts[Prediction])


def _select_of_questions(column: Any, table: Any, evaluation_id: int) -> Select[Any]:
    """Return the query for a column of an evaluation's questions with rows in a table."""
    same = (
        table.evaluation_id == EvaluationQuestion.evaluation_id,
        table.question_id == EvaluationQuestion.question_id,
    )
    return select(column).join(table, and_(*same)).where(EvaluationQuestion.evaluation_id == evaluation_id)


def _select_traceless(days: int) -> Select[Any]:
    """Return the query for workers that were silent for this many days and that no shard names."""
    named = select(Shard.worker_id).where(Shard.worker_id.is_not(None))
    return select(Worker.id).where(Worker.last_seen < database_now(-days * SECONDS_A_DAY), Worker.id.not_in(named))
