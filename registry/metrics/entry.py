r"""What the registry says of a metric: one entry, which stands beside the metric's function.

Views, answer types, pages and documentation are made from the entries. Formulas are LaTeX; Markdown eats a backslash
before punctuation, so `\,`, `\{` and the like are not used. Texts are plain but for code in backticks, which becomes a
link where it names a metric.
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

    against: for comparisons, what `dataset` is compared with.
    """

    dataset: Dataset
    arithmetic: str
    value: str
    against: Dataset | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the guide says of a number.

    low, high: its range; None where it is unbounded. unit: "fraction", "percent" or another.
    needs: what an evaluation must have been asked. differs: what is published otherwise, if anything is known to be.
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
        """Its sources in one line, each with the paper's title."""
        return "; ".join(f"{item.paper}, {PAPERS[item.paper].title}, {item.place}" for item in self.sources)


@dataclass(frozen=True, kw_only=True)
class Metric(Entry):
    """A number that evaluations have.

    averaging: its definition in Python and SQL, and how a benchmark's value comes of those of questions.
    undefined: when it is NULL in the view that computes it, in words.
    zero_or_one: whether a question's value is 0 or 1, which McNemar's test is for. for_papers: papers print it, and
    another metric says the same or more: pages and JSON leave it out unless somebody names it.
    """

    averaging: Averaging
    undefined: str
    zero_or_one: bool = False
    for_papers: bool = False
    definition_version: int = 1

    @property
    def view(self) -> Literal["scope_metrics", "run_metrics"]:
        """Where SQL has its value over a benchmark."""
        return "run_metrics" if isinstance(self.averaging, OverRuns) else "scope_metrics"

    @property
    def of_questions(self) -> bool:
        """Whether each question has a value, of which the benchmark's is the mean."""
        return isinstance(self.averaging, MeanOverQuestions | OverEvaluation)

    @property
    def per_question(self) -> QuestionMetric | None:
        """Its value for one question; None for those that are taken over several."""
        return self.averaging.function if isinstance(self.averaging, MeanOverQuestions) else None

    @property
    def of_two_means(self) -> FunctionOfTwoMeans | None:
        """For those that combine the means of two other metrics."""
        return self.averaging if isinstance(self.averaging, FunctionOfTwoMeans) else None

    @property
    def needs_two_prompts(self) -> bool:
        """Whether it says how answers hold up, which a question asked in one prompt alone cannot tell."""
        if isinstance(self.averaging, FunctionOfTwoMeans | OverRuns):
            return True
        return isinstance(self.averaging, MeanOverQuestions) and TESTED in (self.averaging.where or "")

    @property
    def over_runs(self) -> RunMetric | None:
        """Its value over the accuracies of runs, for those that compare runs."""
        return self.averaging.function if isinstance(self.averaging, OverRuns) else None

    @property
    def over_evaluation(self) -> Callable[[Sequence[Outcomes]], list[float | None]] | None:
        """The value of each question, for those where it depends on the evaluation's other questions."""
        return self.averaging.function if isinstance(self.averaging, OverEvaluation) else None

    def over_questions(self, questions: Sequence[Outcomes]) -> Value:
        """Its value over complete questions."""
        return self.averaging.over(questions)

    @property
    def formula_is_for(self) -> str:
        """What its formulas give the value of; a benchmark's is the mean where it is each question's."""
        if isinstance(self.averaging, OverRuns):
            return "the runs"
        return "each question" if self.of_questions else "the whole benchmark"


TESTED: Final = "question_score.distinct_prompts > 1"
"""SQL: the question was asked in at least two distinct prompts. Untested is not robust."""

ORDERS: Final = "Orders of the question's own options, such as `cyclic`."
TWO_PROMPTS: Final = "Orders of the question's own options, such as `cyclic`, that make at least two distinct prompts."
TWO_ORDERS: Final = "At least two orders of the question's own options, such as `cyclic`."
"""What metrics of several families need."""
