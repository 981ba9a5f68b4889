"""Response consistency and CoRA: Cavalin et al., Eq. 1 to 10.

Paper: *Improving Score Reliability of Multiple Choice Benchmarks with Consistency Evaluation and Altered Answer
Choices*. Every variant that shows the question counts, the original among them. The released script computes CoRA from
MCQA+ and takes a plurality vote for MV; the printed tables follow the equations, and so do these functions.
Thresholds are compared on whole numbers, never on accumulated fractions. View: question_metrics, scope_metrics.
Example: two questions with hits 1111 and 1010, the original first.
"""

from collections.abc import Callable
from typing import Any, Final

from registry.metrics import examples
from registry.metrics.averaging import FunctionOfTwoMeans, MeanOverQuestions
from registry.metrics.entry import TESTED, Example, Metric
from registry.metrics.outcome import Outcomes, filter_shown, require_two_prompts
from registry.metrics.papers import Source, cavalin
from registry.metrics.permutation import accuracy


def _hits(outcomes: Outcomes) -> tuple[int, int]:
    shown = require_two_prompts(outcomes, filter_shown(outcomes))
    return sum(outcome.correct for outcome in shown), len(shown)


def mcqa_plus(outcomes: Outcomes) -> float | None:
    """Return RC, the share of variants answered right, in [0, 1]; MCQA+ is its mean over questions. Example: .75."""
    hits, M = _hits(outcomes)
    return hits / M if M else None


def majority_vote(outcomes: Outcomes) -> float | None:
    """Return MV: 1 if more than half of the variants are answered right, strictly. Example: .5."""
    hits, M = _hits(outcomes)
    return float(2 * hits > M) if M else None


def bmca(percent: int) -> Callable[[Outcomes], float | None]:
    """Return BMCA(c): 1 if at least `percent` % of the variants are answered right. Example: BMCA(.5) 1, BMCA(1) .5."""

    def at_least(outcomes: Outcomes) -> float | None:
        hits, M = _hits(outcomes)
        return float(100 * hits >= percent * M) if M else None

    return at_least


def consistency_index(mcqa: Any, bmca_100: Any) -> Any:
    """Return CI = 1 − (MCQA − BMCA(1)), in [0, 1]; both over the same questions. Example: .5."""
    return 1 - (mcqa - bmca_100)


def cora(mcqa: Any, bmca_100: Any) -> Any:
    """Return CoRA = MCQA · CI, in [0, MCQA]. Example: .5."""
    return mcqa * consistency_index(mcqa, bmca_100)


_ALTERED: Final = (
    "All variants that show the question, whatever its options; at least two prompts must be distinct. The paper's are "
    "those of `divergent`."
)
_UNTESTED: Final = "variants missing, or fewer than two distinct prompts"
_BOTH_MEANS: Final = {"accuracy": accuracy, "bmca_100": bmca(100)}
_NO_QUESTION: Final = "no question has a value"


def _cavalin(place: str) -> tuple[Source, ...]:
    return (cavalin(f"Eq. 1–10, {place}"),)


def _bmca(percent: int, value: str, reached: str) -> Metric:
    c = f"{percent / 100:g}"
    return Metric(
        name=f"bmca_{percent}",
        for_papers=percent < 100,
        label=f"BMCA({c})",
        zero_or_one=True,
        better="higher",
        summary=f"Questions answered right in at least {percent} % of their variants.",
        formulas=(rf"\text{{BMCA}}({c}) = [ \text{{RC}} \ge {c} ]",),
        sources=_cavalin("BMCA(c)"),
        needs=_ALTERED,
        example=Example(examples.FOUR_VARIANTS, f"RC is 1 and .5. At least {c} {reached}.", value),
        differs="The text says “greater than” c, the equation “at least”.",
        averaging=MeanOverQuestions(
            bmca(percent),
            f"case when 100 * question_score.shown_correct >= {percent} * question_score.shown then 1.0 else 0.0 end",
            TESTED,
        ),
        undefined=_UNTESTED,
    )


METRICS: Final = (
    Metric(
        name="mcqa_plus",
        label="MCQA+",
        for_papers=True,
        better="higher",
        summary="Right answers over all variants of a question, altered options included.",
        formulas=(r"\text{RC} = \frac{h}{M}",),
        sources=_cavalin("RC and MCQA+"),
        needs=f"{_ALTERED} The mean of RC over the questions, also where their M differ.",
        example=Example(examples.FOUR_VARIANTS, "RC is 4/4 and 2/4: (1 + .5)/2.", "0.75"),
        averaging=MeanOverQuestions(mcqa_plus, "question_score.shown_correct * 1.0 / question_score.shown", TESTED),
        undefined=_UNTESTED,
    ),
    Metric(
        name="majority_vote",
        label="Majority vote",
        zero_or_one=True,
        better="higher",
        summary="Questions answered right in more than half of their variants.",
        formulas=(r"\text{MV} = [ \text{RC} > 0.5 ]",),
        sources=_cavalin("MV"),
        needs=_ALTERED,
        example=Example(examples.FOUR_VARIANTS, "1 is more than ½, ½ is not: (1 + 0)/2.", "0.5"),
        differs="The released script takes a plurality vote among the answers and skips missing ones. The printed "
        "tables fit the equation; a missing answer is a miss.",
        averaging=MeanOverQuestions(
            majority_vote,
            "case when 2 * question_score.shown_correct > question_score.shown then 1.0 else 0.0 end",
            TESTED,
        ),
        undefined=_UNTESTED,
    ),
    _bmca(50, "1", "in both: 2/2"),
    *(_bmca(percent, "0.5", "in one of two: 1/2") for percent in (60, 70, 80, 90, 100)),
    Metric(
        name="consistency_index",
        label="Consistency index",
        for_papers=True,
        better="higher",
        summary="One minus the loss between accuracy and full consistency.",
        formulas=(r"\text{CI} = 1 - ( \text{MCQA} - \text{BMCA}(1) )",),
        sources=_cavalin("CI"),
        needs=f"{_ALTERED} Both means are taken over the questions that have both.",
        example=Example(
            examples.FOUR_VARIANTS, "Both originals are right, one question everywhere: 1 − (1 − .5).", "0.5"
        ),
        averaging=FunctionOfTwoMeans(_BOTH_MEANS, consistency_index),
        undefined=_NO_QUESTION,
    ),
    Metric(
        name="cora",
        label="CoRA",
        better="higher",
        summary="Accuracy scaled down where consistency is missing.",
        formulas=(r"\text{CoRA} = \text{MCQA} \cdot \text{CI}",),
        sources=_cavalin("CoRA"),
        needs=f"{_ALTERED} Both means are taken over the questions that have both.",
        example=Example(examples.FOUR_VARIANTS, "MCQA is 1, CI is .5: 1 · .5.", "0.5"),
        differs="The released script multiplies CI by MCQA+ instead of MCQA. All 16 printed values fit MCQA, one fits "
        "MCQA+.",
        averaging=FunctionOfTwoMeans(_BOTH_MEANS, cora),
        undefined=_NO_QUESTION,
    ),
)
