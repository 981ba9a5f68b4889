"""What an evaluation asks, cut into shards."""

from collections.abc import Iterable, Iterator
from typing import Final

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from registry.designs.planned import PlannedQuestion
from registry.tables import EvaluationQuestion, Shard

SHARD_PROMPTS: Final = 64
"""Prompts of one shard as it is planned; workers change it to what they measure (`registry.queue.sizing`)."""


def plan_shards(planned: Iterable[PlannedQuestion], prompts: int = SHARD_PROMPTS) -> Iterator[list[PlannedQuestion]]:
    """Cuts questions into shards of about `prompts` prompts.

    A question is never cut, since its variants share most of their tokens. A shard that is at least half full ends
    where the subject does, since a subject's questions share the few-shot examples.
    """
    shard: list[PlannedQuestion] = []
    filled = 0
    for question in planned:
        new_subject = bool(shard) and shard[-1].subject != question.subject
        if shard and (filled + question.asked_now > prompts or (new_subject and 2 * filled >= prompts)):
            yield shard
            shard, filled = [], 0
        shard.append(question)
        filled += question.asked_now
    if shard:
        yield shard


def store_shards(
    session: Session,
    evaluation_id: int,
    shards: Iterable[list[PlannedQuestion]],
    queue: str,
    first: int = 0,
    *,
    again: bool = False,
) -> None:
    """Queues shards with their questions; first: ordinal of the first of them. again: the questions were asked before.

    A question belongs to the last shard that asks it.
    """
    for ordinal, questions in enumerate(shards, start=first):
        shard = Shard(
            evaluation_id=evaluation_id,
            ordinal=ordinal,
            queue=queue,
            prompts=sum(question.asked_now for question in questions),
        )
        session.add(shard)
        session.flush()
        if again:
            ids = [question.question_id for question in questions]
            session.execute(
                update(EvaluationQuestion)
                .where(EvaluationQuestion.evaluation_id == evaluation_id, EvaluationQuestion.question_id.in_(ids))
                .values(shard_id=shard.id)
                .execution_options(synchronize_session=False)
            )
            continue
        session.execute(
            insert(EvaluationQuestion),
            [
                {
                    "evaluation_id": evaluation_id,
                    "question_id": question.question_id,
                    "n_variants": question.n_variants,
                    "shard_id": shard.id,
                }
                for question in questions
            ],
        )
