"""Bootstrap over questions: intervals of metrics, of values computed from them, and of differences between models.

A question is drawn with all its variants, since they have the same answer; so a question is one row here. For the cases
without an interval, and the reasons: docs/decisions/0011-where-intervals-are-stated.md.
Source of CoRA's own bootstrap, over variants: Cavalin et al., *Improving Score Reliability of Multiple Choice
Benchmarks with Consistency Evaluation and Altered Answer Choices*, Table 6.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.metrics.cora import cora

Floats = NDArray[np.float64]

RESAMPLES: Final = 10_000
RANK_RESAMPLES: Final = 2_000
SEED: Final = 0
CONFIDENCE: Final = 0.95

MINIMUM_QUESTIONS: Final = 30
"""Fewest questions with an interval. On 10 to 20 the interval of a 0/1 metric covers 96 to 100 %, not 95 %."""
LARGEST_SKEWNESS: Final = 0.63
"""Largest skewness of resampled values with an interval.

For a 0/1 metric this requires 3 of the rarer outcome (skewness .58; 2 have .71). An interval on 1 or 2 is too short:
with these, up to 8.3 % of evaluations would state an interval that misses the truth, whatever the truth; from 3 on it
is at most 7.1 %. Requiring 5 would leave out so many short intervals that the others cover 98.8 % at a truth of .05 on
200 questions. Measured on 200 to 1,000 questions by `python -m bench.bench_coverage`.
"""
LARGEST_UNDEFINED_SHARE: Final = 0.01
"""Largest share of undefined resamples with an interval; with more, the others are no longer a sample of all."""

DIGITS: Final = 12
"""Resampled values that agree to this many decimals are equal: matrix products differ in the last bits."""
LEVEL_DIGITS: Final = 7
"""Decimals of the levels at which percentiles are taken: libraries' normal distributions differ in the last bits."""
WHOLE: Final = 2.0**26
"""Values are split into a multiple of 1/WHOLE and a rest, so that all machines compute the same sums.

The multiples add up exactly in any order, and so do the rests, up to an error of 2⁻⁸⁰.
"""
DRAWS_AT_ONCE: Final = 2_000_000
"""Draws of questions that are in memory together, about 60 MB. It never changes a result."""

ROWS_AT_ONCE: Final = 32
"""Rows whose intervals are computed together, so that they stay in a processor's cache. It never changes a result."""

SURE: Final = 1.96
"""Standard deviations by which the rank of a critical value among resamples is raised, since draws can be unlucky."""


@dataclass(frozen=True)
class Interval:
    """A 95 % interval, in the units of its metric."""

    low: float
    high: float


@dataclass(frozen=True)
class UpperBound(Interval):
    """An interval from 0 to a bound that the metric exceeds in at most 5 % of cases, if it is never negative."""


@dataclass(frozen=True)
class VariantBootstrap:
    """Mean and population standard deviation of a metric over resampled variants, with the resampling's parameters."""

    mean: float
    standard_deviation: float
    draws: int
    resamples: int
    seed: int


def share_below(resamples: int) -> float:
    """Return the share of resamples below a critical value, raised so that unlucky draws still reach CONFIDENCE.

    >>> round(share_below(RANK_RESAMPLES), 4)
    0.9596
    """
    return min(1.0, CONFIDENCE + SURE * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / resamples))


