"""Stored answers in the form that metrics take, scored by the answer keys that a caller passes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.metrics.averaging import Runs
from registry.metrics.outcome import VariantOutcome, as_asked
from registry.predictions.stored import require_rows
from registry.scores.asked import first_answers
from registry.tables import (
    Evaluation,
    Prediction,
    QuestionOption,
    QuestionScore,
)


def load_outcomes(
    session: Session,
    evaluation: Evaluation,
    answers: Mapping[int, int],
) -> dict[int, list[VariantOutcome]]:
    """Return the outcomes of each question by question id. answers: the right option of each question."""
    ids, outcomes_by_id = sorted(answers), dict[int, list[VariantOutcome]]()
    inserted = {int(option): len(text.encode()) for option, text in evaluation.variant_set.inserted.items()}
    lengths: dict[int, dict[int, int]] = {}
    option, prediction = QuestionOption, Prediction
    texts = select(option.question_id, option.ordinal, option.text).where(is_in(option.question_id, ids))
    for question_id, ordinal, text in session.execute(texts):
        lengths.setdefault(question_id, dict(inserted))[ordinal] = len(text.encode())
    query = (
        select(
            *(
                prediction.question_id,
                prediction.variant,
                prediction.prompt_key,
                prediction.shown,
                prediction.question_shown,
                prediction.own_options,
                prediction.unchanged,
            ),
            *(
                prediction.chosen_option,
                prediction.label_logprobs,
                prediction.label_probabilities,
                prediction.logprobs_without_question,
            ),
        )
        .where(prediction.evaluation_id == evaluation.id, is_in(prediction.question_id, ids))
        .order_by(prediction.question_id, prediction.variant)
        .execution_options(yield_per=5000)
    )
    require_rows(session, evaluation.id)
    for row in session.execute(query):
        outcomes_by_id.setdefault(row.question_id, []).append(
            VariantOutcome(
                variant=row.variant,
                option=row.chosen_option,
                answer=answers[row.question_id],
                order=tuple(row.shown),
                probabilities=None if row.label_probabilities is None else tuple(row.label_probabilities),
                logprobs=None if row.label_logprobs is None else tuple(row.label_logprobs),
                logprobs_without_question=None
                if row.logprobs_without_question is None
                else tuple(row.logprobs_without_question),
                option_bytes=tuple(lengths[row.question_id].get(place, 1) for place in row.shown),
                original=row.unchanged,
                question_shown=row.question_shown,
                own_options=row.own_options,
                prompt=row.prompt_key,
            )
        )
    repeats, samples, recorded = evaluation.repeats, evaluation.samples, evaluation.recorded
    return {
        question_id: as_asked(outcomes, repeats, samples, recorded=recorded)
        for question_id, outcomes in outcomes_by_id.items()
    }


class RunAnswer(NamedTuple):
    """An answer that counts in the run of its variant. unchanged: whether its prompt shows the question unchanged."""

    question_id: int
    variant: int
    correct: bool
    unchanged: bool


def answers_in_runs(session: Session, evaluation: Evaluation, question_ids: Sequence[int]) -> Iterator[RunAnswer]:
    """Yield the answers to these questions that count in runs.

    Questions with fewer than two distinct prompts are in no run.
    """
    ids, p = set(question_ids), Prediction
    query = (
        select(p.question_id, p.variant, p.correct, p.unchanged)
        .join(
            QuestionScore,
            (QuestionScore.evaluation_id == p.evaluation_id) & (QuestionScore.question_id == p.question_id),
        )
        .where(p.evaluation_id == evaluation.id, p.own_options, p.question_shown, QuestionScore.distinct_prompts > 1)
        .where(first_answers(session, evaluation.id))
    )
    require_rows(session, evaluation.id)
    for question_id, variant, correct, unchanged in session.execute(query):
        if question_id in ids:
            yield RunAnswer(question_id, variant, correct, unchanged)


def runs_over(answers: Iterable[RunAnswer]) -> tuple[Runs, int]:
    """Group answers into runs; return the runs and the number of questions answered."""
    hits: dict[int, list[int]] = {}
    unchanged: dict[int, bool] = {}
    tested: set[int] = set()
    for answer in answers:
        tested.add(answer.question_id)
        hits.setdefault(answer.variant, []).append(int(answer.correct))
        unchanged[answer.variant] = unchanged.get(answer.variant, True) and answer.unchanged
    accuracies = {variant: sum(values) / len(values) for variant, values in sorted(hits.items())}
    return Runs(accuracies, min((variant for variant, same in unchanged.items() if same), default=None)), len(tested)
