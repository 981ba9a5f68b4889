"""Sampling questions of a benchmark without replacement, and what the sample says of all of them.

Questions are divided into strata; within a stratum the order is drawn by a seed. With history, the answers of models
that were evaluated on all questions, strata are bands of difficulty, those where models differ are asked more often,
and the known answers are a control variate. No estimate rests on history alone: history that says nothing about the
model leaves it unbiased and its interval valid, only wider.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.statistics.sequential import MINIMUM_SAMPLE, Look, critical_values, look

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FOLDS: Final = 5
PENALTY: Final = 50.0
"""Of the ridge regression, in units of the answers' squared deviations."""
BANDS: Final = 16
SMALLEST_BAND: Final = 30
"""At most so many strata by difficulty, of so many questions at least."""
SPENT: Final = 4
"""Added to the strata as degrees of freedom that an estimate has spent. A run stops where its standard error happens to
be small: without this, intervals of runs that stopped after 190 questions covered 93.8 %."""
LEAST_REST: Final = 10
"""A sample that would leave fewer questions unasked takes them too: how many of so few are right is no normal variable,
and intervals of runs that left six of 150 covered 93.4 %."""
THIN_HISTORY: Final = 5
"""With fewer models that were asked everything, history is not used."""
SMALLEST_RATE: Final = 0.5
"""A stratum is asked at half the average rate at least, whatever history says: the new model may be unlike them."""


@dataclass(frozen=True)
class Frame:
    """All questions as a sample is drawn of them; arrays have a place for each question.

    strata: numbers from 0. rates: of a stratum, how often it is asked, 1 on average over questions.
    history: answers of the other models, shape (questions, models), as deviations from the stratum's means; no models:
    no history.
    """

    strata: Integers
    rates: Floats
    history: Floats

    @property
    def sizes(self) -> Integers:
        """How many questions each stratum has."""
        return np.bincount(self.strata, minlength=len(self.rates))


def frame_by_subject(subjects: Sequence[str | None], smallest: float) -> Frame:
    """Strata by subject, asked in proportion to their size; subjects below the share `smallest` are one stratum."""
    _, place_of, counts = np.unique([name or "" for name in subjects], return_inverse=True, return_counts=True)
    large = counts >= smallest * len(subjects)
    number = np.where(large, np.cumsum(large) - 1, large.sum())
    strata = number[place_of.reshape(-1)].astype(np.int64)
    return Frame(strata, np.ones(int(strata.max()) + 1), np.empty((len(subjects), 0)))


def frame_by_history(known: Floats, bands: int = BANDS) -> Frame:
    """Strata by difficulty, equally large, asked in proportion to the models' standard deviation within them.

    known: other models' values, shape (questions, models), without NaN.
    Source of the rates: Neyman, *On the two different aspects of the representative method* (1934).
    """
    questions = len(known)
    bands = max(1, min(bands, questions // SMALLEST_BAND))
    strata = np.empty(questions, dtype=np.int64)
    strata[np.argsort(known.mean(axis=1), kind="stable")] = np.arange(questions) * bands // questions
    deviations = within_strata(known, strata, bands)
    variances = np.bincount(strata, (deviations**2).mean(axis=1), bands) / np.bincount(strata, minlength=bands)
    rates = np.sqrt(variances)
    if not rates.any():
        rates = np.ones(bands)
    weights = np.bincount(strata, minlength=bands) / questions
    rates = np.maximum(rates / (weights @ rates), SMALLEST_RATE)
    return Frame(strata, rates / (weights @ rates), deviations)


def within_strata(known: Floats, strata: Integers, number: int) -> Floats:
    """Deviations of columns from their means within strata."""
    sizes = np.bincount(strata, minlength=number)
    sums = np.zeros((number, known.shape[1]))
    np.add.at(sums, strata, known)
    return known - (sums / sizes[:, None])[strata]


def drawn_order(frame: Frame, ids: Sequence[str], seed: int) -> list[int]:
    """Places of all questions in the order in which they are asked; ids: of the questions.

    Within a stratum by SHA-256 of "seed:id", so that any program can repeat it; the r-th of a stratum of N questions at
    rate w is due at (r + ½) / (N·w), so that every beginning holds each stratum in its proportion.
    """
    ranked = sorted(range(len(ids)), key=lambda place: hashlib.sha256(f"{seed}:{ids[place]}".encode()).digest())
    return [int(place) for place in due_order(frame, np.array(ranked, dtype=np.int64))]


def due_order(frame: Frame, ranked: Integers) -> Integers:
    """What `drawn_order` makes of a random order of all questions."""
    ranks = ranks_within(frame.strata[ranked])
    strata = frame.strata[ranked]
    due = (ranks + 0.5) / (frame.sizes * frame.rates)[strata]
    return ranked[np.lexsort((strata, due))]


def ranks_within(strata: Integers) -> Integers:
    """How many of its own stratum come before each."""
    by_stratum = np.argsort(strata, kind="stable")
    ordered = strata[by_stratum]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1]) if len(ordered) else np.empty(0, np.int64)
    lengths = np.diff(np.append(starts, len(ordered)))
    ranks = np.empty(len(strata), dtype=np.int64)
    ranks[by_stratum] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return ranks


