"""The metrics: families of entries, each entry next to its function, and their order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.metrics import cora, npsq, permutation, pride, probability, repeats, runs
from registry.metrics.averaging import MeanOverQuestions
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
"""The chapters that contain the metrics of the catalogue, in the guide's order."""

METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for family in FAMILIES for metric in family.metrics}
"""Every metric by name, in the order of the guide and of the columns in views and tables."""

ALL_NAMES: Final = tuple(METRICS)
"""Names of all metrics."""

SHOWN: Final = tuple(name for name, metric in METRICS.items() if not metric.for_papers)
"""Metrics that pages and JSON show by default."""

HEADLINES: Final = (
    "right_twice_across_orders",
    "accuracy",
    "order_loss",
    "worst_accuracy",
    "cora",
    "fluctuation_rate",
    "npsq_accuracy",
)
"""Default columns of tables; models are ranked by the first."""

QUESTION_METRICS: Final = tuple(name for name, metric in METRICS.items() if metric.of_questions)
"""Metrics with a value for each question."""

COMPARED_WITH: Final = {
    name: metric.averaging.compared_with[0]
    for name, metric in METRICS.items()
    if isinstance(metric.averaging, MeanOverQuestions) and metric.averaging.compared_with is not None
}
"""Metric to the metric that readers compare it with; it is undefined over fewer questions than that metric."""
