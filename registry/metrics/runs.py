"""Accuracy run by run: Nowak et al., *ABCD: All Biases Come Disguised*, Tables 5 to 11.

A run is one variant ordinal over all questions; its accuracy covers the questions that have it. The run of the
original order is the lowest ordinal that shows every one of its questions as the benchmark has it; the other runs are
"moved". View: run_metrics. Example: accuracies .6 (original), .7 and .8.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, pvariance

from registry.metrics.outcome import Outcomes, own_variants


@dataclass(frozen=True)
class Runs:
    """Accuracies of the runs by ordinal, in [0, 1]; original: the ordinal of the original's run, if there is one."""

    accuracies: Mapping[int, float]
    original: int | None

    def moved(self) -> list[float]:
        """Accuracies of the runs that are not the original's; empty without an original."""
        if self.original is None:
            return []
        return [value for ordinal, value in self.accuracies.items() if ordinal != self.original]


def runs_of(questions: Sequence[Outcomes]) -> Runs:
    """The runs of complete questions, over variants with exactly the question's own options."""
    hits: dict[int, list[bool]] = {}
    unchanged: dict[int, bool] = {}
    for outcomes in questions:
        for outcome in own_variants(outcomes):
            hits.setdefault(outcome.variant, []).append(outcome.correct)
            unchanged[outcome.variant] = unchanged.get(outcome.variant, True) and outcome.original
    originals = [ordinal for ordinal, same in unchanged.items() if same]
    return Runs(
        {ordinal: fmean(map(float, correct)) for ordinal, correct in sorted(hits.items())},
        min(originals, default=None),
    )


def accuracy_mean_all(runs: Runs) -> float | None:
    """Mean over all runs, the original's among them: the paper's column "under attack". Example: .7."""
    return fmean(runs.accuracies.values()) if runs.accuracies else None


def accuracy_mean_moved(runs: Runs) -> float | None:
    """Mean over the moved runs. Example: .75."""
    moved = runs.moved()
    return fmean(moved) if moved else None


def accuracy_median_moved(runs: Runs) -> float | None:
    """Median over the moved runs. Example: .75."""
    moved = runs.moved()
    return median(moved) if moved else None


def accuracy_abs_diff(runs: Runs) -> float | None:
    """Distance of the original's accuracy from the mean of the moved runs. Example: .15."""
    mean = accuracy_mean_moved(runs)
    return None if mean is None or runs.original is None else abs(runs.accuracies[runs.original] - mean)


def accuracy_variance(runs: Runs) -> float | None:
    """Population variance of all runs in squared percentage points; None for fewer than two. Example: 66.67."""
    percent = [100 * value for value in runs.accuracies.values()]
    return pvariance(percent) if len(percent) > 1 else None


def accuracy_min(runs: Runs) -> float | None:
    """Lowest accuracy of a run. Example: .6."""
    return min(runs.accuracies.values(), default=None)


def accuracy_max(runs: Runs) -> float | None:
    """Highest accuracy of a run. Example: .8."""
    return max(runs.accuracies.values(), default=None)


def accuracy_range(runs: Runs) -> float | None:
    """Highest minus lowest accuracy of a run; None for fewer than two runs. Example: .2."""
    values = runs.accuracies.values()
    return max(values) - min(values) if len(values) > 1 else None


RunMetric = Callable[[Runs], float | None]
