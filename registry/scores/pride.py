"""PriDe of stored evaluations. Its answers are written with their inputs when an evaluation is sealed."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from registry.errors import QueueError, UsageError
from registry.lookups import find_evaluation
from registry.metrics.outcome import VariantOutcome
from registry.metrics.pride import ALPHA, Pride, estimation_set, pride
from registry.predictions.stored import require_rows
from registry.scores.analyses import store_analysis
from registry.scores.asked import first_answers
from registry.tables import Evaluation, Prediction, Question, QuestionPride, QuestionScore

PRIDE: Final = "pride"
_CHUNK: Final = 500
_COLUMNS: Final = (
    Prediction.question_id,
    Prediction.variant,
    Prediction.shown,
    Prediction.chosen_option,
    Prediction.label_probabilities,
    Prediction.unchanged,
)


class _Question(NamedTuple):
    id: int
    external_id: str
    n_options: int
    answer: int


def compute_pride(session: Session, evaluation_id: int, alpha: float = ALPHA) -> Pride:
    """Compute PriDe over all questions of a complete evaluation.

    Only the predictions that PriDe uses are read: every order of the estimation set, and the original order of the
    rest.
    """
    scored = session.execute(
        select(Question.id, Question.external_id, Question.n_options, Question.answer)
        .join(QuestionScore, QuestionScore.question_id == Question.id)
        .where(QuestionScore.evaluation_id == evaluation_id, QuestionScore.variants > 0)
        .order_by(Question.id)
    )
    questions = [_Question(*row) for row in scored]
    groups: dict[int, list[str]] = {}
    for row in questions:
        groups.setdefault(row.n_options, []).append(row.external_id)
    chosen = {name for names in groups.values() for name in estimation_set(names, alpha)}
    by_id = {row.id: row for row in questions}
    # Without an original there is no answer; the placeholder keeps the question in its group, whose size determines K.
    outcomes: dict[int, list[VariantOutcome]] = {
        row.id: [_create_outcome(row, -1, range(row.n_options), None, None, original=False)] for row in questions
    }
    original = (
        select(Prediction.question_id, func.min(Prediction.variant).label("variant"))
        .where(Prediction.evaluation_id == evaluation_id, Prediction.unchanged)
        .group_by(Prediction.question_id)
        .subquery()
    )
    originals = (
        select(*_COLUMNS)
        .join(
            original,
            (original.c.question_id == Prediction.question_id) & (original.c.variant == Prediction.variant),
        )
        .where(Prediction.evaluation_id == evaluation_id)
    )
    require_rows(session, evaluation_id)
    for shown in session.execute(originals):
        if shown.question_id in by_id:
            outcomes[shown.question_id] = [_build_outcome(by_id[shown.question_id], shown)]
    estimation = [row.id for row in questions if row.external_id in chosen]
    for start in range(0, len(estimation), _CHUNK):
        part = estimation[start : start + _CHUNK]
        for question_id in part:
            outcomes[question_id] = []
        own_predictions = select(*_COLUMNS).where(
            Prediction.evaluation_id == evaluation_id,
            Prediction.question_id.in_(part),
            Prediction.question_shown,
            Prediction.own_options,
            first_answers(session, evaluation_id),
        )
        for shown in session.execute(own_predictions):
            outcomes[shown.question_id].append(_build_outcome(by_id[shown.question_id], shown))
    return pride(list(outcomes.values()), alpha=alpha)


def _build_outcome(question: Any, row: Any) -> VariantOutcome:
    return _create_outcome(
        question, row.variant, row.shown, row.chosen_option, row.label_probabilities, original=bool(row.unchanged)
    )


def _create_outcome(
    question: Any,
    variant: int,
    order: Sequence[int],
    option: int | None,
    probabilities: Sequence[float] | None,
    *,
    original: bool,
) -> VariantOutcome:
    return VariantOutcome(
        variant=variant,
        option=option,
        answer=question.answer,
        order=tuple(order),
        probabilities=None if probabilities is None else tuple(probabilities),
        original=original,
        question=question.external_id,
    )


def write_question_pride(session: Session, evaluation_id: int) -> None:
    """Store PriDe's answers for a complete evaluation with their estimation set and prior, unless already stored.

    Nothing is stored if no group of questions has a prior, for example without probabilities: the metric is then
    undefined.
    """
    stored = session.scalars(select(QuestionPride.question_id).filter_by(evaluation_id=evaluation_id).limit(1)).first()
    probable = select(Prediction.question_id).where(
        Prediction.evaluation_id == evaluation_id, Prediction.label_probabilities.is_not(None)
    )
    if stored is not None or session.scalars(probable.limit(1)).first() is None:
        return
    result = compute_pride(session, evaluation_id)
    if not result.priors:
        return
    questions = (
        select(Question.external_id, Question.id)
        .join(QuestionScore, QuestionScore.question_id == Question.id)
        .where(QuestionScore.evaluation_id == evaluation_id)
    )
    ids: dict[str, int] = {row.external_id: row.id for row in session.execute(questions)}
    session.execute(
        insert(QuestionPride),
        [
            {
                "evaluation_id": evaluation_id,
                "question_id": ids[name],
                "estimation": answer.estimation,
                "correct": answer.correct,
            }
            for name, answer in result.answers.items()
        ],
    )
    store_analysis(session, evaluation_id, PRIDE, pride_parameters(ALPHA), pride_result(result))


def pride_parameters(alpha: float) -> dict[str, Any]:
    """Return the parameters of an analysis with this share of estimation questions."""
    return {"alpha": repr(alpha), "estimation_set": "lowest SHA-256 of 0:<question id>, per number of options"}


def pride_result(found: Pride) -> dict[str, Any]:
    """Return PriDe's result for an analysis: the metric, the estimation set and the prior for each option count."""
    correct = [answer.correct for answer in found.answers.values() if answer.correct is not None]
    return {
        "pride_accuracy": sum(correct) / len(correct) if correct else None,
        "questions": len(correct),
        "estimation": sorted(name for name, answer in found.answers.items() if answer.estimation),
        "priors": {str(L): list(prior) for L, prior in found.priors.items()},
    }


def pride_document(session: Session, evaluation_id: int, alpha: float = ALPHA) -> dict[str, Any]:
    """Compute PriDe of a sealed evaluation with any share of estimation questions, and record it as an analysis.

    Raises UsageError for a share outside (0, 1], QueueError for an evaluation that is not sealed.
    """
    if not 0 < alpha <= 1:
        raise UsageError(f"alpha {alpha}: give the share of estimation questions, above 0 and up to 1, such as {ALPHA}")
    evaluation: Evaluation = find_evaluation(session, evaluation_id)
    if evaluation.seal is None:
        raise QueueError(f"evaluation {evaluation_id} is {evaluation.state}; PriDe needs all of its questions")
    result = pride_result(compute_pride(session, evaluation_id, alpha))
    store_analysis(session, evaluation_id, PRIDE, pride_parameters(alpha), result)
    return {"evaluation": evaluation_id, "parameters": pride_parameters(alpha), **result}
