"""Compare all models of a board at once, so that at most 5 % of boards contain a wrong statement about any pair.

Among hundreds of pairs some differ by chance; each pair's own interval does not limit how often any of them misses.
Here every ordered pair (j, k) is the hypothesis "j is no better than k", and all of them are tested together: the
difference of each pair over its standard deviation (for 0/1 values adjusted for few questions that differ, as in
registry/statistics/paired.py), against the largest such ratio in each resample of the bootstrap. Rejected hypotheses
leave the family, and the others are tested again against the largest ratio among them (step-down). The chance that any
rejection is wrong is 5 % at most.
Source: Mogstad, Romano, Shaikh and Wilhelm, *Inference for Ranks with Applications to Mobility across Neighbourhoods
and Academic Achievement across Countries* (2024); Romano and Wolf, *Exact and Approximate Stepdown Methods for Multiple
Hypothesis Testing* (2005).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import LARGEST_SKEWNESS, LARGEST_UNDEFINED_SHARE, MINIMUM_QUESTIONS, share_below
from registry.statistics.competition_ranks import RANK_TOLERANCE
from registry.statistics.paired import Paired, as_normal, exceed, quantile
from registry.statistics.ranks import Tier, check_samples, tiers_where

Floats = NDArray[np.float64]
Pairs = NDArray[np.bool_]
Ratios = NDArray[np.float32]

MODELS_IN_BLOCKS: Final = 64
"""Families with this many models or more are compared in blocks."""
MODELS_OF_A_BLOCK: Final = 16
LOOKED_AT_ONCE: Final = 2_048
"""Pairs of blocks that are examined together. It never changes a result."""
SLIGHTLY: Final = 0.03
"""Share by which the floor of stored ratios is below the quantile."""
MOST_KEPT: Final = 1_000_000
"""Most ratios above the floor that are stored."""

SINGLE_MISSES: Final = 1 / 500
"""Largest error of a difference's third moment in single precision, as a share of both models' spreads cubed."""
AT_ONCE: Final = 64
"""Pairs near the limit of skewness whose third moments are computed exactly together. It never changes a result."""
NO_SPREAD: Final = 1e-9
"""A variance of a difference below this share of both models' variances is only rounding error."""


@dataclass(frozen=True)
class Comparisons:
    """Comparisons of every pair of models.

    beats: shape (models, models), whether the row's model is shown to be better than the column's, with all pairs
    tested at once.
    standard_errors: shape (models, models), of each pair's difference; NaN on the diagonal and for pairs that are not
    compared.
    critical_value: the limit of a ratio in the first step, as a normal quantile; None if nothing was compared.
    questions: as for `compare_all`.
    """

    beats: Pairs
    standard_errors: Floats
    critical_value: float | None
    questions: int | None
    _family: "_Family"

    @cached_property
    def ratios(self) -> Floats:
        """Return each difference over its standard error, shape (models, models), with the same NaN."""
        family = self._family
        ratios = family.ratios if family.freedom is None else as_normal(family.ratios, family.freedom)
        return family.expand(np.where(family.compared, ratios, np.nan))

    @property
    def told_apart(self) -> Pairs:
        """Return the pairs in which one model is shown to be better, shape (models, models)."""
        return self.beats | self.beats.T

    def rank_intervals(self) -> list[tuple[int, int]]:
        """Return the best and the worst rank that each model may have, with 95 % confidence for all models at once.

        Best is 1 + the number of models shown to be better, worst the number of models less those shown to be worse.
        """
        models = len(self.beats)
        better, worse = self.beats.sum(axis=0), self.beats.sum(axis=1)
        return [(1 + int(above), models - int(below)) for above, below in zip(better, worse, strict=True)]

    def tiers(self, values: Sequence[float | None], better: str) -> list[Tier | None]:
        """Return tiers like `registry.statistics.ranks.tiers`, with all pairs tested at once."""
        distinguished = self.told_apart
        return tiers_where(values, better, lambda leader, model: bool(distinguished[leader, model]))

    def p_values(self, first: Sequence[int], second: Sequence[int]) -> tuple[Floats, Floats]:
        """Return two-sided p-values of pairs, alone and with Holm's correction for all pairs; NaN if not compared.

        Holm's correction is valid under any dependence between pairs, and tests for each pair only whether its models
        are equal; `told_apart` also decides which is better. Near the limit the two can disagree.
        """
        sizes = np.abs(self.ratios[first, second])
        uncorrected = _p_values(sizes, self.questions)
        tested = np.sort(-np.abs(self.ratios[np.triu(~np.isnan(self.ratios), 1)]))
        corrected = np.minimum(1, uncorrected * (tested.size - np.searchsorted(tested, -sizes)))
        # A pair's corrected p-value is at least that of every smaller p-value; pairs with a value of 1 need no check.
        if (below := corrected < 1).any():
            until = np.searchsorted(tested, -sizes[below], side="right")
            smallest = _p_values(tested[: until.max()], self.questions)
            raised = smallest * np.arange(tested.size, tested.size - smallest.size, -1)
            corrected[below] = np.minimum(1, np.maximum.accumulate(raised)[until - 1])
        return uncorrected, corrected


