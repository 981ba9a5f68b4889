"""The effect of adversarial distractors in a stored evaluation."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import find_evaluation
from registry.metrics.adversarial import SCORINGS, AdversarialEffect, adversarial_effect
from registry.metrics.outcome import VariantOutcome
from registry.predictions.stored import require_rows
from registry.prompting.variants import number_inserted
from registry.scores.asked import first_answers
from registry.tables import EvaluationQuestion, Prediction, Question, QuestionOption

KIND = "adversarial"


def adversarial_effects(session: Session, evaluation_id: int) -> list[AdversarialEffect]:
    """Return the effect of each distractor under each scoring.

    It is taken over the questions whose original and altered prompts are stored. Raises UsageError for an evaluation
    with other variants, NotFoundError for an unknown evaluation.
    """
    evaluation = find_evaluation(session, evaluation_id)
    if evaluation.variant_set.kind != KIND:
        raise UsageError(
            f"evaluation {evaluation_id} is under {evaluation.variant_set.name}, not under {KIND} variants; submit one "
            f"with --variants {KIND}"
        )
    inserted = {int(ordinal): len(text.encode()) for ordinal, text in evaluation.variant_set.inserted.items()}
    outcomes = _outcomes(session, evaluation_id, inserted)
    effects, times = [], evaluation.repeats or 1
    for name, option in number_inserted(KIND).items():
        # Variant k, before repeats, shows the k-th inserted option, −k; variant 0 is the original.
        altered = -option * times
        pairs = [(variants[0], variants[altered]) for variants in outcomes.values() if variants.keys() >= {0, altered}]
        effects += [adversarial_effect(name, pairs, scoring) for scoring in SCORINGS]
    return effects


def _outcomes(
    session: Session, evaluation_id: int, inserted_bytes: dict[int, int]
) -> dict[int, dict[int, VariantOutcome]]:
    """Return outcomes by question id and variant, for the variants that show the question."""
    conditions = (
        Prediction.evaluation_id == evaluation_id,
        Prediction.question_shown,
        first_answers(session, evaluation_id),
    )
    lengths: dict[int, dict[int, int]] = {}
    texts = select(QuestionOption.question_id, QuestionOption.ordinal, QuestionOption.text).where(
        QuestionOption.question_id.in_(
            select(EvaluationQuestion.question_id).where(EvaluationQuestion.evaluation_id == evaluation_id)
        )
    )
    for question_id, ordinal, text in session.execute(texts):
        lengths.setdefault(question_id, dict(inserted_bytes))[ordinal] = len(text.encode())
    query = (
        select(
            Prediction.question_id,
            Prediction.variant,
            Prediction.shown,
            Prediction.chosen_option,
            Prediction.label_logprobs,
            Prediction.logprobs_without_question,
            Question.answer,
        )
        .join(Question, Question.id == Prediction.question_id)
        .where(*conditions)
        .order_by(Prediction.question_id, Prediction.variant)
    )
    outcomes: dict[int, dict[int, VariantOutcome]] = {}
    require_rows(session, evaluation_id)
    for row in session.execute(query):
        outcomes.setdefault(row.question_id, {})[row.variant] = VariantOutcome(
            row.variant,
            row.chosen_option,
            row.answer,
            tuple(row.shown),
            logprobs=None if row.label_logprobs is None else tuple(row.label_logprobs),
            logprobs_without_question=(
                None if row.logprobs_without_question is None else tuple(row.logprobs_without_question)
            ),
            option_bytes=tuple(lengths[row.question_id][option] for option in row.shown),
        )
    return outcomes
