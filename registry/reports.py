"""What is reported of evaluations: metrics, leaderboard rows, provenance, verification."""

import math
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry.computed import computed_metrics
from registry.evaluations import find_evaluation
from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES
from registry.metrics.pride import PrideAnswer
from registry.model_revisions import model_identity
from registry.models import Prediction, Question, QuestionPride
from registry.pride import compute_pride
from registry.seal import compute_seal, shard_provenance

METRIC_TOLERANCE: Final = 1e-9
"""Stored metrics against their views: PostgreSQL's parallel sums differ in the last bits from run to run."""


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


def leaderboard_rows(
    session: Session, *, benchmark: str | None = None, variants: str | None = None
) -> list[dict[str, Any]]:
    """Rows of the view `leaderboard`: best worst accuracy first, incomplete ones last."""
    conditions = {"benchmark": benchmark, "variants": variants}
    where = " AND ".join(f"{column} = :{column}" for column, value in conditions.items() if value is not None)
    query = text(f"SELECT * FROM leaderboard {'WHERE ' + where if where else ''}")  # noqa: S608 - fixed column names
    given = {column: value for column, value in conditions.items() if value is not None}
    rows = [
        {key: bool(value) if key == "complete" else value for key, value in row.items()}
        for row in session.execute(query, given).mappings()
    ]
    return sorted(rows, key=_best_first)


def _best_first(row: Mapping[str, Any]) -> tuple[Any, ...]:
    value = row["worst_accuracy"] if row["worst_accuracy"] is not None else row["accuracy"]
    return (row["benchmark"], row["variants"], value is None, -(value or 0.0), row["evaluation_id"])


def provenance_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Where an evaluation's numbers come from: specification, files, shards, seal."""
    evaluation = find_evaluation(session, evaluation_id)
    revision, version = evaluation.model_revision, evaluation.benchmark_version
    shards = shard_provenance(session, evaluation_id)
    fingerprints = {str(shard["engine_fingerprint"]) for shard in shards if shard["engine_fingerprint"]}
    return {
        "evaluation": evaluation_id,
        "state": evaluation.state,
        "replicate": evaluation.replicate,
        "specification": evaluation.specification,
        "specification_digest": evaluation.specification_digest,
        "model": model_identity(revision)
        | {"revision": revision.number, "location": revision.location, "commit": revision.revision},
        "benchmark": {
            "name": version.benchmark.name,
            "version": version.version,
            "content_digest": version.content_digest,
            "file_digest": version.file_digest,
            "licence": version.licence,
            "source": version.source,
        },
        "protocol_digest": evaluation.protocol.digest,
        "variant_set": {"name": evaluation.variant_set.name, "digest": evaluation.variant_set.digest},
        "requester": evaluation.requester,
        "created_at": evaluation.created_at,
        "started_at": evaluation.started_at,
        "sealed_at": evaluation.sealed_at,
        "seal": evaluation.seal,
        "mixed_engines": len(fingerprints) > 1,
        "shards": shards,
    }


def verify_evaluation(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Recomputes seal, question scores and metrics of a sealed evaluation and lists what does not match."""
    evaluation = find_evaluation(session, evaluation_id)
    problems: list[str] = []
    if evaluation.seal is None:
        problems.append(f"not sealed: it is {evaluation.state}")
    else:
        if compute_seal(session, evaluation) != evaluation.seal:
            problems.append("seal: predictions, provenance or specification have changed since it was sealed")
        problems += _changed_scores(session, evaluation_id)
        problems += _changed_pride(session, evaluation_id)
        problems += _changed_metrics(session, evaluation_id)
    stored = session.scalars(select(Prediction.question_id).filter_by(evaluation_id=evaluation_id).limit(1)).first()
    if stored is None and evaluation.seal is not None:
        problems.append("predictions: none is stored")
    return {"evaluation": evaluation_id, "seal": evaluation.seal, "ok": not problems, "problems": problems}


def _changed_scores(session: Session, evaluation_id: int) -> list[str]:
    stored, computed = (
        {row["question_id"]: dict(row) for row in session.execute(text(query), {"id": evaluation_id}).mappings()}
        for query in (
            "SELECT * FROM question_score WHERE evaluation_id = :id",
            "SELECT * FROM question_statistics WHERE evaluation_id = :id",
        )
    )
    changed = [key for key in stored.keys() | computed.keys() if not _same(stored.get(key), computed.get(key))]
    names = session.execute(select(Question.external_id).where(Question.id.in_(changed[:10]))).scalars()
    return [f"question_score of {name} differs from its predictions" for name in sorted(names)]


def _changed_pride(session: Session, evaluation_id: int) -> list[str]:
    stored = {
        external_id: PrideAnswer(estimation, correct)
        for external_id, estimation, correct in session.execute(
            select(Question.external_id, QuestionPride.estimation, QuestionPride.correct)
            .join(Question, Question.id == QuestionPride.question_id)
            .where(QuestionPride.evaluation_id == evaluation_id)
        )
    }
    found = compute_pride(session, evaluation_id)
    computed = found.answers if found.priors else {}
    changed = [name for name in stored.keys() | computed.keys() if stored.get(name) != computed.get(name)]
    return [f"question_pride of {name} differs from its predictions" for name in sorted(changed)[:10]]


def _same(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Equal rows, floats within METRIC_TOLERANCE; SQLite has no booleans, so 1 is True."""
    if one is None or other is None:
        return False
    return all(
        value == other[key]
        or (
            value is not None
            and other[key] is not None
            and math.isclose(float(value), float(other[key]), rel_tol=0, abs_tol=METRIC_TOLERANCE)
        )
        for key, value in one.items()
    )


def _changed_metrics(session: Session, evaluation_id: int) -> list[str]:
    stored = session.execute(
        text("SELECT scope, metric, value FROM evaluation_metrics WHERE evaluation_id = :id"), {"id": evaluation_id}
    ).mappings()
    computed = computed_metrics(session, evaluation_id)
    problems = []
    for row in stored:
        if row["metric"] not in METRICS:
            continue
        value = computed[row["scope"]][row["metric"]] if row["scope"] in computed else None
        if not _same({"value": row["value"]}, {"value": value}):
            problems.append(f"metric {row['metric']} ({row['scope']}): stored {row['value']}, computed {value}")
    return problems
