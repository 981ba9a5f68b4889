"""Intervals of stored metrics: a bootstrap over each scope's questions, computed when an evaluation is sealed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, func, select, text
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.metrics.averaging import FunctionOfTwoMeans
from registry.metrics.catalogue import COMPARED_WITH, QUESTION_METRICS
from registry.scores.interval_methods import UPPER_BOUND
from registry.statistics.bootstrap import (
    MINIMUM_QUESTIONS,
    RANK_RESAMPLES,
    RESAMPLES,
    SEED,
    Interval,
    UpperBound,
    combine,
    percentile_interval,
    resample_means,
    sampling_factor,
)
from registry.statistics.order_loss import FEWEST_ORDERS, state_order_loss
from registry.tables import Evaluation, QuestionScore

Array = NDArray[np.float64]

METHOD: Final = "bias-corrected percentile bootstrap over questions"
OF_A_SAMPLE: Final = f"{METHOD}, finite population"
"""Method for a sample of questions: `sampling_factor` moves resampled values towards the estimate."""
NONE: Final = "none"
"""Method of a metric for which no interval is stated, because it would not reach its coverage."""

ORDER_LOSS: Final = "order_loss"
CHANCE_LOSS: Final = "chance_loss"

ROWS_READ: Final = 20_000
"""Rows of questions that are read at once: about 20 MB."""

TOGETHER: Final = 13
"""Evaluations whose metrics are resampled at once: about 50 MB of resampled values. It never changes a result."""


FUNCTIONS_OF_TWO_MEANS: Final[Mapping[str, FunctionOfTwoMeans]] = {
    name: metric.of_two_means for name, metric in METRICS.items() if metric.of_two_means is not None
}


def resting_on(metric: str, base: Sequence[Array]) -> int:
    """Return the number of questions on which a metric's interval is based: those with a value.

    base: per-question values of the metric's base metrics, each (questions,), NaN if undefined. If the metric is a
    share of its first base metric, only questions with value 1 there count, so its interval is wider.
    """
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is not None and function.share_of_first:
        return int(np.count_nonzero(base[0] == 1))
    return int(np.count_nonzero(~np.isnan(base[0])))


def base_metrics(metric: str) -> tuple[str, ...]:
    """Return the per-question metrics from which a metric is computed."""
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    return (metric,) if function is None else (function.first, function.second)


def lacks_questions(metric: str, values: Mapping[str, Array]) -> bool:
    """Return whether a metric is defined for fewer questions than the metric with which readers compare it.

    values: metric to (questions,), NaN if undefined.
    """
    other = COMPARED_WITH.get(metric)
    if other is None:
        return False
    return bool(np.count_nonzero(np.isnan(values[metric])) > np.count_nonzero(np.isnan(values[other])))


def question_values(
    session: Session, evaluation_id: int, question_ids: Sequence[int], names: Sequence[str] = QUESTION_METRICS
) -> dict[str, Array]:
    """Return each metric's values for the given questions, in their order, shape (questions,); NaN if undefined.

    names: the metrics to read.
    """
    return dict(question_values_of_each(session, [evaluation_id], question_ids, names))[evaluation_id]


def question_values_of_each(
    session: Session, evaluation_ids: Sequence[int], question_ids: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Yield each evaluation's id with its values as from `question_values`, reading several evaluations at once."""
    requested_ids = np.array(question_ids, dtype=np.int64)
    in_order = np.argsort(requested_ids)
    query = text(
        f"SELECT {', '.join(('evaluation_id', 'question_id', *names))} "  # noqa: S608 - our own columns
        "FROM question_metrics WHERE evaluation_id IN :ids"
    ).bindparams(bindparam("ids", expanding=True))
    at_once = max(1, ROWS_READ // max(1, requested_ids.size))
    for start in range(0, len(evaluation_ids), at_once):
        ids = list(evaluation_ids[start : start + at_once])
        rows = session.execute(query, {"ids": ids}).all()
        table = np.full((len(ids), requested_ids.size, len(names)), np.nan)
        if rows and requested_ids.size:
            index_of_evaluation = {evaluation_id: place for place, evaluation_id in enumerate(ids)}
            first = np.array([index_of_evaluation[row[0]] for row in rows])
            question_of_row = np.array([row[1] for row in rows])
            second = in_order[
                np.minimum(np.searchsorted(requested_ids, question_of_row, sorter=in_order), requested_ids.size - 1)
            ]
            is_requested = requested_ids[second] == question_of_row
            read = np.array([row[2:] for row in rows], dtype=np.float64)
            table[first[is_requested], second[is_requested]] = read.reshape(len(rows), len(names))[is_requested]
        for evaluation_id, values in zip(ids, table, strict=True):
            yield evaluation_id, {name: np.ascontiguousarray(values[:, place]) for place, name in enumerate(names)}


LEAST_UNBOUNDED: Final = 200
"""The fewest questions for an interval of a metric without a lower limit: with fewer, a long tail is covered badly."""


def least_questions(metric: str) -> int:
    """Return the fewest questions for which an interval of a metric is stated."""
    return LEAST_UNBOUNDED if METRICS[metric].low is None else MINIMUM_QUESTIONS


def metric_intervals_together(
    several: Sequence[Mapping[str, Array]],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    factor: float = 1.0,
    orders: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """Compute the intervals of several evaluations of the same questions: metric → Interval, None if not covered.

    All evaluations share the same draws.
    several: for each evaluation the values of all per-question metrics, metric → (questions,). factor: from
    `sampling_factor`. orders: the fewest orders of a question in each evaluation; None: 2. Metrics that compare runs
    have no interval here.
    """
    columns: list[Array] = []
    places: list[dict[str, list[int]]] = []
    for values in several:
        undefined = {name: np.isnan(column) for name, column in values.items()}
        columns_of_metric: dict[str, list[int]] = {}
        for name in [*values, *FUNCTIONS_OF_TWO_MEANS]:
            parts = base_metrics(name)
            lacking = np.logical_or.reduce([undefined[part] for part in parts])
            # No interval is stated for fewer questions, so they need no resampling: most evaluations in tests, many
            # subjects, and most metrics of evaluations with one order.
            enough = lacking.size - np.count_nonzero(lacking) >= least_questions(name)
            if enough and not lacks_questions(name, values):
                columns_of_metric[name] = list(range(len(columns), len(columns) + len(parts)))
                columns += [np.where(lacking, np.nan, values[part]) for part in parts]
        places.append(columns_of_metric)
    nothing = np.empty((0, 0))
    stacked = np.stack(columns, axis=1) if columns else nothing
    samples = resample_means(stacked, resamples=resamples, seed=seed, factor=factor) if columns else nothing
    intervals_of_each = [
        {
            name: _compute_interval(name, stacked, samples, columns_of_metric[name])
            if name in columns_of_metric
            else None
            for name in [*values, *FUNCTIONS_OF_TWO_MEANS]
        }
        for values, columns_of_metric in zip(several, places, strict=True)
    ]
    for values, intervals, fewest in zip(
        several, intervals_of_each, orders or [FEWEST_ORDERS] * len(several), strict=True
    ):
        if ORDER_LOSS in values:
            losses = values[ORDER_LOSS], values.get(CHANCE_LOSS)
            intervals[ORDER_LOSS] = state_order_loss(intervals[ORDER_LOSS], *losses, fewest)
    return intervals_of_each


def column_samples(
    values: Mapping[str, Array], *, resamples: int, clusters: NDArray[np.intp] | None = None, factor: float = 1.0
) -> dict[str, tuple[Array, NDArray[np.bool_]]]:
    """Return each metric's resampled values, (resamples,), and a mask of the questions they are based on, (questions,).

    values: of one evaluation, as for `metric_intervals_together`. Metrics that are defined for fewer than
    `least_questions` are left out.
    clusters, factor: as for `resample_means`.
    """
    columns: list[Array] = []
    places: dict[str, int] = {}
    covered: dict[str, NDArray[np.bool_]] = {}
    for name in [*values, *FUNCTIONS_OF_TWO_MEANS]:
        parts, function = base_metrics(name), FUNCTIONS_OF_TWO_MEANS.get(name)
        lacking = np.logical_or.reduce([np.isnan(values[part]) for part in parts])
        covered[name] = ~lacking & (values[parts[0]] == 1) if function and function.share_of_first else ~lacking
        if np.count_nonzero(covered[name]) >= least_questions(name) and not lacks_questions(name, values):
            places[name] = len(columns)
            columns += [np.where(lacking, np.nan, values[part]) for part in parts]
    if not columns:
        return {}
    samples = resample_means(np.stack(columns, axis=1), resamples=resamples, clusters=clusters, factor=factor)
    samples_of_metric: dict[str, tuple[Array, NDArray[np.bool_]]] = {}
    for name, place in places.items():
        drawn, function = samples[:, place], FUNCTIONS_OF_TWO_MEANS.get(name)
        if function is not None:
            drawn = combine(function.function, drawn, samples[:, place + 1])
        samples_of_metric[name] = (drawn, covered[name])
    return samples_of_metric


def _compute_interval(metric: str, values: Array, samples: Array, places: Sequence[int]) -> Interval | None:
    """Return the interval of a metric; None if it has too few questions.

    places: the columns of its base metrics in `values` and `samples`.
    """
    n = resting_on(metric, [values[:, place] for place in places])
    if n < least_questions(metric):
        return None
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    drawn = samples[:, places[0]]
    if function is not None:
        drawn = combine(function.function, samples[:, places[0]], samples[:, places[1]])
    return percentile_interval(drawn, n)


def resamples_of(scope: str) -> int:
    """Return the number of resamples for a scope: fewer for subjects and categories, as there may be dozens."""
    return RANK_RESAMPLES if ":" in scope else RESAMPLES


def evaluation_intervals(session: Session, evaluation_id: int) -> dict[str, dict[str, Any]]:
    """Compute the intervals of an evaluation: scope → metric → Interval or None."""
    return intervals_together(session, [evaluation_id])[evaluation_id]


def intervals_together(session: Session, ids: Sequence[int]) -> dict[int, dict[str, dict[str, Any]]]:
    """Return the result of `evaluation_intervals` for each evaluation.

    Evaluations with the same questions share their draws, up to TOGETHER of them: drawing takes most of the time.
    """
    batches: list[tuple[dict[str, set[int]], float, list[int]]] = []
    intervals: dict[int, dict[str, dict[str, Any]]] = {}
    for evaluation_id in ids:
        scopes = _load_scopes(session, evaluation_id)
        factor = factor_of(session.get_one(Evaluation, evaluation_id))
        for batch_scopes, batch_factor, members in batches:
            if (batch_scopes, batch_factor) == (scopes, factor) and len(members) < TOGETHER:
                members.append(evaluation_id)
                break
        else:
            batches.append((scopes, factor, [evaluation_id]))
    for scopes, factor, members in batches:
        intervals |= _compute_scopes(session, scopes, members, factor)
    return intervals


def factor_of(evaluation: Evaluation) -> float:
    """Return the factor of an evaluation's standard errors: below 1 if its questions are a sample.

    A subject's questions in the sample are a sample of that subject, of nearly the same share.
    """
    return sampling_factor(evaluation.questions, evaluation.sampled_from)


def _load_scopes(session: Session, evaluation_id: int) -> dict[str, set[int]]:
    query = text("SELECT question_id, scope FROM evaluation_question_scope WHERE evaluation_id = :id")
    scopes: dict[str, set[int]] = {}
    for question_id, scope in session.execute(query, {"id": evaluation_id}):
        scopes.setdefault(scope, set()).add(question_id)
    return scopes


def _compute_scopes(
    session: Session, scopes: Mapping[str, set[int]], ids: Sequence[int], factor: float
) -> dict[int, dict[str, dict[str, Any]]]:
    everything = sorted(scopes.get("all", ()))
    values = [question_values(session, evaluation_id, everything) for evaluation_id in ids]
    intervals_of_each: dict[int, dict[str, dict[str, Any]]] = {evaluation_id: {} for evaluation_id in ids}
    fewest = fewest_orders(session, ids)
    orders = [fewest.get(evaluation_id, FEWEST_ORDERS) for evaluation_id in ids]
    computed: dict[tuple[int, bytes], list[dict[str, Any]]] = {}
    for scope, members in scopes.items():
        inside = np.fromiter((question_id in members for question_id in everything), dtype=bool, count=len(everything))
        # Scopes often contain the same questions: nothing flagged, one subject only.
        key = (resamples_of(scope), inside.tobytes())
        if key not in computed:
            inner = [{name: column[inside] for name, column in own.items()} for own in values]
            computed[key] = metric_intervals_together(
                inner, resamples=resamples_of(scope), factor=factor, orders=orders
            )
        for evaluation_id, intervals in zip(ids, computed[key], strict=True):
            intervals_of_each[evaluation_id][scope] = intervals
    return intervals_of_each


def fewest_orders(session: Session, evaluation_ids: Sequence[int]) -> dict[int, int]:
    """Return the fewest orders of a question in each evaluation, among questions with two or more.

    It is 2 for an evaluation that changes more than orders: not all of its prompts have the question's own options.
    """
    score = QuestionScore
    query = (
        select(
            score.evaluation_id,
            func.min(score.distinct_prompts),
            func.max(score.shown - score.variants),
        )
        .where(score.evaluation_id.in_(evaluation_ids), score.distinct_prompts > 1)
        .group_by(score.evaluation_id)
    )
    return {
        evaluation_id: FEWEST_ORDERS if others or fewest is None else fewest
        for evaluation_id, fewest, others in session.execute(query)
    }


def interval_columns(scope: str, interval: Interval | None, *, sampled: bool) -> dict[str, Any]:
    """Return the columns of a metric that state its interval over a scope. interval: None if none is stated.

    sampled: whether the evaluation's questions are a sample.
    """
    resampled = interval is not None and not isinstance(interval, UpperBound)
    return {
        "interval_low": None if interval is None else interval.low,
        "interval_high": None if interval is None else interval.high,
        "interval_method": _name_method(interval, sampled=sampled),
        "interval_resamples": resamples_of(scope) if resampled else None,
        "interval_seed": SEED if resampled else None,
    }


def _name_method(interval: Interval | None, *, sampled: bool) -> str:
    if interval is None:
        return NONE
    if isinstance(interval, UpperBound):
        return UPPER_BOUND
    return OF_A_SAMPLE if sampled else METHOD
