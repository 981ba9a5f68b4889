"""The ways to compute a benchmark's metric from the outcomes of its questions.

Each has its definition in Python and the same in SQL, from which the views are made (`registry/schema/views`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from registry.metrics.outcome import Outcomes, VariantOutcome, own_variants, require_two_prompts

Value = tuple[float | None, int]
"""A metric's value over a set of questions, and the number of questions that it was computed from."""

QuestionMetric = Callable[[Outcomes], float | None]


@dataclass(frozen=True)
class MeanOverQuestions:
    """The plain mean over the questions for which `function` is defined.

    sql: the value of one question, from the columns of question_score, evaluation_question and question.
    where: SQL condition under which a question has a value, once every expected variant is stored; None for metrics of
    the original only, which need no other variant.
    compared_with: name and function of a metric that readers compare this one with. The mean is undefined if a question
    has a value of that metric but not of this one.
    """

    function: QuestionMetric
    sql: str
    where: str | None = None
    compared_with: tuple[str, QuestionMetric] | None = None

    def over(self, questions: Sequence[Outcomes]) -> Value:
        """Return the mean over complete questions."""
        mean, n = mean_of_defined(map(self.function, questions))
        if self.compared_with is not None and n < mean_of_defined(map(self.compared_with[1], questions))[1]:
            mean = None
        return mean, n


@dataclass(frozen=True)
class FunctionOfTwoMeans:
    """A function of the means of two metrics, both over the questions that have both.

    metrics: the two metrics by name, with their functions. function: takes two numbers, two arrays of resampled means,
    or two columns of SQL, so that it is written once.
    share_of_first: whether the value is a share of the first mean. It is then undefined if that mean is 0, its interval
    uses the questions on which the first metric is 1, and over several benchmarks it is computed from the averages of
    both means.
    """

    metrics: Mapping[str, QuestionMetric]
    function: Callable[[Any, Any], Any]
    share_of_first: bool = False

    @property
    def first(self) -> str:
        """Return the name of the first metric."""
        return next(iter(self.metrics))

    @property
    def second(self) -> str:
        """Return the name of the second metric."""
        return tuple(self.metrics)[1]

    def value(self, first: float | None, second: float | None) -> float | None:
        """Return the function of two means; None if it is undefined.

        >>> lost = FunctionOfTwoMeans({}, lambda first, second: (first - second) / first, share_of_first=True)
        >>> lost.value(0.5, 0.25), lost.value(0.0, 0.0)
        (0.5, None)
        """
        if first is None or second is None or (self.share_of_first and first == 0):
            return None
        return float(self.function(first, second))

    def over(self, questions: Sequence[Outcomes]) -> Value:
        """Return the value over complete questions."""
        pairs = [tuple(function(outcomes) for function in self.metrics.values()) for outcomes in questions]
        both = [values for values in pairs if None not in values]
        first, second = (mean_of_defined(column)[0] for column in zip(*both, strict=True)) if both else (None, None)
        return self.value(first, second), len(both)


@dataclass(frozen=True)
class Runs:
    """Accuracies of the runs by ordinal, in [0, 1]; original: the ordinal of the original's run, if there is one."""

    accuracies: Mapping[int, float]
    original: int | None

    def moved(self) -> list[float]:
        """Return the accuracies of the runs that are not the original's; empty without an original."""
        if self.original is None:
            return []
        return [value for ordinal, value in self.accuracies.items() if ordinal != self.original]


RunMetric = Callable[[Runs], float | None]


def _list_tested_orders(outcomes: Outcomes) -> list[VariantOutcome]:
    return require_two_prompts(outcomes, own_variants(outcomes))


def runs_of(questions: Sequence[Outcomes]) -> Runs:
    """Compute the runs' accuracies from complete questions, over variants with exactly the question's own options.

    Questions with fewer than two distinct prompts are left out: repeats of one prompt are not orders.
    """
    hits: dict[int, list[bool]] = {}
    unchanged: dict[int, bool] = {}
    for outcomes in questions:
        for outcome in _list_tested_orders(outcomes):
            hits.setdefault(outcome.variant, []).append(outcome.correct)
            unchanged[outcome.variant] = unchanged.get(outcome.variant, True) and outcome.original
    originals = [ordinal for ordinal, same in unchanged.items() if same]
    return Runs(
        {ordinal: fmean(map(float, correct)) for ordinal, correct in sorted(hits.items())},
        min(originals, default=None),
    )


@dataclass(frozen=True)
class OverRuns:
    """A function of the runs' accuracies. sql: the same, from the columns of `spread` in the view run_metrics."""

    function: RunMetric
    sql: str

    def over(self, questions: Sequence[Outcomes]) -> Value:
        """Return the value over complete questions."""
        return self.function(runs_of(questions)), sum(map(bool, map(_list_tested_orders, questions)))


@dataclass(frozen=True)
class OverEvaluation:
    """A mean over questions of values that depend on the evaluation's other questions.

    function: the value of each question, available once the whole evaluation is complete. sql: the value of one
    question, from the columns that sealing stored.
    """

    function: Callable[[Sequence[Outcomes]], list[float | None]]
    sql: str

    def over(self, questions: Sequence[Outcomes]) -> Value:
        """Return the mean over complete questions."""
        return mean_of_defined(self.function(questions))


Averaging = MeanOverQuestions | FunctionOfTwoMeans | OverRuns | OverEvaluation


def mean_of_defined(values: Iterable[float | None]) -> Value:
    """Return the mean of the defined values, and their number."""
    defined = [value for value in values if value is not None]
    return (math.fsum(defined) / len(defined) if defined else None), len(defined)


def average_over_tasks(
    two: FunctionOfTwoMeans | None, means: Sequence[Sequence[float | None]], weights: Sequence[int] | None = None
) -> float | None:
    """Average a metric over several tasks, unweighted without `weights`; None if a task has no value.

    two: the function of two means if the metric is one; a share of the first is computed from the averages of both
    means.
    means: for each task, the means of the base metrics.

    >>> average_over_tasks(None, [(0.5,), (1.0,)]), average_over_tasks(None, [(0.5,), (None,)])
    (0.75, None)
    >>> average_over_tasks(None, [(0.5,), (1.0,)], weights=(3, 1))
    0.625
    """
    if two is None:
        return _mean_of_all([task_means[0] for task_means in means], weights)
    if two.share_of_first:
        first = _mean_of_all([task_means[0] for task_means in means], weights)
        second = _mean_of_all([task_means[1] for task_means in means], weights)
        return None if first is None or second is None else two.value(first, second)
    return _mean_of_all([None if None in task_means else two.value(*task_means) for task_means in means], weights)


def _mean_of_all(values: Sequence[float | None], weights: Sequence[int] | None = None) -> float | None:
    defined = [value for value in values if value is not None]
    if not defined or len(defined) < len(values):
        return None
    if weights is None:
        return math.fsum(defined) / len(defined)
    return math.fsum([weight * value for value, weight in zip(defined, weights, strict=True)]) / sum(weights)


def zero_or_one(condition: str) -> str:
    """Return the SQL expression that is 1 or 0 as a condition is true or false, and NULL if it is NULL."""
    return f"cast(case when {condition} then 1.0 when not {condition} then 0.0 end as double precision)"
