"""How little would have to be otherwise for a board to rank otherwise: other tasks, weights, questions, orders, models.

Nothing here is about chance, which rank intervals are about; it is about choices that whoever made the board might have
made otherwise. Pure functions of values per question, order or resample.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.metrics import METRICS
from registry.metrics.averaging import FunctionOfTwoMeans, over_tasks
from registry.statistics.bootstrap import MINIMUM_QUESTIONS, RANK_RESAMPLES, SEED, resampled_means
from registry.statistics.competition_ranks import RANK_TOLERANCE, ranks
from registry.statistics.paired import Paired, paired
from registry.statistics.ranks import separated, tiers, tiers_where
from registry.statistics.simultaneous import told_apart_without

Array = NDArray[np.float64]
Answers = NDArray[np.int16]
"""The answer to each question in each order, shape (questions, orders): RIGHT, NO_ANSWER, ABSENT where the question has
no such order, or a number above 0 for each wrong option."""

RIGHT: Final = 0
NO_ANSWER: Final = -1
ABSENT: Final = -2
Means = tuple[float | None, ...]

CHALLENGERS: Final = 10
"""Models below the first that might take its place, when questions or orders are left out: the next ones."""

LEFT_OUT: Final = 30
"""Models that are left out one by one: the first ones."""

MOST_SUBSETS: Final = 500
"""Sets of orders that are left out at most, those of fewest orders first."""

TIER_QUESTIONS: Final = 60_000
"""Sets of orders left out times questions, where tiers are drawn anew for each set: some seconds."""

LEAST_ORDERS: Final = 2
"""A question asked in fewer orders does not say how answers hold up."""


def _right(answers: Answers) -> Array:
    return np.asarray(np.where(answers == ABSENT, np.nan, answers == RIGHT), dtype=np.float64)


def _fluctuates(answers: Answers) -> Array:
    differs = (answers != answers[:, :1]) & (answers != ABSENT)
    return np.asarray(differs.any(axis=1) | (answers[:, 0] == NO_ANSWER), dtype=np.float64)


OF_ORDERS: Final[Mapping[str, Callable[[Answers], Array]]] = {
    "average_accuracy": lambda answers: np.asarray(np.nanmean(_right(answers), axis=1)),
    "worst_accuracy": lambda answers: np.asarray(np.nanmin(_right(answers), axis=1)),
    "best_accuracy": lambda answers: np.asarray(np.nanmax(_right(answers), axis=1)),
    "fluctuation_rate": _fluctuates,
}
"""Metrics of a question that depend on its answers in each order, and on nothing else."""


@dataclass(frozen=True)
class TaskValues:
    """A model's values of one task and column. base: (questions,) for each base metric, NaN where undefined.

    flagged: (questions,), those whose options refer to each other or are sorted numbers.
    """

    base: tuple[Array, ...]
    flagged: NDArray[np.bool_]


@dataclass(frozen=True)
class Otherwise:
    """What a choice changes: who is first then (places of models), how many ranks change, and by how much at most."""

    choice: str
    first: tuple[int, ...]
    changed: int
    largest: int


@dataclass(frozen=True)
class Removal:
    """The fewest questions found whose removal puts another model level with the first, and which model that is."""

    questions: int
    of: int
    model: int


@dataclass(frozen=True)
class WithoutModel:
    """What leaving out a model changes, besides moving those below it up: who is first then, and whose tiers differ.

    tiers, all_tiers: how many other models no longer share a tier with the same ones; each model for itself, all at
    once. None where the column has no intervals.
    """

    model: int
    first: tuple[int, ...]
    tiers: int | None
    all_tiers: int | None


@dataclass(frozen=True)
class WithoutOrders:
    """The fewest orders whose removal changes who is first, and who is then; both empty where none of those tried does.

    of: how many orders there are; tried: so many of them at most were left out, in every combination.
    """

    orders: tuple[int, ...]
    first: tuple[int, ...]
    of: int
    tried: int


@dataclass(frozen=True)
class TiersWithoutOrders:
    """The fewest orders whose removal changes tiers; empty where none of those tried does.

    changed: how many models no longer share a tier with the same ones. of, tried: as for WithoutOrders.
    """

    orders: tuple[int, ...]
    changed: int
    of: int
    tried: int


def without_models(
    values: Sequence[float],
    samples: Array | None,
    better: str,
    questions: int | None,
    pairs: Paired | None = None,
) -> list[WithoutModel]:
    """What leaving out each of the first LEFT_OUT models changes, the first one first.

    values: shape (models,); samples: shape (resamples, models), None where there are no intervals; questions: how many
    the values rest on; pairs: what `paired` says of them. Nothing for fewer than three models: one alone has no
    neighbours.
    """
    if len(values) < 3 or better not in ("higher", "lower"):
        return []
    order = sorted(range(len(values)), key=lambda place: values[place], reverse=better == "higher")
    left_out = order[:LEFT_OUT]
    without = [[None if place == model else value for place, value in enumerate(values)] for model in left_out]
    changed: Sequence[tuple[int, int] | tuple[None, None]] = [(None, None)] * len(left_out)
    if samples is not None:
        changed = _changed_tiers(values, without, samples, better, questions, left_out, pairs)
    return [
        WithoutModel(model, tuple(place for place, rank in enumerate(ranks(remaining, better)) if rank == 1), *tiers)
        for model, remaining, tiers in zip(left_out, without, changed, strict=True)
    ]


def _changed_tiers(
    values: Sequence[float],
    without: Sequence[Sequence[float | None]],
    samples: Array,
    better: str,
    questions: int | None,
    left_out: Sequence[int],
    pairs: Paired | None,
) -> list[tuple[int, int]]:
    """How many other models no longer share a tier with the same ones, without each of left_out: alone, and at once."""

    @cache
    def apart(leader: int, model: int) -> bool:
        return separated(values, samples, leader, model, questions, pairs)

    def shared(remaining: Sequence[float | None], at_once: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which models share a tier, shape (2, models, models): each for itself, and all at once."""
        found = (
            tiers_where(remaining, better, told_apart)
            for told_apart in (apart, lambda leader, model: bool(at_once[leader, model]))
        )
        numbers = [[0 if tier is None else tier.number for tier in tiers] for tiers in found]
        return np.stack([np.equal.outer(of_models, of_models) for of_models in numbers])

    told_apart = told_apart_without(values, samples, better, questions, left_out, pairs)
    before = shared(values, next(told_apart))
    result = []
    for model, remaining, at_once in zip(left_out, without, told_apart, strict=True):
        differs = before != shared(remaining, at_once)
        differs[:, model], differs[:, :, model] = False, False
        alone, together = differs.any(axis=2).sum(axis=1).tolist()
        result.append((alone, together))
    return result