def holm(p_values: Floats) -> Floats:
    """Return p-values after Holm's correction for all of them, shape (tests,); NaN stays NaN and counts as no test.

    Source: Holm, *A Simple Sequentially Rejective Multiple Test Procedure* (1979).
    """
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]  # NaN sorts last
    raised = np.maximum.accumulate(p_values[order] * np.arange(order.size, 0, -1))
    corrected = np.full(p_values.size, np.nan)
    corrected[order] = np.minimum(raised, 1)
    return corrected


def compare_all(
    values: Sequence[float | None],
    samples: Floats,
    better: str,
    questions: int | None = None,
    pairs: Paired | None = None,
) -> Comparisons:
    """Compare every model with every other.

    values: shape (models,). samples: shape (resamples, models), one `resample_means` of all models on the same
    questions; NaN if a value is undefined.
    questions: number of questions behind the values; None if it is large. For few, the critical value and the p-values
    are widened as intervals are.
    pairs: the result of `paired` for all models and these questions; None: only the resamples are known.
    A pair is not compared if an interval of its difference would not be stated: on fewer than MINIMUM_QUESTIONS; for
    other than 0/1 values, with too skew a difference or if too few questions differ; or if a model is undefined in more
    than LARGEST_UNDEFINED_SHARE of the resamples. A difference that is the same in every resample distinguishes a pair.
    Raises MetricInputError when values and samples are not of the same models.
    """
    family = _family(values, samples, better, questions, pairs)
    beats, critical = _step_down(family, family.compared, _critical_value(family), questions)
    return Comparisons(
        family.expand(beats, fill=False),
        family.expand(np.where(family.compared, family.errors, np.nan)),
        critical,
        questions,
        family,
    )


@dataclass(frozen=True)
class _Family:
    """All ordered pairs of the compared models, with signs chosen so that higher is better.

    place: shape (compared,), the indices of these among all `models`.
    ratios: for each pair, its difference over its standard error in `errors`. freedom: degrees of freedom of `ratios`;
    None if they are normal deviates. spread: the standard deviation of its resamples. compared: which pairs are
    compared. All five have the shape (compared, compared).
    rows: shape (compared, resamples), each model's resampled values around their mean. weights: 1 / spread; 0 if the
    spread is 0.
    adjusted: whether ratios and errors are adjusted for 0/1 values.
    """

    models: int
    place: NDArray[np.intp]
    ratios: Floats
    freedom: Floats | None
    errors: Floats
    spread: Floats
    compared: Pairs
    rows: Ratios
    weights: Ratios
    adjusted: bool

    def exceed(self, limit: float, left: Pairs) -> Pairs:
        """Return the pairs that are left whose ratio, as a normal deviate, is above the limit."""
        if self.freedom is None:
            return left & (self.ratios > limit)
        return exceed(self.ratios, self.freedom, limit, left)

    def expand(self, table: NDArray[np.generic], fill: float = math.nan) -> NDArray:  # type: ignore[type-arg]
        """Expand a table of the compared models to all models."""
        if len(self.place) == self.models:
            return table
        result = np.full((self.models, self.models), fill, dtype=table.dtype)
        result[np.ix_(self.place, self.place)] = table
        return result


