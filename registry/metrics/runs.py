"""Accuracy run by run: Nowak et al., *ABCD: All Biases Come Disguised*, Tables 5 to 11.

A run is one variant ordinal over all questions; its accuracy covers the questions that have it. A question with fewer
than two distinct prompts is in no run: repeats of one prompt are not orders. The run of the original order is the
lowest ordinal that shows every one of its questions as the benchmark has it; the other runs are "moved".
View: run_metrics. Example: accuracies .6 (original), .7 and .8.
"""

from statistics import fmean, median, pvariance
from typing import Final

from registry.metrics import examples
from registry.metrics.averaging import OverRuns, Runs
from registry.metrics.entry import Example, Metric
from registry.metrics.papers import nowak


def accuracy_mean_all(runs: Runs) -> float | None:
    """Return the mean over all runs, including the original's: the paper's column "under attack". Example: .7."""
    return fmean(runs.accuracies.values()) if runs.accuracies else None


def accuracy_mean_moved(runs: Runs) -> float | None:
    """Return the mean over the moved runs. Example: .75."""
    moved = runs.moved()
    return fmean(moved) if moved else None


def accuracy_median_moved(runs: Runs) -> float | None:
    """Return the median over the moved runs. Example: .75."""
    moved = runs.moved()
    return median(moved) if moved else None


def accuracy_abs_diff(runs: Runs) -> float | None:
    """Return the distance of the original's accuracy from the mean of the moved runs. Example: .15."""
    mean = accuracy_mean_moved(runs)
    return None if mean is None or runs.original is None else abs(runs.accuracies[runs.original] - mean)


def accuracy_variance(runs: Runs) -> float | None:
    """Return the population variance of all runs in squared percentage points; None for fewer than two.

    Example: 66.67.
    """
    percent = [100 * value for value in runs.accuracies.values()]
    return pvariance(percent) if len(percent) > 1 else None


def accuracy_min(runs: Runs) -> float | None:
    """Return the lowest accuracy of a run; None without runs. Example: .6."""
    return min(runs.accuracies.values(), default=None)


def accuracy_max(runs: Runs) -> float | None:
    """Return the highest accuracy of a run; None without runs. Example: .8."""
    return max(runs.accuracies.values(), default=None)


def accuracy_range(runs: Runs) -> float | None:
    """Return the highest minus the lowest accuracy of a run; None for fewer than two runs. Example: .2."""
    values = runs.accuracies.values()
    return max(values) - min(values) if len(values) > 1 else None


_RUNS: Final = "Orders of the question's own options, such as `answer-moving`, that make at least two distinct prompts."
_MOVED: Final = "The original order and at least one other, such as `answer-moving`."
_TABLES: Final = (nowak("Tables 5–11"),)
_UNTESTED: Final = "no question was asked in at least two distinct prompts"
_NONE_MOVED: Final = "no original, no other run, or fewer than two distinct prompts"
_ONE_RUN: Final = "fewer than two runs, or fewer than two distinct prompts"

