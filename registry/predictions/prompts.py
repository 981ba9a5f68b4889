"""An evaluation's prompts: questions, variants and examples read from the database and built into texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from registry.predictions.rows import prediction_row
from registry.prompting.prompts import (
    Prompt,
    PromptKeys,
    QuestionText,
    build_prompt,
    few_shot_examples,
    labels_shown,
    question_shape,
    question_text,
)
from registry.prompting.variants import QuestionShape, VariantSetDefinition, VariantShown, load_variants
from registry.tables import Evaluation, Question


@dataclass(frozen=True)
class ShardPrompt:
    """One prompt of a shard, with everything needed to store its result."""

    evaluation_id: int
    question_id: int
    question: QuestionText
    variant: VariantShown
    prompt: Prompt
    prompt_key: int
    inserted: dict[int, str]

    def row(self, logprobs: Sequence[float], without_question: Sequence[float] | None = None) -> dict[str, object]:
        """Return the prediction's row for log-probabilities by position.

        without_question: those without the question.
        """
        return self._row(logprobs=logprobs, logprobs_without_question=without_question)

    def build_stated_row(
        self, position: int | None, extraction_rule: str | None = None, state: str | None = None
    ) -> dict[str, object]:
        """Return the prediction's row for an answer without probabilities; position None: there is no valid answer."""
        return self._row(position=position, answered=True, extraction_rule=extraction_rule, state=state)

    def _row(self, **answer: Any) -> dict[str, object]:
        return prediction_row(
            evaluation_id=self.evaluation_id,
            question_id=self.question_id,
            options=self.question.options,
            answer=self.question.answer,
            variant=self.variant,
            prompt_key=self.prompt_key,
            inserted=self.inserted,
            prompt_digest=self.prompt.digest,
            **answer,
        )


def prompts_of(session: Session, evaluation: Evaluation, questions: list[Question]) -> Iterator[ShardPrompt]:
    """Yield the prompts of some of an evaluation's questions, exactly as the model reads them."""
    definition = evaluation.protocol.definition
    variant_set = load_variants(evaluation.variant_set)
    inserted = {int(ordinal): text for ordinal, text in evaluation.variant_set.inserted.items()}
    pool = few_shot_pool(session, evaluation.benchmark_version_id) if definition["shots"] else []
    for row in questions:
        question = question_text(row)
        examples = few_shot_examples(pool, question.subject, definition["shots"])
        keys = PromptKeys(variant_set, question_shape(row), lists_options=evaluation.lists_options)
        for variant in keys.variants:
            yield ShardPrompt(
                evaluation.id,
                row.id,
                question,
                variant,
                build_prompt(definition, question, variant, examples, inserted),
                keys.of(variant),
                inserted,
            )


def prompts_of_question(
    session: Session, definition: Mapping[str, Any], variant_set: VariantSetDefinition, question: Question
) -> list[tuple[VariantShown, Prompt]]:
    """Return each variant of a stored question with the prompt that a model would read; store nothing."""
    shown = question_text(question)
    shape = QuestionShape(shown.external_id, len(shown.options), shown.answer)
    pool = few_shot_pool(session, question.benchmark_version_id) if definition["shots"] else []
    examples = few_shot_examples(pool, shown.subject, definition["shots"])
    inserted = variant_set.inserted()
    return [
        (variant, build_prompt(definition, shown, variant, examples, inserted))
        for variant in variant_set.variants(shape)
    ]


def few_shot_pool(session: Session, benchmark_version_id: int) -> list[QuestionText]:
    """Return the few-shot examples of a benchmark version, in order."""
    query = (
        select(Question)
        .where(Question.benchmark_version_id == benchmark_version_id, Question.few_shot)
        .order_by(Question.ordinal)
        .options(selectinload(Question.options))
    )
    return [question_text(question) for question in session.scalars(query)]


def variants_of(evaluation: Evaluation, question: Question) -> dict[int, VariantShown]:
    """Return the variants of a question by ordinal; empty if its orders were imported."""
    if evaluation.variant_set.kind == "imported":
        return {}
    variants = load_variants(evaluation.variant_set).variants(question_shape(question))
    return {variant.ordinal: variant for variant in variants}


def list_shown(
    evaluation: Evaluation, question: Question, variant: VariantShown | None, row: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts of the shown options and the labels by which an answer can name them, by position.

    Labels are empty if there are none, or if two are the same. row: a prediction's, with `variant` and `shown`.
    variant: None if the orders were imported.
    """
    own_texts = [option.text for option in question.options]
    inserted = evaluation.variant_set.inserted
    options = tuple(own_texts[option] if option >= 0 else inserted[str(option)] for option in row.shown)
    plain = variant or VariantShown(row.variant, "", tuple(row.shown))
    labels = labels_shown(evaluation.protocol.definition, plain, len(options), question.external_id) or ()
    return options, labels if len(set(labels)) == len(labels) else ()