def fewest_orders(models: Sequence[Sequence[Answers]], metric: str, better: str) -> WithoutOrders | None:
    """How few orders decide who is first, by a metric of OF_ORDERS.

    models: of each, its answers by task; tasks have the same orders. Sets of orders are left out, smaller ones first,
    as long as these are no more than MOST_SUBSETS in all and every question keeps LEAST_ORDERS. Of sets of one size it
    is the first one found that changes who is first. None for fewer than two models, or with too few orders.
    """
    of, fewest = _orders(models)
    if len(models) < 2 or fewest <= LEAST_ORDERS:
        return None
    patterns = [[np.unique(task, axis=0, return_counts=True) for task in own] for own in models]

    def first(left: Sequence[int]) -> tuple[int, ...]:
        values = [
            _average([float(np.average(OF_ORDERS[metric](task[:, left]), weights=counts)) for task, counts in own])
            for own in patterns
        ]
        return tuple(place for place, rank in enumerate(ranks(values, better)) if rank == 1)

    stated = first(range(of))
    tried = budget = 0
    for size in range(1, fewest - LEAST_ORDERS + 1):
        budget += math.comb(of, size)
        if budget > MOST_SUBSETS:
            break
        tried = size
        for gone in combinations(range(of), size):
            now = first([order for order in range(of) if order not in gone])
            if now != stated:
                return WithoutOrders(gone, now, of, tried)
    return WithoutOrders((), (), of, tried) if tried else None


def _orders(models: Sequence[Sequence[Answers]]) -> tuple[int, int]:
    """How many orders there are, and in how many the question was asked that was asked in the fewest."""
    return (
        max(task.shape[1] for own in models for task in own),
        min(int((task != ABSENT).sum(axis=1).min()) for own in models for task in own),
    )


def fewest_orders_of_tiers(models: Sequence[Sequence[Answers]], metric: str, better: str) -> TiersWithoutOrders | None:
    """How few orders decide which of these models share a tier, each for itself, by a metric of OF_ORDERS.

    models: as for `fewest_orders`, the best of a board. Sets of orders are left out likewise, as many as TIER_QUESTIONS
    allows. Questions are drawn as for the board's own tiers. None for fewer than two models, with too few orders, or
    on too few questions for tiers.
    """
    of, fewest = _orders(models)
    questions = min(sum(task.shape[0] for task in own) for own in models)
    if len(models) < 2 or fewest <= LEAST_ORDERS or questions < MINIMUM_QUESTIONS:
        return None

    def shared(left: Sequence[int]) -> NDArray[np.bool_]:
        values, samples, of_tasks = [], [], []
        for number in range(len(models[0])):
            of_task = np.stack([OF_ORDERS[metric](own[number][:, left]) for own in models], axis=1)
            of_tasks.append([of_task])
            values.append(of_task.mean(axis=0))
            samples.append(resampled_means(of_task, resamples=RANK_RESAMPLES, seed=SEED + number))
        pairs = paired(of_tasks, zero_or_one=METRICS[metric].zero_or_one)
        found = tiers(np.mean(values, axis=0).tolist(), np.mean(samples, axis=0), better, questions, pairs)
        numbers = np.array([0 if tier is None else tier.number for tier in found])
        return np.asarray(np.equal.outer(numbers, numbers))

    stated = shared(range(of))
    tried = budget = 0
    for size in range(1, fewest - LEAST_ORDERS + 1):
        budget += math.comb(of, size)
        if budget * questions > TIER_QUESTIONS:
            break
        tried = size
        for gone in combinations(range(of), size):
            changed = (shared([order for order in range(of) if order not in gone]) != stated).any(axis=1)
            if changed.any():
                return TiersWithoutOrders(gone, int(changed.sum()), of, tried)
    return TiersWithoutOrders((), 0, of, tried) if tried else None


