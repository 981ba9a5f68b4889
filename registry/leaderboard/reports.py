"""Report of one evaluation's metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry.leaderboard.chance import chances
from registry.lookups import find_evaluation
from registry.metrics.catalogue import ALL_NAMES, SHOWN
from registry.predictions.stored import filter_archived
from registry.scores.asked import compute_asked, describe_orders, distinct_prompts, why_undefined
from registry.scores.computed import compute_metrics, load_metrics
from registry.tables import EvaluationMetric


def evaluation_metrics(
    session: Session,
    evaluation_id: int,
    *,
    without_flagged: bool = False,
    per_question: bool = False,
    papers: bool = False,
) -> dict[str, Any]:
    """Return the JSON document with an evaluation's metrics, which need not be complete.

    metrics: by name, None if undefined. questions, scored: counts in the requested scope; a question is scored when all
    of its variants are stored. intervals: as stored at sealing. chance: the accuracy of guessing. sample: `questions`,
    `of` and `seed` if the questions are a sample, else None. undefined: the reason for each metric without a value.
    papers: whether to include the metrics that exist for papers alone.
    """
    evaluation = find_evaluation(session, evaluation_id)
    scope = "unflagged" if without_flagged else "all"
    values_of = load_metrics if filter_archived(session, [evaluation_id]) else compute_metrics
    row = values_of(session, evaluation_id, scope).get(scope)
    how = compute_asked(session, evaluation_id)
    shown = ALL_NAMES if papers else SHOWN
    if scope != "all":
        how["chance"] = chances(session, [evaluation_id], scope).get(evaluation_id)
    document: dict[str, Any] = {
        "evaluation": evaluation_id,
        "metrics": _pick_values(row, shown),
        "intervals": _load_intervals(session, evaluation_id, scope, shown),
        "questions": 0 if row is None else int(row["questions"]),
        "scored": 0 if row is None else int(row["scored"]),
        "complete": evaluation.seal is not None,
        "distinct_prompts": distinct_prompts(how),
        "asked": describe_orders(how),
        "chance": how["chance"],
        "sample": evaluation.specification["questions"].get("sample"),
        "undefined": _explain_undefined(row, how | {"complete": evaluation.seal is not None}, shown),
    }
    if per_question:
        flagged = "AND NOT flagged " if without_flagged else ""
        query = text(
            f"SELECT * FROM question_metrics WHERE evaluation_id = :id {flagged}ORDER BY question_id"  # noqa: S608
        )
        document["per_question"] = {
            item["external_id"]: _pick_values(item, shown)
            for item in session.execute(query, {"id": evaluation_id}).mappings()
        }
    return document


def _explain_undefined(row: Mapping[Any, Any] | None, how: Mapping[str, Any], shown: Sequence[str]) -> dict[str, str]:
    """Return the reason for each shown metric that has no value."""
    values = _pick_values(row, shown)
    return {name: why_undefined(name, {**values, **how}) for name in shown if values[name] is None}


def _load_intervals(
    session: Session, evaluation_id: int, scope: str, shown: Sequence[str]
) -> dict[str, list[float] | None]:
    """Return the stored interval of each shown metric; None before sealing, or if none is stated."""
    metric_row = EvaluationMetric
    stored = (
        select(metric_row.metric, metric_row.interval_low, metric_row.interval_high)
        .where(metric_row.evaluation_id == evaluation_id, metric_row.scope == scope)
        .order_by(metric_row.definition_version)
    )
    # The newest definition comes last and stays, with an interval or without.
    intervals: dict[str, list[float] | None] = {}
    for name, low, high in session.execute(stored):
        intervals[name] = None if low is None or high is None else [low, high]
    return {name: intervals.get(name) for name in shown}


def _pick_values(row: Mapping[Any, Any] | None, shown: Sequence[str]) -> dict[str, float | None]:
    """Return the values of the shown metrics in a row; None for missing ones."""
    return {name: None if row is None or row.get(name) is None else float(row[name]) for name in shown}
