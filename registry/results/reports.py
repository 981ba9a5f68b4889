"""What is reported of an evaluation."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.lookups import find_evaluation
from registry.metrics.catalogue import ALL_NAMES
from registry.results.computed import computed_metrics


def evaluation_metrics(
    session: Session, evaluation_id: int, *, without_flagged: bool = False, per_question: bool = False
) -> dict[str, Any]:
    """Every metric of an evaluation by name, None where undefined, also while it is incomplete.

    questions, scored: of the scope asked for; a question is scored when all of its variants are stored.
    """
    evaluation = find_evaluation(session, evaluation_id)
    scope = "unflagged" if without_flagged else "all"
    row = computed_metrics(session, evaluation_id, scope).get(scope)
    document: dict[str, Any] = {
        "evaluation": evaluation_id,
        "metrics": _named(row),
        "questions": 0 if row is None else int(row["questions"]),
        "scored": 0 if row is None else int(row["scored"]),
        "complete": evaluation.seal is not None,
    }
    if per_question:
        flagged = "AND NOT flagged " if without_flagged else ""
        query = text(
            f"SELECT * FROM question_metrics WHERE evaluation_id = :id {flagged}ORDER BY question_id"  # noqa: S608
        )
        document["per_question"] = {
            item["external_id"]: _named(item) for item in session.execute(query, {"id": evaluation_id}).mappings()
        }
    return document


def _named(row: Mapping[Any, Any] | None) -> dict[str, float | None]:
    """Every metric name of the contract; None for those that the row does not hold."""
    return {name: None if row is None or row.get(name) is None else float(row[name]) for name in ALL_NAMES}
