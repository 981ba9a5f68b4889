"""Metrics of one evaluation, computed from its stored statistics or loaded as stored at sealing."""

from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.metrics.averaging import Runs
from registry.predictions.stored import require_rows
from registry.schema.selectables import run_accuracy
from registry.tables import EvaluationMetric


def compute_metrics(session: Session, evaluation_id: int, scope: str | None = None) -> dict[str, dict[str, Any]]:
    """Compute each metric, `<metric>_n`, `questions` and `scored` for each scope, or only for `scope` if given.

    Means come from the view scope_metrics. Comparisons of runs are computed here from run_accuracy: the view
    run_metrics gives the same, but its window functions keep SQLite from reading one evaluation alone.
    """
    parameters = {"evaluation_id": evaluation_id, "scope": scope}
    condition = "WHERE evaluation_id = :evaluation_id" + (" AND scope = :scope" if scope else "")
    means = session.execute(text(f"SELECT * FROM scope_metrics {condition}"), parameters).mappings()  # noqa: S608
    metrics = {row["scope"]: dict(row) for row in means}
    accuracies: dict[str, dict[int, tuple[float, bool]]] = {name: {} for name in metrics}
    c = run_accuracy.c
    accuracy = select(run_accuracy).where(c.evaluation_id == evaluation_id, *([c.scope == scope] if scope else []))
    require_rows(session, evaluation_id)
    for row in session.execute(accuracy).mappings():
        accuracies[row["scope"]][row["variant"]] = (float(row["accuracy"]), bool(row["unchanged"]))
    for name, values in metrics.items():
        _add_runs(values, accuracies[name])
    return metrics


def load_metrics(session: Session, evaluation_id: int, scope: str) -> dict[str, dict[str, Any]]:
    """Load a sealed evaluation's metrics, as `compute_metrics` returns them, without reading predictions."""
    parameters = {"evaluation_id": evaluation_id, "scope": scope}
    query = text("SELECT questions, scored FROM scope_metrics WHERE evaluation_id = :evaluation_id AND scope = :scope")
    counts = session.execute(query, parameters).mappings().one_or_none()
    if counts is None:
        return {}
    metrics = dict(counts)
    metric_row = EvaluationMetric
    stored = (
        select(metric_row.metric, metric_row.value, metric_row.n)
        .filter_by(**parameters)
        .order_by(metric_row.definition_version)
    )
    for metric, value, n in session.execute(stored):
        metrics |= {metric: value, f"{metric}_n": n}
    return {scope: metrics}


def _add_runs(values: dict[str, Any], accuracies: dict[int, tuple[float, bool]]) -> None:
    """Add the metrics that compare runs.

    accuracies: for each variant its accuracy, and whether it is the original order.
    """
    originals = [variant for variant, (_, unchanged) in accuracies.items() if unchanged]
    runs = Runs({v: accuracy for v, (accuracy, _) in sorted(accuracies.items())}, min(originals, default=None))
    tested = int(values["worst_accuracy_n"])  # runs are over these questions
    for metric in METRICS.values():
        if metric.over_runs is not None:
            values[metric.name], values[f"{metric.name}_n"] = metric.over_runs(runs), tested
        elif values[metric.name] is not None:
            values[metric.name] = float(values[metric.name])
