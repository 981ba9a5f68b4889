"""The one table of metrics: names, labels, directions, sources and functions.

Page headings, the command line and docs/metrics.md are made from it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from registry.metrics import cora, npsq, permutation, pride, probability, runs
from registry.metrics.outcome import Outcomes

Value = tuple[float | None, int]
"""A metric's value over a set of questions, and over how many of them it was taken."""


@dataclass(frozen=True)
class Metric:
    """A metric: what it is called, which way is better, where it comes from, and its definition.

    low, high: its range; None where it is unbounded. unit: "fraction", "percent" or another.
    per_question: its value for one question; None for those that are taken over the whole benchmark.
    over_questions: its value over complete questions.
    over_runs: its value over the accuracies of runs, for those that compare runs.
    over_evaluation: the value of each question, for those where it depends on the evaluation's other questions; its
    value over a scope is the mean of these, and they exist once the whole evaluation is complete.
    """

    name: str
    label: str
    better: Literal["higher", "lower", "neither"]
    source: str
    summary: str
    per_question: Callable[[Outcomes], float | None] | None
    over_questions: Callable[[Sequence[Outcomes]], Value]
    low: float | None = 0.0
    high: float | None = 1.0
    unit: str = "fraction"
    over_runs: runs.RunMetric | None = None
    over_evaluation: Callable[[Sequence[Outcomes]], list[float | None]] | None = None
    definition_version: int = 1

    @property
    def view(self) -> Literal["scope_metrics", "run_metrics"]:
        """Where SQL has it."""
        return "scope_metrics" if self.over_runs is None else "run_metrics"


def mean_over_questions(per_question: Callable[[Outcomes], float | None]) -> Callable[[Sequence[Outcomes]], Value]:
    """The plain mean over the questions for which `per_question` is defined."""

    def mean(questions: Sequence[Outcomes]) -> Value:
        values = [value for value in map(per_question, questions) if value is not None]
        return (math.fsum(values) / len(values) if values else None), len(values)

    return mean


def _of_evaluation(
    over_evaluation: Callable[[Sequence[Outcomes]], list[float | None]],
) -> Callable[[Sequence[Outcomes]], Value]:
    def mean(questions: Sequence[Outcomes]) -> Value:
        values = [value for value in over_evaluation(questions) if value is not None]
        return (math.fsum(values) / len(values) if values else None), len(values)

    return mean


def _of_pairs(
    one: Callable[[Outcomes], float | None],
    other: Callable[[Outcomes], float | None],
    combine: Callable[[float | None, float | None], float | None],
) -> Callable[[Sequence[Outcomes]], Value]:
    """A function of two means, both over the questions for which both are defined."""

    def value(questions: Sequence[Outcomes]) -> Value:
        both = [outcomes for outcomes in questions if one(outcomes) is not None and other(outcomes) is not None]
        return combine(mean_over_questions(one)(both)[0], mean_over_questions(other)(both)[0]), len(both)

    return value


def pct_drop(original: float | None, retest: float | None) -> float | None:
    """100 (accuracy − retest accuracy) / accuracy, in percent; None when the accuracy is 0. 50 → 40: 20."""
    if original is None or retest is None or original == 0:
        return None
    return 100 * (original - retest) / original


def _of_runs(function: runs.RunMetric) -> Callable[[Sequence[Outcomes]], Value]:
    def value(questions: Sequence[Outcomes]) -> Value:
        found = runs.runs_of(questions)
        return function(found), len([outcomes for outcomes in questions if outcomes])

    return value


_G: Final = "Goliakova et al., Metric assessment protocol"
_U: Final = "Gupta et al., Changing Answer Order Can Decrease MMLU Accuracy"
_C: Final = "Cavalin et al., Improving Score Reliability"
_N: Final = "Nowak et al., ABCD"
_S: Final = "Cho et al., Choices Speak Louder than Questions"


def _mean(
    name: str,
    label: str,
    better: Literal["higher", "lower"],
    source: str,
    summary: str,
    function: Callable[[Outcomes], float | None],
    *,
    low: float | None = 0.0,
    high: float | None = 1.0,
    unit: str = "fraction",
) -> Metric:
    return Metric(
        name, label, better, source, summary, function, mean_over_questions(function), low=low, high=high, unit=unit
    )