def _family(
    values: Sequence[float | None], samples: Floats, better: str, questions: int | None, pairs: Paired | None
) -> _Family:
    check_samples(values, samples)
    point = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    undefined = np.count_nonzero(np.isnan(samples), axis=0)
    usable = ~np.isnan(point) & (undefined / max(1, len(samples)) <= LARGEST_UNDEFINED_SHARE) & (len(samples) > 0)
    if better not in ("higher", "lower") or (questions is not None and questions < MINIMUM_QUESTIONS):
        usable = np.zeros(len(values), dtype=np.bool_)
    sign = 1.0 if better == "higher" else -1.0
    # From here on, arrays have only the models that are compared, and higher is better.
    place = np.flatnonzero(usable)
    differences = sign * np.subtract.outer(point[place], point[place])
    model_samples = samples.T if len(place) == len(values) else samples.T[place]
    deviations = _deviations(model_samples, sign, whole=not undefined[place].any())
    compared_pairs = None if pairs is None else pairs.select(place.tolist())
    pair_ratios = None if compared_pairs is None else compared_pairs.student_ratios()
    spread, compared = _spread(deviations, skewed=pair_ratios is not None)
    constant = (spread == 0) & (np.abs(differences) > RANK_TOLERANCE)
    weights = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    ratios, errors, freedom = differences * weights, spread, None
    adjusted = False
    if compared_pairs is not None:
        compared &= compared_pairs.enough
        if pair_ratios is not None and compared_pairs.error is not None:
            # Adjusted for few questions that differ, so that a skew difference is compared, too.
            ratios, errors, adjusted = sign * pair_ratios, compared_pairs.error, True
            freedom = compared_pairs.freedom
            compared = compared_pairs.enough & ~np.eye(len(place), dtype=np.bool_)
    ratios = np.where(constant, np.copysign(np.inf, differences), ratios)
    rows, scales = deviations.astype(np.float32), weights.astype(np.float32)
    return _Family(len(values), place, ratios, freedom, errors, spread, compared, rows, scales, adjusted)


def _deviations(rows: Floats, sign: float, *, whole: bool) -> Floats:
    """Centre each model's resampled values, shape (models, resamples); 0 for the rare undefined value.

    sign: 1 or -1, by which they are multiplied. whole: whether no value is undefined.
    """
    means = (np.mean if whole else np.nanmean)(rows, axis=1, keepdims=True) if rows.size else rows
    centred: Floats = np.ascontiguousarray(rows) - means
    if not whole:
        centred[np.isnan(centred)] = 0.0
    return centred if sign > 0 else np.negative(centred, out=centred)


def _spread(deviations: Floats, *, skewed: bool) -> tuple[Floats, Pairs]:
    """Return the standard deviation of each pair's difference, and whether the pair can be compared.

    skewed: whether pairs with a skew difference can be compared, too.
    """
    resamples = max(1, deviations.shape[1])
    products = deviations @ deviations.T / resamples
    variances = np.diag(products)
    both = np.add.outer(variances, variances)
    variance = both - 2 * products
    variance[variance <= NO_SPREAD * both] = 0
    spread = np.sqrt(variance)
    compared = np.ones(spread.shape, dtype=np.bool_)
    if not skewed:
        # E(x − y)³ = E x³ − 3 E x²y + 3 E xy² − E y³, in single precision unless that is too near the limit.
        rows = deviations.astype(np.float32)
        mixed = rows**2 @ rows.T / np.float32(resamples)
        third = np.abs(np.subtract.outer(np.diag(mixed), np.diag(mixed)) - 3 * mixed + 3 * mixed.T)
        limit = LARGEST_SKEWNESS * variance * spread
        cubes = variances**1.5 * SINGLE_MISSES
        first, second = np.nonzero(np.triu(np.abs(third - limit) <= np.add.outer(cubes, cubes), 1))
        compared = (third <= limit) | (spread == 0)
        for start in range(0, first.size, AT_ONCE):
            pair = first[start : start + AT_ONCE], second[start : start + AT_ONCE]
            differences = deviations[pair[0]] - deviations[pair[1]]
            exact = np.abs(np.einsum("pr,pr,pr->p", differences, differences, differences)) / resamples
            compared[pair] = compared[pair[::-1]] = (exact <= limit[pair]) | (spread[pair] == 0)
    np.fill_diagonal(compared, val=False)
    return spread, compared


def _p_values(ratios: Floats, questions: int | None) -> Floats:
    """Return two-sided p-values of differences over their standard errors."""
    from scipy.special import ndtr, stdtr

    below = -np.abs(ratios)
    return np.asarray(
        2 * (ndtr(below) if questions is None else stdtr(questions - 1, below * math.sqrt((questions - 1) / questions)))
    )


