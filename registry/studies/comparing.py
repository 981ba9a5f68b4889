"""Comparing two evaluations on the questions that both have, and replicates with each other."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import QueueError, UsageError
from registry.lookups import find_evaluation
from registry.metrics import METRICS
from registry.results.analyses import store_analysis
from registry.results.intervals import FUNCTIONS_OF_TWO_MEANS, per_question_metrics, question_values, resting_on
from registry.statistics.bootstrap import (
    RESAMPLES,
    SEED,
    Interval,
    combined,
    cora_over_variants,
    paired_difference,
    percentile_interval,
    resampled_means,
)
from registry.statistics.comparison import mcnemar
from registry.statistics.noise import Answer, noise
from registry.tables import Evaluation, EvaluationQuestion, Prediction, Question, Withdrawal

ZERO_OR_ONE: Final = ("accuracy", "worst_accuracy", "best_accuracy", "fluctuation_rate", "pride_accuracy", "bmca_100")
"""Metrics that are 0 or 1 for every question, which McNemar's test is for."""

CORA: Final = "cora_over_variants"
"""The kind of analysis that CoRA's bootstrap is kept as."""

MAX_DIFFERING: Final = 200
"""Questions listed of those that only one of two models has right."""


def compare_evaluations(session: Session, first_id: int, second_id: int) -> dict[str, Any]:
    """First minus second in every metric, with a paired interval, and McNemar's exact test where it is 0 or 1.

    Both over the questions that both have a value for. Raises QueueError for one that is not sealed, UsageError where
    they are of different benchmark versions or the same evaluation.
    """
    first, second = _sealed(session, first_id), _sealed(session, second_id)
    if first.id == second.id:
        raise UsageError(f"evaluation {first.id} is compared with itself; give another")
    if first.benchmark_version_id != second.benchmark_version_id:
        names = " and ".join(
            f"{item.id} is on {item.benchmark_version.benchmark.name}@{item.benchmark_version.version}"
            for item in (first, second)
        )
        raise UsageError(f"the evaluations ask different questions: {names}; compare two of one benchmark version")
    ids = _common_questions(session, first.id, second.id)
    values = [question_values(session, item.id, ids) for item in (first, second)]
    metrics = {name: _difference(name, values[0][name], values[1][name]) for name in per_question_metrics()}
    for name, function in FUNCTIONS_OF_TWO_MEANS.items():
        metrics[name] = _combined_difference(name, values, function)
    return {
        "first": _described(first),
        "second": _described(second),
        "questions": len(ids),
        "resamples": RESAMPLES,
        "seed": SEED,
        "metrics": {name: metrics[name] for name in METRICS if name in metrics},
        "differing": _differing(session, ids, values),
    }


def _sealed(session: Session, evaluation_id: int) -> Evaluation:
    evaluation = find_evaluation(session, evaluation_id)
    if evaluation.seal is None:
        raise QueueError(f"evaluation {evaluation_id} is {evaluation.state}; wait until it is complete")
    return evaluation


def _described(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "evaluation": evaluation.id,
        "model": evaluation.model_revision.model.name,
        "revision": evaluation.model_revision.number,
        "benchmark": evaluation.benchmark_version.benchmark.name,
        "benchmark_version": evaluation.benchmark_version.version,
        "protocol": evaluation.protocol.name,
        "shots": evaluation.protocol.shots,
        "variants": evaluation.variant_set.name,
        "replicate": evaluation.replicate,
    }


def _common_questions(session: Session, first_id: int, second_id: int) -> list[int]:
    asked = [
        set(session.scalars(select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation_id)))
        for evaluation_id in (first_id, second_id)
    ]
    return sorted(asked[0] & asked[1])