def estimates(frame: Frame, asked: Integers, values: Floats) -> tuple[Floats, Floats]:
    """Mean over all questions, and its standard error, of samples drawn in order.

    asked: places of the sampled questions, shape (samples, n), each a beginning of a drawn order.
    values: what they came to, same shape.
    Returns (means, standard errors), shape (samples,). With strata of Nₕ questions, nₕ of them asked, and residuals
    eᵢ = yᵢ − (xᵢ − x̄ₕ)·β, where x are the known answers of other models, x̄ₕ their means over the whole stratum and β
    ridge coefficients fitted without question i's fold: ŷ = Σ (Nₕ/N) ēₕ, with variance
    Σ (Nₕ/N)² (1/nₕ − 1/Nₕ) s²ₕ(e), times n/(n − H − SPENT) of H strata. A stratum with one question asked takes s² of
    all; one with none, also their mean. s² of all is at least 1/n: as if one answer were off by 1.
    Sources: Cochran, *Sampling Techniques* (1977), chapters 5 and 7, the stratified regression estimator; Zrnic and
    Candès, *Cross-prediction-powered inference* (2024), fitting on the other folds.
    """
    strata = frame.strata[asked]
    residuals = values - _explained(frame, asked, values, strata)
    member = strata[..., None] == np.arange(len(frame.rates))
    counts = member.sum(axis=1)
    sizes = frame.sizes
    weights = sizes / sizes.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.einsum("rn,rnh->rh", residuals, member) / counts
        of_all = residuals.mean(axis=1, keepdims=True)
        means = np.where(counts > 0, means, of_all)
        deviations = residuals - np.take_along_axis(means, strata, axis=1)
        squares = np.einsum("rn,rnh->rh", deviations**2, member)
        free = counts - 1
        pooled = squares.sum(axis=1, keepdims=True) / np.maximum(free.clip(0).sum(axis=1, keepdims=True), 1)
        variances = np.where(free > 0, squares / free, pooled)
    left = 1 / np.maximum(counts, 1) - 1 / sizes
    n = residuals.shape[1]
    widened = n / max(1, n - len(frame.rates) - SPENT)
    variance = widened * (weights**2 * left * variances).sum(axis=1)
    return (means * weights).sum(axis=1), np.sqrt(np.maximum(variance, (1 / n - 1 / sizes.sum()) / n))


