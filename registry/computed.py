"""Metrics as the SQL views compute them now, from the predictions of one evaluation."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.metrics import METRICS


def computed_metrics(session: Session, evaluation_id: int, scope: str | None = None) -> dict[str, dict[str, Any]]:
    """Scope to its values: each metric, `<metric>_n`, `questions` and `scored`. Only `scope`, where one is given.

    A metric of runs counts the complete questions it was taken over.
    """
    parameters = {"evaluation_id": evaluation_id, "scope": scope}
    condition = "WHERE evaluation_id = :evaluation_id" + (" AND scope = :scope" if scope else "")
    found: dict[str, dict[str, Any]] = {}
    for row in session.execute(text(f"SELECT * FROM scope_metrics {condition}"), parameters).mappings():  # noqa: S608
        values = dict(row)
        for metric in METRICS.values():
            if metric.view == "run_metrics":
                values[metric.name], values[f"{metric.name}_n"] = None, int(row["scored"])
        found[row["scope"]] = values
    for row in session.execute(text(f"SELECT * FROM run_metrics {condition}"), parameters).mappings():  # noqa: S608
        found[row["scope"]].update({name: row[name] for name in METRICS if METRICS[name].view == "run_metrics"})
    return {
        name: {key: float(value) if key in METRICS and value is not None else value for key, value in values.items()}
        for name, values in found.items()
    }
