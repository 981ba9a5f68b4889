"""The metrics: families of entries, each entry beside its function, and their order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.metrics import cora, npsq, permutation, pride, probability, repeats, runs
from registry.metrics.entry import Metric


@dataclass(frozen=True)
class Family:
    """A chapter of the guide: a heading, an introduction, and the metrics in it."""

    key: str
    title: str
    text: str
    metrics: tuple[Metric, ...]


FAMILIES: Final = (
    Family(
        "orders",
        "Accuracies over orders",
        "The same question with its options in other orders: how often is the answer right, and does it stay the same?",
        permutation.METRICS,
    ),
    Family(
        "repeats",
        "Chance and order",
        "A model that samples answers the same prompt differently, and loses worst accuracy to that even if the order "
        "does nothing. Each question is asked in m distinct prompts, prompt j k times, of which x answers are right. "
        "Two answers in one order differ by chance alone; answers in different orders differ by chance and by order. "
        "Undefined for a question that was asked in fewer than two distinct prompts, or in none of them twice. If the "
        "original order alone was asked again, one order means the original.",
        repeats.METRICS,
    ),
    Family(
        "probabilities",
        "Probabilities",
        "Information in the labels' probabilities beyond the answer. They are renormalised over the labels shown; a "
        "question is undefined as soon as one of its orders has none.",
        (*probability.METRICS, *pride.METRICS),
    ),
    Family(
        "consistency",
        "Response consistency and CoRA",
        "Not only the order changes: distractors are replaced or left out while the right option stays. Thresholds are "
        "compared on whole numbers of hits.",
        cora.METRICS,
    ),
    Family(
        "runs",
        "Run by run",
        "A run is one variant over all questions; its accuracy covers the questions that have it. The run of the "
        "original order is run 0, the others are “moved”. The paper prints percent; here accuracies are fractions, "
        "and the variance is in squared percentage points.",
        runs.METRICS,
    ),
    Family(
        "npsq",
        "Effect of the question: NPSQ",
        "Every option is scored twice, with the question and with the question replaced by an empty string. The "
        "score left without it comes from the options alone. The base of the logarithm does not matter; ties go to the "
        "lowest position.",
        npsq.METRICS,
    ),
)
"""The chapters that hold the metrics of the catalogue, in the guide's order."""

FIRST: Final = (
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
    "pride_accuracy",
)
"""The metrics of the first schema, in the order of its columns."""

ADDED: Final[tuple[str, ...]] = tuple(metric.name for metric in repeats.METRICS)
"""Metrics that came later, the oldest first: views gain columns at their end."""

_ENTRIES: Final = {metric.name: metric for family in FAMILIES for metric in family.metrics}
if _unplaced := _ENTRIES.keys() - {*FIRST, *ADDED}:
    raise LookupError(f"metrics without a column: {', '.join(sorted(_unplaced))}; add them to the end of ADDED")

METRICS: Final[Mapping[str, Metric]] = {name: _ENTRIES[name] for name in (*FIRST, *ADDED)}

ALL_NAMES: Final = tuple(METRICS)
"""Every metric name of the contract."""

QUESTION_METRICS: Final = tuple(name for name, metric in METRICS.items() if metric.of_questions)
"""Metrics that each question has a value of."""
