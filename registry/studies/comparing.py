"""Comparing evaluations on the questions that all of them have; CoRA over resampled variants."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.benchmarks.versions import DIFFERENCES, contents_of
from registry.errors import UsageError
from registry.lookups import find_sealed
from registry.metrics import METRICS
from registry.metrics.catalogue import HEADLINES, QUESTION_METRICS, SHOWN
from registry.predictions.stored import require_rows
from registry.scores.analyses import store_analysis
from registry.scores.asked import first_answers
from registry.scores.intervals import FUNCTIONS_OF_TWO_MEANS, Array, base_metrics, question_values, resting_on
from registry.statistics.bootstrap import (
    MINIMUM_QUESTIONS,
    RESAMPLES,
    SEED,
    combine,
    cora_over_variants,
    resample_means,
    sampling_factor,
)
from registry.statistics.comparison import mcnemar
from registry.statistics.paired import Paired, paired
from registry.statistics.ranks import paired_interval
from registry.statistics.simultaneous import compare_all
from registry.studies.causes import causes_of_flips
from registry.tables import Evaluation, EvaluationQuestion, Prediction, Question

CORA: Final = "cora_over_variants"
"""The kind of analysis under which CoRA's bootstrap is stored."""

SAME_REVISION: Final = "same revision"
ANOTHER_REVISION: Final = "another revision"
ANOTHER_MODEL: Final = "another model"
RELATIONS: Final = (SAME_REVISION, ANOTHER_REVISION, ANOTHER_MODEL)
"""How the second evaluation's model relates to the first's."""

MAX_DIFFERING: Final = 200
"""Most listed questions that only the first, or only the second, model has right."""

COMPARED: Final = (*HEADLINES, *(name for name in SHOWN if name not in HEADLINES))
"""Metrics of a comparison, in display order; the first is the metric that ranks boards."""

_READ: Final = tuple(name for name in QUESTION_METRICS if any(name in base_metrics(shown) for shown in COMPARED))
"""The metrics of questions from which a comparison's metrics are computed."""


def compare_evaluations(session: Session, first_id: int, second_id: int) -> dict[str, Any]:
    """Return first minus second in every metric, with a paired interval, and McNemar's test for metrics of 0 or 1.

    All are computed over the questions that have a value in both evaluations. The interval is the same as for the tiers
    of boards: of Bonett and Price if a question is 0 or 1, else of a paired bootstrap over these questions with
    RESAMPLES draws and seed SEED, the same draws for every metric. Page and command line show this document and nothing
    else. If one evaluation covers a sample of questions, intervals are for the difference over all questions that the
    sample was drawn from; McNemar's test is as without a sample.
    relation: one of RELATIONS. causes: the result of `causes_of_flips`. Two versions of a benchmark are compared over
    the questions that have the same texts and options in both.
    Raises QueueError for an unsealed one, UsageError if they have no question in common or are the same evaluation.
    """
    first, second = find_sealed(session, first_id), find_sealed(session, second_id)
    if first.id == second.id:
        raise UsageError(f"evaluation {first.id} is compared with itself; give another")
    ids, ids_of_second = _shared_questions(session, first, second)
    values = [
        question_values(session, first.id, ids, _READ),
        question_values(session, second.id, ids_of_second, _READ),
    ]
    metrics = metric_differences(*values, factor=_factor([first, second], len(ids)))
    return {
        "first": _describe(first),
        "second": _describe(second),
        "relation": _relation(first, second),
        "questions": len(ids),
        "resamples": RESAMPLES,
        "seed": SEED,
        "metrics": {name: metrics[name] for name in COMPARED if name in metrics},
        "differing": _differing(session, ids, values),
        "causes": causes_of_flips(session, first, second),
    }


