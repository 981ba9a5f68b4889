"""The guide to the metrics without their entries: notation, comparisons of protocols, guessing, intervals.

docs/metrics.md and the page /metrics-guide are made from it and from the families of the catalogue.
"""

from dataclasses import dataclass
from typing import Final

from registry.metrics import examples
from registry.metrics.entry import Entry, Example
from registry.metrics.papers import Source, cavalin, nowak

NOTATION: Final = (
    (r"[ \ldots ]", "1 where the condition in the brackets holds, else 0"),
    (r"R", "the orders: the variants that show the question with exactly its own options, by ordinal"),
    (
        r"m_j",
        "the option chosen under the order j, wherever it stood; equal to nothing where no valid answer was given",
    ),
    (r"a", "the right option"),
    (r"V_0", "1 where the original order is answered right, else 0; the M other orders likewise, from 1 on"),
    (r"p_j(x)", "the probability of the option x under the order j, renormalised over the L labels shown"),
    (r"h", "how many of a question's M variants are answered right; RC is their share"),
    (r"A_t", "the accuracy of run t; run 0 is the original order, runs 1 to T are the moved ones"),
    (
        r"P(x \mid Q, C)",
        "the probability of the option x given the question and the choices; without Q, the choices alone",
    ),
)
"""Symbols of the formulas, in LaTeX, and their meanings."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Entry):
    """A number that compares two evaluations with different protocols: registry.studies.protocol_comparison.

    metric: the metric compared.
    """

    metric: str


BETWEEN_TEXT: Final = (
    "Two evaluations of one model on one benchmark with the same variants, which differ in the protocol alone. In the "
    "paper the first is S&L (the model answers with a letter), the second M&D (it writes the answer out, which is then "
    "matched to an option); here they are any two protocols."
)

BETWEEN: Final = (
    Comparison(
        name="variance_ratio",
        label="Variance ratio",
        better="lower",
        summary="How much of the first protocol's variance over orders is left under the second.",
        metric="accuracy_variance",
        high=None,
        unit="ratio",
        formulas=(r"\frac{\sigma^2_{\text{second}}}{\sigma^2_{\text{first}}}",),
        sources=(nowak("Eq. 3–4"),),
        needs="`accuracy_variance` under both protocols, in the paper over `answer-moving`. Undefined where it is "
        "below 10⁻¹² under the first. Over several benchmarks it is the geometric mean, undefined if any ratio is "
        "undefined or 0.",
        example=Example(
            examples.MATCHED_RUNS,
            "70, 70 and 80 have the population variance 22.22; 60, 70 and 80 have 66.67: 22.22/66.67.",
            "0.333",
            examples.THREE_RUNS,
        ),
    ),
    Comparison(
        name="score_difference",
        label="SCORE difference",
        better="neither",
        summary="How much more consistent a model looks under the first protocol.",
        metric="score",
        low=-1.0,
        formulas=(r"\text{SCORE}_{\text{first}} - \text{SCORE}_{\text{second}}",),
        sources=(nowak("Eq. 5"),),
        needs="`score` under both protocols, in the paper over `answer-moving`. A model that follows a shortcut "
        "everywhere looks consistent, so read it next to `variance_ratio`.",
        example=Example(
            examples.STEADY,
            "b, b, b, c has the SCORE 3/6 and b, b, b, b has 6/6: .5 − 1.",
            "−0.5",
            examples.FOUR_ORDERS,
        ),
    ),
)
"""Numbers between two protocols. Their examples compare the second protocol's data with the first's."""


@dataclass(frozen=True)
class Guessing:
    """A section of the guide about guessing: its formulas, their sources, and its paragraphs with a worked example."""

    formulas: tuple[str, ...]
    sources: tuple[Source, ...]
    text: tuple[str, ...]


GUESSING: Final = Guessing(
    (
        r"P(\ge p \text{ of } M) = \sum_{j=p}^{M} \binom{M}{j} r^j (1 - r)^{M-j}",
        r"\text{MSGR}(p) = \min \lbrace r \ge 1/k \mid P(\ge p \text{ of } M) \ge 0.9995 \rbrace",
    ),
    (cavalin("Table 7"),),
    (
        (
            "With a rate r of right answers per variant, p or more of M variants are right with this probability. A "
            "model that guesses among k options has r = 1/k; the paper's “1/p” is a typing error."
        ),
        (
            "MSGR(p) is the smallest rate, from 1/k on, that reaches p almost surely, shown rounded up to two "
            "decimals. The threshold is not printed. .9995 is inferred: it reproduces Table 7 (M = 10, k = 5) for p = "
            "0 to 7; the last three rows, 8, 9 and 10, fit no single rule."
        ),
        (
            "Example: 2 or more of 3 at r = ½ have the probability 3 · ½³ + ½³ = 0.5. In the paper's table MSGR(1) is "
            "0.54: 1 − .46¹⁰ = .99958, while 1 − .47¹⁰ = .99947."
        ),
    ),
)

ABOVE_CHANCE: Final = Guessing(
    (r"\text{above chance} = \frac{x - c}{1 - c}", r"c = \frac{1}{N} \sum_{q=1}^{N} \frac{1}{k_q}"),
    (cavalin("Table 7"),),
    (
        (
            "`accuracy` on the scale on which 0 is guessing and 1 is perfect, so that benchmarks with other numbers of "
            "options can be compared. x is the accuracy, c the chance level over the same N questions, of which "
            "question q has k options: of two and ten options it is (.5 + .1)/2 = .3. −c/(1 − c) … 1 ↑: below 0 is "
            "worse than guessing. Undefined where accuracy is."
        ),
        (
            "Metrics over several orders are left out, because what ignorance gives there depends on its habit. In "
            "four orders of four options, a new guess each time is right in all of them in .004 of the questions; "
            "preferring one content, whatever its position, in .25; preferring one position, in none."
        ),
        (
            "Example: an accuracy of .625 in four options is (.625 − .25)/(1 − .25) = 0.5. Intervals are those of the "
            "metric on the new scale, since c is known exactly. Ranks do not change: models asked the same have "
            "the same c."
        ),
    ),
)
"""The section about accuracy above chance, which registry.leaderboard.chance computes."""

INTERVALS: Final = (
    "A benchmark is a sample of questions, so its numbers come with 95 % intervals, from a bootstrap over the "
    "questions in which the variants of a question stay together. None is stated where it would not cover: on few "
    "questions, where nearly all values are equal, and for metrics that compare runs, such as the lowest accuracy."
)


def range_text(low: float | None, high: float | None, unit: str) -> str:
    """Format a range in the metric's own unit; None is unbounded.

    >>> range_text(None, 1.0, "fraction"), range_text(0.0, 100.0, "percent")
    ('−∞ … 1', '0 … 100 (percent)')
    """
    text = f"{'−∞' if low is None else f'{low:g}'} … {'∞' if high is None else f'{high:g}'}".replace("-", "−")
    return text if unit == "fraction" else f"{text} ({unit})"
