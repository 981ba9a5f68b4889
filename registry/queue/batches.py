"""Evaluations that ask batch by batch, or round by round: when all is answered, the design says what is asked next.

The decision is taken in the transaction that finishes the last shard: either it queues what comes next, or nothing is
left to do and the evaluation is sealed as any other.
"""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.designs import design_in, design_of, without_design
from registry.digests import specification_digest
from registry.errors import QueueError
from registry.lookups import not_withdrawn
from registry.queue.hints import hint_at
from registry.queue.planning import plan_shards, store_shards
from registry.queue.shards import shard_prompts
from registry.scores.asked import asked_digest
from registry.tables import Evaluation, ModelRevision, QuestionScore, Shard


def find_same(session: Session, specification: dict[str, Any], revision: ModelRevision) -> Evaluation | None:
    """The newest evaluation that stands and asks for the same, whatever the history was when it was designed.

    specification: without a design.
    """
    query = (
        select(Evaluation)
        .where(Evaluation.model_revision_id == revision.id, not_withdrawn())
        .order_by(Evaluation.id.desc())
    )
    wanted = specification_digest(specification)
    for evaluation in session.scalars(query):
        asked = evaluation.specification
        if not design_in(asked["questions"]).is_whole and specification_digest(without_design(asked)) == wanted:
            return evaluation
    return None


def prepare(session: Session, evaluation_id: int) -> None:
    """Reads and keeps what `queue_next_round` needs of other models, so that its transaction does not take seconds."""
    evaluation = session.get_one(Evaluation, evaluation_id)
    design_of(evaluation).prepare(session, evaluation)


def queue_next_round(session: Session, evaluation_id: int) -> None:
    """Queues what an evaluation asks next, if anything, once all its shards are done."""
    design = design_of(session.get_one(Evaluation, evaluation_id))
    if design.is_whole:
        return
    # Of two workers that finish the last two shards at once, one waits here, and then sees both done.
    evaluation = session.get_one(Evaluation, evaluation_id, with_for_update={"key_share": True}, populate_existing=True)
    undone = select(func.count()).select_from(Shard).where(Shard.evaluation_id == evaluation_id, Shard.state != "done")
    if session.scalar(undone):
        return
    planned = design.following(session, evaluation)
    if not planned:
        return
    last = session.scalars(
        select(Shard).where(Shard.evaluation_id == evaluation_id).order_by(Shard.ordinal.desc()).limit(1)
    ).one()
    again = design.asks_again
    store_shards(session, evaluation_id, plan_shards(planned), last.queue, last.ordinal + 1, again=again)
    if not again:
        evaluation.questions += len(planned)
        of = evaluation.benchmark_version.questions
        evaluation.asked_digest = asked_digest(evaluation.specification, evaluation.questions, of)
    evaluation.prompts += sum(question.asked_now for question in planned)
    session.flush()
    hint_at(session, Shard.evaluation_id == evaluation_id)


def check_retry(session: Session, evaluation: Evaluation) -> None:
    """Raises QueueError where answers of an earlier round were removed: later rounds asked what they had left open."""
    if not design_of(evaluation).asks_again:
        return
    undone = session.scalars(select(Shard).where(Shard.evaluation_id == evaluation.id, Shard.state != "done")).all()
    stored = select(func.sum(QuestionScore.stored)).where(QuestionScore.evaluation_id == evaluation.id)
    left = sum(shard.prompts for shard in undone)
    if (session.scalar(stored) or 0) + left != evaluation.prompts or any(
        len(shard_prompts(session, shard.id)) != shard.prompts for shard in undone
    ):
        raise QueueError(
            f"evaluation {evaluation.id}: answers of its earlier rounds were removed, so it cannot go on; submit it "
            "again with --replicate"
        )