def _widen(critical: float, questions: int | None) -> float:
    """Widen a normal quantile as the interval of a difference on this many questions is widened."""
    from scipy.special import ndtr, stdtrit

    if questions is None:
        return critical
    return -math.sqrt(questions / (questions - 1)) * float(stdtrit(questions - 1, ndtr(-critical)))


def _step_down(
    family: _Family, tested: Pairs, critical_value: Callable[[Pairs], float], questions: int | None
) -> tuple[Pairs, float | None]:
    """Return which hypotheses, "the row is no better than the column", are rejected, and the first critical value.

    critical_value: returns, for the pairs that are left, `_upper_quantile` of the largest ratio in each resample.
    """
    rejected = tested & np.isposinf(family.ratios)
    left = tested & (family.spread > 0)
    first = None
    while left.any():
        critical = critical_value(left)
        first = critical if first is None else first
        newly_rejected = family.exceed(_widen(critical, questions), left)
        if not newly_rejected.any():
            break
        rejected |= newly_rejected
        left &= ~newly_rejected
    return rejected, first


def _upper_quantile(maxima: Ratios) -> float:
    """Return the upper 97.5 % limit of the maxima's quantile at CONFIDENCE.

    The quantile of some thousand resamples is itself uncertain; on its own it would be too small for half of all draws.
    """
    place = min(maxima.size, math.ceil(share_below(maxima.size) * maxima.size)) - 1
    return float(np.partition(maxima, place)[place])


def _critical_value(family: _Family) -> Callable[[Pairs], float]:
    """Return a function that computes the critical value of the pairs that are left.

    It is `_upper_quantile` of `_largest`. For 0/1 values it is never below the quantile of a single pair, and equals it
    if there is only one pair: so pairs distinguished among all are also distinguished on their own, and two models are
    distinguished by every rule or by none.
    """
    resampled: Callable[[Pairs], float] = (
        (lambda left: _upper_quantile(_largest(family, left)[0]))
        if len(family.rows) < MODELS_IN_BLOCKS
        else _Blocks(family).critical_value
    )
    if not family.adjusted:
        return resampled
    one_pair = quantile(None)
    alone = np.count_nonzero(family.compared) == 2  # a pair and its reverse
    return lambda left: one_pair if alone else max(one_pair, resampled(left))


