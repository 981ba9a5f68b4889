"""Metrics of sealed evaluations under errata, as they are stored."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from registry.code_identity import code_version
from registry.errata.rescoring import Rescored, rescored
from registry.errata.versions import correction
from registry.metrics import METRICS
from registry.scores.computed import is_stored
from registry.scores.corrections import RESCORED, scope_of
from registry.scores.intervals import TOGETHER, interval_columns, metric_intervals_together
from registry.tables import (
    ErrataVersion,
    Evaluation,
    EvaluationMetric,
)


def write_rescored(session: Session, errata: ErrataVersion, evaluations: Sequence[Evaluation]) -> None:
    """Stores the metrics of sealed evaluations under a version of the errata of their benchmark."""
    for start in range(0, len(evaluations), TOGETHER):
        rows = rescored_rows(session, errata, evaluations[start : start + TOGETHER])
        if rows:
            session.execute(insert(EvaluationMetric.__table__), rows)  # type: ignore[arg-type]


def rescored_rows(session: Session, errata: ErrataVersion, evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Rows of `evaluation_metric`: every metric of evaluations of one benchmark version under its errata."""
    rows = []
    for treatment in RESCORED:
        scope, applied = scope_of(treatment, errata.number), correction(errata, treatment)
        alike: dict[tuple[int, ...], list[Rescored]] = {}
        for evaluation in evaluations:
            one = rescored(session, evaluation, applied)
            alike.setdefault(one.question_ids, []).append(one)
        for several in alike.values():
            # Drawn once for all that were asked the same questions.
            intervals = metric_intervals_together([one.counting for one in several])
            for one, means in zip(several, intervals, strict=True):
                of = {**means, **one.axes.intervals}
                rows += [
                    {
                        "evaluation_id": one.evaluation.id,
                        "scope": scope,
                        "metric": name,
                        "definition_version": METRICS[name].definition_version,
                        "value": value,
                        "n": n,
                        **interval_columns(scope, None if name in one.unknown else of.get(name)),
                        "code_version": code_version(),
                    }
                    for name, (value, n) in one.metrics().items()
                    if is_stored(METRICS[name], scope)
                ]
    return rows
