"""Add metrics to evaluations that were sealed before the metric or its definition existed."""

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.predictions.stored import filter_archived
from registry.scores.pride import write_question_pride
from registry.sealed.seal import metric_rows
from registry.tables import EvaluationMetric


def add_missing_metrics(session: Session, evaluation_id: int | None = None) -> list[int]:
    """Compute the metrics that one evaluation, or every evaluation by default, lacks because they were defined later.

    Returns the evaluations that still lack some because they are archived; restoring an evaluation adds them.
    """
    newest = {metric.name: metric.definition_version for metric in METRICS.values()}
    stored = EvaluationMetric
    query = select(stored.evaluation_id, stored.metric, stored.definition_version).where(stored.scope == "all")
    rows = session.execute(query if evaluation_id is None else query.where(stored.evaluation_id == evaluation_id))
    computed: dict[int, set[tuple[str, int]]] = {}
    for row in rows:
        computed.setdefault(row.evaluation_id, set()).add((row.metric, row.definition_version))
    lacking = {number for number, existing in computed.items() if not set(newest.items()) <= existing}
    archived = filter_archived(session, lacking)
    for number in sorted(lacking.difference(archived)):
        write_question_pride(session, number)
        existing = set(
            session.execute(
                select(EvaluationMetric.scope, EvaluationMetric.metric, EvaluationMetric.definition_version).where(
                    EvaluationMetric.evaluation_id == number
                )
            )
        )
        new = [
            row
            for row in metric_rows(session, number)
            if (row["scope"], row["metric"], row["definition_version"]) not in existing
        ]
        session.execute(insert(EvaluationMetric), new)
    return archived
