"""The one table of metrics: names, labels, directions, sources and functions.

Page headings, the command line and docs/metrics.md are made from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from registry.metrics import permutation
from registry.metrics.outcome import Outcomes

ALL_NAMES: Final = (
    "accuracy",
    "accuracy_normalized",
    "average_accuracy",
    "worst_accuracy",
    "best_accuracy",
    "strong_accuracy",
    "retest_accuracy",
    "pct_drop",
    "sensitivity_gap",
    "fluctuation_rate",
    "prob_mass",
    "brier_score",
    "entropy",
    "pride_accuracy",
    "mcqa_plus",
    "majority_vote",
    "bmca_50",
    "bmca_60",
    "bmca_70",
    "bmca_80",
    "bmca_90",
    "bmca_100",
    "consistency_index",
    "cora",
    "score",
    "accuracy_mean_all",
    "accuracy_mean_moved",
    "accuracy_median_moved",
    "accuracy_abs_diff",
    "accuracy_variance",
    "accuracy_min",
    "accuracy_max",
    "accuracy_range",
    "npsq_correct",
    "npsq_accuracy",
    "choice_only_accuracy",
    "choice_sensitivity",
    "choice_sensitivity_normalized",
)
"""Every metric name of the contract, in the order in which reports give them."""


@dataclass(frozen=True)
class Metric:
    """A metric that the registry computes.

    per_question: its definition on one question's outcomes. better: which way is better.
    """

    name: str
    label: str
    better: Literal["higher", "lower"]
    source: str
    summary: str
    per_question: Callable[[Outcomes], float | None]
    definition_version: int = 1


_GOLIAKOVA = "Goliakova et al., Metric assessment protocol"

METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "accuracy",
            "Accuracy",
            "higher",
            "share of right answers on the benchmark's own order",
            "Right answers on the original order of the options.",
            permutation.accuracy,
        ),
        Metric(
            "average_accuracy",
            "Average accuracy",
            "higher",
            f"{_GOLIAKOVA}, AAcc",
            "Right answers over all tested orders.",
            permutation.average_accuracy,
        ),
        Metric(
            "worst_accuracy",
            "Worst accuracy",
            "higher",
            f"{_GOLIAKOVA}, WAcc",
            "Questions answered right under every tested order.",
            permutation.worst_accuracy,
        ),
        Metric(
            "fluctuation_rate",
            "Fluctuation rate",
            "lower",
            f"{_GOLIAKOVA}, FR",
            "Questions whose answer changes with the order of the options.",
            permutation.fluctuation_rate,
        ),
    )
}
