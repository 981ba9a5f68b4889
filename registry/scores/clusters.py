"""Clusters of questions that are not independent samples, such as questions about the same passage.

A benchmark's file names a question's cluster under `cluster`; without it, questions with the same context are a
cluster. docs/decisions/0057-clusters-of-questions.md describes their effect on intervals.
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
"""A context of more than this share of the questions is an instruction, not a passage, and makes no cluster."""
AT_ONCE: Final = 10_000
"""Questions read with one statement."""


def clusters_of(session: Session, question_ids: Sequence[int], *, by_subject: bool = False) -> Clusters | None:
    """Return the cluster of each question, shape (questions,), numbered from 0; None if no two share one.

    by_subject: make the questions of each subject a cluster, whatever else they share.
    """
    labels_by_id: dict[int, Any] = {}
    for start in range(0, len(question_ids), AT_ONCE):
        query = select(
            Question.id, Question.benchmark_version_id, Question.subject, Question.context, Question.extra
        ).where(Question.id.in_(question_ids[start : start + AT_ONCE]))
        for question_id, version, subject, context, extra in session.execute(query):
            name = (extra or {}).get("cluster")
            if by_subject:
                labels_by_id[question_id] = (version, "subject", subject or "")
            elif name not in (None, ""):
                labels_by_id[question_id] = (version, "cluster", str(name))
            elif context:
                labels_by_id[question_id] = (version, "context", context)
    sizes = Counter(labels_by_id.values())
    most = COMMON * len(question_ids)
    labels = [labels_by_id.get(question_id, question_id) for question_id in question_ids]
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
    """Compute intervals of an evaluation's metrics by resampling clusters; return None if no two questions share one.

    The result has `questions`, `clusters`, `largest` (the number of questions in the largest cluster), and for each
    metric `interval`, None if none is stated, and `design_effect`: the variance relative to resampling questions. It
    uses RANK_RESAMPLES draws. by_subject: as for `clusters_of`.
    """
    evaluation = find_evaluation(session, evaluation_id)
    query = select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation.id)
    ids = list(session.scalars(query.order_by(EvaluationQuestion.question_id)))
    clusters = clusters_of(session, ids, by_subject=by_subject)
    if clusters is None:
        return None
    values = question_values(session, evaluation.id, ids)
    factor = factor_of(evaluation)
    by_question, by_cluster = (
        column_samples(values, resamples=RANK_RESAMPLES, clusters=resampled, factor=factor)
        for resampled in (None, clusters)
    )
    return {
        "questions": len(ids),
        "clusters": int(clusters.max()) + 1,
        "largest": int(np.bincount(clusters).max()),
        "metrics": {
            name: _describe_metric(name, samples, by_question[name][0], clusters[defined])
            for name, (samples, defined) in by_cluster.items()
        },
    }


def _describe_metric(name: str, samples: Array, by_question: Array, clusters: Clusters) -> dict[str, Any]:
    number = np.unique(clusters).size
    interval = percentile_interval(samples, number)
    if interval is not None and name == ORDER_LOSS:
        interval = limit_order_loss(interval, number, lift=lift_of_means(samples))
    return {
        "interval": None if interval is None else [interval.low, interval.high],
        "design_effect": design_effect(samples, by_question),
    }