def otherwise(
    models: Sequence[Sequence[TaskValues]], tasks: Sequence[str], better: str, function: FunctionOfTwoMeans | None
) -> list[Otherwise]:
    """Ranks without each task (where there are several), with every question counting alike, and without flagged ones.

    models: of each, its values by task. function: of a metric that is made of two means. A choice under which a model
    has no value is left out.
    """
    means = [_means(values) for values in models]
    choices: list[tuple[str, list[float | None]]] = []
    if len(tasks) > 1:
        for place, task in enumerate(tasks):
            rest = [own[:place] + own[place + 1 :] for own in means]
            choices.append((f"without {task}", [over_tasks(function, own) for own in rest]))
        choices.append(("every question counts alike", [_micro(values, function) for values in models]))
    if any(task.flagged.any() for values in models for task in values):
        unflagged = [_means([_unflagged(task) for task in values]) for values in models]
        choices.append(("without flagged questions", [over_tasks(function, own) for own in unflagged]))
    stated = _ranks([over_tasks(function, own) for own in means], better)
    found = []
    for name, values in choices:
        new = _ranks(values, better)
        if new is None or stated is None:
            continue
        moves = [abs(one - other) for one, other in zip(stated, new, strict=True)]
        first = tuple(place for place, rank in enumerate(new) if rank == 1)
        found.append(Otherwise(name, first, sum(move > 0 for move in moves), max(moves)))
    return found


def fewest_questions(models: Sequence[Sequence[TaskValues]], better: str) -> Removal | None:
    """How few questions decide who is first, of a metric that is a mean over questions.

    The questions that speak most for the first, against one of the next CHALLENGERS, are left out one after the other,
    until the two are level. Of one task no fewer would do; of several, fewer might. None for fewer than two models,
    or where all questions but one of a task would have to go.
    """
    sign = 1.0 if better == "higher" else -1.0
    values = [over_tasks(None, _means(own)) for own in models]
    order = sorted((-sign * value, place) for place, value in enumerate(values) if value is not None)
    if len(order) < 2:
        return None
    first, found = order[0][1], None
    total = sum(task.base[0].size for task in models[first])
    for _, place in order[1 : 1 + CHALLENGERS]:
        needed = _until_level(models[first], models[place], sign)
        if needed is not None and (found is None or needed < found.questions):
            found = Removal(needed, total, place)
    return found


def _until_level(first: Sequence[TaskValues], other: Sequence[TaskValues], sign: float) -> int | None:
    differences = [sign * (one.base[0] - two.base[0]) for one, two in zip(first, other, strict=True)]
    differences = [task[~np.isnan(task)] for task in differences]
    if not all(task.size for task in differences):
        return None
    task_of = np.repeat(np.arange(len(differences)), [task.size for task in differences])
    pooled = np.concatenate(differences)
    sizes = np.array([task.size for task in differences])
    order = np.argsort(-pooled / sizes[task_of], kind="stable")
    # Of each task, what is left of its sum and its questions after so many removals.
    removed = task_of[order][:, None] == np.arange(len(differences))
    left = np.array([task.sum() for task in differences]) - np.cumsum(removed * pooled[order][:, None], axis=0)
    counts = sizes - np.cumsum(removed, axis=0)
    possible = (counts > 0).all(axis=1)
    means = np.divide(left, counts, out=np.full(left.shape, np.nan), where=counts > 0)
    ahead = np.array([task.mean() for task in differences]).mean()
    if ahead <= RANK_TOLERANCE:
        return 0
    level = np.flatnonzero(possible & (means.mean(axis=1) <= RANK_TOLERANCE))
    return int(level[0]) + 1 if level.size else None


def _ranks(values: Sequence[float | None], better: str) -> list[int] | None:
    """The ranks of all models; None if one has no value."""
    found = ranks(values, better)
    return None if None in found else [rank for rank in found if rank is not None]


def _unflagged(task: TaskValues) -> TaskValues:
    return TaskValues(tuple(values[~task.flagged] for values in task.base), task.flagged[~task.flagged])


def _means(values: Sequence[TaskValues]) -> list[Means]:
    """Of each task the means of its base metrics."""
    return [tuple(_mean(base) for base in task.base) for task in values]


def _micro(values: Sequence[TaskValues], function: FunctionOfTwoMeans | None) -> float | None:
    """The mean over all questions of all tasks."""
    pooled = [_mean(np.concatenate(bases)) for bases in zip(*(task.base for task in values), strict=True)]
    return pooled[0] if function is None else _of_two(function, *pooled)


def _of_two(function: FunctionOfTwoMeans, first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else function.value(first, second)


def _mean(values: Array) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
