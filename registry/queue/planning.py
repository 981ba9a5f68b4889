"""What an evaluation asks, cut into shards."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import insert
from sqlalchemy.orm import Session

from registry.errors import ProtocolError
from registry.prompting.variants import QuestionShape, VariantSetDefinition
from registry.tables import EvaluationQuestion, Question, Shard

SHARD_PROMPTS: Final = 64
"""Prompts of one shard: some seconds to a minute of work, so that little is lost with a worker."""


@dataclass(frozen=True)
class PlannedQuestion:
    """A question of an evaluation with its number of variants."""

    question_id: int
    subject: str | None
    n_options: int
    n_variants: int


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
        planned.append(PlannedQuestion(question.id, question.subject, question.n_options, len(variants)))
    return planned, names


def plan_shards(planned: Iterable[PlannedQuestion], prompts: int = SHARD_PROMPTS) -> Iterator[list[PlannedQuestion]]:
    """Cuts questions into shards of about `prompts` prompts.

    A question is never cut, since its variants share most of their tokens. A shard that is at least half full ends
    where the subject does, since a subject's questions share the few-shot examples.
    """
    shard: list[PlannedQuestion] = []
    filled = 0
    for question in planned:
        new_subject = bool(shard) and shard[-1].subject != question.subject
        if shard and (filled + question.n_variants > prompts or (new_subject and 2 * filled >= prompts)):
            yield shard
            shard, filled = [], 0
        shard.append(question)
        filled += question.n_variants
    if shard:
        yield shard


def store_shards(
    session: Session, evaluation_id: int, shards: Iterable[list[PlannedQuestion]], queue: str, first: int = 0
) -> None:
    """Queues shards with their questions; first: ordinal of the first of them."""
    for ordinal, questions in enumerate(shards, start=first):
        shard = Shard(
            evaluation_id=evaluation_id,
            ordinal=ordinal,
            queue=queue,
            prompts=sum(question.n_variants for question in questions),
        )
        session.add(shard)
        session.flush()
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
