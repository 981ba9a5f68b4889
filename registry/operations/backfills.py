"""What an upgrade gives to evaluations that were sealed before there was a metric, an interval or a chain."""

from datetime import datetime

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from registry.boards.snapshots import snapshot_labels
from registry.metrics import METRICS
from registry.proof import chain
from registry.proof.manifest import local_labels, question_leaves
from registry.proof.seal import interval_columns, keep_leaves, metric_rows
from registry.results.intervals import evaluation_intervals
from registry.results.pride import write_question_pride
from registry.tables import BoardSnapshot, ChainLink, Evaluation, EvaluationMetric


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
            for row in metric_rows(session, evaluation_id)
            if (row["scope"], row["metric"], row["definition_version"]) not in have
        ]
        session.execute(insert(EvaluationMetric), new)
    return len(lacking)


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