class _Blocks:
    """The models of a family in blocks of models with similar answers.

    The quantile depends on the few resamples with the largest maxima, and in these on few pairs. No ratio of a model of
    one block to one of another exceeds the first block's highest value less the second's lowest, over the smallest
    spread of such a pair; rounding keeps that order. So only blocks that can reach a floor just below the quantile are
    examined. All ratios above the floor are stored: later steps use a part of them.
    """

    def __init__(self, family: _Family) -> None:
        from scipy.cluster.hierarchy import leaves_list, linkage

        by_similarity = leaves_list(linkage(family.spread[np.triu_indices(len(family.spread), 1)], "average"))
        # Shape (blocks, models of a block): the last model is repeated if a block has fewer.
        self.order = np.pad(by_similarity, (0, -len(by_similarity) % MODELS_OF_A_BLOCK), mode="edge").reshape(
            -1, MODELS_OF_A_BLOCK
        )
        self.weights = family.weights
        rows = family.rows[self.order]
        self.values = np.ascontiguousarray(rows.transpose(0, 2, 1))  # (blocks, resamples, models of a block)
        self.low, self.high = rows.min(axis=1), rows.max(axis=1)
        self.floor = math.inf
        self.above: tuple[NDArray[Any], ...] = (np.zeros(0, np.intp),) * 3 + (np.zeros(0, np.float32),)

    def critical_value(self, left: Pairs) -> float:
        """Return `_upper_quantile` of `_largest` for the pairs that are left, a subset of the last step's."""
        resample, better, worse, ratios = self.above
        still_left = left[better, worse]
        maxima = np.full(self.low.shape[1], -np.inf, dtype=np.float32)
        np.maximum.at(maxima, resample[still_left], ratios[still_left])
        quantile_kept = _upper_quantile(maxima)
        return quantile_kept if quantile_kept >= self.floor else self._recompute_quantile(left)

    def _recompute_quantile(self, left: Pairs) -> float:
        """Recompute the quantile, and store all ratios above a floor unless there are too many."""
        shape, resamples = self.order.shape, np.arange(self.low.shape[1])
        flat = self.order.ravel()
        weights = np.where(left, self.weights, np.float32(np.nan))[flat][:, flat]
        weights = np.ascontiguousarray(weights.reshape(*shape, *shape).transpose(0, 2, 1, 3))

        def ratios(better: Any, worse: Any, at: Any) -> Ratios:
            """Return ratios for pairs of blocks in a resample, shape (pairs, models, models); NaN if not left."""
            differences: Ratios = self.values[better, at][:, :, None] - self.values[worse, at][:, None, :]
            differences *= weights[better, worse]
            return differences

        # In each resample, only the pair of blocks with the highest limit at its mean weight: nearly the maxima.
        absent = np.isnan(weights)
        heaviest = np.where(absent, np.float32(-np.inf), weights).max(axis=(2, 3))
        usual = np.where(absent, 0, weights).sum(axis=(2, 3)) / np.maximum(1, (~absent).sum(axis=(2, 3)))
        usual[absent.all(axis=(2, 3))] = -np.inf
        highest = np.stack(
            [_limits(high, self.low, by[:, None]).max(axis=0) for high, by in zip(self.high, usual, strict=True)]
        )
        better = highest.argmax(axis=0)
        worse = _limits(self.high[better, resamples], self.low, usual.T[:, better]).argmax(axis=0)
        maxima = np.concatenate(
            [
                np.fmax.reduce(ratios(better[part], worse[part], part).reshape(part.size, -1), axis=1)
                for part in np.array_split(resamples, -(-resamples.size // LOOKED_AT_ONCE))
            ]
        )
        nearly = _upper_quantile(maxima)
        floor = np.float32(nearly - SLIGHTLY * abs(nearly))
        stored: list[tuple[NDArray[Any], ...]] = []
        number = 0
        for block in range(shape[0]):
            limits = _limits(self.high[block], self.low, heaviest[block][:, None])
            others, places = np.divmod(np.flatnonzero(limits >= floor), resamples.size)
            for start in range(0, others.size, LOOKED_AT_ONCE):
                part = slice(start, start + LOOKED_AT_ONCE)
                other, at = others[part], places[part]
                ratios_of_blocks = ratios(block, other, at)
                which, one, two = np.unravel_index(np.flatnonzero(ratios_of_blocks >= floor), ratios_of_blocks.shape)
                np.maximum.at(maxima, at[which], ratios_of_blocks[which, one, two])
                number += which.size
                if number <= MOST_KEPT:
                    models = self.order[block, one], self.order[other[which], two]
                    stored.append((at[which], *models, ratios_of_blocks[which, one, two]))
        if number <= MOST_KEPT:
            self.floor, self.above = float(floor), tuple(map(np.concatenate, zip(*stored, strict=True)))
        return _upper_quantile(maxima)


def _limits(high: Ratios, low: Ratios, heaviest: Ratios) -> Ratios:
    """Return an upper limit of the ratios between models of two blocks, shape (blocks, resamples).

    high: shape (resamples,), highest values of the first block. low: shape (blocks, resamples), lowest values of the
    others. heaviest: the largest weight against each, of the same shape or one column; below 0 without a pair.
    """
    limits: Ratios = high - low
    np.maximum(limits, 0, out=limits)
    limits *= np.maximum(heaviest, 0)
    if (heaviest < 0).any():
        limits[np.broadcast_to(heaviest < 0, limits.shape)] = -np.inf
    return limits


def _largest(family: _Family, left: Pairs, resamples: Any = slice(None)) -> tuple[Ratios, NDArray[np.intp]]:
    """Return in each resample the largest ratio of the ordered pairs that are left, and one model of that pair."""
    rows = family.rows[:, resamples]
    largest = np.full(rows.shape[1], -np.inf, dtype=np.float32)
    models = np.zeros(rows.shape[1], dtype=np.intp)
    # If both directions are left, the absolute value of one of them serves both.
    both = left & left.T
    for chosen, fold in ((np.triu(both), True), (left & ~both, False)):
        for model, others in enumerate(chosen):
            if others.any():
                scaled = rows[others]
                np.subtract(rows[model], scaled, out=scaled)
                scaled *= family.weights[model, others][:, None]
                if fold:
                    np.abs(scaled, out=scaled)
                highest = scaled.max(axis=0)
                models[highest > largest] = model
                np.maximum(largest, highest, out=largest)
    return largest, models