def _draws(questions: int, resamples: int, seed: int) -> Iterator[NDArray[np.int32]]:
    """Yield chunks of drawn questions, shape (resamples of the chunk, questions).

    The size of a chunk never changes the draws.
    """
    generator = np.random.default_rng(seed)
    rows = max(1, DRAWS_AT_ONCE // questions)
    for start in range(0, resamples, rows):
        yield generator.integers(0, questions, (min(rows, resamples - start), questions), dtype=np.int32)


def sampling_factor(questions: int, drawn_from: int | None) -> float:
    """Return the factor by which sampling without replacement reduces standard errors; 1 if `drawn_from` is None.

    For n of N questions it is √(1 − n/N): only the questions outside the sample make the value of all N questions
    uncertain.
    Source: Cochran, *Sampling Techniques* (1977), section 2.6.

    >>> round(sampling_factor(500, 12_032), 4), sampling_factor(500, None)
    (0.979, 1.0)
    """
    return 1.0 if drawn_from is None else math.sqrt(max(0.0, 1 - questions / drawn_from))


def _check_values(values: Floats, dimensions: int) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != dimensions:
        raise MetricInputError(f"values of shape {values.shape}; {dimensions} dimension(s) expected")
    if np.isinf(values).any():
        raise MetricInputError("an infinite value among those to resample; use NaN where a question is undefined")
    return values


def resample_means(
    values: Floats,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    clusters: NDArray[np.intp] | None = None,
    factor: float = 1.0,
) -> Floats:
    """Resample the columns' means over questions drawn with replacement, each with all its variants.

    values: shape (questions, columns), one column per metric; NaN if a question is undefined for it.
    clusters: shape (questions,), the number of each question's cluster, from 0 on without a gap. As many clusters are
    drawn as there are, each with all its questions: questions on one passage are not independent.
    factor: from `sampling_factor`; deviations from a column's own mean are multiplied by it.
    Returns shape (resamples, columns), the same questions drawn for every column; each mean is over the drawn questions
    that are defined, NaN if there is none. The same seed and number of questions give the same numbers.
    Raises MetricInputError on infinite values.
    """
    values = _check_values(values, 2)
    questions, columns = values.shape
    if not questions or not columns:
        return np.full((resamples, columns), np.nan)
    # One matrix product multiplies the number of draws of each question by the values. Equal columns are computed once,
    # and so are the numbers of drawn questions for columns that are defined on the same questions.
    distinct, place_of = _distinct_columns(values)
    defined = ~np.isnan(distinct)
    patterns, pattern_of = _distinct_columns(defined)
    factors = np.where(defined, distinct, 0.0)
    coarse = np.rint(factors * WHOLE) / WHOLE
    rest = factors - coarse
    split = np.flatnonzero(rest.any(axis=0))
    factors = np.concatenate([coarse, patterns, rest[:, split]], axis=1)
    n_distinct, counted = distinct.shape[1], distinct.shape[1] + patterns.shape[1]
    if clusters is not None:
        factors = _sum_clusters(factors, clusters)
    chunks = []
    for drawn in _draws(len(factors), resamples, seed):
        counts = np.empty(drawn.shape)
        for row, drawn_questions in zip(counts, drawn, strict=True):
            row[:] = np.bincount(drawn_questions, minlength=len(factors))
        sums = counts @ factors
        sums[:, split] += sums[:, counted:]
        with np.errstate(invalid="ignore"):  # 0/0: no defined question was drawn
            chunks.append(sums[:, :n_distinct] / sums[:, n_distinct + pattern_of])
    means = np.concatenate(chunks)[:, place_of]
    if factor == 1.0:
        return means
    counts = np.maximum(1, (~np.isnan(values)).sum(axis=0))
    return np.asarray((1 - factor) * (np.nansum(values, axis=0) / counts) + factor * means)


def _sum_clusters(factors: Floats, clusters: NDArray[np.intp]) -> Floats:
    """Sum the rows of each cluster, shape (clusters, columns)."""
    if clusters.shape != (len(factors),):
        raise MetricInputError(
            f"clusters of shape {clusters.shape} for {len(factors)} questions; give each question one"
        )
    sums = np.zeros((int(clusters.max()) + 1, factors.shape[1]))
    np.add.at(sums, clusters, factors)
    return sums


def design_effect(clustered: Floats, alone: Floats) -> float | None:
    """Divide the variance over resampled clusters by that over resampled questions; None if either is missing.

    clustered, alone: shape (resamples,), from `resample_means` with and without clusters; NaN if undefined.
    An evaluation of n questions is as informative as n / (design effect) independent questions.
    Source: Kish, *Survey Sampling* (1965), ch. 5.
    """
    defined = [np.round(samples[~np.isnan(samples)], DIGITS) for samples in (clustered, alone)]
    if not all(samples.size and np.ptp(samples) > 0 for samples in defined):
        return None
    return float(defined[0].var() / defined[1].var())


def _distinct_columns(table: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct columns, and for each column of the table its position among them."""
    places: dict[bytes, int] = {}
    place_of = [places.setdefault(column.tobytes(), len(places)) for column in table.T]
    _, first = np.unique(place_of, return_index=True)
    return table[:, first], np.array(place_of, dtype=np.intp)


def resample_means_reference(values: Floats, *, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Compute `resample_means` one resample after the other; slow."""
    values = _check_values(values, 2)
    questions, columns = values.shape
    result = np.full((resamples, columns), np.nan)
    if not questions:
        return result
    generator = np.random.default_rng(seed)
    for resample in range(resamples):
        drawn = values[generator.integers(0, questions, questions, dtype=np.int32)]
        for column in range(columns):
            defined = drawn[:, column][~np.isnan(drawn[:, column])]
            if defined.size:
                result[resample, column] = defined.mean()
    return result


def combine(function: Callable[..., Floats], *means: Floats) -> Floats:
    """Combine several means into a value, resample by resample.

    means: columns of one `resample_means`, shape (resamples,), over the questions that all of them have
    (docs/decisions/0008-combined-means.md); function takes them as arrays.
    Returns shape (resamples,); NaN if the value is undefined, for example after a division by zero.

    >>> combine(lambda one, other: one / other, np.array([0.5, 0.5]), np.array([0.25, 0.0]))
    array([ 2., nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.asarray(function(*means), dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def percentile_interval(samples: Floats, questions: int | None = None) -> Interval | None:
    """Return the bias-corrected 95 % percentile interval of resampled values, or None if it would not cover.

    samples: shape (resamples,); NaN if the value was undefined.
    questions: number of questions behind the value; None if it is large. On few questions the bootstrap's interval is
    too short, so it is widened.
    Percentiles are taken in the mid-distribution, which counts only half of the values that are equal to a point: a
    mean of 0/1 values has steps, and plain percentiles would jump with them. With z₀ the normal score of the samples'
    own mean among them and z = √(n/(n−1)) · t of n−1 degrees, the levels are Φ(2z₀ ± z), which are the levels of the
    plain percentile interval if the samples are symmetric and n is large.
    Returns None if all samples are equal (an interval without length would be a lie), more than LARGEST_UNDEFINED_SHARE
    are undefined, their skewness is above LARGEST_SKEWNESS, or questions are fewer than MINIMUM_QUESTIONS.
    Source: Efron, *Nonparametric standard errors and confidence intervals* (1981), bias correction; Hesterberg, *What
    Teachers Should Know about the Bootstrap* (2015), the widening; Parzen, *Quantile probability and statistical data
    modeling* (2004), mid-distribution.
    """
    return percentile_intervals(_check_values(samples, 1)[np.newaxis], [questions])[0]


def percentile_intervals(samples: Floats, questions: Sequence[int | None]) -> list[Interval | None]:
    """Return `percentile_interval` for each row of samples, shape (rows, resamples).

    questions: for each row, as for `percentile_interval`.
    """
    samples = _check_values(samples, 2)
    intervals: list[Interval | None] = [None] * len(samples)
    enough = np.array([count is None or count >= MINIMUM_QUESTIONS for count in questions], dtype=np.bool_)
    undefined = np.isnan(samples)
    lacking = undefined.any(axis=1)
    together = np.flatnonzero(enough & ~lacking) if samples.size else ()
    complete = samples if len(together) == len(samples) else samples[together]
    groups = [
        (together[start : start + ROWS_AT_ONCE], complete[start : start + ROWS_AT_ONCE])
        for start in range(0, len(together), ROWS_AT_ONCE)
    ]
    for place in np.flatnonzero(enough & lacking):
        defined = samples[place, ~undefined[place]]
        if defined.size and defined.size >= (1 - LARGEST_UNDEFINED_SHARE) * samples.shape[1]:
            groups.append((np.array([place]), defined[np.newaxis]))
    for places, rows in groups:
        for place, ends in zip(places, _compute_intervals(rows, [questions[place] for place in places]), strict=True):
            intervals[place] = ends
    return intervals


def _compute_intervals(samples: Floats, questions: Sequence[int | None]) -> list[Interval | None]:
    """Compute the intervals of rows that have no undefined value and enough questions."""
    from scipy.special import ndtr, ndtri, stdtrit

    rows, resamples = samples.shape
    samples = np.ascontiguousarray(samples)
    means = samples.mean(axis=1)
    deviations = samples - means[:, np.newaxis]
    second = np.einsum("ij,ij->i", deviations, deviations) / resamples
    third = np.einsum("ij,ij,ij->i", deviations, deviations, deviations) / resamples
    ordered = np.sort(np.round(samples, DIGITS), axis=1)
    every = np.arange(rows)

    def locate(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """Return how many samples of each row are below, and how many not above, the values, shape (values, rows).

        The third result is the values' level in the mid-distribution.
        """
        sought = np.concatenate([values, np.nextafter(values, np.inf)]).T
        places = np.array([row.searchsorted(row_sought) for row, row_sought in zip(ordered, sought, strict=True)])
        below, until = places.T.reshape(2, *values.shape)
        return below, until, (below + until) / 2 / resamples

    def interpolate(x: Floats, left: tuple[Floats, Floats], right: tuple[Floats, Floats]) -> Floats:
        """Interpolate like `np.interp` between two points (x, y) that may coincide."""
        (x0, y0), (x1, y1) = left, right
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x1 > x0, (y1 - y0) / (x1 - x0) * (x - x0) + y0, y0)

    until = locate(means[np.newaxis])[1][0]
    around = np.stack([ordered[every, np.maximum(until - 1, 0)], ordered[every, np.minimum(until, resamples - 1)]])
    left, right = zip(around, locate(around)[2], strict=True)
    shift = 2 * ndtri(interpolate(np.clip(means, *around), left, right))
    tail = (1 - CONFIDENCE) / 2
    widths = {
        n: float(ndtri(tail) if n is None else np.sqrt(n / (n - 1)) * stdtrit(n - 1, tail)) for n in set(questions)
    }
    z = np.array([widths[n] for n in questions])
    share = np.round(ndtr([shift + z, shift - z]), LEVEL_DIGITS)
    near = ordered[every, np.minimum(share * resamples, resamples - 1).astype(np.intp)]
    below, until, own = locate(near)
    # The value at that place, and the next one above or below it: the share is between their levels.
    up = own <= share
    other = ordered[every, np.where(up, np.minimum(until, resamples - 1), np.maximum(below - 1, 0))]
    points = ((own, near), (locate(other)[2], other))
    lower = [np.where(up, one, two) for one, two in zip(*points, strict=True)]
    upper = [np.where(up, two, one) for one, two in zip(*points, strict=True)]
    ends = interpolate(np.clip(share, lower[0], upper[0]), (lower[0], lower[1]), (upper[0], upper[1])).tolist()
    with np.errstate(divide="ignore", invalid="ignore"):
        stated = (ordered[:, 0] < ordered[:, -1]) & (np.abs(third / second**1.5) <= LARGEST_SKEWNESS)
    return [
        Interval(low, high) if is_stated else None for low, high, is_stated in zip(*ends, stated.tolist(), strict=True)
    ]


def mean_intervals(
    values: Floats, *, resamples: int = RESAMPLES, seed: int = SEED, factor: float = 1.0
) -> list[Interval | None]:
    """Return the interval of each column's mean; None if none is stated (see `percentile_interval`).

    values, factor: as for `resample_means`.
    """
    samples = resample_means(values, resamples=resamples, seed=seed, factor=factor)
    counts = (~np.isnan(values)).sum(axis=0)
    return percentile_intervals(samples.T, counts.tolist())


def cora_over_variants(
    hits: NDArray[np.bool_], mcqa: float, *, resamples: int = RESAMPLES, draws: int = 100, seed: int = SEED
) -> VariantBootstrap:
    """Compute CoRA over resampled variants: how much it depends on the choice of variants.

    hits: shape (questions, M), right or wrong on each variant; mcqa: accuracy on the original, kept fixed.
    Each resample draws `draws` variants with replacement, the same for every question (the printed standard deviations
    of MCQA+ are too large for anything else); BMCA(1) is the share of questions right on all of them, CI = 1 − (MCQA −
    BMCA(1)), CoRA = MCQA · CI.
    Raises MetricInputError without questions or variants.
    Source: Cavalin et al., Table 6.
    """
    hits = _check_hits(hits)
    drawn = _draw_variants(hits.shape[1], resamples, draws, seed)
    # A question is right on all drawn variants if none that it misses was drawn. Questions that miss the same ones,
    # and resamples that drew the same ones, are counted once.
    misses, questions_with = np.unique(~hits, axis=0, return_counts=True)
    sets, set_of = np.unique(drawn, axis=0, return_inverse=True)
    right = np.empty(len(sets))
    rows = max(1, DRAWS_AT_ONCE // len(misses))
    for start in range(0, len(sets), rows):
        missed = sets[start : start + rows].astype(np.float32) @ misses.T.astype(np.float32)
        right[start : start + rows] = (missed == 0) @ questions_with
    bmca = right[set_of.reshape(-1)] / len(hits)
    return _cora_bootstrap(bmca, mcqa, resamples, draws, seed)


def cora_over_variants_reference(
    hits: NDArray[np.bool_], mcqa: float, *, resamples: int = RESAMPLES, draws: int = 100, seed: int = SEED
) -> VariantBootstrap:
    """Compute `cora_over_variants` one resample after the other; slow."""
    hits = _check_hits(hits)
    drawn = _draw_variants(hits.shape[1], resamples, draws, seed)
    bmca = np.array([hits[:, variants].all(axis=1).mean() for variants in drawn])
    return _cora_bootstrap(bmca, mcqa, resamples, draws, seed)


def _check_hits(hits: NDArray[np.bool_]) -> NDArray[np.bool_]:
    hits = np.asarray(hits, dtype=np.bool_)
    if hits.ndim != 2 or not hits.size:
        raise MetricInputError(f"hits of shape {hits.shape}; give one row per question and one column per variant")
    return hits


def _draw_variants(M: int, resamples: int, draws: int, seed: int) -> NDArray[np.bool_]:
    """Draw variants and return whether each resample drew each of them at least once, shape (resamples, M)."""
    indices = np.random.default_rng(seed).integers(0, M, (resamples, draws), dtype=np.int32)
    drawn = np.zeros((resamples, M), dtype=np.bool_)
    np.put_along_axis(drawn, indices, True, axis=1)
    return drawn


def _cora_bootstrap(bmca: Floats, mcqa: float, resamples: int, draws: int, seed: int) -> VariantBootstrap:
    values = cora(mcqa, bmca)
    return VariantBootstrap(float(values.mean()), float(values.std()), draws, resamples, seed)
