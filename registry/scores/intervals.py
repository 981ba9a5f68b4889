"""Intervals of stored metrics: a bootstrap over each scope's questions, computed when an evaluation is sealed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, func, select, text
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.metrics.averaging import FunctionOfTwoMeans
from registry.metrics.catalogue import BESIDE, QUESTION_METRICS
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
"""Method of a sample of questions: resampled values are drawn towards the estimate by `sampling_factor`."""
NONE: Final = "none"
"""Method of a metric for which no interval is stated: it would not cover."""

ORDER_LOSS: Final = "order_loss"
CHANCE_LOSS: Final = "chance_loss"

ROWS_READ: Final = 20_000
"""Rows of questions that are read at once: 20 MB or so."""

TOGETHER: Final = 13
"""Evaluations whose metrics are resampled at once: 50 MB or so of resampled values. It never changes a result."""


FUNCTIONS_OF_TWO_MEANS: Final[Mapping[str, FunctionOfTwoMeans]] = {
    name: metric.of_two_means for name, metric in METRICS.items() if metric.of_two_means is not None
}


def resting_on(metric: str, base: Sequence[Array]) -> int:
    """Return the number of questions behind a metric's interval: those with a value.

    base: per-question values of the metric's base metrics, each (questions,), NaN if undefined. A share of the first
    metric is over the questions with value 1; fewer of them need a wider interval.
    """
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is not None and function.share_of_first:
        return int(np.count_nonzero(base[0] == 1))
    return int(np.count_nonzero(~np.isnan(base[0])))


def base_metrics(metric: str) -> tuple[str, ...]:
    """Return the metrics of questions that a metric is computed from."""
    found = FUNCTIONS_OF_TWO_MEANS.get(metric)
    return (metric,) if found is None else (found.first, found.second)


def lacks_questions(metric: str, values: Mapping[str, Array]) -> bool:
    """Return whether the metric that readers compare this one with has a value of more questions.

    values: metric to (questions,), NaN if undefined.
    """
    other = BESIDE.get(metric)
    if other is None:
        return False
    return bool(np.count_nonzero(np.isnan(values[metric])) > np.count_nonzero(np.isnan(values[other])))


def question_values(
    session: Session, evaluation_id: int, question_ids: Sequence[int], names: Sequence[str] = QUESTION_METRICS
) -> dict[str, Array]:
    """Return each metric's values over the given questions, in their order, shape (questions,); NaN if undefined.

    names: these metrics only.
    """
    return dict(question_values_of_each(session, [evaluation_id], question_ids, names))[evaluation_id]


def question_values_of_each(
    session: Session, evaluation_ids: Sequence[int], question_ids: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Yield each evaluation with its result of `question_values`."""
    asked = np.array(question_ids, dtype=np.int64)
    in_order = np.argsort(asked)
    query = text(
        f"SELECT {', '.join(('evaluation_id', 'question_id', *names))} "  # noqa: S608 - our own columns
        "FROM question_metrics WHERE evaluation_id IN :ids"
    ).bindparams(bindparam("ids", expanding=True))
    together = max(1, ROWS_READ // max(1, asked.size))
    for start in range(0, len(evaluation_ids), together):
        ids = list(evaluation_ids[start : start + together])
        rows = session.execute(query, {"ids": ids}).all()
        table = np.full((len(ids), asked.size, len(names)), np.nan)
        if rows and asked.size:
            of_evaluation = {evaluation_id: place for place, evaluation_id in enumerate(ids)}
            first = np.array([of_evaluation[row[0]] for row in rows])
            found = np.array([row[1] for row in rows])
            second = in_order[np.minimum(np.searchsorted(asked, found, sorter=in_order), asked.size - 1)]
            known = asked[second] == found
            read = np.array([row[2:] for row in rows], dtype=np.float64)
            table[first[known], second[known]] = read.reshape(len(rows), len(names))[known]
        for evaluation_id, own in zip(ids, table, strict=True):
            yield evaluation_id, {name: np.ascontiguousarray(own[:, place]) for place, name in enumerate(names)}


LEAST_UNBOUNDED: Final = 200
"""Questions from which on a metric without a lower end has an interval: with a long tail it covers 80 to 91 % below."""


def least_questions(metric: str) -> int:
    """Return the number of questions from which on an interval of a metric is stated."""
    return LEAST_UNBOUNDED if METRICS[metric].low is None else MINIMUM_QUESTIONS


def metric_intervals_together(
    several: Sequence[Mapping[str, Array]],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    factor: float = 1.0,
    orders: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """Return, for each of several evaluations of the same questions, metric → its Interval, None if not covered.

    All are drawn once. factor: from `sampling_factor`. orders: the fewest orders per question in each evaluation; None:
    2.
    several: metric to (questions,), of all per-question metrics. Metrics that compare runs have no interval here.
    """
    columns: list[Array] = []
    places: list[dict[str, list[int]]] = []
    for values in several:
        undefined = {name: np.isnan(column) for name, column in values.items()}
        own: dict[str, list[int]] = {}
        for name in [*values, *FUNCTIONS_OF_TWO_MEANS]:
            parts = base_metrics(name)
            lacking = np.logical_or.reduce([undefined[part] for part in parts])
            # No interval is stated for fewer questions, so they need no resampling: most evaluations in tests, many
            # subjects, and most metrics of evaluations with one order.
            enough = lacking.size - np.count_nonzero(lacking) >= least_questions(name)
            if enough and not lacks_questions(name, values):
                own[name] = list(range(len(columns), len(columns) + len(parts)))
                columns += [np.where(lacking, np.nan, values[part]) for part in parts]
        places.append(own)
    nothing = np.empty((0, 0))
    stacked = np.stack(columns, axis=1) if columns else nothing
    samples = resample_means(stacked, resamples=resamples, seed=seed, factor=factor) if columns else nothing
    found = [
        {
            name: _interval(name, stacked, samples, own[name]) if name in own else None
            for name in [*values, *FUNCTIONS_OF_TWO_MEANS]
        }
        for values, own in zip(several, places, strict=True)
    ]
    for values, intervals, fewest in zip(several, found, orders or [FEWEST_ORDERS] * len(several), strict=True):
        if ORDER_LOSS in values:
            losses = values[ORDER_LOSS], values.get(CHANCE_LOSS)
            intervals[ORDER_LOSS] = state_order_loss(intervals[ORDER_LOSS], *losses, fewest)
    return found


def column_samples(
    values: Mapping[str, Array], *, resamples: int, clusters: NDArray[np.intp] | None = None, factor: float = 1.0
) -> dict[str, tuple[Array, NDArray[np.bool_]]]:
    """Map metric to its resampled values, (resamples,), and to the questions of its interval, (questions,).

    values: of one evaluation, as for `metric_intervals_together`. Metrics that are defined for fewer than
    `least_questions` are left out.
    clusters, factor: as for `resample_means`.
    """
    columns: list[Array] = []
    places: dict[str, int] = {}
    resting: dict[str, NDArray[np.bool_]] = {}
    for name in [*values, *FUNCTIONS_OF_TWO_MEANS]:
        parts, function = base_metrics(name), FUNCTIONS_OF_TWO_MEANS.get(name)
        lacking = np.logical_or.reduce([np.isnan(values[part]) for part in parts])
        resting[name] = ~lacking & (values[parts[0]] == 1) if function and function.share_of_first else ~lacking
        if np.count_nonzero(resting[name]) >= least_questions(name) and not lacks_questions(name, values):
            places[name] = len(columns)
            columns += [np.where(lacking, np.nan, values[part]) for part in parts]
    if not columns:
        return {}
    samples = resample_means(np.stack(columns, axis=1), resamples=resamples, clusters=clusters, factor=factor)
    found: dict[str, tuple[Array, NDArray[np.bool_]]] = {}
    for name, place in places.items():
        drawn, function = samples[:, place], FUNCTIONS_OF_TWO_MEANS.get(name)
        if function is not None:
            drawn = combine(function.function, drawn, samples[:, place + 1])
        found[name] = (drawn, resting[name])
    return found


def _interval(metric: str, values: Array, samples: Array, places: Sequence[int]) -> Interval | None:
    """Return the interval of a metric. places: the columns of its base metrics in values and samples."""
    n = resting_on(metric, [values[:, place] for place in places])
    if n < least_questions(metric):
        return None
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    drawn = samples[:, places[0]]
    if function is not None:
        drawn = combine(function.function, samples[:, places[0]], samples[:, places[1]])
    return percentile_interval(drawn, n)


def resamples_of(scope: str) -> int:
    """Return the number of resamples: fewer for subjects and categories, since a benchmark may have dozens."""
    return RANK_RESAMPLES if ":" in scope else RESAMPLES


def evaluation_intervals(session: Session, evaluation_id: int) -> dict[str, dict[str, Any]]:
    """Map scope to metric to Interval or None, for every scope of an evaluation."""
    return intervals_together(session, [evaluation_id])[evaluation_id]


def intervals_together(session: Session, ids: Sequence[int]) -> dict[int, dict[str, dict[str, Any]]]:
    """Return the result of `evaluation_intervals` for each of some evaluations.

    The questions that evaluations share are drawn once for up to TOGETHER of them: drawing takes most of the time.
    """
    alike: list[tuple[dict[str, set[int]], float, list[int]]] = []
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for evaluation_id in ids:
        scopes = _questions_of_scopes(session, evaluation_id)
        factor = factor_of(session.get_one(Evaluation, evaluation_id))
        for known, of_known, members in alike:
            if (known, of_known) == (scopes, factor) and len(members) < TOGETHER:
                members.append(evaluation_id)
                break
        else:
            alike.append((scopes, factor, [evaluation_id]))
    for scopes, factor, members in alike:
        found |= _intervals_of_scopes(session, scopes, members, factor)
    return found


def factor_of(evaluation: Evaluation) -> float:
    """Return the factor of an evaluation's standard errors: below 1 if its questions are a sample.

    A subject's questions in the sample are a sample of that subject, of nearly the same share.
    """
    return sampling_factor(evaluation.questions, evaluation.sampled_from)


def _questions_of_scopes(session: Session, evaluation_id: int) -> dict[str, set[int]]:
    query = text("SELECT question_id, scope FROM evaluation_question_scope WHERE evaluation_id = :id")
    scopes: dict[str, set[int]] = {}
    for question_id, scope in session.execute(query, {"id": evaluation_id}):
        scopes.setdefault(scope, set()).add(question_id)
    return scopes


def _intervals_of_scopes(
    session: Session, scopes: Mapping[str, set[int]], ids: Sequence[int], factor: float
) -> dict[int, dict[str, dict[str, Any]]]:
    everything = sorted(scopes.get("all", ()))
    values = [question_values(session, evaluation_id, everything) for evaluation_id in ids]
    found: dict[int, dict[str, dict[str, Any]]] = {evaluation_id: {} for evaluation_id in ids}
    fewest = fewest_orders(session, ids)
    orders = [fewest.get(evaluation_id, FEWEST_ORDERS) for evaluation_id in ids]
    known: dict[tuple[int, bytes], list[dict[str, Any]]] = {}
    for scope, members in scopes.items():
        inside = np.fromiter((question_id in members for question_id in everything), dtype=bool, count=len(everything))
        # Scopes often contain the same questions: nothing flagged, one subject only.
        key = (resamples_of(scope), inside.tobytes())
        if key not in known:
            inner = [{name: column[inside] for name, column in own.items()} for own in values]
            known[key] = metric_intervals_together(inner, resamples=resamples_of(scope), factor=factor, orders=orders)
        for evaluation_id, intervals in zip(ids, known[key], strict=True):
            found[evaluation_id][scope] = intervals
    return found


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
    """Return the columns of a metric that state its interval over a scope; None: none is stated.

    sampled: whether the evaluation's questions are a sample.
    """
    resampled = interval is not None and not isinstance(interval, UpperBound)
    return {
        "interval_low": None if interval is None else interval.low,
        "interval_high": None if interval is None else interval.high,
        "interval_method": _method(interval, sampled=sampled),
        "interval_resamples": resamples_of(scope) if resampled else None,
        "interval_seed": SEED if resampled else None,
    }


def _method(interval: Interval | None, *, sampled: bool) -> str:
    if interval is None:
        return NONE
    if isinstance(interval, UpperBound):
        return UPPER_BOUND
    return OF_A_SAMPLE if sampled else METHOD
