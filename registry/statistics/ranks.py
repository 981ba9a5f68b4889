"""Intervals of ranks, and tiers of models that the questions do not distinguish."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import CONFIDENCE, Interval, percentile_interval, percentile_intervals
from registry.statistics.competition_ranks import RANK_TOLERANCE
from registry.statistics.paired import Paired

AT_ONCE: Final = 64
"""Resamples that are ranked together, so that they stay in a processor's cache. It never changes a result."""
COMPARED_AT_ONCE: Final = 16
"""Models that are compared with the leader of a tier together. It never changes a result."""


@dataclass(frozen=True)
class Tier:
    """A model's tier: number counts from 1, the best; leader is the column of the tier's best model."""

    number: int
    leader: int


def rank_intervals(samples: NDArray[np.float64], better: str) -> list[tuple[int, int] | None]:
    """Return the 95 % percentile interval of each model's rank over resamples, as (best, worst).

    samples: shape (resamples, models), one `resample_means` of all models on the same questions, so that they are
    ranked within each draw; NaN if a value is undefined: the model has no rank in that resample.
    Both ends are ranks that occur. None for a model without any rank, and for all models if neither direction is
    better.
    """
    resamples, models = samples.shape
    if better not in ("higher", "lower") or not samples.size:
        return [None] * models
    sign = 1 if better == "lower" else -1  # from here on, lower is better
    better_counts = np.empty((resamples, models), dtype=np.int16 if models < 2**15 else np.int32)
    places = np.arange(1, models, dtype=better_counts.dtype)
    # The value and its model's number in one integer: sorting these is faster than an argsort of the values.
    bits = models.bit_length()
    last = 2 ** (62 - bits)
    largest = max(np.fmax.reduce(samples, axis=None), -np.fmin.reduce(samples, axis=None))
    scale = last / 2.0 ** max(0, math.frexp(largest)[1])
    least, most = int(scale * RANK_TOLERANCE / models) - 2, int(scale * 2 * RANK_TOLERANCE) + 2
    undefined = np.isnan(samples).any()
    for start in range(0, resamples, AT_ONCE):
        part = np.ascontiguousarray(samples[start : start + AT_ONCE])
        keys = (np.nan_to_num(part, nan=0.0) if undefined else part) * (sign * scale)
        keys = keys.astype(np.int64)
        if undefined:
            keys[np.isnan(part)] = last  # so that it is never better than a number
        keys <<= bits
        keys |= np.arange(models)
        keys.sort(axis=1)
        order = keys & (2**bits - 1)
        keys >>= bits
        # The first position in the resample of a value that is as good, which is the number of better values.
        first = np.zeros(order.shape, dtype=better_counts.dtype)
        gaps = keys[:, 1:] - keys[:, :-1]
        np.multiply(gaps > least, places, out=first[:, 1:])
        np.maximum.accumulate(first, axis=1, out=first)
        # In a chain, each value is as good as the next but not as the last; these rare cases are searched exactly.
        chains = (gaps > least) & (gaps < most)
        for row in np.flatnonzero(chains.any(axis=1)) if chains.any() else ():
            ordered = sign * part[row, order[row]]
            first[row] = np.searchsorted(np.sort(ordered), ordered - RANK_TOLERANCE, side="left")
        if undefined:
            first[keys == last] = models
        order += models * np.arange(start, start + len(order))[:, np.newaxis]
        better_counts.ravel()[order] = first
    ranks = np.sort(np.ascontiguousarray(better_counts.T), axis=1)
    tail = (1 - CONFIDENCE) / 2
    result: list[tuple[int, int] | None] = []
    for model_ranks, n in zip(ranks, (ranks < models).sum(axis=1).tolist(), strict=True):
        best, worst = (int(model_ranks[max(0, math.ceil(n * share - 1))]) for share in (tail, 1 - tail))
        result.append((1 + best, 1 + worst) if n else None)
    return result


