"""R², stability and the recommendation, from points: one model revision on one benchmark each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np

from registry.statistics.comparison import r_squared
from registry.studies.assessment.orders import DRAW_SIZES, SUBSETS
from registry.studies.assessment.tables import ASSESSED, OVER_ORDERS, Value

DEFAULT_TOLERANCE: Final = 0.02
MIN_POINTS: Final = 6
"""Fewest points for a recommendation."""

MIN_POINTS_FOR_ERROR: Final = 4
"""With fewer points, the line fitted to the others predicts nothing about the point left out."""

TARGETS: Final = ("fluctuation_rate", "accuracy", "both")
"""A metric's targets: fluctuation over all orders, accuracy on the original order, the mean of both R²."""

SINGLE_TARGETS: Final = TARGETS[:2]

SAME_ON_ORIGINAL: Final = ("average_accuracy", "strong_accuracy", "worst_accuracy", "best_accuracy")
"""Metrics that equal the accuracy if the original order is the only one."""


@dataclass(frozen=True)
class Point:
    """One model revision on one benchmark, in all orders.

    model: NAME@REVISION. benchmark: NAME@VERSION, with the question filter behind it. protocol: NAME:SHOTS.
    options: number of options → number of questions. prompts: set of orders (and "full") → prompts per question.
    targets: the two single targets, in [0, 1]. values: subset → metric → value.
    stability: size of draw → metric → standard deviation over the draws.
    """

    model: str
    benchmark: str
    protocol: str
    evaluation: int
    options: Mapping[int, int]
    prompts: Mapping[str, float]
    targets: Mapping[str, float]
    values: Mapping[str, Mapping[str, Value]]
    stability: Mapping[str, Mapping[str, float | None]]

    @property
    def questions(self) -> int:
        """Return the number of questions."""
        return sum(self.options.values())

    @property
    def two_options(self) -> bool:
        """Return whether every question has two options: then any two orders are all orders."""
        return set(self.options) == {2}

    def document(self) -> dict[str, Any]:
        """Return the point as JSON."""
        return {
            "model": self.model,
            "benchmark": self.benchmark,
            "protocol": self.protocol,
            "evaluation": self.evaluation,
            "questions": self.questions,
            "options": {str(L): count for L, count in sorted(self.options.items())},
            **self.targets,
            "prompts_per_question": dict(self.prompts),
            "values": {
                subset: {metric: value for metric, (value, _) in values.items()}
                for subset, values in self.values.items()
            },
            "n": {subset: {metric: n for metric, (_, n) in values.items()} for subset, values in self.values.items()},
            "stability": {size: dict(values) for size, values in self.stability.items()},
        }


@dataclass(frozen=True)
class Cell:
    """How well one metric on one subset of orders predicts the targets.

    points: the number of points that have the metric. r_squared: target → R², None if it is undefined.
    rmse: single target → error of predicting it, leaving one point out at a time.
    """

    subset: str
    metric: str
    points: int
    r_squared: Mapping[str, float | None]
    rmse: Mapping[str, float | None]

    def document(self) -> dict[str, Any]:
        """Return the cell as JSON."""
        return {
            "subset": self.subset,
            "metric": self.metric,
            "points": self.points,
            "r_squared": dict(self.r_squared),
            "rmse": dict(self.rmse),
        }


def correlations(points: Sequence[Point]) -> list[Cell]:
    """Correlate every metric on every subset with the targets, over the points that have the metric."""
    return [_correlate(points, subset, metric) for subset in SUBSETS for metric in ASSESSED]


def _correlate(points: Sequence[Point], subset: str, metric: str) -> Cell:
    defined = [point for point in points if _value(point, subset, metric) is not None]
    x = [value for point in defined if (value := _value(point, subset, metric)) is not None]
    squares = {target: r_squared(x, [point.targets[target] for point in defined]) for target in SINGLE_TARGETS}
    errors = {target: leave_one_out_rmse(x, [point.targets[target] for point in defined]) for target in SINGLE_TARGETS}
    return Cell(subset, metric, len(defined), squares | {"both": both(*squares.values())}, errors)


def _value(point: Point, subset: str, metric: str) -> float | None:
    return point.values[subset].get(metric, (None, 0))[0]


