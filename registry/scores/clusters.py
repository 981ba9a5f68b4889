"""Questions that belong together, such as those on one passage: they are no independent samples.

A benchmark's file names a question's cluster under `cluster`; without it, questions with equal contexts are one. For
their effect on intervals: docs/decisions/0057-clusters-of-questions.md.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.lookups import find_evaluation
from registry.scores.intervals import ORDER_LOSS, Array, column_samples, factor_of, question_values
from registry.statistics.bootstrap import RANK_RESAMPLES, design_effect, percentile_interval
from registry.statistics.order_loss import lift_of_means, limit_order_loss
from registry.tables import EvaluationQuestion, Question

Clusters = NDArray[np.intp]

COMMON: Final = 0.5
"""A context that more than this share of the questions have is an instruction, not a passage: it groups nothing."""
AT_ONCE: Final = 10_000
"""Questions read with one statement."""


def clusters_of(session: Session, question_ids: Sequence[int], *, by_subject: bool = False) -> Clusters | None:
    """Return the cluster of each question, shape (questions,), numbered from 0; None if no two share one.

    by_subject: questions of one subject are a cluster, whatever else they share.
    """
    found: dict[int, Any] = {}
    for start in range(0, len(question_ids), AT_ONCE):
        query = select(
            Question.id, Question.benchmark_version_id, Question.subject, Question.context, Question.extra
        ).where(Question.id.in_(question_ids[start : start + AT_ONCE]))
        for question_id, version, subject, context, extra in session.execute(query):
            named = (extra or {}).get("cluster")
            if by_subject:
                found[question_id] = (version, "subject", subject or "")
            elif named not in (None, ""):
                found[question_id] = (version, "cluster", str(named))
            elif context:
                found[question_id] = (version, "context", context)
    sizes = Counter(found.values())
    most = COMMON * len(question_ids)
    labels = [found.get(question_id, question_id) for question_id in question_ids]
    labels = [
        question_id if label in sizes and label[1] == "context" and sizes[label] > most else label
        for question_id, label in zip(question_ids, labels, strict=True)
    ]
    numbers: dict[Any, int] = {}
    clusters = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.intp)
    return None if len(numbers) == len(labels) else clusters


def compute_clustered_intervals(
    session: Session, evaluation_id: int, *, by_subject: bool = False
) -> dict[str, Any] | None:
    """Return intervals of an evaluation's metrics over resampled clusters; None if no two questions share one.

    `questions`, `clusters`, `largest` (questions of the largest cluster), and for each metric `interval`, None if none
    is stated, and `design_effect`: the variance relative to that over resampled questions. RANK_RESAMPLES draws.
    by_subject: as for `clusters_of`.
    """
    evaluation = find_evaluation(session, evaluation_id)
    query = select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation.id)
    ids = list(session.scalars(query.order_by(EvaluationQuestion.question_id)))
    clusters = clusters_of(session, ids, by_subject=by_subject)
    if clusters is None:
        return None
    values = question_values(session, evaluation.id, ids)
    factor = factor_of(evaluation)
    alone, together = (
        column_samples(values, resamples=RANK_RESAMPLES, clusters=given, factor=factor) for given in (None, clusters)
    )
    return {
        "questions": len(ids),
        "clusters": int(clusters.max()) + 1,
        "largest": int(np.bincount(clusters).max()),
        "metrics": {
            name: _describe_metric(name, samples, alone[name][0], clusters[defined])
            for name, (samples, defined) in together.items()
        },
    }


def _describe_metric(name: str, samples: Array, alone: Array, clusters: Clusters) -> dict[str, Any]:
    number = np.unique(clusters).size
    interval = percentile_interval(samples, number)
    if interval is not None and name == ORDER_LOSS:
        interval = limit_order_loss(interval, number, lift=lift_of_means(samples))
    return {
        "interval": None if interval is None else [interval.low, interval.high],
        "design_effect": design_effect(samples, alone),
    }