def _run(
    name: str,
    label: str,
    better: Literal["higher", "lower"],
    summary: str,
    function: runs.RunMetric,
    *,
    high: float | None = 1.0,
    unit: str = "fraction",
) -> Metric:
    return Metric(
        name,
        label,
        better,
        f"{_N}, Tables 5–11",
        summary,
        None,
        _of_runs(function),
        high=high,
        unit=unit,
        over_runs=function,
    )


_ALL: Final = (
    _mean(
        "accuracy",
        "Accuracy",
        "higher",
        f"{_U}, V₀; {_C}, MCQA",
        "Right answers on the benchmark's own order of the options.",
        permutation.accuracy,
    ),
    _mean(
        "accuracy_normalized",
        "Accuracy, length-normalised",
        "higher",
        f"{_S}, length normalisation",
        "Right answers on the original order, choosing by log-probability per byte of the option.",
        npsq.accuracy_normalized,
    ),
    _mean(
        "average_accuracy",
        "Average accuracy",
        "higher",
        f"{_G}, AAcc",
        "Right answers over all tested orders.",
        permutation.average_accuracy,
    ),
    _mean(
        "worst_accuracy",
        "Worst accuracy",
        "higher",
        f"{_G}, WAcc",
        "Questions answered right under every tested order.",
        permutation.worst_accuracy,
    ),
    _mean(
        "best_accuracy",
        "Best accuracy",
        "higher",
        f"{_G}, BAcc",
        "Questions answered right under at least one tested order.",
        permutation.best_accuracy,
    ),
    _mean(
        "strong_accuracy",
        "Strong accuracy",
        "higher",
        f"{_G}, SAcc, Eq. 3",
        "Where the first order is right, the share of orders with the same answer.",
        permutation.strong_accuracy,
    ),
    _mean(
        "retest_accuracy",
        "Retest accuracy",
        "higher",
        f"{_U}, Eq. 1",
        "Right on the original order and right again on the other orders, averaged over them.",
        permutation.retest_accuracy,
    ),
    Metric(
        "pct_drop",
        "Drop",
        "lower",
        f"{_U}, % drop",
        "How much of the accuracy is lost on retest, in percent.",
        None,
        _of_pairs(permutation.accuracy, permutation.retest_accuracy, pct_drop),
        high=100.0,
        unit="percent",
    ),
    _mean(
        "sensitivity_gap",
        "Sensitivity gap",
        "lower",
        f"{_G}, SensG",
        "Questions right under some orders and wrong under others.",
        permutation.sensitivity_gap,
    ),
    _mean(
        "fluctuation_rate",
        "Fluctuation rate",
        "lower",
        f"{_G}, FR",
        "Questions whose answer changes with the order of the options.",
        permutation.fluctuation_rate,
    ),
    _mean(
        "prob_mass",
        "Probability mass",
        "higher",
        f"{_G}, Prob",
        "Probability of the right option, averaged over the orders.",
        probability.prob_mass,
    ),
    _mean(
        "brier_score",
        "Brier score",
        "lower",
        f"{_G}, BS",
        "Squared distance of the probabilities from the right answer, averaged over the orders.",
        probability.brier_score,
        high=2.0,
        unit="squared probability",
    ),
    _mean(
        "entropy",
        "Entropy",
        "lower",
        f"{_G}, EN",
        "How evenly the probability is spread over the options, averaged over the orders.",
        probability.entropy,
    ),
    _mean(
        "mcqa_plus",
        "MCQA+",
        "higher",
        f"{_C}, MCQA+",
        "Right answers over all variants of a question, altered options included.",
        cora.mcqa_plus,
    ),
    _mean(
        "majority_vote",
        "Majority vote",
        "higher",
        f"{_C}, MV",
        "Questions answered right in more than half of their variants.",
        cora.majority_vote,
    ),
    *(
        _mean(
            f"bmca_{percent}",
            f"BMCA({percent / 100:g})",
            "higher",
            f"{_C}, BMCA",
            f"Questions answered right in at least {percent} % of their variants.",
            cora.bmca(percent),
        )
        for percent in (50, 60, 70, 80, 90, 100)
    ),
    Metric(
        "consistency_index",
        "Consistency index",
        "higher",
        f"{_C}, CI",
        "One minus what is lost between accuracy and full consistency.",
        None,
        _of_pairs(permutation.accuracy, cora.bmca(100), cora.consistency_index),
    ),
    Metric(
        "cora",
        "CoRA",
        "higher",
        f"{_C}, CoRA",
        "Accuracy scaled down where consistency is missing.",
        None,
        _of_pairs(permutation.accuracy, cora.bmca(100), cora.cora),
    ),
    _mean(
        "score",
        "SCORE",
        "higher",
        f"{_N}, Eq. 2",
        "Pairs of orders that get the same answer, right or wrong.",
        permutation.score,
    ),
    _run(
        "accuracy_mean_all", "Mean accuracy, all runs", "higher", "Mean accuracy of all orders.", runs.accuracy_mean_all
    ),
    _run(
        "accuracy_mean_moved",
        "Mean accuracy, moved",
        "higher",
        "Mean accuracy of the orders other than the original.",
        runs.accuracy_mean_moved,
    ),
    _run(
        "accuracy_median_moved",
        "Median accuracy, moved",
        "higher",
        "Median accuracy of the orders other than the original.",
        runs.accuracy_median_moved,
    ),
    _run(
        "accuracy_abs_diff",
        "Original against moved",
        "lower",
        "Distance between the original order's accuracy and the mean of the others.",
        runs.accuracy_abs_diff,
    ),
    _run(
        "accuracy_variance",
        "Variance of accuracy",
        "lower",
        "Population variance of accuracy over the orders, in squared percentage points.",
        runs.accuracy_variance,
        high=2500.0,
        unit="squared percentage points",
    ),
    _run("accuracy_min", "Lowest accuracy", "higher", "Accuracy of the worst single order.", runs.accuracy_min),
    _run("accuracy_max", "Highest accuracy", "higher", "Accuracy of the best single order.", runs.accuracy_max),
    _run("accuracy_range", "Range of accuracy", "lower", "Best minus worst single order.", runs.accuracy_range),
    _mean(
        "npsq_correct",
        "NPSQ of the right option",
        "higher",
        f"{_S}, NPSQ",
        "How far the question closes the right option's gap to certainty.",
        npsq.npsq_correct,
        low=None,
        unit="share of the gap",
    ),
    _mean(
        "npsq_accuracy",
        "NPSQ accuracy",
        "higher",
        f"{_S}, acc_npsq",
        "Right answers when choosing by NPSQ instead of probability.",
        npsq.npsq_accuracy,
    ),
    _mean(
        "choice_only_accuracy",
        "Choice-only accuracy",
        "higher",
        f"{_S}, choice-only",
        "Right answers with the question left out: what the options alone give away.",
        npsq.choice_only_accuracy,
    ),
    _mean(
        "choice_sensitivity",
        "Choice sensitivity",
        "lower",
        f"{_S}, choice sensitivity",
        "Questions where the options weigh more than the question between the two leading options.",
        npsq.choice_sensitivity,
    ),
    _mean(
        "choice_sensitivity_normalized",
        "Choice sensitivity, length-normalised",
        "lower",
        f"{_S}, choice sensitivity with length normalisation",
        "Choice sensitivity by log-probability per byte of the option.",
        npsq.choice_sensitivity_normalized,
    ),
    Metric(
        "pride_accuracy",
        "PriDe accuracy",
        "higher",
        "Zheng et al., PriDe, as used by Goliakova et al.",
        "Accuracy after dividing out the model's liking for positions, estimated on a few questions.",
        None,
        _of_evaluation(pride.pride_per_question),
        over_evaluation=pride.pride_per_question,
    ),
)

METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _ALL}

ALL_NAMES: Final = tuple(METRICS)
"""Every metric name of the contract."""
