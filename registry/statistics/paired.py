"""The single rule by which two models are distinguished on the same questions: for comparisons, tiers and ranks.

If a question is either right or wrong, two models differ in the b questions that only the first has right and the c
that only the second has. On n questions Bonett and Price add one to each:

    p₁ = (b + 1)/(n + 2),  p₂ = (c + 1)/(n + 2),  difference p₁ − p₂,  error √((p₁ + p₂ − (p₁ − p₂)²)/(n + 2)).

The interval is the difference ± t · error, with the quantile t of n − 1 degrees that widens all intervals here, and
± ((b + c)/n)⁸/(n + 2): if nearly all questions differ, b + c hardly varies, b takes every other value only, and without
this correction equal models would be distinguished in up to 5.8 % of the cases. It vanishes if half of them differ.
Equal models are distinguished in at most 5 % on any number of questions from 30 on, whatever share differs, by
enumeration (`python -m bench.bench_pairs`); a resampling interval reaches 9.9 % if few differ.

To add one to each is to add two questions, with each model better on one. The same is done for other values: with d the
difference of a question, two questions are added on which the models differ by h and −h, where h² = Σd⁴/Σd² is the
square of a typical difference between values that differ (1 for 0/1 values). Nothing is stated while fewer than
DIFFERING questions differ, and there is no further correction. For values computed from two means the resampled
difference decides.

Over several tasks the differences are averaged, and degrees of freedom are Satterthwaite's, over all tasks together: a
small task counts by its share of the variance. The two questions that are added to each keep a task of a few questions,
on which two models happen to agree, from looking certain. Fewer than DIFFERING questions determine a variance too
poorly: such a task has the largest variance possible for differences between the lowest and the highest value.

Source: Bonett and Price, *Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired
Data* (2012); Satterthwaite, *An Approximate Distribution of Estimates of Variance Components* (1946).
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
"""Fewest differing questions for which a difference is stated, unless all values are 0 or 1."""
MANY: Final = 1e9
"""Degrees of freedom of a variance that is known exactly."""
FURTHEST: Final = 30.0
"""Limit from which the deviates of all ratios are computed: the largest deviate of a finite ratio is about 37."""
NEARLY: Final = 1e-6
"""Share of a limit within which a ratio's deviate is computed. It never changes a result."""
EQUAL: Final = 1e-9
"""Values are equal if they differ by no more than this."""
MODELS_AT_ONCE: Final = 64
"""Models whose pairs with all others are computed together. Results depend on it by rounding only."""
_AT_ONCE: Final = 4_000_000
"""Differences that are compared with zero together. It never changes a result."""


@dataclass(frozen=True)
class Paired:
    """Paired differences of every two models, the row less the column.

    enough: shape (models, models), whether a difference is stated at all.
    difference, error, slack: of the same shape, averaged over tasks: the adjusted difference, its standard error, and
    the correction added to either end of an interval; None for values computed from two means, for which resampling
    decides.
    freedom: of the same shape, the degrees of freedom over several tasks; None for one task, whose number of questions
    determines them. bound: no difference is larger.
    """

    enough: NDArray[np.bool_]
    difference: Floats | None = None
    error: Floats | None = None
    slack: Floats | None = None
    freedom: Floats | None = None
    bound: float = 1.0

    def interval(self, first: int, second: int, questions: int | None) -> Interval | None:
        """Return the 95 % interval of first less second; None if none is stated.

        That is so if there are too few questions, too few of them differ, or resampling decides.
        """
        if self.difference is None or self.error is None or self.slack is None or not self.enough[first, second]:
            return None
        if questions is not None and questions < MINIMUM_QUESTIONS:
            return None
        times = quantile(questions if self.freedom is None else float(self.freedom[first, second]) + 1)
        half = float(times * self.error[first, second] + self.slack[first, second])
        middle = float(self.difference[first, second])
        return Interval(max(-self.bound, middle - half), min(self.bound, middle + half))

    def p_value(self, first: int, second: int, questions: int) -> float | None:
        """Return the two-sided p-value for two equal models; None if `interval` returns None."""
        from scipy.special import stdtr

        ratios = self.ratios()
        if ratios is None or self.interval(first, second, questions) is None:
            return None
        ratio = -abs(float(ratios[first, second])) * math.sqrt((questions - 1) / questions)
        return 2 * float(stdtr(questions - 1, ratio))

    def ratios(self) -> Floats | None:
        """Return each difference beyond its correction, in standard errors; None if resampling decides.

        Over several tasks it is the deviate of the normal distribution that is as improbable as that of Student's.
        """
        ratios = self.student_ratios()
        return ratios if ratios is None or self.freedom is None else as_normal(ratios, self.freedom)

    def student_ratios(self) -> Floats | None:
        """Return the `ratios` of Student's distribution, whose degrees of freedom are in `freedom`."""
        if self.difference is None or self.error is None or self.slack is None:
            return None
        beyond = np.maximum(0.0, np.abs(self.difference) - self.slack)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.nan_to_num(beyond / self.error, nan=0.0, posinf=np.inf)
        return np.asarray(np.sign(self.difference) * ratios)

    def at_least(self, errors: Floats) -> "Paired":
        """Raise the standard errors to at least these, shape (models, models), from resampled clusters."""
        if self.error is None:
            return self
        return replace(self, error=np.fmax(self.error, errors))

    def select(self, models: Sequence[int]) -> "Paired":
        """Return the differences of some of the models only."""
        if len(models) == len(self.enough):
            return self
        chosen = np.ix_(models, models)
        parts = (self.difference, self.error, self.slack, self.freedom)
        difference, error, slack, freedom = (None if part is None else part[chosen] for part in parts)
        return Paired(self.enough[chosen], difference, error, slack, freedom, self.bound)