def _explained(frame: Frame, asked: Integers, values: Floats, strata: Integers) -> Floats:
    """What the other models' answers say of each value, beyond its stratum, by ridge regressions of the other folds.

    A question's fold is its place in the order modulo FOLDS.
    """
    samples, n = asked.shape
    models = frame.history.shape[1]
    explained = np.zeros((samples, n))
    if not models:
        return explained
    known = frame.history[asked]
    member = (strata[..., None] == np.arange(len(frame.rates))).astype(np.float64)
    parts = [
        (known[:, fold::FOLDS], values[:, fold::FOLDS, None], member[:, fold::FOLDS].transpose(0, 2, 1))
        for fold in range(FOLDS)
    ]
    # Sums over each fold; those over the others are the total without it.
    counts = np.stack([of.sum(axis=2, keepdims=True) for _, _, of in parts])
    sums = np.stack([of @ y for _, y, of in parts])
    known_sums = np.stack([of @ x for x, _, of in parts])
    products = np.stack([x.transpose(0, 2, 1) @ x for x, _, _ in parts])
    moments = np.stack([x.transpose(0, 2, 1) @ y for x, y, _ in parts])
    for fold in range(FOLDS):
        counted, summed, known_summed, product, moment = (
            total.sum(axis=0) - total[fold] for total in (counts, sums, known_sums, products, moments)
        )
        centred = moment - known_summed.transpose(0, 2, 1) @ (summed / np.maximum(counted, 1))
        coefficients = np.linalg.solve(product + PENALTY * np.eye(models), centred)
        explained[:, fold::FOLDS] = (parts[fold][0] @ coefficients)[..., 0]
    return explained


def worst_case(questions: int, precision: float, z: float) -> int:
    """Questions that a simple random sample needs where half of the answers are right: n₀/(1 + n₀/N), n₀ = (z/2P)²."""
    needed = (z / (2 * precision)) ** 2
    return min(questions, math.ceil(needed / (1 + needed / questions)))


def most_needed(questions: int, precision: float, confidence: float) -> int:
    """Questions after which the last look's interval is narrow enough where half of the answers are right."""
    return worst_case(questions, precision, critical_values(confidence)[-1])


def batch_of(questions: int, precision: float, confidence: float) -> int:
    """Questions of a batch, after each of which the interval may be looked at: a fiftieth of what can be needed."""
    return max(1, -(-most_needed(questions, precision, confidence) // 50))


def batch_ends(questions: int, batch: int, most: int | None = None) -> list[int]:
    """How many questions have been asked after each batch: MINIMUM_SAMPLE at least, all or `most` at most.

    A batch that would leave fewer than LEAST_REST questions takes them too.
    """
    end = questions if most is None else min(questions, most)
    first = min(end, batch * -(-MINIMUM_SAMPLE // batch))
    return [*(asked for asked in range(first, end, batch) if questions - asked >= LEAST_REST), end]


def smallest_share(questions: int, precision: float, confidence: float) -> float:
    """The share of a stratum that has about two questions asked at the first look."""
    return min(1.0, 16 / most_needed(questions, precision, confidence))


def ended(found: Sequence[Look], bounds: Sequence[float] = ()) -> bool:
    """Whether a run ends with the last of its looks: its information is 1, or its interval holds none of the bounds.

    All looks hold together, so that stopping at whichever excludes them errs no more often than one interval.
    """
    if not found:
        return False
    low, high = found[-1].interval.low, found[-1].interval.high
    return found[-1].information >= 1 or (bool(bounds) and not any(low <= bound <= high for bound in bounds))


def looks(
    frame: Frame,
    order: Sequence[int],
    values: Floats,
    ends: Sequence[int],
    precision: float,
    confidence: float,
    bounds: Sequence[float] = (),
) -> list[Look]:
    """The looks of a run so far; it ends with the first at which it is `ended`, and with the last of `ends`.

    order: places of the questions asked, with their values, NaN where one has none: then nothing can be estimated, and
    there is no look. ends: of `batch_ends`.
    """
    asked = np.array(order, dtype=np.int64)[None]
    found: list[Look] = []
    for end in ends:
        if end > len(values) or np.isnan(values[:end]).any() or ended(found, bounds):
            break
        means, errors = estimates(frame, asked[:, :end], values[None, :end])
        everything = end >= len(frame.strata)
        taken = look(
            float(values[:end].mean() if everything else means[0]),
            float(errors[0]),
            end,
            of=len(frame.strata),
            seen=found[-1].information if found else 0.0,
            precision=precision,
            confidence=confidence,
            last=end == ends[-1],
        )
        if taken is not None:
            found.append(taken)
    return found


def history_of(known: Mapping[str, Floats]) -> dict[str, Floats]:
    """Those models, by name, whose values over all questions are known; none where they are too few to be of use."""
    whole = {name: values for name, values in sorted(known.items()) if not np.isnan(values).any()}
    return whole if len(whole) >= THIN_HISTORY else {}