def _shared_questions(session: Session, first: Evaluation, second: Evaluation) -> tuple[list[int], list[int]]:
    """Return the ids of the shared questions in each evaluation's benchmark version, in the same order."""
    if first.benchmark_version_id == second.benchmark_version_id:
        ids = common_questions(session, first.id, second.id)
        return ids, ids
    question_ids = [common_questions(session, item.id) for item in (first, second)]
    contents = [
        {
            name: item
            for name, item in contents_of(session, evaluation.benchmark_version_id).items()
            if item.question_id in ids
        }
        for evaluation, ids in zip((first, second), map(set, question_ids), strict=True)
    ]
    pairs = [(contents[0][name], contents[1][name]) for name in contents[0] if name in contents[1]]
    same = [pair for pair in pairs if not any(differ(*pair) for differ in DIFFERENCES.values())]
    if not same:
        names = " and ".join(
            f"{item.id} is on {item.benchmark_version.benchmark.name}@{item.benchmark_version.version}"
            for item in (first, second)
        )
        raise UsageError(
            f"the evaluations ask different questions: {names}; compare two of one benchmark version, or of versions "
            "that differ in keys"
        )
    return [one.question_id for one, _ in same], [other.question_id for _, other in same]


def _relation(first: Evaluation, second: Evaluation) -> str:
    if first.model_revision_id == second.model_revision_id:
        return SAME_REVISION
    same = first.model_revision.model_id == second.model_revision.model_id
    return ANOTHER_REVISION if same else ANOTHER_MODEL


def describe_relation(document: Mapping[str, Any]) -> str | None:
    """Return a sentence if both evaluations are of one model; None if they are of two.

    document: the result of `compare_evaluations`.
    """
    first, second = document["first"], document["second"]
    if document["relation"] == SAME_REVISION:
        return f"Both evaluations are of one model, {first['model']}, at the same revision ({first['revision']})."
    if document["relation"] == ANOTHER_REVISION:
        revisions = f"{first['revision']} and {second['revision']}"
        return f"Both evaluations are of one model, {first['model']}, at different revisions ({revisions})."
    return None


def compare_several(session: Session, evaluation_ids: Sequence[int], metric: str) -> dict[str, Any]:
    """Return pairwise differences of several evaluations in one metric, with paired intervals, and all their values.

    metric: a metric with a value for every question that is not computed from two means. `values`: for each metric the
    value of each evaluation in the order given, over the `n` questions that have a value in all of them, None if there
    is no such question. `differences`: row minus column with its `interval`, None on the diagonal. The draws, and with
    the same questions the numbers, equal those in `compare_evaluations`.
    Raises QueueError for an unsealed one, UsageError if they are of different benchmark versions, fewer than two, or
    given twice.
    """
    evaluations = [find_sealed(session, number) for number in evaluation_ids]
    if len(evaluations) < 2 or len({item.id for item in evaluations}) < len(evaluations):
        raise UsageError(f"evaluations {', '.join(map(str, evaluation_ids))}: give at least two, each once")
    if len({item.benchmark_version_id for item in evaluations}) > 1:
        raise UsageError("the evaluations ask different questions; compare those of one benchmark version")
    ids = common_questions(session, *evaluation_ids)
    values = [question_values(session, item.id, ids, _READ) for item in evaluations]
    return {
        "evaluations": [_describe(item) for item in evaluations],
        "questions": len(ids),
        "resamples": RESAMPLES,
        "seed": SEED,
        "metric": metric,
        "values": {name: _several_values([side[name] for side in values]) for name in COMPARED if name in values[0]},
        "differences": several_differences(
            np.stack([side[metric] for side in values], axis=1), metric, _factor(evaluations, len(ids))
        ),
    }


def _several_values(columns: Sequence[Array]) -> dict[str, Any]:
    table = np.stack(columns, axis=1)
    complete = table[~np.isnan(table).any(axis=1)]
    return {"n": len(complete), "values": complete.mean(axis=0).tolist() if len(complete) else [None] * table.shape[1]}


