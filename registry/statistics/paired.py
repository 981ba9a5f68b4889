"""Whether two models are told apart on the same questions: the one rule of comparisons, tiers and ranks.

Where a question is either right or wrong, two models differ in the b questions that only the first has right and the c
that only the second has. On n questions Bonett and Price add one to each:

    p₁ = (b + 1)/(n + 2),  p₂ = (c + 1)/(n + 2),  difference p₁ − p₂,  error √((p₁ + p₂ − (p₁ − p₂)²)/(n + 2)).

The interval is the difference ± t · error, with the quantile t of n − 1 degrees that widens all intervals here, and
± ((b + c)/n)⁸/(n + 2): where nearly all questions differ, b + c hardly varies, b takes every other value only, and
without this correction equal models would be told apart in up to 5.8 % of the cases. It is nothing where half of them
differ. Equal models are told apart in at most 5 % on any number of questions from 30 on, whatever share differs, by
enumeration (`python -m bench.bench_pairs`); a resampling interval reaches 9.9 % where few differ.

Of other values the resampled difference decides, and nothing is said while fewer than DIFFERING questions differ.

Source: Bonett and Price, *Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired
Data* (2012).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import CONFIDENCE, MINIMUM_QUESTIONS, Interval

Floats = NDArray[np.float64]

DIFFERING: Final = 10
"""Questions that must differ before a resampled difference is stated."""
EQUAL: Final = 1e-9
"""Values that are no further apart are equal."""
_AT_ONCE: Final = 4_000_000
"""Differences that are looked at together while counting those that are none. It never changes a result."""


@dataclass(frozen=True)
class Paired:
    """What the questions say about every pair of models, the row less the column.

    enough: shape (models, models), whether a difference is stated at all. difference, error, slack: likewise, of 0/1
    values, averaged over tasks: the adjusted difference, its standard error, and the correction that either end of an
    interval is moved by; None for other values, of which resampling decides.
    """

    enough: NDArray[np.bool_]
    difference: Floats | None = None
    error: Floats | None = None
    slack: Floats | None = None

    def interval(self, first: int, second: int, questions: int | None) -> Interval | None:
        """The 95 % interval of first less second; None below MINIMUM_QUESTIONS, or for other than 0/1 values."""
        if self.difference is None or self.error is None or self.slack is None:
            return None
        if questions is not None and questions < MINIMUM_QUESTIONS:
            return None
        half = float(quantile(questions) * self.error[first, second] + self.slack[first, second])
        middle = float(self.difference[first, second])
        return Interval(max(-1.0, middle - half), min(1.0, middle + half))

    def ratios(self) -> Floats | None:
        """Of 0/1 values, shape (models, models): by how many standard errors a difference exceeds its correction."""
        if self.difference is None or self.error is None or self.slack is None:
            return None
        beyond = np.maximum(0.0, np.abs(self.difference) - self.slack)
        return np.asarray(np.sign(self.difference) * beyond / self.error)

    def at_least(self, errors: Floats) -> "Paired":
        """With standard errors of at least these, shape (models, models): those of resampled clusters."""
        if self.error is None:
            return self
        return replace(self, error=np.fmax(self.error, errors))

    def of(self, models: Sequence[int]) -> "Paired":
        """Of some of the models."""
        if len(models) == len(self.enough):
            return self
        chosen = np.ix_(models, models)
        parts = (self.difference, self.error, self.slack)
        return Paired(self.enough[chosen], *(None if part is None else part[chosen] for part in parts))


def quantile(questions: int | None) -> float:
    """By how many standard errors an interval reaches to either side; None: many questions.

    >>> round(quantile(None), 3), round(quantile(100), 3)
    (1.96, 1.994)
    """
    from scipy.special import ndtri, stdtrit

    tail = (1 - CONFIDENCE) / 2
    if questions is None:
        return float(-ndtri(tail))
    return math.sqrt(questions / (questions - 1)) * -float(stdtrit(questions - 1, tail))


def paired(
    tasks: Sequence[Sequence[Floats]],
    *,
    zero_or_one: bool,
    weights: Sequence[int] | None = None,
    factors: Sequence[float] | None = None,
) -> Paired:
    """Every pair of models, over the questions that both have a value for.

    tasks: of each task, its base metrics, each of shape (questions, models), NaN where undefined; a question differs
    where any of them does. zero_or_one: all values are 0 or 1, and there is one base metric. weights: of the tasks.
    factors: of each task that of `sampling_factor`, by which its standard errors are multiplied; None: 1.
    """
    if not zero_or_one:
        return enough_differ([differing(base) for base in tasks])
    times = [1] * len(tasks) if weights is None else list(weights)
    number = sum(times)
    values = [base[0] for base in tasks]
    together = _of_tasks_answered if not any(np.isnan(of).any() for of in values) else _of_tasks
    difference, variance, slack = together(values, times, [1.0] * len(tasks) if factors is None else factors)
    enough = np.ones(difference.shape, dtype=np.bool_)
    return Paired(enough, difference / number, np.sqrt(variance) / number, slack / number)


def enough_differ(counts: Sequence[NDArray[np.uint16]]) -> Paired:
    """Whether each pair of models differs in enough questions. counts: of each task, as `differing` has them."""
    return Paired(np.add.reduce(counts, dtype=np.uint16) >= DIFFERING)


def _of_tasks(
    values: Sequence[Floats], times: Sequence[int], factors: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """Over tasks, each shape (models, models): summed differences and variances, and the largest correction.

    values: of each task, shape (questions, models). times: how much each counts.
    """
    models = values[0].shape[1]
    difference, variance, slack = np.zeros((3, models, models))
    for of, answers, factor in zip(times, values, factors, strict=True):
        known = ~np.isnan(answers)
        right = np.where(known, answers, 0.0)
        only_first = right.T @ (known - right)
        off, error, own = adjusted(only_first, only_first.T, known.astype(np.float64).T @ known)
        difference += of * off
        variance += (of * factor * error) ** 2
        np.maximum(slack, of * own, out=slack)
    return difference, variance, slack


def _of_tasks_answered(
    values: Sequence[Floats], times: Sequence[int], factors: Sequence[float]
) -> tuple[Floats, Floats, Floats]:
    """What `_of_tasks` gives where all models answered all questions, for hundreds of models in some milliseconds.

    With r questions right on n, b − c is the difference of two r, and b + c = (n − Σ xy)/2 of answers x, y = ±1: so
    the sums over tasks are products of matrices.
    """
    models = values[0].shape[1]
    share, right, third = np.zeros(models), [], []
    constant = 0.0
    signs: list[Floats] = []
    alike: dict[tuple[int, int], NDArray[np.float32]] = {}
    for of, answers, factor in zip(times, values, factors, strict=True):
        n = len(answers)
        counts = answers.sum(axis=0)
        share += of / (n + 2) * counts
        right.append(counts - n / 2)
        scale = of * factor / (n + 2)
        third.append(scale**2 / (n + 2))
        constant += scale**2 * (2 + n / 2)
        signs.append(answers * scale - scale / 2)
        ones = (2 * answers - 1).astype(np.float32)
        products = ones.T @ ones
        np.minimum(products, alike.setdefault((n, of), products), out=alike[n, of])
    squares = np.stack(right)
    scaled = squares * np.sqrt(third)[:, np.newaxis]
    together = np.concatenate([*signs, scaled])
    # 2 Σ xy/4 of the weighted answers, and the square of the difference of two r, multiplied out.
    mixed = 2 * (together[: -len(squares)].T @ together[: -len(squares)])
    own = (scaled**2).sum(axis=0)
    variance = constant - mixed - np.add.outer(own, own) + 2 * (scaled.T @ scaled)
    slack = np.zeros((models, models))
    for (n, of), products in alike.items():
        if n == 0:
            continue
        nearly_all = _if_nearly_all(0.5 - products.astype(np.float64) / (2 * n))
        np.maximum(slack, of / (n + 2) * nearly_all, out=slack)
    return np.subtract.outer(share, share), variance, slack


def adjusted(only_first: Floats, only_second: Floats, questions: Floats) -> tuple[Floats, Floats, Floats]:
    """Of 0/1 values the adjusted difference, its standard error, and its correction, each of the shape of the counts.

    only_first, only_second: questions that only one of the two has right, of so many that both have a value for.

    >>> [round(float(part), 4) for part in adjusted(*map(np.float64, (3, 0, 98)))]
    [0.03, 0.0222, 0.0]
    """
    one, other = (only_first + 1) / (questions + 2), (only_second + 1) / (questions + 2)
    error = np.sqrt((one + other - (one - other) ** 2) / (questions + 2))
    share = np.divide(only_first + only_second, questions, out=np.zeros_like(questions), where=questions > 0)
    return one - other, error, _if_nearly_all(share) / (questions + 2)


def _if_nearly_all(share: Floats) -> Floats:
    """The eighth power of the share of questions that differ, by multiplications, since a power takes long."""
    return np.asarray(((share**2) ** 2) ** 2)


def differing(base: Sequence[Floats]) -> NDArray[np.uint16]:
    """How many of a task's questions each pair differs in, shape (models, models), at most DIFFERING.

    base: the base metrics, each of shape (questions, models), NaN where undefined; a question differs where any does.
    """
    models = base[0].shape[1]
    found = np.zeros((models, models), dtype=np.int64)
    # Nearly all pairs differ in enough of the first questions: of these whole tables are compared, then pair by pair.
    start = min(2 * DIFFERING, len(base[0]))
    for model in range(models):
        apart = np.zeros((start, models - model), dtype=np.bool_)
        for values in base:
            part = values[:start, model:]
            apart |= np.abs(part - part[:, :1]) > EQUAL  # NaN is no difference
        found[model, model:] = apart.sum(axis=0)
    rows, columns = np.nonzero(np.triu(found < DIFFERING, 1))
    while rows.size and start < len(base[0]):
        end = start + max(1, _AT_ONCE // rows.size)
        apart = np.zeros((len(base[0][start:end]), rows.size), dtype=np.bool_)
        for values in base:
            part = values[start:end]
            apart |= np.abs(part[:, rows] - part[:, columns]) > EQUAL
        found[rows, columns] += apart.sum(axis=0)
        left = found[rows, columns] < DIFFERING
        rows, columns, start = rows[left], columns[left], end
    counts = np.minimum(found, DIFFERING).astype(np.uint16)
    return counts + counts.T
