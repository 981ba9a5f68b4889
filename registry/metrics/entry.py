r"""A metric's entry in the registry: one for each, next to the metric's function.

Views, answer types, pages and documentation are made from the entries. Formulas are LaTeX; Markdown eats a backslash
before punctuation, so `\,`, `\{` and the like are not used. Texts are plain except code in backticks, which becomes a
link if it names a metric.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from registry.metrics.averaging import (
    Averaging,
    FunctionOfTwoMeans,
    MeanOverQuestions,
    OverEvaluation,
    OverRuns,
    QuestionMetric,
    RunMetric,
    Value,
)
from registry.metrics.examples import Dataset
from registry.metrics.outcome import Outcomes
from registry.metrics.papers import PAPERS, Source


@dataclass(frozen=True)
class Example:
    """A worked example: the data, the arithmetic in words, and the value as printed.

    against: for comparisons, the data set that `dataset` is compared with.
    """

    dataset: Dataset
    arithmetic: str
    value: str
    against: Dataset | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A number's description in the guide.

    low, high: its range; None if it is unbounded. unit: "fraction", "percent" or another.
    needs: the prompts that an evaluation must include. differs: how published versions differ; None if none is known
    to.
    """

    name: str
    label: str
    better: Literal["higher", "lower", "neither"]
    summary: str
    formulas: tuple[str, ...]
    sources: tuple[Source, ...]
    needs: str
    example: Example
    low: float | None = 0.0
    high: float | None = 1.0
    unit: str = "fraction"
    differs: str | None = None

    @property
    def source(self) -> str:
        """Return its sources in one line, each with the paper's title."""
        return "; ".join(f"{item.paper}, {PAPERS[item.paper].title}, {item.place}" for item in self.sources)


@dataclass(frozen=True, kw_only=True)
class Metric(Entry):
    """A metric of evaluations, with its definition and its description in the guide.

    averaging: its definition in Python and SQL, and how a benchmark's value is computed from the questions' values.
    undefined: when it is NULL in the view that computes it, in words.
    zero_or_one: whether a question's value is 0 or 1, as McNemar's test requires.
    for_papers: whether pages and JSON omit it unless it is requested by name, because papers print it but another
    metric reports the same or more.
    """

    averaging: Averaging
    undefined: str
    zero_or_one: bool = False
    for_papers: bool = False
    definition_version: int = 1

    @property
    def view(self) -> Literal["scope_metrics", "run_metrics"]:
        """Return the SQL view that contains its value over a benchmark."""
        return "run_metrics" if isinstance(self.averaging, OverRuns) else "scope_metrics"

    @property
    def of_questions(self) -> bool:
        """Return whether each question has a value, so that the benchmark's value is their mean."""
        return isinstance(self.averaging, MeanOverQuestions | OverEvaluation)

    @property
    def per_question(self) -> QuestionMetric | None:
        """Return the function of one question's outcomes; None for metrics over several questions."""
        return self.averaging.function if isinstance(self.averaging, MeanOverQuestions) else None

    @property
    def of_two_means(self) -> FunctionOfTwoMeans | None:
        """Return the function that combines the means of two other metrics; None for other metrics."""
        return self.averaging if isinstance(self.averaging, FunctionOfTwoMeans) else None

    @property
    def needs_two_prompts(self) -> bool:
        """Return whether it measures how stable answers are, which a question with a single prompt cannot show."""
        if isinstance(self.averaging, FunctionOfTwoMeans | OverRuns):
            return True
        return isinstance(self.averaging, MeanOverQuestions) and TESTED in (self.averaging.where or "")

    @property
    def over_runs(self) -> RunMetric | None:
        """Return the function of the runs' accuracies; None if it does not compare runs."""
        return self.averaging.function if isinstance(self.averaging, OverRuns) else None

    @property
    def over_evaluation(self) -> Callable[[Sequence[Outcomes]], list[float | None]] | None:
        """Return the function of all questions' outcomes, for values that depend on other questions; else None."""
        return self.averaging.function if isinstance(self.averaging, OverEvaluation) else None

    def over_questions(self, questions: Sequence[Outcomes]) -> Value:
        """Return its value over complete questions."""
        return self.averaging.over(questions)

    @property
    def formula_is_for(self) -> str:
        """Return the subject of its formulas; a benchmark's value is the mean if the formulas are for each question."""
        if isinstance(self.averaging, OverRuns):
            return "the runs"
        return "each question" if self.of_questions else "the whole benchmark"


TESTED: Final = "question_score.distinct_prompts > 1"
"""SQL condition that a question has at least two distinct prompts: an untested question is not robust."""

ORDERS: Final = "Orders of the question's own options, such as `cyclic`."
TWO_PROMPTS: Final = "Orders of the question's own options, such as `cyclic`, that make at least two distinct prompts."
TWO_ORDERS: Final = "At least two orders of the question's own options, such as `cyclic`."
"""Needed prompts, in words that metrics of several families share."""
