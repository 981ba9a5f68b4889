"""Intervals of stored metrics: a bootstrap over each scope's questions, computed when an evaluation is sealed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.metrics.averaging import FunctionOfTwoMeans
from registry.metrics.catalogue import QUESTION_METRICS
from registry.statistics.bootstrap import (
    MINIMUM_QUESTIONS,
    RANK_RESAMPLES,
    RESAMPLES,
    SEED,
    Interval,
    combined,
    percentile_interval,
    resampled_means,
)

Array = NDArray[np.float64]

METHOD: Final = "bias-corrected percentile bootstrap over questions"
NONE: Final = "none"
"""Method of a metric for which no interval is stated: it would not cover."""


FUNCTIONS_OF_TWO_MEANS: Final[Mapping[str, FunctionOfTwoMeans]] = {
    name: metric.of_two_means for name, metric in METRICS.items() if metric.of_two_means is not None
}


def resting_on(metric: str, base: Sequence[Array]) -> int:
    """How many questions a metric's interval rests on: those with a value.

    base: per-question values of the metric's base metrics, each (questions,), NaN where undefined. A share of the first
    is about the questions where that is 1; on fewer of them its interval has to be wider.
    """
    function = FUNCTIONS_OF_TWO_MEANS.get(metric)
    if function is not None and function.share_of_first:
        return int(np.count_nonzero(base[0] == 1))
    return int(np.count_nonzero(~np.isnan(base[0])))


def base_metrics(metric: str) -> tuple[str, ...]:
    """The metrics of questions that a metric is made of."""
    found = FUNCTIONS_OF_TWO_MEANS.get(metric)
    return (metric,) if found is None else (found.first, found.second)


def question_values(session: Session, evaluation_id: int, question_ids: Sequence[int]) -> dict[str, Array]:
    """Metric to its values over the given questions, in their order, shape (questions,); NaN where undefined."""
    names = QUESTION_METRICS
    rows = session.execute(
        text(f"SELECT question_id, {', '.join(names)} FROM question_metrics WHERE evaluation_id = :id"),  # noqa: S608
        {"id": evaluation_id},
    )
    values = {row[0]: row[1:] for row in rows}
    nothing = (None,) * len(names)
    table = np.array([values.get(question_id, nothing) for question_id in question_ids], dtype=np.float64)
    table = table.reshape(len(question_ids), len(names))
    return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(names)}


def metric_intervals(values: Mapping[str, Array], *, resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, Any]:
    """Metric to its Interval over questions, or None where it would not cover.

    values: metric to (questions,), of all per-question metrics. Metrics that compare runs have no interval here.
    """
    columns: list[Array] = []
    places: dict[str, list[int]] = {}
    for name in [*values, *FUNCTIONS_OF_TWO_MEANS]:
        base = [values[part] for part in base_metrics(name)]
        undefined = np.isnan(np.stack(base)).any(axis=0)
        places[name] = list(range(len(columns), len(columns) + len(base)))
        columns += [np.where(undefined, np.nan, column) for column in base]
    stacked = np.stack(columns, axis=1)
    counts = np.count_nonzero(~np.isnan(stacked), axis=0)
    # On fewer questions none is stated: most evaluations in tests, and many subjects, need not be resampled at all.
    used = np.flatnonzero(counts >= MINIMUM_QUESTIONS)
    samples = np.full((resamples, len(columns)), np.nan)
    if used.size:
        samples[:, used] = resampled_means(stacked[:, used], resamples=resamples, seed=seed)
    found: dict[str, Interval | None] = {}
    for name, own in places.items():
        function = FUNCTIONS_OF_TWO_MEANS.get(name)
        drawn = samples[:, own[0]]
        if function is not None:
            drawn = combined(function.function, samples[:, own[0]], samples[:, own[1]])
        n = resting_on(name, [stacked[:, place] for place in own])
        found[name] = percentile_interval(drawn, n) if n >= MINIMUM_QUESTIONS else None
    return found


def resamples_of(scope: str) -> int:
    """Subjects and categories, of which a benchmark may have dozens, are resampled less often."""
    return RANK_RESAMPLES if ":" in scope else RESAMPLES


def evaluation_intervals(session: Session, evaluation_id: int) -> dict[str, dict[str, Any]]:
    """Scope → metric → Interval or None, of every scope of an evaluation."""
    query = text("SELECT question_id, scope FROM evaluation_question_scope WHERE evaluation_id = :id")
    scopes: dict[str, set[int]] = {}
    for question_id, scope in session.execute(query, {"id": evaluation_id}):
        scopes.setdefault(scope, set()).add(question_id)
    everything = sorted(scopes.get("all", ()))
    values = question_values(session, evaluation_id, everything)
    found: dict[str, dict[str, Any]] = {}
    known: dict[tuple[int, bytes], dict[str, Any]] = {}
    for scope, members in scopes.items():
        inside = np.fromiter((question_id in members for question_id in everything), dtype=bool, count=len(everything))
        # Scopes often hold the same questions: nothing flagged, one subject only.
        key = (resamples_of(scope), inside.tobytes())
        if key not in known:
            inner = {name: column[inside] for name, column in values.items()}
            known[key] = metric_intervals(inner, resamples=resamples_of(scope))
        found[scope] = known[key]
    return found