def several_differences(values: Array, metric: str, factor: float = 1.0) -> list[list[dict[str, Any] | None]]:
    """Return row minus column of a metric, each `difference` with its `interval`; None on the diagonal.

    values: shape (questions, evaluations); only questions that are defined for all count, NaN being undefined.
    factor: from `sampling_factor`.
    distinguished: whether one of the two is shown to be better when all pairs are compared at once.
    """
    undefined = np.logical_or.reduce(np.isnan(values), axis=1)
    values = np.where(undefined[:, np.newaxis], np.nan, values)
    questions, columns = int(np.count_nonzero(~undefined)), values.shape[1]
    pairs = paired([[values]], zero_or_one=METRICS[metric].zero_or_one, factors=[factor])
    enough = questions >= MINIMUM_QUESTIONS
    samples = resample_means(values, factor=factor) if enough else np.full((1, columns), np.nan)
    means = [_mean(values[:, column]) for column in range(columns)]
    together = compare_all(means, samples, METRICS[metric].better, questions, pairs).told_apart if enough else None
    differences: list[list[dict[str, Any] | None]] = [[None] * columns for _ in range(columns)]
    for one in range(columns):
        for other in range(one + 1, columns):
            difference = _mean(values[:, one] - values[:, other])
            interval = paired_interval(pairs, one, other, questions, samples[:, one] - samples[:, other])
            # The reverse difference has the negated interval, which need not be computed again.
            ends = None if interval is None or difference is None else [interval.low, interval.high]
            distinguished = together is not None and bool(together[one, other])
            differences[one][other] = {"difference": difference, "interval": ends, "distinguished": distinguished}
            differences[other][one] = {
                "difference": None if difference is None else -difference,
                "interval": None if ends is None else [-ends[1], -ends[0]],
                "distinguished": distinguished,
            }
    return differences


def _describe(evaluation: Evaluation) -> dict[str, Any]:
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


def common_questions(session: Session, *evaluation_ids: int) -> list[int]:
    """Return the ids of the questions that all of the evaluations have, in ascending order."""
    question_ids = [
        set(session.scalars(select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation_id)))
        for evaluation_id in evaluation_ids
    ]
    return sorted(set.intersection(*question_ids))


def _factor(evaluations: Sequence[Evaluation], questions: int) -> float:
    """Return the factor of standard errors over the common questions: below 1 if an evaluation covers a sample.

    Samples of different sizes or seeds have a random part of the questions in common. If they were drawn from different
    parts of the benchmark, the largest counts, which gives the widest intervals.
    """
    drawn_from = [
        drawn_from_count for evaluation in evaluations if (drawn_from_count := evaluation.sampled_from) is not None
    ]
    return sampling_factor(questions, max(drawn_from, default=None))


def _mean(values: Array) -> float | None:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def metric_differences(
    first: Mapping[str, Array], second: Mapping[str, Array], *, factor: float = 1.0
) -> dict[str, dict[str, Any]]:
    """Return, by metric, both values, their difference with its interval, McNemar's test, and the number of questions.

    first, second: values by metric, shape (questions,), of the same questions in the same order, NaN if undefined.
    factor: from `sampling_factor`.
    """
    entries: dict[str, dict[str, Any]] = {}
    columns: dict[str, list[Array]] = {}
    pairs: dict[str, Paired] = {}
    functions_of_two = [name for name in FUNCTIONS_OF_TWO_MEANS if first.keys() >= {*base_metrics(name)}]
    for name in [*first, *functions_of_two]:
        sides = [[side[part] for part in base_metrics(name)] for side in (first, second)]
        defined = ~np.isnan(np.stack(sides[0] + sides[1])).any(axis=0)
        first_values, second_values = ([np.where(defined, column, np.nan) for column in side] for side in sides)
        entries[name] = _values(name, first_values, second_values)
        both = [np.stack(base_values, axis=1) for base_values in zip(first_values, second_values, strict=True)]
        pairs[name] = paired([both], zero_or_one=METRICS[name].zero_or_one, factors=[factor])
        # The difference of two means is the mean of differences: one column. A function of means needs all of them.
        columns[name] = (
            [first_values[0] - second_values[0]] if name not in FUNCTIONS_OF_TWO_MEANS else first_values + second_values
        )
    samples = _samples(columns, factor)
    for name, item in entries.items():
        if item["difference"] is not None:
            drawn, questions = _difference_samples(name, columns[name], samples[name])
            interval = paired_interval(pairs[name], 0, 1, questions, drawn)
            item["interval"] = None if interval is None else [interval.low, interval.high]
    return entries