def _mean(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def _interval(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _difference(name: str, first: Any, second: Any) -> dict[str, Any]:
    both = ~np.isnan(first) & ~np.isnan(second)
    found = paired_difference(first, second)
    test = None
    if name in ZERO_OR_ONE and both.any():
        test = asdict(mcnemar((first[both] == 1).tolist(), (second[both] == 1).tolist()))
    return {
        "first": _mean(first[both]),
        "second": _mean(second[both]),
        "difference": found.difference,
        "interval": _interval(found.interval),
        "n": found.questions,
        "mcnemar": test,
    }


def _combined_difference(name: str, values: Sequence[dict[str, Any]], function: Any) -> dict[str, Any]:
    columns = [one[part] for one in values for part in (function.first, function.second)]
    stacked = np.stack(columns, axis=1)
    kept = stacked[~np.isnan(stacked).any(axis=1)]
    means = [function.value(_mean(kept[:, place]), _mean(kept[:, place + 1])) for place in (0, 2)]
    interval = None
    if len(kept):
        samples = resampled_means(kept)
        drawn = [combined(function.resampled, samples[:, place], samples[:, place + 1]) for place in (0, 2)]
        size = min(resting_on(name, [kept[:, place], kept[:, place + 1]]) for place in (0, 2))
        interval = percentile_interval(drawn[0] - drawn[1], size)
    difference = None if means[0] is None or means[1] is None else means[0] - means[1]
    return {
        "first": means[0],
        "second": means[1],
        "difference": difference,
        "interval": _interval(interval) if difference is not None else None,
        "n": len(kept),
        "mcnemar": None,
    }


def _differing(session: Session, ids: Sequence[int], values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Questions that only one of the two has right under every order, or where no such metric is, on the original."""
    metric = next(
        (
            name
            for name in ("worst_accuracy", "accuracy")
            if (~np.isnan(values[0][name]) & ~np.isnan(values[1][name])).any()
        ),
        None,
    )
    if metric is None:
        return {"metric": None, "only_first": [], "only_second": []}
    first, second = values[0][metric], values[1][metric]
    found = {}
    for key, chosen in (("only_first", (first == 1) & (second == 0)), ("only_second", (first == 0) & (second == 1))):
        places = np.flatnonzero(chosen)[:MAX_DIFFERING]
        rows = session.execute(
            select(Question.id, Question.external_id).where(Question.id.in_([ids[place] for place in places]))
        )
        found[key] = [
            {"question_id": question_id, "external_id": external_id} for question_id, external_id in sorted(rows)
        ]
    return {"metric": metric, **found}


def noise_document(session: Session, evaluation_ids: Sequence[int]) -> dict[str, Any]:
    """Repeat noise apart from order effects: over replicates of a specification, or an evaluation that repeats orders.

    Raises QueueError for one that is not sealed, UsageError for evaluations of different specifications.
    """
    evaluations = [_sealed(session, evaluation_id) for evaluation_id in dict.fromkeys(evaluation_ids)]
    if len({evaluation.specification_digest for evaluation in evaluations}) > 1:
        raise UsageError("the evaluations have different specifications; give replicates of one")
    answers: dict[int, list[Answer]] = {}
    for evaluation in evaluations:
        query = select(Prediction.question_id, Prediction.shown, Prediction.chosen_option).where(
            Prediction.evaluation_id == evaluation.id, Prediction.question_shown, Prediction.own_options
        )
        for question_id, shown, option in session.execute(query):
            answers.setdefault(question_id, []).append((tuple(shown), option))
    found = asdict(noise([answers[question_id] for question_id in sorted(answers)]))
    found["interval"] = None if found["interval"] is None else [found["interval"]["low"], found["interval"]["high"]]
    return {
        "evaluations": [evaluation.id for evaluation in evaluations],
        **found,
        "resamples": RESAMPLES,
        "seed": SEED,
    }


def replicates_of(session: Session, evaluation_id: int) -> list[int]:
    """All sealed evaluations of the specification of one, withdrawn ones left out."""
    evaluation = find_evaluation(session, evaluation_id)
    return list(
        session.scalars(
            select(Evaluation.id)
            .where(
                Evaluation.specification_digest == evaluation.specification_digest,
                Evaluation.seal.is_not(None),
                Evaluation.id.not_in(select(Withdrawal.evaluation_id)),
            )
            .order_by(Evaluation.replicate)
        )
    )


def cora_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """CoRA's own bootstrap, over variants, kept as an analysis of the evaluation.

    Raises QueueError where it is not sealed, UsageError where questions have different numbers of variants or no
    original.
    """
    evaluation = _sealed(session, evaluation_id)
    mcqa, parameters, result = computed_cora(session, evaluation_id)
    store_analysis(session, evaluation.id, CORA, parameters, result)
    return {"evaluation": evaluation_id, "accuracy": mcqa, **result, **parameters}


def computed_cora(session: Session, evaluation_id: int) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """Accuracy on the originals, and the parameters and the result of CoRA's bootstrap as an analysis keeps them."""
    query = (
        select(Prediction.question_id, Prediction.variant, Prediction.correct, Prediction.unchanged)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.question_shown)
        .order_by(Prediction.question_id, Prediction.variant)
    )
    hits: dict[int, list[bool]] = {}
    originals: dict[int, bool] = {}
    for question_id, _, correct, unchanged in session.execute(query):
        hits.setdefault(question_id, []).append(bool(correct))
        if unchanged:
            originals.setdefault(question_id, bool(correct))
    counts = {len(row) for row in hits.values()}
    if len(counts) != 1:
        raise UsageError(
            f"evaluation {evaluation_id}: its questions have {min(counts)} to {max(counts)} variants; resampling the "
            "same variants for all needs the same number"
            if counts
            else f"evaluation {evaluation_id} has no variant that shows the question"
        )
    if originals.keys() != hits.keys():
        raise UsageError(f"evaluation {evaluation_id}: not every question has its original, which CoRA starts from")
    mcqa = sum(originals.values()) / len(originals)
    found = asdict(cora_over_variants(np.array([hits[key] for key in sorted(hits)], dtype=np.bool_), mcqa))
    parameters = {key: found[key] for key in ("draws", "resamples", "seed")}
    result = {"mean": found["mean"], "standard_deviation": found["standard_deviation"], "variants": counts.pop()}
    return mcqa, parameters, result
