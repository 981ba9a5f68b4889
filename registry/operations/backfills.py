"""What an upgrade gives to evaluations that were sealed before a metric or a definition was there."""

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.proof.seal import metric_rows
from registry.scores.computed import is_stored
from registry.scores.pride import write_question_pride
from registry.tables import EvaluationMetric


def add_missing_metrics(session: Session) -> int:
    """Computes metrics that were defined after an evaluation was sealed; returns how many evaluations got some."""
    newest = {metric.name: metric.definition_version for metric in METRICS.values() if is_stored(metric, "all")}
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