def as_normal(ratios: Floats, freedom: Floats) -> Floats:
    """Return the normal deviates that are as improbable as ratios of Student's distribution, with their signs.

    Both have the shape (models, models). The sizes of ratios and `freedom` are symmetric.
    """
    # The distribution takes long.
    half = np.triu_indices(len(ratios), 1)
    deviates = np.zeros_like(ratios)
    deviates[half] = _deviates(np.abs(ratios[half]), freedom[half])
    return np.asarray(np.sign(ratios) * (deviates + deviates.T))


def _deviates(values: Floats, freedoms: Floats) -> Floats:
    """Compute `as_normal` for ratios that are not negative, of any shape."""
    from scipy.special import ndtri, stdtr

    below = stdtr(freedoms, -values * np.sqrt(freedoms / (freedoms + 1)))
    return np.where(np.isinf(values), values, -ndtri(np.maximum(below, np.finfo(np.float64).tiny)))


def exceed(ratios: Floats, freedom: Floats, limit: float, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether each deviate of `as_normal` is above a positive limit; False for pairs that are not in `asked`.

    Deviates rise with the degrees of freedom. So most ratios are decided by the limits for the fewest and the most of
    them, then by those for the powers of two around their own, and few deviates are computed.
    """
    from scipy.special import ndtr, stdtrit

    fewest, most = float(freedom.min(initial=MANY)), float(freedom.max(initial=1.0))
    if not (fewest >= 1.0 and limit < FURTHEST):
        return np.asarray(asked & (as_normal(ratios, freedom) > limit))
    powers = 2.0 ** np.arange(math.frexp(fewest)[1] - 1, math.frexp(most)[1] + 1)
    limits = -stdtrit(powers, ndtr(-limit)) * np.sqrt((powers + 1) / powers)
    above = asked & (ratios > limits[0] * (1 + NEARLY))
    places = np.nonzero(asked & (ratios >= limits[-1] * (1 - NEARLY)) & ~above)
    values, freedoms = ratios[places], freedom[places]
    power = np.frexp(freedoms)[1] - math.frexp(fewest)[1]
    exceeding = values > (limits * (1 + NEARLY))[power]
    near = (values >= (limits * (1 - NEARLY))[power + 1]) & ~exceeding
    exceeding[near] = _deviates(values[near], freedoms[near]) > limit
    above[places] = exceeding
    return np.asarray(above)


def quantile(questions: float | None) -> float:
    """Return the number of standard errors from an interval's centre to either end; None: many questions.

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
    """Compare every pair of models over the questions that both have a value for.

    tasks: for each task, its base metrics, each of shape (questions, models), NaN if undefined; a question differs if
    any of them differs. zero_or_one: all values are 0 or 1, and there is one base metric. weights: of the tasks.
    factors: for each task, its `sampling_factor`, which multiplies its standard errors; None: 1.
    """
    times = [1] * len(tasks) if weights is None else list(weights)
    scales = [1.0] * len(tasks) if factors is None else list(factors)
    if zero_or_one:
        values = [base[0] for base in tasks]
        together = _sum_answered_tasks if not any(np.isnan(task_values).any() for task_values in values) else _sum_tasks
        enough = np.ones((values[0].shape[1],) * 2, dtype=np.bool_)
        return _paired(enough, together(values, times, scales), times)
    enough = enough_differ([differing(base) for base in tasks]).enough
    return with_errors(enough, [base[0] for base in tasks], times, scales) if len(tasks[0]) == 1 else Paired(enough)


def squared_differences(values: Sequence[Floats]) -> Floats:
    """Return the square of each pair's typical difference, for models that have values of all questions.

    It is Σd⁴/Σd² over the questions of all tasks; 0 if the models' values are equal. values: as for `with_errors`.
    """
    models = values[0].shape[1]
    x = np.concatenate([answers - answers.sum(axis=1, keepdims=True) / models for answers in values])
    x2 = x**2
    own_second, own_fourth = x2.sum(axis=0), (x2**2).sum(axis=0)
    left, right = np.concatenate([-4 * x2 * x, 6 * x2, -4 * x]), np.concatenate([x, x2, x2 * x])
    typical = np.empty((models, models))
    for start in range(0, models, MODELS_AT_ONCE):
        rows, after = slice(start, start + MODELS_AT_ONCE), slice(start, None)
        both = np.add.outer(own_second[rows], own_second[after])
        total = both - 2 * (x[:, rows].T @ x[:, after])
        fourth = np.add.outer(own_fourth[rows], own_fourth[after]) + left[:, rows].T @ right[:, after]
        np.maximum(fourth, np.finfo(np.float64).tiny, out=fourth)
        part = np.divide(fourth, total, out=np.zeros_like(total), where=total > EQUAL * both)
        typical[rows, after] = part
        typical[after, rows] = part.T
    return typical


def with_errors(
    enough: NDArray[np.bool_],
    values: Sequence[Floats],
    times: Sequence[int],
    factors: Sequence[float],
    typical: Floats | None = None,
) -> Paired:
    """Compare every pair of models by values that are not all 0 or 1.

    enough: as in Paired. typical: `squared_differences` of the values, if already computed. The other parameters as for
    `paired`.
    """
    spans = [np.nanmax(part) - np.nanmin(part) for part in values if (~np.isnan(part)).any()]
    largest = max(map(float, spans), default=0.0)
    if any(np.isnan(part).any() for part in values):
        sums = _sum_measured_tasks(values, times, factors, largest)
    else:
        typical = squared_differences(values) if typical is None else typical
        sums = _sum_whole_tasks(values, times, factors, largest, typical)
    return _paired(enough, sums, times, max(1.0, largest))


@dataclass(frozen=True)
class _Sums:
    """Sums over tasks, each of shape (models, models).

    difference: weighted differences. variance: weighted variances. squares: squared variances over their degrees of
    freedom. slack: the largest correction of any task.
    """

    difference: Floats
    variance: Floats
    squares: Floats
    slack: Floats


def _paired(enough: NDArray[np.bool_], sums: _Sums, times: Sequence[int], bound: float = 1.0) -> Paired:
    number, freedom = sum(times), None
    if len(times) > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.nan_to_num(sums.variance**2 / sums.squares, nan=1.0, posinf=MANY)
    error = np.sqrt(np.maximum(0.0, sums.variance)) / number
    return Paired(enough, sums.difference / number, error, sums.slack / number, freedom, bound)


def enough_differ(counts: Sequence[NDArray[np.uint16]]) -> Paired:
    """Return whether each pair of models differs in enough questions.

    counts: for each task, from `differing`.
    """
    return Paired(np.add.reduce(counts, dtype=np.uint16) >= DIFFERING)


def _sum_tasks(values: Sequence[Floats], times: Sequence[int], factors: Sequence[float]) -> _Sums:
    """Sum differences and variances of 0/1 values over tasks.

    values: for each task, shape (questions, models). times: weight of each task. factors: for each task, its
    `sampling_factor`.
    """
    models = values[0].shape[1]
    difference, variance, squares, slack = np.zeros((4, models, models))
    for task_times, answers, factor in zip(times, values, factors, strict=True):
        defined = ~np.isnan(answers)
        right = np.where(defined, answers, 0.0)
        only_first = right.T @ (defined - right)
        questions = defined.astype(np.float64).T @ defined
        off, error, own = adjust(only_first, only_first.T, questions)
        difference += task_times * off
        at_most = (task_times * factor) ** 2 / (questions + 2)
        scaled = (task_times * factor * error) ** 2
        few = (questions < DIFFERING) & (len(values) > 1)
        variance += np.where(few, at_most, scaled)
        squares += np.where(few, 0.0, scaled**2 / np.maximum(1, questions - 1))
        np.maximum(slack, task_times * own, out=slack)
    return _Sums(difference, variance, squares, slack)


def _sum_answered_tasks(values: Sequence[Floats], times: Sequence[int], factors: Sequence[float]) -> _Sums:
    """Compute `_sum_tasks` for models that all answered all questions, hundreds of them in some milliseconds."""
    # Each difference is 0 or 1, and so is a typical one.
    sums = _sum_whole_tasks(values, times, factors, 1.0, None)
    return replace(sums, slack=_largest_slack(values, times))


def _largest_slack(values: Sequence[Floats], times: Sequence[int]) -> Floats:
    """Return the largest correction of any task for each pair of models that all answered all questions.

    b + c = (n − Σ xy)/2 of answers x, y = ±1, whose products are exact in single precision.
    """
    models = values[0].shape[1]
    slack = np.zeros((models, models))
    ones = [(2 * answers - 1).astype(np.float32) for answers in values]
    for start in range(0, models, MODELS_AT_ONCE):
        rows, after = slice(start, start + MODELS_AT_ONCE), slice(start, None)
        least_by_size: dict[tuple[int, int], NDArray[np.float32]] = {}
        for task_times, answers in zip(times, ones, strict=True):
            products = answers[:, rows].T @ answers[:, after]
            least = least_by_size.setdefault((len(answers), task_times), products)
            np.minimum(products, least, out=least)
        part = slack[rows, after]
        for (n, task_times), least in least_by_size.items():
            if n > 0:
                nearly_all = _if_nearly_all(0.5 - least.astype(np.float64) / (2 * n))
                np.maximum(part, task_times / (n + 2) * nearly_all, out=part)
        slack[after, rows] = part.T
    return slack


def _sum_measured_tasks(
    values: Sequence[Floats], times: Sequence[int], factors: Sequence[float], largest: float
) -> _Sums:
    """Compute `_sum_tasks` for values that are not all 0 or 1.

    largest: the largest difference of two values. Sums of powers of differences are products of matrices of powers: Σ(x
    − y)² = Σx² − 2Σxy + Σy².
    """
    models = values[0].shape[1]
    # A task's variance is a + b h², and h² is known at the end: so sums of a, b, a², ab and b² are kept.
    difference, total, fourth, one, other, one_one, one_other, other_other = np.zeros((8, models, models))
    for times_task, factor, answers in zip(times, factors, values, strict=True):
        defined = ~np.isnan(answers)
        weights = defined.astype(np.float64)
        # Centre on each question's mean: differences do not depend on it, but rounding does.
        middle = np.where(defined, answers, 0.0).sum(axis=1) / np.maximum(1.0, weights.sum(axis=1))
        x = np.where(defined, answers - middle[:, np.newaxis], 0.0)
        x2 = x**2
        n = weights.T @ weights
        sums, powers, products = x.T @ weights, x2.T @ weights, x.T @ x
        second = powers + powers.T - 2 * products
        second[second <= EQUAL * np.add.outer(np.diag(products), np.diag(products))] = 0.0
        powers, mixed = (x2**2).T @ weights, (x2 * x).T @ x
        fourth += powers + powers.T - 4 * (mixed + mixed.T) + 6 * (x2.T @ x2)
        total += second
        mean = (sums - sums.T) / (n + 2)
        scale = (times_task * factor) ** 2
        a, b = scale * (second / (n + 2) - mean**2) / (n + 2), 2 * scale / (n + 2) ** 2
        freedom = np.maximum(1, n - 1)
        if len(values) > 1:
            few = n < DIFFERING
            a, b = np.where(few, scale * largest**2 / (n + 2), a), np.where(few, 0.0, b)
            freedom = np.where(few, np.inf, freedom)
        difference += times_task * mean
        one += a
        other += b
        one_one += a**2 / freedom
        one_other += a * b / freedom
        other_other += b**2 / freedom
    typical = np.divide(np.maximum(fourth, 0.0), total, out=np.zeros_like(total), where=total > 0)
    squares = one_one + 2 * typical * one_other + typical**2 * other_other
    return _Sums(difference, one + typical * other, squares, np.zeros_like(difference))


def _sum_whole_tasks(
    values: Sequence[Floats],
    times: Sequence[int],
    factors: Sequence[float],
    largest: float,
    typical: Floats | None,
) -> _Sums:
    """Compute `_sum_measured_tasks` for models that have values of all questions; the slack is 0.

    typical: from `squared_differences`; None for 0/1 values, for which it is 1. Each task has the same number of
    questions for all pairs, so every sum over questions is a product of matrices. Tables are symmetric, and computed
    for MODELS_AT_ONCE models and those after them: all pairs do not fit into a cache.
    """
    models = values[0].shape[1]
    share, ones = np.zeros(models), np.ones(models)
    constant = other = other_other = 0.0
    products = []
    for times_task, factor, answers in zip(times, factors, values, strict=True):
        n, scale = len(answers), (times_task * factor) ** 2
        x = answers - answers.sum(axis=1, keepdims=True) / models
        sums = x.sum(axis=0) / (n + 2)
        share += times_task * sums
        if n < DIFFERING and len(values) > 1:
            constant += scale * largest**2 / (n + 2)
            continue
        # a of `_sum_measured_tasks`, multiplied out; b is one number.
        scaled, means = x * (math.sqrt(scale) / (n + 2)), sums * math.sqrt(scale / (n + 2))
        b, freedom = 2 * scale / (n + 2) ** 2, max(1, n - 1)
        own = (scaled**2).sum(axis=0) - means**2 + (b / 2 if typical is None else 0.0)
        left, right = np.vstack([-2 * scaled, 2 * means, own, ones]), np.vstack([scaled, means, ones, own])
        products.append((left, right, 1 / freedom, b / freedom))
        other += b
        other_other += b**2 / freedom
    variance, squares = np.empty((2, models, models))
    for start in range(0, models, MODELS_AT_ONCE):
        rows, after = slice(start, start + MODELS_AT_ONCE), slice(start, None)
        one, one_one, one_other = np.zeros((3, len(ones[rows]), models - start))
        for of_rows, of_others, by_freedom, b_by_freedom in products:
            a = of_rows[:, rows].T @ of_others[:, after]
            one += a
            if typical is not None:
                one_other += a * b_by_freedom
            np.multiply(a, a, out=a)
            a *= by_freedom
            one_one += a
        if typical is not None:
            h2 = typical[rows, after]
            one = np.where(h2 > 0, one + h2 * other, 0.0)
            one_one = np.where(h2 > 0, one_one + 2 * h2 * one_other + h2**2 * other_other, 0.0)
        for table, part in ((variance, constant + one), (squares, one_one)):
            table[rows, after] = part
            table[after, rows] = part.T
    return _Sums(np.subtract.outer(share, share), variance, squares, np.zeros((models, models)))


def adjust(only_first: Floats, only_second: Floats, questions: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the adjusted difference of 0/1 values, its standard error, and its correction, shaped like the counts.

    only_first, only_second: questions that only one of the two has right, among `questions` that both have a value for.

    >>> [round(float(part), 4) for part in adjust(*map(np.float64, (3, 0, 98)))]
    [0.03, 0.0222, 0.0]
    """
    first_share, second_share = (only_first + 1) / (questions + 2), (only_second + 1) / (questions + 2)
    error = np.sqrt((first_share + second_share - (first_share - second_share) ** 2) / (questions + 2))
    share = np.divide(only_first + only_second, questions, out=np.zeros_like(questions), where=questions > 0)
    return first_share - second_share, error, _if_nearly_all(share) / (questions + 2)


def _if_nearly_all(share: Floats) -> Floats:
    """Return the eighth power of the share of questions that differ, by squaring three times, which is faster."""
    return np.asarray(((share**2) ** 2) ** 2)


def differing(base: Sequence[Floats]) -> NDArray[np.uint16]:
    """Count the questions of a task in which each pair differs, shape (models, models), at most DIFFERING.

    base: the base metrics, each of shape (questions, models), NaN if undefined; a question differs if any of them does.
    """
    models = base[0].shape[1]
    numbers = np.zeros((models, models), dtype=np.int64)
    # Nearly all pairs differ in enough of the first questions, so whole tables of these are compared first, and then
    # the remaining pairs.
    start = min(2 * DIFFERING, len(base[0]))
    for model in range(models):
        unequal = np.zeros((start, models - model), dtype=np.bool_)
        for values in base:
            part = values[:start, model:]
            unequal |= np.abs(part - part[:, :1]) > EQUAL  # NaN is no difference
        numbers[model, model:] = unequal.sum(axis=0)
    rows, columns = np.nonzero(np.triu(numbers < DIFFERING, 1))
    while rows.size and start < len(base[0]):
        end = start + max(1, _AT_ONCE // rows.size)
        unequal = np.zeros((len(base[0][start:end]), rows.size), dtype=np.bool_)
        for values in base:
            part = values[start:end]
            unequal |= np.abs(part[:, rows] - part[:, columns]) > EQUAL
        numbers[rows, columns] += unequal.sum(axis=0)
        left = numbers[rows, columns] < DIFFERING
        rows, columns, start = rows[left], columns[left], end
    counts = np.minimum(numbers, DIFFERING).astype(np.uint16)
    return counts + counts.T
