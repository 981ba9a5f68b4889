"""A shard's prompts: questions, variants and examples read from the database and built into texts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from registry.prompting.prompts import Prompt, QuestionText, build_prompt, few_shot_examples, shown_question
from registry.prompting.variants import QuestionShape, VariantSetDefinition, VariantShown, stored_variants
from registry.results.predictions import prediction_row
from registry.results.stopped import read_stopping
from registry.revisions.endpoints import answered_from_partial
from registry.tables import Evaluation, EvaluationQuestion, Question, QuestionScore


@dataclass(frozen=True)
class ShardPrompt:
    """One prompt of a shard with what is needed to store its result. question: in the texts that are shown."""

    evaluation_id: int
    question_id: int
    question: QuestionText
    variant: VariantShown
    prompt: Prompt
    inserted: dict[int, str]

    def row(self, logprobs: Sequence[float], without_question: Sequence[float] | None = None) -> dict[str, object]:
        """The prediction that log-probabilities by position amount to, with and without the question."""
        return prediction_row(
            evaluation_id=self.evaluation_id,
            question_id=self.question_id,
            options=self.question.options,
            answer=self.question.answer,
            variant=self.variant,
            inserted=self.inserted,
            prompt_digest=self.prompt.digest,
            logprobs=logprobs,
            logprobs_without_question=without_question,
        )

    def stated_row(self, position: int | None, extraction_rule: str | None = None) -> dict[str, object]:
        """The prediction that an answer without probabilities amounts to; position None: there is no valid answer."""
        return prediction_row(
            evaluation_id=self.evaluation_id,
            question_id=self.question_id,
            options=self.question.options,
            answer=self.question.answer,
            variant=self.variant,
            inserted=self.inserted,
            prompt_digest=self.prompt.digest,
            position=position,
            answered=True,
            extraction_rule=extraction_rule,
        )


def rows_of(prompts: Sequence[ShardPrompt], logprobs: Sequence[Sequence[float | None]]) -> list[dict[str, object]]:
    """The predictions of scored prompts; log-probabilities by position, None where one is not known.

    A variant that shows the question is paired with the one that differs from it in nothing but leaving it out.
    Where some are unknown the answer is the highest known one, and probabilities are unknown.
    """
    known = [_all_known(values) for values in logprobs]
    without = {
        (item.question_id, item.variant.with_question()): values
        for item, values in zip(prompts, known, strict=True)
        if not item.variant.question_shown
    }
    rows = []
    for item, values, partial in zip(prompts, known, logprobs, strict=True):
        if values is None:
            position, _ = answered_from_partial(partial)
            tied = position is not None and partial.count(partial[position]) > 1
            rows.append(item.stated_row(position) | {"tied": tied})
        else:
            pair = (item.question_id, item.variant.with_question())
            counterpart = without.get(pair) if item.variant.question_shown else None
            rows.append(item.row(values, counterpart))
    return rows


def _all_known(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def question_text(question: Question) -> QuestionText:
    """A stored question as the prompt builder takes it."""
    return QuestionText(
        question.external_id,
        question.subject,
        question.context,
        question.text,
        tuple(option.text for option in question.options),
        question.answer,
    )


def shard_prompts(session: Session, shard_id: int) -> list[ShardPrompt]:
    """Every prompt of a shard, by question and variant; until it is done, where questions are asked in rounds."""
    query = (
        select(EvaluationQuestion.evaluation_id, Question)
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .where(EvaluationQuestion.shard_id == shard_id)
        .order_by(Question.ordinal)
        .options(selectinload(Question.options))
    )
    rows = session.execute(query).all()
    if not rows:  # it is done, and later rounds hold its questions
        return []
    evaluation = session.get_one(Evaluation, rows[0].evaluation_id)
    questions = [row.Question for row in rows]
    stopping = read_stopping(evaluation)
    if stopping is None:
        return list(prompts_of(session, evaluation, questions))
    of_shard = select(QuestionScore.question_id, QuestionScore.stored).where(
        QuestionScore.evaluation_id == evaluation.id, QuestionScore.question_id.in_([row.id for row in questions])
    )
    stored: dict[int, int] = {row.question_id: row.stored for row in session.execute(of_shard)}
    asked = {row.id: stopping.next_round(row.n_options, stored.get(row.id, 0)) for row in questions}
    return list(prompts_of(session, evaluation, questions, asked))


def prompts_of(
    session: Session,
    evaluation: Evaluation,
    questions: list[Question],
    asked: Mapping[int, Collection[int]] | None = None,
) -> Iterator[ShardPrompt]:
    """The prompts of some of an evaluation's questions, exactly as they are or were asked.

    asked: question id to the ordinals of the variants that are wanted; None: all.
    """
    definition = evaluation.protocol.definition
    variant_set = stored_variants(evaluation.variant_set)
    inserted = {int(ordinal): text for ordinal, text in evaluation.variant_set.inserted.items()}
    pool = _pool(session, evaluation.benchmark_version_id) if definition["shots"] else []
    for row in questions:
        question = question_text(row)
        examples = few_shot_examples(pool, question.subject, definition["shots"])
        for variant in variant_set.variants(
            QuestionShape(question.external_id, len(question.options), question.answer)
        ):
            if asked is not None and variant.ordinal not in asked[row.id]:
                continue
            yield ShardPrompt(
                evaluation.id,
                row.id,
                shown_question(question, variant),
                variant,
                build_prompt(definition, question, variant, examples, inserted),
                inserted,
            )


def prompts_of_question(
    session: Session, definition: Mapping[str, Any], variant_set: VariantSetDefinition, question: Question
) -> list[tuple[VariantShown, Prompt]]:
    """Each variant of a stored question with what a model would be shown under it; nothing is stored."""
    asked = question_text(question)
    shape = QuestionShape(asked.external_id, len(asked.options), asked.answer)
    pool = _pool(session, question.benchmark_version_id) if definition["shots"] else []
    examples = few_shot_examples(pool, asked.subject, definition["shots"])
    inserted = variant_set.inserted()
    return [
        (variant, build_prompt(definition, asked, variant, examples, inserted))
        for variant in variant_set.variants(shape)
    ]


def _pool(session: Session, benchmark_version_id: int) -> list[QuestionText]:
    query = (
        select(Question)
        .where(Question.benchmark_version_id == benchmark_version_id, Question.few_shot)
        .order_by(Question.ordinal)
        .options(selectinload(Question.options))
    )
    return [question_text(question) for question in session.scalars(query)]
