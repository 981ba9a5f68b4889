"""The seal: a digest over an evaluation's specification, provenance and predictions.

Rows are keyed by external question id and variant ordinal and hold no database ids, so the same evaluation has the
same seal in every registry, and a changed row is named by its question.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from sqlalchemy import and_, insert, or_, select, update
from sqlalchemy.orm import Session

from registry.bulk import renew_statistics
from registry.computed import computed_metrics
from registry.db import database_now
from registry.digests import specification_digest
from registry.errors import SealError
from registry.intervals import METHOD, NONE, evaluation_intervals, resamples_of
from registry.metrics import METRICS
from registry.models import (
    EngineFingerprint,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Generation,
    Prediction,
    Question,
    QuestionScore,
    Shard,
    Worker,
)
from registry.pride import write_question_pride
from registry.statistics.bootstrap import SEED, Interval

SEAL_VERSION: Final = 2
"""What a new seal covers. Seals of version 1 leave out what a model wrote, and are checked as they were made."""

NOT_SEALED: Final = frozenset({"evaluation_id", "question_id", "reused_from_evaluation_id", "reused_from_variant"})
"""Database ids: another registry has others. A copied result is sealed like one that was scored."""

LEAF_COLUMNS: Final = tuple(sorted(set(Prediction.__table__.columns.keys()) - NOT_SEALED))
"""The columns of a prediction that its question's leaf digest covers, by name."""

GENERATION_COLUMNS: Final = ("extracted", "finished", "text", "tokens")
"""Those of what a model wrote; in a leaf digest named `generation.<column>`, from version 2 of the seal on."""


def encode(value: Any) -> bytes:
    """A value as bytes, the same on every machine: a type letter, then big-endian content.

    Floats are float64 with −0 written as 0. Texts and lists carry their length, so that no two values run together.
    """
    if value is True:
        return b"T"
    if value is False:
        return b"F"
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value + 0.0)
    if isinstance(value, int):
        return b"I" + struct.pack(">q", value)
    if isinstance(value, str):
        raw = value.encode()
        return b"S" + struct.pack(">I", len(raw)) + raw
    if isinstance(value, (list, tuple)):
        return b"L" + struct.pack(">I", len(value)) + b"".join(map(encode, value))
    message = f"{type(value).__name__} has no place in a seal"
    raise TypeError(message)


_NAMES: Final = tuple(encode(name) for name in (*LEAF_COLUMNS, *(f"generation.{name}" for name in GENERATION_COLUMNS)))


def leaf_digest(rows: Iterable[Sequence[Any]]) -> str:
    """SHA-256 over one question's predictions, by variant ordinal.

    Each row holds the values of LEAF_COLUMNS and, from version 2 of the seal on, of GENERATION_COLUMNS.

    A row is its columns that are not NULL, each after its name: columns that a later schema adds, NULL in old rows,
    leave old seals as they are.
    """
    digest = hashlib.sha256()
    for row in rows:
        parts = [name + encode(value) for name, value in zip(_NAMES, row, strict=False) if value is not None]
        digest.update(b"R" + struct.pack(">I", len(parts)) + b"".join(parts))
    return digest.hexdigest()


def leaves(session: Session, evaluation_id: int, seal_version: int = SEAL_VERSION) -> Iterator[tuple[str, str]]:
    """(external question id, leaf digest) of every question with predictions, streamed."""
    columns = [getattr(Prediction, name) for name in LEAF_COLUMNS]
    query = select(Question.external_id, *columns).join(Question, Question.id == Prediction.question_id)
    if seal_version > 1:
        query = query.add_columns(*(getattr(Generation, name) for name in GENERATION_COLUMNS)).outerjoin(
            Generation,
            and_(
                Generation.evaluation_id == Prediction.evaluation_id,
                Generation.question_id == Prediction.question_id,
                Generation.variant == Prediction.variant,
            ),
        )
    query = (
        query.where(Prediction.evaluation_id == evaluation_id)
        .order_by(Prediction.question_id, Prediction.variant)
        .execution_options(yield_per=5000)
    )
    for external_id, rows in groupby(session.execute(query), key=lambda row: row[0]):
        yield external_id, leaf_digest(row[1:] for row in rows)


