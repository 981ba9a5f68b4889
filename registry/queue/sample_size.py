"""The sample size that confidence intervals of a given length need."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.errors import UsageError
from registry.lookups import find_revision, find_version, not_withdrawn
from registry.metrics import METRICS
from registry.prompting.protocols.store import find_definition
from registry.prompting.variants import QuestionShape
from registry.queue.evaluations import EvaluationRequest, select_questions
from registry.scores.intervals import question_values
from registry.statistics.bootstrap import MINIMUM_QUESTIONS
from registry.statistics.proportions import half_width, sample_for
from registry.tables import Evaluation, EvaluationQuestion, Protocol, Question, VariantSet

NARROWEST: Final = 0.001
WIDEST: Final = 0.25
WORST_VARIANCE: Final = 0.25
"""The largest variance of values from 0 to 1."""
PLANNED_FOR: Final = ("accuracy", "worst_accuracy")
"""Metrics whose precision decides the sample size: accuracy, and the metric that leaderboards rank by."""


def sample_needed(session: Session, request: EvaluationRequest, precision: float) -> dict[str, Any]:
    """Return the smallest sample whose 95 % intervals reach at most `precision` to either side, and its basis.

    The document contains `sample`; `of`, the number of questions; `half_width` of the intervals; `pilot`, the
    evaluation that the variance was taken from, None for the worst case; and `metrics`, the same for each metric. A
    pilot is a sealed evaluation of the same model revision, benchmark and protocol: the newest with the same variants,
    or for accuracy with others. Raises UsageError for a precision out of range, and the errors of finding model,
    benchmark, protocol and questions.
    """
    if not NARROWEST <= precision <= WIDEST:
        raise UsageError(
            f"precision {precision:g}: give half the length of the interval, from {NARROWEST} to {WIDEST}, such as "
            "0.02 for ±2 points"
        )
    version = find_version(session, request.benchmark)
    questions = select_questions(
        session, version, limit=request.limit, subjects=request.subjects, options=request.options
    )
    pilots = _pilots(session, request, version.id)
    estimates: list[dict[str, Any]] = []
    for metric in PLANNED_FOR:
        if METRICS[metric].needs_two_prompts and not _has_orders(request, questions):
            continue
        variance, pilot = _variance(session, metric, pilots, request.definition().name)
        sample = sample_for(variance, precision, len(questions))
        estimates.append(
            {
                "metric": metric,
                "sample": sample,
                "half_width": half_width(variance, sample, len(questions)),
                "variance": variance,
                "pilot": pilot,
            }
        )
    largest = max(estimates, key=lambda item: item["sample"])
    return {
        "precision": precision,
        "sample": largest["sample"],
        "of": len(questions),
        "half_width": max(half_width(item["variance"], largest["sample"], len(questions)) for item in estimates),
        "pilot": largest["pilot"],
        "metrics": estimates,
    }


def _has_orders(request: EvaluationRequest, questions: Sequence[Question]) -> bool:
    """Return whether at least one question has two variants or more."""
    definition = request.definition()
    shapes = {question.n_options: question for question in questions}
    return any(
        len(definition.variants(QuestionShape(question.external_id, options, question.answer))) > 1
        for options, question in shapes.items()
    )


def _pilots(session: Session, request: EvaluationRequest, version_id: int) -> list[tuple[Evaluation, str]]:
    """Return the sealed evaluations of the model, the benchmark and the protocol with their variants, newest first."""
    revision = find_revision(session, request.model)
    protocol = specification_digest(find_definition(session, request.protocol, request.shots))
    query = (
        select(Evaluation, VariantSet.name)
        .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
        .join(Protocol, Protocol.id == Evaluation.protocol_id)
        .where(
            Evaluation.model_revision_id == revision.id,
            Evaluation.benchmark_version_id == version_id,
            Protocol.digest == protocol,
            Evaluation.seal.is_not(None),
            not_withdrawn(),
        )
        .order_by(Evaluation.id.desc())
    )
    return [(evaluation, name) for evaluation, name in session.execute(query)]


def _variance(
    session: Session, metric: str, pilots: Sequence[tuple[Evaluation, str]], variants: str
) -> tuple[float, int | None]:
    """Return the variance of a metric's values and the id of its pilot; the worst case and None without a pilot."""
    same = [evaluation for evaluation, name in pilots if name == variants]
    others = [] if METRICS[metric].needs_two_prompts else [evaluation for evaluation, _ in pilots]
    for evaluation in (*same, *others):
        question = EvaluationQuestion
        ids = session.scalars(select(question.question_id).where(question.evaluation_id == evaluation.id)).all()
        values = question_values(session, evaluation.id, ids, (metric,))[metric]
        defined = values[~np.isnan(values)]
        # If a pilot's values are all equal, its variance of 0 is unusable.
        if defined.size >= MINIMUM_QUESTIONS and defined.var() > 0:
            return float(defined.var()), evaluation.id
    return WORST_VARIANCE, None
