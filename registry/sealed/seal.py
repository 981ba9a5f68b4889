"""Seal evaluations: compute the metrics and the seal, store the leaves, and append the seal to the chain."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, or_, select
from sqlalchemy.orm import Session

from registry import chain, formats
from registry.code_identity import code_version
from registry.db import Digest, database_now
from registry.digests import specification_digest
from registry.errors import SealError
from registry.metrics import METRICS
from registry.predictions.bulk import insert_rows, renew_statistics
from registry.scores.asked import compute_asked
from registry.scores.computed import compute_metrics
from registry.scores.intervals import (
    evaluation_intervals,
    interval_columns,
    intervals_together,
)
from registry.scores.pride import write_question_pride
from registry.scores.written import compute_written
from registry.sealed.manifest import Leaf, QuestionRecords, local_labels, manifest, question_leaves
from registry.statistics.bootstrap import Interval
from registry.tables import (
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    EvaluationSource,
    Prediction,
    Question,
    QuestionScore,
    QuestionSeal,
)


def seal(session: Session, evaluation_id: int) -> bool:
    """Seal a completely scored evaluation. Returns False if it was sealed already.

    Raises SealError if predictions are missing.
    """
    return bool(seal_together(session, [evaluation_id]))


def seal_together(session: Session, ids: Sequence[int], report: Callable[[int], None] | None = None) -> list[int]:
    """Seal completely scored evaluations; return the newly sealed ones.

    Evaluations of the same questions share reads and random draws. report: called with the number of finished
    evaluations. Raises SealError if predictions are missing.
    """
    evaluations = [
        session.get_one(Evaluation, evaluation_id, with_for_update=True, populate_existing=True)
        for evaluation_id in ids
    ]
    unsealed = [evaluation for evaluation in evaluations if evaluation.seal is None]
    for evaluation in unsealed:
        renew_statistics(session, evaluation.prompts)
        _require_predictions(session, evaluation.id)
        write_question_pride(session, evaluation.id)
        evaluation.samples = compute_asked(session, evaluation.id)["samples"]
    session.flush()  # the values from which intervals are drawn depend on `samples`
    intervals = intervals_together(session, [evaluation.id for evaluation in unsealed])
    records: QuestionRecords = {}
    for done, evaluation in enumerate(unsealed, start=1):
        evaluation.seal_version = formats.SEAL
        leaves_of = list(question_leaves(session, evaluation.id, records=records))
        digest = specification_digest(manifest(session, evaluation, leaves_of))
        now = session.scalar(select(database_now()))
        assert now is not None
        complete(session, evaluation, digest, leaves_of, now, intervals[evaluation.id])
        if report is not None:
            report(done)
    return [evaluation.id for evaluation in unsealed]


def _require_predictions(session: Session, evaluation_id: int) -> None:
    missing = _find_incomplete_question(session, evaluation_id)
    if missing is not None:
        raise SealError(f"evaluation {evaluation_id}: question {missing} lacks some of its predictions; not sealed")


def _find_incomplete_question(session: Session, evaluation_id: int) -> str | None:
    """Return the external id of a question that lacks predictions; None if none does."""
    return session.scalars(
        select(Question.external_id)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .outerjoin(EvaluationQuestion.score)
        .where(
            EvaluationQuestion.evaluation_id == evaluation_id,
            or_(QuestionScore.stored.is_(None), QuestionScore.stored != EvaluationQuestion.n_variants),
        )
        .limit(1)
    ).first()


def complete(
    session: Session,
    evaluation: Evaluation,
    digest: str,
    leaves_of: Iterable[Leaf],
    sealed_at: datetime,
    intervals: Mapping[str, Mapping[str, Interval | None]] | None = None,
) -> None:
    """Store the seal of an evaluation with its metrics and leaves, and append it to the chain.

    intervals: from `evaluation_intervals`; None computes them.
    """
    # This precedes the first change: once the seal is stored, triggers refuse any other change.
    for name, value in (compute_asked(session, evaluation.id) | compute_written(session, evaluation.id)).items():
        setattr(evaluation, name, value)
    evaluation.seal, evaluation.sealed_at, evaluation.state = digest, sealed_at, "complete"
    session.flush()
    session.execute(insert(EvaluationMetric.__table__), metric_rows(session, evaluation.id, intervals))  # type: ignore[arg-type]
    keep_leaves(session, evaluation.id, leaves_of)
    # This comes last, because other writers wait while this transaction appends to the chain.
    chain.append(session, "seal", digest, labels=local_labels(evaluation))


def keep_leaves(session: Session, evaluation_id: int, leaves_of: Iterable[Leaf]) -> None:
    """Store the leaf of each question, and the evaluations from which results were copied."""
    rows = [
        {"evaluation_id": evaluation_id, "question_id": leaf.question_id, "leaf": leaf.leaf, "prompts": leaf.prompts}
        for leaf in leaves_of
    ]
    insert_rows(session, QuestionSeal, rows)
    sources = [
        {"evaluation_id": evaluation_id, "seal": source, "predictions": predictions}
        for source, predictions in list_copied_from(session, evaluation_id).items()
    ]
    if sources:
        session.execute(insert(EvaluationSource), sources)


def list_copied_from(session: Session, evaluation_id: int) -> dict[str, int]:
    """Map the seal of each source to the number of predictions copied from it; a replay copies all its predictions."""
    replayed_from = select(Evaluation.replayed_from).where(Evaluation.id == evaluation_id).scalar_subquery()
    source = func.coalesce(Prediction.reused_from_seal, replayed_from, type_=Digest())
    query = (
        select(source, func.count())
        .where(Prediction.evaluation_id == evaluation_id)
        .group_by(Prediction.reused_from_seal)
    )
    return {seal: predictions for seal, predictions in session.execute(query) if seal is not None}


def metric_rows(
    session: Session, evaluation_id: int, intervals: Mapping[str, Mapping[str, Interval | None]] | None = None
) -> list[dict[str, Any]]:
    """Return every metric for every scope, in the newest definition, as rows of `evaluation_metric`.

    intervals: from `evaluation_intervals`; None computes them.
    """
    if intervals is None:
        intervals = evaluation_intervals(session, evaluation_id)
    sampled = session.get_one(Evaluation, evaluation_id).sampled_from is not None
    return [
        {
            "evaluation_id": evaluation_id,
            "scope": scope,
            "metric": metric.name,
            "definition_version": metric.definition_version,
            "value": values[metric.name],
            "n": values[f"{metric.name}_n"],
            **interval_columns(scope, intervals[scope].get(metric.name), sampled=sampled),
            "code_version": code_version(),
        }
        for scope, values in compute_metrics(session, evaluation_id).items()
        for metric in METRICS.values()
    ]