def shard_provenance(session: Session, evaluation_id: int) -> list[dict[str, Any]]:
    """Who scored each shard, when, on what and at which attempt; floats as text, no database ids."""
    query = (
        select(Shard, Worker, EngineFingerprint)
        .outerjoin(Worker, Worker.id == Shard.worker_id)
        .outerjoin(EngineFingerprint, EngineFingerprint.id == Shard.engine_fingerprint_id)
        .where(Shard.evaluation_id == evaluation_id)
        .order_by(Shard.ordinal)
    )
    return [
        {
            "shard": shard.ordinal,
            "state": shard.state,
            "prompts": shard.prompts,
            "claims": shard.fence,
            "failures": shard.failures,
            "crashes": shard.crashes,
            "host": worker.host if worker else None,
            "device": worker.device if worker else None,
            "worker": worker.id if worker else None,
            "claimed_at": shard.claimed_at.isoformat() if shard.claimed_at else None,
            "finished_at": shard.finished_at.isoformat() if shard.finished_at else None,
            "elapsed_s": repr(shard.elapsed_s) if shard.elapsed_s is not None else None,
            **({"matching_s": repr(shard.matching_s)} if shard.matching_s is not None else {}),
            "tokens_naive": shard.tokens_naive,
            "tokens_computed": shard.tokens_computed,
            "engine_fingerprint": fingerprint.document if fingerprint else None,
        }
        for shard, worker, fingerprint in session.execute(query)
    ]


def manifest(session: Session, evaluation: Evaluation) -> dict[str, Any]:
    """What the seal is taken over: specification, provenance and one leaf digest per question."""
    return {
        "seal_version": evaluation.seal_version,
        "specification": evaluation.specification,
        "shards": shard_provenance(session, evaluation.id),
        "questions": dict(sorted(leaves(session, evaluation.id, evaluation.seal_version))),
    }


def compute_seal(session: Session, evaluation: Evaluation) -> str:
    """The seal of what the database holds now."""
    return specification_digest(manifest(session, evaluation))


def seal(session: Session, evaluation_id: int) -> bool:
    """Seals a completely scored evaluation: metrics, digest, state. False when it was sealed already.

    Raises SealError when predictions are missing.
    """
    evaluation = session.get_one(Evaluation, evaluation_id, with_for_update=True, populate_existing=True)
    if evaluation.seal is not None:
        return False
    missing = session.scalars(
        select(Question.external_id)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .outerjoin(
            QuestionScore,
            and_(
                QuestionScore.evaluation_id == EvaluationQuestion.evaluation_id,
                QuestionScore.question_id == EvaluationQuestion.question_id,
            ),
        )
        .where(
            EvaluationQuestion.evaluation_id == evaluation_id,
            or_(QuestionScore.stored.is_(None), QuestionScore.stored != EvaluationQuestion.n_variants),
        )
        .limit(1)
    ).first()
    if missing is not None:
        raise SealError(f"evaluation {evaluation_id}: question {missing} has not all of its predictions; not sealed")
    renew_statistics(session, evaluation.prompts)
    write_question_pride(session, evaluation_id)
    evaluation.seal_version = SEAL_VERSION
    digest, now = compute_seal(session, evaluation), session.scalar(select(database_now()))
    evaluation.seal, evaluation.sealed_at, evaluation.state = digest, now, "complete"
    session.flush()
    session.execute(insert(EvaluationMetric), _metric_rows(session, evaluation_id))
    return True


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
            for row in _metric_rows(session, evaluation_id)
            if (row["scope"], row["metric"], row["definition_version"]) not in have
        ]
        session.execute(insert(EvaluationMetric), new)
    return len(lacking)


def _metric_rows(session: Session, evaluation_id: int) -> list[dict[str, Any]]:
    intervals = evaluation_intervals(session, evaluation_id)
    return [
        {
            "evaluation_id": evaluation_id,
            "scope": scope,
            "metric": metric.name,
            "definition_version": metric.definition_version,
            "value": values[metric.name],
            "n": values[f"{metric.name}_n"],
            **_interval_columns(scope, intervals[scope].get(metric.name)),
        }
        for scope, values in computed_metrics(session, evaluation_id).items()
        for metric in METRICS.values()
    ]


def _interval_columns(scope: str, interval: Interval | None) -> dict[str, Any]:
    return {
        "interval_low": None if interval is None else interval.low,
        "interval_high": None if interval is None else interval.high,
        "interval_method": NONE if interval is None else METHOD,
        "interval_resamples": None if interval is None else resamples_of(scope),
        "interval_seed": None if interval is None else SEED,
    }


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
                .values(**_interval_columns(scope, intervals.get(scope, {}).get(metric)))
            )
    return len(lacking)
