"""What an evaluation asks, cut into shards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from registry.errors import ProtocolError, VariantError
from registry.prompting.variants import QuestionShape, VariantSetDefinition
from registry.tables import EvaluationQuestion, Question, Shard

SHARD_PROMPTS: Final = 64
"""Prompts of one shard as it is planned; workers change it to what they measure (`registry.queue.sizing`)."""


@dataclass(frozen=True)
class PlannedQuestion:
    """A question of an evaluation with its number of variants. asked_now: in how many of them a shard asks it."""

    question_id: int
    subject: str | None
    n_options: int
    n_variants: int
    asked_now: int


def plan_questions(
    questions: Iterable[Question], definition: VariantSetDefinition, labels: Sequence[str] | None
) -> tuple[list[PlannedQuestion], dict[int, dict[int, str]]]:
    """Each question's number of variants, and the variants' names by number of options and ordinal.

    labels: the protocol's; None where it names options by their texts alone.
    """
    planned: list[PlannedQuestion] = []
    names: dict[int, dict[int, str]] = {}
    for question in questions:
        if labels is not None and question.n_options > len(labels):
            raise ProtocolError(
                f"question {question.external_id} has {question.n_options} options; the protocol has {len(labels)} "
                "labels"
            )
        shape = QuestionShape(question.external_id, question.n_options, question.answer)
        variants = definition.variants(shape)
        if question.n_options not in names:
            names[question.n_options] = definition.names(shape)
        planned.append(PlannedQuestion(question.id, question.subject, question.n_options, len(variants), len(variants)))
    return planned, names


def require_sample(
    definition: VariantSetDefinition, planned: Sequence[PlannedQuestion], names: Mapping[int, Mapping[int, str]]
) -> None:
    """Refuses a sample of the cells that is all of them for every question.

    planned, names: of `plan_questions`. Raises VariantError.
    """
    if definition.sample is None or any(item.n_variants < len(names[item.n_options]) for item in planned):
        return
    most = max((item.n_variants for item in planned), default=0)
    raise VariantError(
        f"variants {definition.name!r}: no question has more than {most} cells, so all of them would be asked and "
        "nothing sampled; ask for fewer, or leave out the sample"
    )


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
