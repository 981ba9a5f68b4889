"""Cut the questions of an evaluation into shards."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import insert
from sqlalchemy.orm import Session

from registry.errors import ProtocolError
from registry.prompting.prompts import question_shape
from registry.prompting.variants import VariantSetDefinition
from registry.tables import EvaluationQuestion, Question, Shard

SHARD_PROMPTS: Final = 64
"""Prompts of one planned shard; workers fit it to their measured speed (`registry.queue.sizing`)."""


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
    """Return each question's number of variants, and the variants' names by number of options and ordinal.

    labels: the protocol's labels; None if it names options by their texts alone. Raises ProtocolError if a question has
    more options than there are labels.
    """
    planned: list[PlannedQuestion] = []
    names: dict[int, dict[int, str]] = {}
    for question in questions:
        if labels is not None and question.n_options > len(labels):
            raise ProtocolError(
                f"question {question.external_id} has {question.n_options} options; the protocol has {len(labels)} "
                "labels"
            )
        shape = question_shape(question)
        variants = definition.variants(shape)
        if question.n_options not in names:
            names[question.n_options] = definition.names(shape)
        planned.append(PlannedQuestion(question.id, question.subject, question.n_options, len(variants)))
    return planned, names


def plan_shards(planned: Iterable[PlannedQuestion], prompts: int = SHARD_PROMPTS) -> Iterator[list[PlannedQuestion]]:
    """Cut questions into shards of about `prompts` prompts.

    A question is never cut, since its variants share most of their tokens. A shard that is at least half full ends with
    its subject, since a subject's questions share the few-shot examples.
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


def store_shards(session: Session, evaluation_id: int, shards: Iterable[list[PlannedQuestion]], queue: str) -> None:
    """Queue shards with their questions."""
    for ordinal, questions in enumerate(shards):
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
