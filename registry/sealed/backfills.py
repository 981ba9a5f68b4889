"""Additions of an upgrade to evaluations that were sealed before a metric or a definition existed."""

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.predictions.stored import filter_archived
from registry.scores.pride import write_question_pride
from registry.sealed.seal import metric_rows
from registry.tables import EvaluationMetric


def add_missing_metrics(session: Session, evaluation_id: int | None = None) -> list[int]:
    """Compute metrics that were defined after an evaluation was sealed: of one, or of all whose predictions are rows.

    Returns the evaluations that still lack some because they are archived; restoring one adds them.
    """
    newest = {metric.name: metric.definition_version for metric in METRICS.values()}
    stored = EvaluationMetric
    query = select(stored.evaluation_id, stored.metric, stored.definition_version).where(stored.scope == "all")
    rows = session.execute(query if evaluation_id is None else query.where(stored.evaluation_id == evaluation_id))
    known: dict[int, set[tuple[str, int]]] = {}
    for row in rows:
        known.setdefault(row.evaluation_id, set()).add((row.metric, row.definition_version))
    lacking = {number for number, have in known.items() if not set(newest.items()) <= have}
    archived = filter_archived(session, lacking)
    for number in sorted(lacking.difference(archived)):
        write_question_pride(session, number)
        have = set(
            session.execute(
                select(EvaluationMetric.scope, EvaluationMetric.metric, EvaluationMetric.definition_version).where(
                    EvaluationMetric.evaluation_id == number
                )
            )
        )
        new = [
            row
            for row in metric_rows(session, number)
            if (row["scope"], row["metric"], row["definition_version"]) not in have
        ]
        session.execute(insert(EvaluationMetric), new)
    return archived