def tiers(
    values: Sequence[float | None],
    samples: NDArray[np.float64],
    better: str,
    questions: int | None = None,
    pairs: Paired | None = None,
) -> list[Tier | None]:
    """Return tiers of models, best first; None for a model without a value, and for all if neither direction is better.

    The best model opens tier 1. A model is in its leader's tier unless the 95 % interval of the paired difference
    between the two lies on one side of 0; the first model that is not in it opens the next tier.
    values: shape (models,); samples: as for `rank_intervals`; questions: as for `percentile_interval`; pairs: as for
    `are_separated`.
    Raises MetricInputError when values and samples are not of the same models.
    """
    check_samples(values, samples)
    order = [place for _, place in _best_first(values, better)]
    distinguished: dict[tuple[int, int], bool] = {}

    def are_distinguished(leader: int, model: int) -> bool:
        if (leader, model) not in distinguished:
            start = order.index(model)
            coming = order[start : start + COMPARED_AT_ONCE]
            separated = find_separated(values, samples, leader, coming, questions, pairs)
            distinguished.update(zip(((leader, one) for one in coming), separated, strict=True))
        return distinguished[leader, model]

    return tiers_where(values, better, are_distinguished)


def tiers_where(
    values: Sequence[float | None], better: str, are_distinguished: Callable[[int, int], bool]
) -> list[Tier | None]:
    """Return tiers like `tiers`, by a function that returns whether (leader, model) can be distinguished."""
    result: list[Tier | None] = [None] * len(values)
    if better not in ("higher", "lower"):
        return result
    tier: Tier | None = None
    for _, model in _best_first(values, better):
        if tier is None:
            tier = Tier(1, model)
        elif are_distinguished(tier.leader, model):
            tier = Tier(tier.number + 1, model)
        result[model] = tier
    return result


def _best_first(values: Sequence[float | None], better: str) -> list[tuple[float, int]]:
    """Return the known values with their models, best first."""
    pairs = [(value, model) for model, value in enumerate(values) if value is not None]
    return sorted(pairs, key=lambda pair: pair[0], reverse=better == "higher")


def check_samples(values: Sequence[float | None], samples: NDArray[np.float64]) -> None:
    """Raise MetricInputError unless samples, shape (resamples, models), have a column for each value."""
    if samples.ndim != 2 or samples.shape[1] != len(values):
        raise MetricInputError(f"samples of shape {samples.shape} for {len(values)} models; give one column per model")


def are_separated(
    values: Sequence[float | None],
    samples: NDArray[np.float64],
    first: int,
    second: int,
    questions: int | None,
    pairs: Paired | None = None,
) -> bool:
    """Return whether the 95 % interval of two models' paired difference excludes 0; False if none is stated.

    values, samples, questions: as for `tiers`; first, second: positions of models. pairs: the result of `paired` for
    all models and these questions; it decides for 0/1 values. None: only the resamples are known.
    """
    return find_separated(values, samples, first, [second], questions, pairs)[0]


def find_separated(
    values: Sequence[float | None],
    samples: NDArray[np.float64],
    first: int,
    others: Sequence[int],
    questions: int | None,
    pairs: Paired | None = None,
) -> list[bool]:
    """Return the result of `are_separated` for one model with each of the others."""
    value = values[first]
    if value is None:
        return [False] * len(others)
    if pairs is not None and pairs.difference is not None:
        intervals = [pairs.interval(first, other, questions) for other in others]
        return [
            values[other] is not None and interval is not None and not interval.low <= 0 <= interval.high
            for other, interval in zip(others, intervals, strict=True)
        ]
    compared = [
        other for other in others if values[other] is not None and (pairs is None or pairs.enough[first, other])
    ]
    differences = samples.T[first] - samples.T[compared]
    separated = dict.fromkeys(others, False)
    intervals = percentile_intervals(differences, [questions] * len(compared))
    constant = np.fmax.reduce(differences, axis=1) - np.fmin.reduce(differences, axis=1) <= RANK_TOLERANCE
    for other, same, interval in zip(compared, constant.tolist(), intervals, strict=True):
        if same:
            separated[other] = abs(value - (values[other] or 0.0)) > RANK_TOLERANCE
        else:
            separated[other] = interval is not None and not interval.low <= 0 <= interval.high
    return list(separated.values())


def paired_interval(
    pairs: Paired | None, first: int, second: int, questions: int | None, differences: NDArray[np.float64]
) -> Interval | None:
    """Return the 95 % interval of the difference of two models; None if none is stated.

    pairs, first, second: as for `are_separated`. For 0/1 values it is the interval of `pairs`, otherwise that of the
    resampled differences, shape (resamples,), if enough questions differ.
    """
    if pairs is None:
        return percentile_interval(differences, questions)
    if not pairs.enough[first, second]:
        return None
    if pairs.difference is not None:
        return pairs.interval(first, second, questions)
    return percentile_interval(differences, questions)