METRICS: Final = (
    Metric(
        name="accuracy_mean_all",
        label="Mean accuracy, all runs",
        for_papers=True,
        better="higher",
        summary="Mean accuracy of all orders.",
        formulas=(r"\frac{1}{T + 1} \sum_{t=0}^{T} A_t",),
        sources=(nowak("Tables 5–11, mean “under attack”"),),
        needs=_RUNS,
        example=Example(examples.THREE_RUNS, "(.6 + .7 + .8)/3.", "0.7"),
        differs="The paper's column “under attack” is this mean: it includes the original order.",
        averaging=OverRuns(accuracy_mean_all, "spread.mean_all"),
        undefined=_UNTESTED,
    ),
    Metric(
        name="accuracy_mean_moved",
        label="Mean accuracy, moved",
        better="higher",
        summary="Mean accuracy of the orders other than the original.",
        formulas=(r"\frac{1}{T} \sum_{t=1}^{T} A_t",),
        sources=_TABLES,
        needs=_MOVED,
        example=Example(examples.THREE_RUNS, "(.7 + .8)/2.", "0.75"),
        differs="No column of the tables has it: the mean “under attack” there is `accuracy_mean_all`.",
        averaging=OverRuns(accuracy_mean_moved, "spread.mean_moved"),
        undefined=_NONE_MOVED,
    ),
    Metric(
        name="accuracy_median_moved",
        label="Median accuracy, moved",
        for_papers=True,
        better="higher",
        summary="Median accuracy of the orders other than the original.",
        formulas=(r"\text{median}(A_1, \ldots, A_T)",),
        sources=_TABLES,
        needs=_MOVED,
        example=Example(examples.THREE_RUNS, "Halfway between .7 and .8.", "0.75"),
        averaging=OverRuns(accuracy_median_moved, "spread.median_moved"),
        undefined=_NONE_MOVED,
    ),
    Metric(
        name="accuracy_abs_diff",
        label="Original against moved",
        for_papers=True,
        better="lower",
        summary="Distance between the original order's accuracy and the mean of the others.",
        formulas=(r"\left| A_0 - \frac{1}{T} \sum_{t=1}^{T} A_t \right|",),
        sources=_TABLES,
        needs=_MOVED,
        example=Example(examples.THREE_RUNS, "|.6 − .75|.", "0.15"),
        differs="The printed differences are taken from the moved runs, although the mean printed next to them is over "
        "all runs.",
        averaging=OverRuns(accuracy_abs_diff, "abs(spread.original - spread.mean_moved)"),
        undefined=_NONE_MOVED,
    ),
    Metric(
        name="accuracy_variance",
        label="Variance of accuracy",
        for_papers=True,
        better="lower",
        summary="Population variance of accuracy over the orders, in squared percentage points.",
        formulas=(
            r"\frac{1}{T + 1} \sum_{t=0}^{T} (100 A_t - 100 \bar{A})^2",
            r"\bar{A} = \frac{1}{T + 1} \sum_{t=0}^{T} A_t",
        ),
        sources=_TABLES,
        needs=_RUNS,
        example=Example(examples.THREE_RUNS, "60, 70 and 80 have the mean 70: (100 + 0 + 100)/3.", "66.67"),
        high=2500.0,
        unit="squared percentage points",
        differs="The paper does not say which variance it prints. The population variance fits all 182 printed rows; "
        "the sample variance contradicts more than half of them.",
        averaging=OverRuns(accuracy_variance, "case when spread.runs > 1 then spread.variance end"),
        undefined=_ONE_RUN,
    ),
    Metric(
        name="accuracy_min",
        label="Lowest accuracy",
        for_papers=True,
        better="higher",
        summary="Accuracy of the worst single order.",
        formulas=(r"\min(A_0, \ldots, A_T)",),
        sources=_TABLES,
        needs=_RUNS,
        example=Example(examples.THREE_RUNS, "The lowest of .6, .7 and .8.", "0.6"),
        averaging=OverRuns(accuracy_min, "spread.lowest"),
        undefined=_UNTESTED,
    ),
    Metric(
        name="accuracy_max",
        label="Highest accuracy",
        for_papers=True,
        better="higher",
        summary="Accuracy of the best single order.",
        formulas=(r"\max(A_0, \ldots, A_T)",),
        sources=_TABLES,
        needs=_RUNS,
        example=Example(examples.THREE_RUNS, "The highest of .6, .7 and .8.", "0.8"),
        averaging=OverRuns(accuracy_max, "spread.highest"),
        undefined=_UNTESTED,
    ),
    Metric(
        name="accuracy_range",
        label="Range of accuracy",
        for_papers=True,
        better="lower",
        summary="Best minus worst single order.",
        formulas=(r"\max(A_0, \ldots, A_T) - \min(A_0, \ldots, A_T)",),
        sources=_TABLES,
        needs=_RUNS,
        example=Example(examples.THREE_RUNS, ".8 − .6.", "0.2"),
        averaging=OverRuns(accuracy_range, "case when spread.runs > 1 then spread.highest - spread.lowest end"),
        undefined=_ONE_RUN,
    ),
)
