"""Sealing: metrics, the seal over `registry.proof.manifest`, the leaves behind it, and its link in the chain."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, insert, or_, select, update
from sqlalchemy.orm import Session

from registry import notices
from registry.boards.snapshots import snapshot_labels
from registry.db import database_now
from registry.digests import specification_digest
from registry.errors import SealError
from registry.metrics import METRICS
from registry.proof import chain
from registry.proof.manifest import SEAL_VERSION, Leaf, local_labels, manifest, question_leaves
from registry.results.bulk import renew_statistics
from registry.results.computed import computed_metrics
from registry.results.intervals import METHOD, NONE, evaluation_intervals, resamples_of
from registry.results.pride import write_question_pride
from registry.statistics.bootstrap import SEED, Interval
from registry.tables import (
    BoardSnapshot,
    ChainLink,
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
    """Seals a completely scored evaluation: metrics, digest, state. False when it was sealed already.

    Raises SealError when predictions are missing.
    """
    evaluation = session.get_one(Evaluation, evaluation_id, with_for_update=True, populate_existing=True)
    if evaluation.seal is not None:
        return False
    missing = session.scalars(
        select(Question.external_id)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .outerjoin(
            QuestionScore,
            and_(
                QuestionScore.evaluation_id == EvaluationQuestion.evaluation_id,
                QuestionScore.question_id == EvaluationQuestion.question_id,
            ),
        )
        .where(
            EvaluationQuestion.evaluation_id == evaluation_id,
            or_(QuestionScore.stored.is_(None), QuestionScore.stored != EvaluationQuestion.n_variants),
        )
        .limit(1)
    ).first()
    if missing is not None:
        raise SealError(f"evaluation {evaluation_id}: question {missing} has not all of its predictions; not sealed")
    renew_statistics(session, evaluation.prompts)
    write_question_pride(session, evaluation_id)
    evaluation.seal_version = SEAL_VERSION
    leaves_of = list(question_leaves(session, evaluation_id))
    digest = specification_digest(manifest(session, evaluation, leaves_of))
    now = session.scalar(select(database_now()))
    assert now is not None
    complete(session, evaluation, digest, leaves_of, now)
    return True


def complete(
    session: Session, evaluation: Evaluation, digest: str, leaves_of: Iterable[Leaf], sealed_at: datetime
) -> None:
    """Writes down that an evaluation is sealed, with its metrics, its leaves and its link in the chain."""
    evaluation.seal, evaluation.sealed_at, evaluation.state = digest, sealed_at, "complete"
    session.flush()
    session.execute(insert(EvaluationMetric), _metric_rows(session, evaluation.id))
    keep_leaves(session, evaluation.id, leaves_of)
    notices.evaluation_complete(session, evaluation)
    # Last: whoever appends to the chain makes all others wait.
    chain.append(session, "seal", digest, labels=local_labels(evaluation))


def keep_leaves(session: Session, evaluation_id: int, leaves_of: Iterable[Leaf]) -> None:
    """Stores what a seal covers of each question, and from which evaluations results were copied."""
    rows = [
        {"evaluation_id": evaluation_id, "question_id": leaf.question_id, "leaf": leaf.leaf, "prompts": leaf.prompts}
        for leaf in leaves_of
    ]
    if rows:
        session.execute(insert(QuestionSeal), rows)
    sources = [
        {"evaluation_id": evaluation_id, "seal": source, "predictions": predictions}
        for source, predictions in copied_from(session, evaluation_id).items()
    ]
    if sources:
        session.execute(insert(EvaluationSource), sources)


def copied_from(session: Session, evaluation_id: int) -> dict[str, int]:
    """Seal of another evaluation to how many predictions were copied from it."""
    counted: dict[str, int] = {}
    query = (
        select(Prediction.reused_from_seal, Evaluation.seal, func.count())
        .outerjoin(Evaluation, Evaluation.id == Prediction.reused_from_evaluation_id)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.reused_from_variant.is_not(None))
        .group_by(Prediction.reused_from_seal, Evaluation.seal)
    )
    for seal_of_source, seal_by_number, predictions in session.execute(query):
        # Copies from before seals were kept with them have the number alone.
        source = seal_of_source or seal_by_number
        if source is not None:
            counted[source] = counted.get(source, 0) + predictions
    return counted


def begin_chain(session: Session) -> int:
    """Gives what was sealed before there was a chain its links, and its questions their leaves; returns how many links.

    Does nothing once there is a link: a seal that lacks one then was not made by this code.
    """
    if session.scalar(select(func.count()).select_from(ChainLink)):
        return 0
    waiting: list[tuple[datetime, str, str, str]] = []
    for evaluation in session.scalars(select(Evaluation).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)):
        assert evaluation.seal is not None
        assert evaluation.sealed_at is not None
        keep_leaves(session, evaluation.id, question_leaves(session, evaluation.id, evaluation.seal_version))
        waiting.append((evaluation.sealed_at, "seal", evaluation.seal, local_labels(evaluation)))
    snapshots = session.scalars(select(BoardSnapshot).order_by(BoardSnapshot.id))
    waiting += [(row.as_of, "snapshot", row.digest, snapshot_labels(row.board.digest, row.as_of)) for row in snapshots]
    for _, kind, subject, labels in sorted(waiting, key=lambda item: item[0]):
        chain.append(session, kind, subject, labels=labels)
    return len(waiting)


def add_missing_metrics(session: Session) -> int:
    """Computes metrics that were defined after an evaluation was sealed; returns how many evaluations got some."""
    newest = {metric.name: metric.definition_version for metric in METRICS.values()}
    rows = session.execute(
        select(EvaluationMetric.evaluation_id, EvaluationMetric.metric, EvaluationMetric.definition_version).where(
            EvaluationMetric.scope == "all"
        )
    )
    known: dict[int, set[tuple[str, int]]] = {}
    for row in rows:
        known.setdefault(row.evaluation_id, set()).add((row.metric, row.definition_version))
    lacking = [evaluation_id for evaluation_id, have in known.items() if not set(newest.items()) <= have]
    for evaluation_id in lacking:
        write_question_pride(session, evaluation_id)
        have = set(
            session.execute(
                select(EvaluationMetric.scope, EvaluationMetric.metric, EvaluationMetric.definition_version).where(
                    EvaluationMetric.evaluation_id == evaluation_id
                )
            )
        )
        new = [
            row
            for row in _metric_rows(session, evaluation_id)
            if (row["scope"], row["metric"], row["definition_version"]) not in have
        ]
        session.execute(insert(EvaluationMetric), new)
    return len(lacking)


def _metric_rows(session: Session, evaluation_id: int) -> list[dict[str, Any]]:
    intervals = evaluation_intervals(session, evaluation_id)
    return [
        {
            "evaluation_id": evaluation_id,
            "scope": scope,
            "metric": metric.name,
            "definition_version": metric.definition_version,
            "value": values[metric.name],
            "n": values[f"{metric.name}_n"],
            **interval_columns(scope, intervals[scope].get(metric.name)),
        }
        for scope, values in computed_metrics(session, evaluation_id).items()
        for metric in METRICS.values()
    ]


def interval_columns(scope: str, interval: Interval | None) -> dict[str, Any]:
    """The columns of a metric that state its interval over a scope; None: none is stated."""
    return {
        "interval_low": None if interval is None else interval.low,
        "interval_high": None if interval is None else interval.high,
        "interval_method": NONE if interval is None else METHOD,
        "interval_resamples": None if interval is None else resamples_of(scope),
        "interval_seed": None if interval is None else SEED,
    }


def add_missing_intervals(session: Session) -> int:
    """States the intervals of metrics that were sealed before there were any; returns of how many evaluations."""
    lacking = session.scalars(
        select(EvaluationMetric.evaluation_id).where(EvaluationMetric.interval_method.is_(None)).distinct()
    ).all()
    for evaluation_id in lacking:
        intervals = evaluation_intervals(session, evaluation_id)
        rows = session.execute(
            select(EvaluationMetric.scope, EvaluationMetric.metric, EvaluationMetric.definition_version).where(
                EvaluationMetric.evaluation_id == evaluation_id, EvaluationMetric.interval_method.is_(None)
            )
        ).all()
        for scope, metric, version in rows:
            session.execute(
                update(EvaluationMetric)
                .where(
                    EvaluationMetric.evaluation_id == evaluation_id,
                    EvaluationMetric.scope == scope,
                    EvaluationMetric.metric == metric,
                    EvaluationMetric.definition_version == version,
                )
                .values(**interval_columns(scope, intervals.get(scope, {}).get(metric)))
            )
    return len(lacking)