def _values(name: str, first: Sequence[Array], second: Sequence[Array]) -> dict[str, Any]:
    """Return a metric's entry without its interval.

    first, second: per-question values of its base metrics, with NaN for the same questions.
    """
    defined = ~np.isnan(first[0])
    means = [[_mean(column) for column in side] for side in (first, second)]
    if name in FUNCTIONS_OF_TWO_MEANS:
        one, other = (FUNCTIONS_OF_TWO_MEANS[name].value(*side) for side in means)
        difference = None if one is None or other is None else one - other
    else:
        (one,), (other,) = means
        difference = _mean(first[0] - second[0])
    test = None
    if METRICS[name].zero_or_one and defined.any():
        test = asdict(mcnemar((first[0][defined] == 1).tolist(), (second[0][defined] == 1).tolist()))
    return {
        "first": one,
        "second": other,
        "difference": difference,
        "interval": None,
        "n": int(np.count_nonzero(defined)),
        "mcnemar": test,
    }


def _samples(columns: Mapping[str, Sequence[Array]], factor: float) -> dict[str, Array]:
    """Return, by metric, the resampled means of its columns, shape (resamples, columns), all from the same draws."""
    stacked = np.stack([column for metric_columns in columns.values() for column in metric_columns], axis=1)
    enough = len(stacked) >= MINIMUM_QUESTIONS  # with fewer no interval is stated
    means = resample_means(stacked, factor=factor) if enough else np.full((1, stacked.shape[1]), np.nan)
    ends = np.cumsum([len(metric_columns) for metric_columns in columns.values()])
    return dict(zip(columns, np.split(means, ends[:-1], axis=1), strict=True))


def _difference_samples(name: str, columns: Sequence[Array], samples: Array) -> tuple[Array, int]:
    """Return a metric's difference in each resample, from its columns' resampled means, and its number of questions."""
    function = FUNCTIONS_OF_TWO_MEANS.get(name)
    if function is None:
        return samples[:, 0], int(np.count_nonzero(~np.isnan(columns[0])))
    first = combine(function.function, *samples[:, :2].T)
    second = combine(function.function, *samples[:, 2:4].T)
    return first - second, min(resting_on(name, columns[place : place + 2]) for place in (0, 2))


def _differing(session: Session, ids: Sequence[int], values: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """List the questions that only one model has right: in every order, or if unknown, in the original order."""
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
    questions = {}
    for key, chosen in (("only_first", (first == 1) & (second == 0)), ("only_second", (first == 0) & (second == 1))):
        places = np.flatnonzero(chosen)[:MAX_DIFFERING]
        rows = session.execute(
            select(Question.id, Question.external_id).where(Question.id.in_([ids[place] for place in places]))
        )
        questions[key] = [
            {"question_id": question_id, "external_id": external_id} for question_id, external_id in sorted(rows)
        ]
    return {"metric": metric, **questions}


def cora_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Run CoRA's own bootstrap, over variants, and store it as an analysis of the evaluation.

    Raises QueueError if it is not sealed, UsageError if questions have different numbers of variants or no original.
    """
    evaluation = find_sealed(session, evaluation_id)
    mcqa, parameters, result = compute_cora_analysis(session, evaluation_id)
    store_analysis(session, evaluation.id, CORA, parameters, result)
    return {"evaluation": evaluation_id, "accuracy": mcqa, **result, **parameters}


def compute_cora_analysis(session: Session, evaluation_id: int) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """Return the accuracy on the originals, and CoRA's parameters and result as an analysis stores them."""
    query = (
        select(Prediction.question_id, Prediction.variant, Prediction.correct, Prediction.unchanged)
        .where(
            Prediction.evaluation_id == evaluation_id, Prediction.question_shown, first_answers(session, evaluation_id)
        )
        .order_by(Prediction.question_id, Prediction.variant)
    )
    hits: dict[int, list[bool]] = {}
    originals: dict[int, bool] = {}
    require_rows(session, evaluation_id)
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
    bootstrap = asdict(cora_over_variants(np.array([hits[key] for key in sorted(hits)], dtype=np.bool_), mcqa))
    parameters = {key: bootstrap[key] for key in ("draws", "resamples", "seed")}
    result = {
        "mean": bootstrap["mean"],
        "standard_deviation": bootstrap["standard_deviation"],
        "variants": counts.pop(),
    }
    return mcqa, parameters, result