def both(first: float | None, second: float | None) -> float | None:
    """Return the R² for both targets: the mean of the two, as in Table 1c; None if either is None."""
    return None if first is None or second is None else (first + second) / 2


def leave_one_out_rmse(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the root mean squared error of predicting each y from x by the line through all other points, in y's unit.

    If x is the same for all other points, the line is level at their mean. None for fewer than MIN_POINTS_FOR_ERROR
    points or if x does not vary.

    >>> round(leave_one_out_rmse([0, 1, 2, 3], [0, 1, 2, 3]), 12)
    0.0
    """
    if len(x) < MIN_POINTS_FOR_ERROR or r_squared(x, x) is None:
        return None
    errors = []
    for left_out in range(len(x)):
        others = [index for index in range(len(x)) if index != left_out]
        xs, ys = np.array([x[index] for index in others]), np.array([y[index] for index in others])
        centred = xs - xs.mean()
        level = r_squared(xs.tolist(), xs.tolist()) is None
        slope = 0.0 if level else float((centred * ys).sum() / (centred * centred).sum())
        errors.append(y[left_out] - (float(ys.mean()) + slope * (x[left_out] - float(xs.mean()))))
    return math.sqrt(fmean(error * error for error in errors))


def leave_one_out_error_of_mean(y: Sequence[float]) -> float | None:
    """Return the root mean squared error of predicting each y by the mean of the others: the baseline of a metric."""
    if len(y) < MIN_POINTS_FOR_ERROR:
        return None
    total = math.fsum(y)
    return math.sqrt(fmean((value - (total - value) / (len(y) - 1)) ** 2 for value in y))


# Stability


def stabilities(points: Sequence[Point]) -> dict[str, Any]:
    """Return each metric's standard deviation over random draws of orders, averaged over benchmarks, then over models.

    Benchmarks whose every question has two options are separate: their only pair is both orders.
    """
    groups = {
        "more_options": [point for point in points if not point.two_options],
        "two_options": [point for point in points if point.two_options],
    }
    return {
        name: {
            "models": len({point.model for point in members}),
            "points": len(members),
            **{size: {metric: _average_models(members, size, metric) for metric in OVER_ORDERS} for size in DRAW_SIZES},
        }
        for name, members in groups.items()
    }


def _average_models(points: Iterable[Point], size: str, metric: str) -> float | None:
    by_model: dict[str, list[float]] = {}
    for point in points:
        if (value := point.stability[size][metric]) is not None:
            by_model.setdefault(point.model, []).append(value)
    return fmean(map(fmean, by_model.values())) if by_model else None


# Recommendation


def recommend(points: Sequence[Point], cells: Sequence[Cell], target: str, tolerance: float) -> dict[str, Any]:
    """Recommend the cheapest subset whose best metric has an R² within `tolerance` of the best among all subsets.

    recommended: that subset with its metric, R², errors and cost; None if there is nothing to recommend, with a
    `reason`.
    candidates: the best metric of each subset, cheapest first.
    """
    full = mean_prompts(points, "full")
    costs = {subset: mean_prompts(points, subset) for subset in SUBSETS}
    best = {subset: cell for subset in SUBSETS if (cell := _find_best(cells, subset, target, len(points))) is not None}
    candidates = sorted(best.values(), key=lambda cell: (costs[cell.subset], -_r_squared(cell, target)))
    document: dict[str, Any] = {
        "target": target,
        "recommended": None,
        "reason": _why_not(points, candidates, target),
        "candidates": [_candidate(cell, target, costs[cell.subset], full) for cell in candidates],
        "caveats": [],
    }
    if document["reason"] is not None:
        return document
    bound = max(_r_squared(cell, target) for cell in candidates) - tolerance
    # R² that differ in the last bits are equal.
    chosen = next(cell for cell in candidates if _r_squared(cell, target) >= bound - 1e-9)
    document["recommended"] = _candidate(chosen, target, costs[chosen.subset], full)
    document["recommended"]["r_squared_range"] = _range_without_one(points, chosen, target)
    document["recommended"]["rmse_without_metric"] = {
        name: leave_one_out_error_of_mean([point.targets[name] for point in points]) for name in SINGLE_TARGETS
    }
    error_of_mean = document["recommended"]["rmse_without_metric"]
    document["caveats"] = _caveats(points, chosen, target, costs[chosen.subset], full, error_of_mean)
    return document


def mean_prompts(points: Sequence[Point], subset: str) -> float:
    """Return the prompts per question of a set of orders, over all questions of all points."""
    total = sum(point.questions for point in points)
    return sum(point.prompts[subset] * point.questions for point in points) / total


def _r_squared(cell: Cell, target: str) -> float:
    value = cell.r_squared[target]
    return -math.inf if value is None else value


def _find_best(cells: Sequence[Cell], subset: str, target: str, points: int) -> Cell | None:
    """Return the metric with the highest R² on a subset; of equal ones the first in the list of metrics.

    A metric that some points lack is left out, since its R² is over fewer points than that of the others.
    """
    comparable = [
        cell for cell in cells if cell.subset == subset and cell.points == points and cell.r_squared[target] is not None
    ]
    return max(comparable, key=lambda cell: round(_r_squared(cell, target), 9), default=None)


def _why_not(points: Sequence[Point], candidates: Sequence[Cell], target: str) -> str | None:
    if len(points) < MIN_POINTS:
        return (
            f"too few points: {len(points)}, at least {MIN_POINTS} are needed; evaluate more models or benchmarks "
            "with --variants full"
        )
    for name in SINGLE_TARGETS:
        values = [point.targets[name] for point in points]
        if target in (name, "both") and r_squared(values, values) is None:
            return f"{name} is {values[0]:.3f} at every point: there is no difference to explain"
    if not candidates:
        return "no metric is defined at every point and varies between them"
    return None


def _candidate(cell: Cell, target: str, prompts: float, full: float) -> dict[str, Any]:
    return {
        "subset": cell.subset,
        "metric": cell.metric,
        "r_squared": cell.r_squared[target],
        "rmse": dict(cell.rmse),
        "points": cell.points,
        "prompts_per_question": prompts,
        "prompts_per_question_full": full,
        "saving": 1 - prompts / full,
    }


def _range_without_one(points: Sequence[Point], cell: Cell, target: str) -> list[float] | None:
    """Return the lowest and highest R² with one point left out; None if any of these R² is undefined."""
    defined = [point for point in points if _value(point, cell.subset, cell.metric) is not None]
    values = [
        _correlate([other for other in defined if other is not point], cell.subset, cell.metric).r_squared[target]
        for point in defined
    ]
    numbers = [value for value in values if value is not None]
    return [min(numbers), max(numbers)] if numbers and len(numbers) == len(values) else None


def _caveats(
    points: Sequence[Point],
    cell: Cell,
    target: str,
    prompts: float,
    full: float,
    without_metric: Mapping[str, float | None],
) -> list[str]:
    """Return the caveats that a reader needs before following a recommendation."""
    revisions = {point.model for point in points}
    models = {revision.partition("@")[0] for revision in revisions}
    benchmarks = {point.benchmark for point in points}
    counted = f"{_number(len(models), 'model')} ({_number(len(revisions), 'revision')})"
    basis = f"{_number(cell.points, 'point')} from {counted} on {_number(len(benchmarks), 'benchmark')}"
    caveats = [f"{basis}: it applies to models and benchmarks like these"]
    if len(models) < len(revisions):
        caveats.append("revisions of one model resemble each other: there are fewer independent points than counted")
    if len({point.protocol for point in points}) > 1:
        caveats.append("the points were asked in several ways (see their protocols); choose one with --protocol")
    two = sum(point.two_options for point in points)
    if two:
        caveats.append(
            f"{two} of {len(points)} points have only two options: for these, any two orders are all orders, and the "
            "fluctuation rate over them is the full one"
        )
    if len({tuple(sorted(point.options)) for point in points}) > 1:
        caveats.append("numbers of options differ between points: part of R² reflects these, not the models")
    for name in SINGLE_TARGETS:
        error, mean_alone = cell.rmse[name], without_metric[name]
        if target in (name, "both") and error is not None and mean_alone is not None and error >= mean_alone:
            caveats.append(f"it predicts {name} no better than the mean of the other points")
    if prompts >= full:
        caveats.append("it shows as many orders as full: nothing is saved")
    if target != "fluctuation_rate" and cell.subset == "original" and cell.metric in SAME_ON_ORIGINAL:
        caveats.append("on the original order this metric is that accuracy itself: its R² with it is 1 by definition")
    return caveats


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
