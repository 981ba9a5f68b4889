r"""The guide to the metrics: formulas, sources, needs, worked examples, and where published code or text differs.

docs/metrics.md and the page /metrics-guide are made from it, together with the catalogue, which has the names, labels,
ranges and functions. It is one table, hence its length. Formulas are LaTeX. Markdown eats a backslash before
punctuation, so `\,`, `\{` and the like are not used. Texts are plain but for code in backticks, which becomes a link
where it names a metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from registry.metrics import examples
from registry.metrics.catalogue import Metric
from registry.metrics.examples import Dataset


@dataclass(frozen=True)
class Paper:
    """A source. arxiv: its identifier there."""

    authors: str
    title: str
    year: str
    arxiv: str


PAPERS: Final[Mapping[str, Paper]] = {
    "Goliakova et al.": Paper(
        "Goliakova, Renard, Lesot, Laugel, Marsala, Detyniecki",
        "Metric assessment protocol in the context of answer fluctuation on MCQ tasks",
        "2025",
        "2507.15581",
    ),
    "Gupta et al.": Paper(
        "Gupta, Pantoja, Ross, Williams, Ung", "Changing Answer Order Can Decrease MMLU Accuracy", "2024", "2406.19470"
    ),
    "Cavalin et al.": Paper(
        "Cavalin, Sanctos, Grave, Pinhanez, Primerano",
        "Improving Score Reliability of Multiple Choice Benchmarks with Consistency Evaluation and Altered Answer "
        "Choices",
        "2025",
        "2511.21860",
    ),
    "Nowak et al.": Paper("Nowak, Cadet, Chin", "ABCD: All Biases Come Disguised", "2026", "2602.17445"),
    "Cho et al.": Paper("Cho, So, Lee", "Choices Speak Louder than Questions", "ICLR 2026", "2502.18798"),
    "Zheng et al.": Paper(
        "Zheng, Zhou, Meng, Zhou, Huang",
        "Large Language Models Are Not Robust Multiple Choice Selectors",
        "ICLR 2024",
        "2309.03882",
    ),
}


@dataclass(frozen=True)
class Source:
    """Where a definition stands: the paper, a key of PAPERS, and the place in it."""

    paper: str
    place: str


@dataclass(frozen=True)
class Example:
    """A worked example: the data, the arithmetic in words, and the value as printed.

    against: for comparisons, what `dataset` is compared with.
    """

    dataset: Dataset
    arithmetic: str
    value: str
    against: Dataset | None = None


@dataclass(frozen=True)
class Entry:
    """What the guide says of one metric. differs: None where nothing published is known to differ."""

    formulas: tuple[str, ...]
    sources: tuple[Source, ...]
    needs: str
    example: Example
    differs: str | None = None


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
"""Symbols of the formulas, in LaTeX, and what they stand for."""

_ORDERS: Final = "Orders of the question's own options, such as `cyclic`."
_TWO_ORDERS: Final = "At least two orders of the question's own options, such as `cyclic`."
_ALTERED: Final = (
    "All variants that show the question, whatever its options. The paper's are those of `divergent`: 2 + 6(A − 1) "
    "for A options, the original among them."
)
_BOTH: Final = (
    "Log-probabilities with the question and without it, such as `choice-only` asks for; taken on the original order, "
    "or on the first where there is no original."
)


def _goliakova(place: str) -> tuple[Source, ...]:
    return (Source("Goliakova et al.", place),)


def _gupta(place: str) -> tuple[Source, ...]:
    return (Source("Gupta et al.", place),)


def _cavalin(place: str) -> tuple[Source, ...]:
    return (Source("Cavalin et al.", f"Eq. 1–10, {place}"),)


def _nowak(place: str) -> tuple[Source, ...]:
    return (Source("Nowak et al.", place),)


def _cho(place: str) -> tuple[Source, ...]:
    return (Source("Cho et al.", place),)


def _bmca(percent: int, value: str, reached: str) -> Entry:
    c = f"{percent / 100:g}"
    return Entry(
        (rf"\text{{BMCA}}({c}) = [ \text{{RC}} \ge {c} ]",),
        _cavalin("BMCA(c)"),
        _ALTERED,
        Example(examples.FOUR_VARIANTS, f"RC is 1 and .5. At least {c} {reached}.", value),
        "The text says “greater than” c, the equation “at least”; we follow the equation, on whole numbers of hits.",
    )


GUIDE: Final[Mapping[str, Entry]] = {
    # Accuracies over orders
    "accuracy": Entry(
        (r"V_0 = [ m_{\text{original}} = a ]",),
        (Source("Gupta et al.", "V₀"), Source("Cavalin et al.", "MCQA")),
        "The original order.",
        Example(examples.FOUR_ORDERS, "The original order is answered b, which is right.", "1"),
    ),
    "average_accuracy": Entry(
        (r"\text{AAcc} = \frac{1}{|R|} \sum_{j=1}^{|R|} [ m_j = a ]",),
        _goliakova("Eq. 1–9, AAcc"),
        _ORDERS,
        Example(examples.FOUR_ORDERS, "Three of four orders are right: 3/4.", "0.75"),
    ),
    "worst_accuracy": Entry(
        (r"\text{WAcc} = \prod_{j=1}^{|R|} [ m_j = a ]",),
        _goliakova("Eq. 1–9, WAcc"),
        _ORDERS,
        Example(examples.FOUR_ORDERS, "The fourth order is wrong: 1 · 1 · 1 · 0.", "0"),
    ),
    "best_accuracy": Entry(
        (r"\text{BAcc} = 1 - \prod_{j=1}^{|R|} [ m_j \neq a ]",),
        _goliakova("Eq. 1–9, BAcc"),
        _ORDERS,
        Example(examples.FOUR_ORDERS, "Not all orders are wrong: 1 − 0 · 0 · 0 · 1.", "1"),
    ),
    "strong_accuracy": Entry(
        (r"\text{SAcc} = [ m_1 = a ] \cdot \frac{1}{|R|} \sum_{j=1}^{|R|} [ m_1 = m_j ]",),
        _goliakova("Eq. 3, SAcc"),
        _ORDERS,
        Example(
            examples.FOUR_ORDERS,
            "The first order is right, and three of four orders, itself among them, have its answer: 1 · 3/4.",
            "0.75",
        ),
        "The paper says that SAcc equals WAcc on two orders, and its Table 1 has the two columns equal. That is true "
        "of `retest_accuracy`, not of Eq. 3, which counts the first order itself: right, then wrong gives ½ and 0.",
    ),
    "retest_accuracy": Entry(
        (r"V_0 \cdot \frac{1}{M} \sum_{i=1}^{M} V_i",),
        _gupta("Eq. 1, “our metric”"),
        "The original order and at least one other, such as `shuffle`.",
        Example(examples.FOUR_ORDERS, "The original is right, and so are two of the three others: 1 · 2/3.", "0.667"),
    ),
    "pct_drop": Entry(
        (r"100 \cdot \frac{\text{accuracy} - \text{retest accuracy}}{\text{accuracy}}",),
        _gupta("% drop"),
        "The original order and at least one other. Both means are taken over the questions that have both; undefined "
        "where the accuracy is 0.",
        Example(examples.RETEST, "Accuracy 5/10, retest accuracy 4/10: 100 · (.5 − .4)/.5.", "20"),
    ),
    "sensitivity_gap": Entry(
        (r"\text{SensG} = \text{BAcc} - \text{WAcc}",),
        _goliakova("Eq. 1–9, SensG"),
        _ORDERS,
        Example(examples.FOUR_ORDERS, "Right somewhere, not everywhere: 1 − 0.", "1"),
    ),
    "fluctuation_rate": Entry(
        (r"\text{FR} = 1 - \prod_{j=1}^{|R|} [ m_1 = m_j ]",),
        _goliakova("Eq. 1–9, FR"),
        _TWO_ORDERS,
        Example(examples.FOUR_ORDERS, "The fourth answer is not the first one: 1 − 1 · 1 · 1 · 0.", "1"),
        "By the formula as printed a single order has the rate 0. Here it is undefined: untested is not stable.",
    ),
    "score": Entry(
        (r"\text{SCORE} = \frac{2}{\left| R \right| ( \left| R \right| - 1 )} \sum_{i < j} [ m_i = m_j ]",),
        _nowak("Eq. 2"),
        f"{_TWO_ORDERS} The paper's are those of `answer-moving`.",
        Example(
            examples.FOUR_ORDERS, "Of the 6 pairs of orders, the 3 among the first three orders agree: 3/6.", "0.5"
        ),
        "The evaluation harness of SCORE sums over ordered pairs by its description, which would reach 2, maps "
        "answers back to options wrongly, and compares strings, so that two missing answers agree. Here pairs are "
        "unordered, and a missing answer agrees with nothing but counts among the orders.",
    ),
    # Probabilities
    "prob_mass": Entry(
        (r"\text{Prob} = \frac{1}{|R|} \sum_{j=1}^{|R|} p_j(a)",),
        _goliakova("Eq. 1–9, Prob"),
        f"{_ORDERS} All with probabilities of the labels.",
        Example(examples.TWO_ORDERS, "(.8 + .5)/2.", "0.65"),
    ),
    "brier_score": Entry(
        (r"\text{BS} = \frac{1}{|R|} \sum_{j=1}^{|R|} \sum_{x=1}^{L} ([ x = a ] - p_j(x))^2",),
        _goliakova("Eq. 1–9, BS"),
        f"{_ORDERS} All with probabilities of the labels.",
        Example(examples.TWO_ORDERS, "((.2² + .2²) + (.5² + .5²))/2 = (.08 + .5)/2.", "0.29"),
        "A footnote has 1 − BS in 0 … 1. BS as printed reaches 2, so that 1 − BS spans −1 … 1; correlations are the "
        "same.",
    ),
    "entropy": Entry(
        (r"\text{EN} = - \frac{1}{|R|} \sum_{j=1}^{|R|} \frac{1}{\log_2 L} \sum_{x=1}^{L} p_j(x) \cdot \log_2 p_j(x)",),
        _goliakova("Eq. 1–9, EN"),
        f"{_ORDERS} All with probabilities of the labels. 0 · log 0 is 0.",
        Example(
            examples.TWO_ORDERS,
            "−.8 log₂ .8 − .2 log₂ .2 = .7219 bits, and 1 bit for .5 and .5; log₂ 2 = 1: (.7219 + 1)/2.",
            "0.861",
        ),
    ),
    "pride_accuracy": Entry(
        (
            r"\pi_q(l) \propto \exp \frac{1}{|R|} \sum_{j=1}^{|R|} \log p_{q,j,l}",
            r"\pi(l) = \frac{1}{K} \sum_{q=1}^{K} \pi_q(l)",
            r"\text{answer} = \operatorname{argmax}_l ( \log p_{0,l} - \log \pi(l) )",
        ),
        (Source("Zheng et al.", "PriDe"), Source("Goliakova et al.", "PriDe")),
        "Probabilities on the original order; on the K questions that the prior π is estimated from, probabilities on "
        "at least two orders, such as `cyclic`. Here l is a position, not an option. The K questions themselves are "
        "answered by the option with the highest mean probability over the orders. Logarithms take p + 10⁻¹⁰.",
        Example(
            examples.PRIOR,
            "K = 1, and `first` is the question whose hash is lower. By position its geometric means are √(.8 · .6) = "
            ".693 and √(.2 · .4) = .283, so the prior is .710 and .290. Its options have mean probabilities .6 and "
            ".4: a, right. In `second`, .65/.710 = .915 and .35/.290 = 1.207: position 2, b, right.",
            "1",
        ),
        "The published code shuffles the questions at random to choose those that the prior is estimated from. Here "
        "they are the K = max(1, ⌊.05 N⌋) of the N questions with equally many options whose SHA-256 of `0:<id>` is "
        "lowest.",
    ),
    # Response consistency
    "mcqa_plus": Entry(
        (r"\text{RC} = \frac{h}{M}",),
        _cavalin("RC and MCQA+"),
        f"{_ALTERED} MCQA+ is the mean of RC over the questions, also where their M differ.",
        Example(examples.FOUR_VARIANTS, "RC is 4/4 and 2/4: (1 + .5)/2.", "0.75"),
    ),
    "majority_vote": Entry(
        (r"\text{MV} = [ \text{RC} > 0.5 ]",),
        _cavalin("MV"),
        _ALTERED,
        Example(examples.FOUR_VARIANTS, "1 is more than ½, ½ is not: (1 + 0)/2.", "0.5"),
        "The released script takes a plurality vote among the answers and skips missing ones. The printed tables fit "
        "the equation; a missing answer is a miss.",
    ),
    "bmca_50": _bmca(50, "1", "in both: 2/2"),
    "bmca_60": _bmca(60, "0.5", "in one of two: 1/2"),
    "bmca_70": _bmca(70, "0.5", "in one of two: 1/2"),
    "bmca_80": _bmca(80, "0.5", "in one of two: 1/2"),
    "bmca_90": _bmca(90, "0.5", "in one of two: 1/2"),
    "bmca_100": _bmca(100, "0.5", "in one of two: 1/2"),
    "consistency_index": Entry(
        (r"\text{CI} = 1 - ( \text{MCQA} - \text{BMCA}(1) )",),
        _cavalin("CI"),
        f"{_ALTERED} Both means are taken over the questions that have both.",
        Example(examples.FOUR_VARIANTS, "Both originals are right, one question everywhere: 1 − (1 − .5).", "0.5"),
    ),
    "cora": Entry(
        (r"\text{CoRA} = \text{MCQA} \cdot \text{CI}",),
        _cavalin("CoRA"),
        f"{_ALTERED} Both means are taken over the questions that have both.",
        Example(examples.FOUR_VARIANTS, "MCQA is 1, CI is .5: 1 · .5.", "0.5"),
        "The released script multiplies CI by MCQA+ instead of MCQA. All 16 printed values fit MCQA, one fits MCQA+.",
    ),
    # Run by run
    "accuracy_mean_all": Entry(
        (r"\frac{1}{T + 1} \sum_{t=0}^{T} A_t",),
        _nowak("Tables 5–11, mean “under attack”"),
        "Orders of the question's own options; the paper's are those of `answer-moving`.",
        Example(examples.THREE_RUNS, "(.6 + .7 + .8)/3.", "0.7"),
        "The paper's column “under attack” is this mean: it includes the original order.",
    ),
    "accuracy_mean_moved": Entry(
        (r"\frac{1}{T} \sum_{t=1}^{T} A_t",),
        _nowak("Tables 5–11"),
        "The original order and at least one other, such as `answer-moving`.",
        Example(examples.THREE_RUNS, "(.7 + .8)/2.", "0.75"),
        "No column of the tables has it: the mean “under attack” there is `accuracy_mean_all`.",
    ),
    "accuracy_median_moved": Entry(
        (r"\text{median}(A_1, \ldots, A_T)",),
        _nowak("Tables 5–11"),
        "The original order and at least one other, such as `answer-moving`.",
        Example(examples.THREE_RUNS, "Halfway between .7 and .8.", "0.75"),
    ),
    "accuracy_abs_diff": Entry(
        (r"\left| A_0 - \frac{1}{T} \sum_{t=1}^{T} A_t \right|",),
        _nowak("Tables 5–11"),
        "The original order and at least one other, such as `answer-moving`.",
        Example(examples.THREE_RUNS, "|.6 − .75|.", "0.15"),
        "The printed differences are taken from the moved runs, although the mean printed beside them is over all "
        "runs.",
    ),
    "accuracy_variance": Entry(
        (
            r"\frac{1}{T + 1} \sum_{t=0}^{T} (100 A_t - 100 \bar{A})^2",
            r"\bar{A} = \frac{1}{T + 1} \sum_{t=0}^{T} A_t",
        ),
        _nowak("Tables 5–11"),
        "At least two orders of the question's own options, such as `answer-moving`.",
        Example(examples.THREE_RUNS, "60, 70 and 80 have the mean 70: (100 + 0 + 100)/3.", "66.67"),
        "The paper does not say which variance it prints. The population variance fits all 182 printed rows; the "
        "sample variance contradicts more than half of them.",
    ),
    "accuracy_min": Entry(
        (r"\min(A_0, \ldots, A_T)",),
        _nowak("Tables 5–11"),
        "Orders of the question's own options, such as `answer-moving`.",
        Example(examples.THREE_RUNS, "The lowest of .6, .7 and .8.", "0.6"),
    ),
    "accuracy_max": Entry(
        (r"\max(A_0, \ldots, A_T)",),
        _nowak("Tables 5–11"),
        "Orders of the question's own options, such as `answer-moving`.",
        Example(examples.THREE_RUNS, "The highest of .6, .7 and .8.", "0.8"),
    ),
    "accuracy_range": Entry(
        (r"\max(A_0, \ldots, A_T) - \min(A_0, \ldots, A_T)",),
        _nowak("Tables 5–11"),
        "At least two orders of the question's own options, such as `answer-moving`.",
        Example(examples.THREE_RUNS, ".8 − .6.", "0.2"),
    ),
    # What the question adds
    "npsq_correct": Entry(
        (r"\text{NPSQ}(a) = \frac{\log P(a \mid Q, C) - \log P(a \mid C)}{- \log P(a \mid C)}",),
        _cho("NPSQ"),
        f"{_BOTH} Undefined where the choices alone are certain, log P(a | C) = 0.",
        Example(examples.WITHOUT_QUESTION, "(−1 + 4)/4.", "0.75"),
    ),
    "npsq_accuracy": Entry(
        (r"[ \operatorname{argmax}_x \text{NPSQ}(x) = a ]",),
        _cho("acc_npsq"),
        f"{_BOTH} Undefined where NPSQ is undefined for any option.",
        Example(examples.WITHOUT_QUESTION, "NPSQ is .75 for a and (−2 + 2.5)/2.5 = .2 for b: a, right.", "1"),
        "The full paper (ICLR 2026) calls it acc_npsq.",
    ),
    "choice_only_accuracy": Entry(
        (r"[ \operatorname{argmax}_x \log P(x \mid C) = a ]",),
        _cho("choice-only"),
        _BOTH,
        Example(examples.WITHOUT_QUESTION, "Without the question b leads, −2.5 against −4: wrong.", "0"),
    ),
    "choice_sensitivity": Entry(
        (
            r"[ \Delta_{\text{choice}} > \Delta_{\text{question}} ]",
            r"\Delta_{\text{choice}} = \log P(x_1 \mid C) - \log P(x_2 \mid C)",
            r"\Delta_{\text{question}} = \log P(x_1 \mid Q, C) - \log P(x_2 \mid Q, C) - \Delta_{\text{choice}}",
        ),
        _cho("choice sensitivity"),
        f"{_BOTH} x₁ and x₂ are the two options that lead with the question.",
        Example(
            examples.WITHOUT_QUESTION,
            "x₁ is a, x₂ is b. Δchoice = −4 + 2.5 = −1.5. The gap with the question is −1 + 2 = 1, so Δquestion = 1 + "
            "1.5 = 2.5. −1.5 is not more than 2.5.",
            "0",
        ),
    ),
    "accuracy_normalized": Entry(
        (r"\left[ \operatorname{argmax}_x \frac{\log P(x \mid Q, C)}{\text{bytes}(x)} = a \right]",),
        _cho("length normalisation"),
        "Log-probabilities on the original order. An option's length is counted in UTF-8 bytes.",
        Example(examples.WITHOUT_QUESTION, "−1/2 = −.5 for a, −2/8 = −.25 for b: b leads, wrong.", "0"),
    ),
    "choice_sensitivity_normalized": Entry(
        (
            r"[ \Delta_{\text{choice}} > \Delta_{\text{question}} ]",
            r"\frac{\log P(x \mid \cdot)}{\text{bytes}(x)} \text{ in place of } \log P(x \mid \cdot)",
        ),
        _cho("choice sensitivity with length normalisation"),
        f"{_BOTH} An option's length is counted in UTF-8 bytes. NPSQ itself does not change with the length.",
        Example(
            examples.WITHOUT_QUESTION,
            "With the question −.5 and −.25: x₁ is b. Without it −4/2 = −2 and −2.5/8 = −.3125, so Δchoice = −.3125 + "
            "2 = 1.6875. The gap is .25, so Δquestion = .25 − 1.6875 = −1.4375: less.",
            "1",
        ),
    ),
}
"""Metric name → what the guide says of it; the rest of it is in METRICS."""


@dataclass(frozen=True)
class Comparison:
    """A number that compares two evaluations, which differ in the protocol alone: registry.studies.protocol_comparison.

    metric: what is taken of either. low, high, unit: range; None where it is unbounded.
    """

    name: str
    label: str
    better: Literal["higher", "lower", "neither"]
    summary: str
    metric: str
    low: float | None
    high: float | None
    entry: Entry
    unit: str = "fraction"


BETWEEN_TEXT: Final = (
    "Two evaluations of one model on one benchmark with the same variants, which differ in the protocol alone. In the "
    "paper these are S&L, selected and lettered: the model answers with a letter; and M&D, matched and dashed: it "
    "writes the answer out, which is then matched to an option. A comparison here takes any two protocols; the first "
    "stands for S&L, the second for M&D."
)

BETWEEN: Final = (
    Comparison(
        "variance_ratio",
        "Variance ratio",
        "lower",
        "How much of the first protocol's variance over orders is left under the second.",
        "accuracy_variance",
        0.0,
        None,
        Entry(
            (r"\frac{\sigma^2_{\text{second}}}{\sigma^2_{\text{first}}}",),
            _nowak("Eq. 3–4"),
            "`accuracy_variance` under both protocols, in the paper over `answer-moving`. Undefined where it is below "
            "10⁻¹² under the first. Over several benchmarks it is the geometric mean, undefined if any ratio is "
            "undefined or 0.",
            Example(
                examples.MATCHED_RUNS,
                "70, 70 and 80 have the population variance 22.22; 60, 70 and 80 have 66.67: 22.22/66.67.",
                "0.333",
                examples.THREE_RUNS,
            ),
        ),
        unit="ratio",
    ),
    Comparison(
        "score_difference",
        "SCORE difference",
        "neither",
        "How much more consistent a model looks under the first protocol.",
        "score",
        -1.0,
        1.0,
        Entry(
            (r"\text{SCORE}_{\text{first}} - \text{SCORE}_{\text{second}}",),
            _nowak("Eq. 5"),
            "`score` under both protocols, in the paper over `answer-moving`. A model that follows a shortcut "
            "everywhere looks consistent, so it is read beside `variance_ratio`.",
            Example(
                examples.STEADY,
                "b, b, b, c has the SCORE 3/6 and b, b, b, b has 6/6: .5 − 1.",
                "−0.5",
                examples.FOUR_ORDERS,
            ),
        ),
    ),
)
"""Numbers between two protocols. Their examples hold the second protocol's data against the first's."""


@dataclass(frozen=True)
class Guessing:
    """How far luck goes: the formulas of the guessing tables, and a worked example."""

    formulas: tuple[str, ...]
    sources: tuple[Source, ...]
    text: tuple[str, ...]


GUESSING: Final = Guessing(
    (
        r"P(\ge p \text{ of } M) = \sum_{j=p}^{M} \binom{M}{j} r^j (1 - r)^{M-j}",
        r"\text{MSGR}(p) = \min \lbrace r \ge 1/k \mid P(\ge p \text{ of } M) \ge 0.9995 \rbrace",
    ),
    (Source("Cavalin et al.", "Table 7"),),
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

INTERVALS: Final = (
    "A benchmark is a sample of questions, so its numbers come with 95 % intervals, from a bootstrap over the "
    "questions in which the variants of a question stay together. None is stated where it would not cover: on few "
    "questions, where nearly all values are equal, and for metrics that compare runs, such as the lowest accuracy."
)


@dataclass(frozen=True)
class Family:
    """A chapter of the guide: a heading, an introduction, and the metrics in it."""

    key: str
    title: str
    text: str
    names: tuple[str, ...]


FAMILIES: Final = (
    Family(
        "orders",
        "Accuracies over orders",
        "The same question with its options in other orders: how often is the answer right, and does it stay the "
        "same? All of these but the first need more than the original order to say anything new.",
        (
            "accuracy",
            "average_accuracy",
            "worst_accuracy",
            "best_accuracy",
            "strong_accuracy",
            "retest_accuracy",
            "pct_drop",
            "sensitivity_gap",
            "fluctuation_rate",
            "score",
        ),
    ),
    Family(
        "probabilities",
        "Probabilities",
        "What the probabilities of the labels say beyond the answer. They are renormalised over the labels shown; a "
        "question is undefined as soon as one of its orders has none.",
        ("prob_mass", "brier_score", "entropy", "pride_accuracy"),
    ),
    Family(
        "consistency",
        "Response consistency and CoRA",
        "Not only the order changes: distractors are replaced or left out while the right option stays. Every variant "
        "that shows the question counts, the original among them, and thresholds are compared on whole numbers of "
        "hits.",
        (
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
        ),
    ),
    Family(
        "runs",
        "Run by run",
        "A run is one variant over all questions; its accuracy covers the questions that have it. The run of the "
        "original order is run 0, the others are “moved”. The paper prints percent; here accuracies are fractions, "
        "and the variance is in squared percentage points.",
        (
            "accuracy_mean_all",
            "accuracy_mean_moved",
            "accuracy_median_moved",
            "accuracy_abs_diff",
            "accuracy_variance",
            "accuracy_min",
            "accuracy_max",
            "accuracy_range",
        ),
    ),
    Family(
        "npsq",
        "What the question adds: NPSQ",
        "Every option is scored twice, with the question and with the question replaced by an empty string. What is "
        "left without it is owed to the options alone. The base of the logarithm does not matter; ties go to the "
        "lowest position.",
        (
            "npsq_correct",
            "npsq_accuracy",
            "choice_only_accuracy",
            "choice_sensitivity",
            "accuracy_normalized",
            "choice_sensitivity_normalized",
        ),
    ),
)
"""The chapters that hold the metrics of the catalogue, in the guide's order."""


def formula_is_for(metric: Metric) -> str:
    """What a metric's formula gives the value of; a benchmark's is the mean where it is each question's."""
    if metric.over_runs is not None:
        return "the runs"
    by_question = metric.per_question is not None or metric.over_evaluation is not None
    return "each question" if by_question else "the whole benchmark"


def range_text(low: float | None, high: float | None, unit: str) -> str:
    """A range in the metric's own unit; None is unbounded.

    >>> range_text(None, 1.0, "fraction"), range_text(0.0, 100.0, "percent")
    ('−∞ … 1', '0 … 100 (percent)')
    """
    text = f"{'−∞' if low is None else f'{low:g}'} … {'∞' if high is None else f'{high:g}'}".replace("-", "−")
    return text if unit == "fraction" else f"{text} ({unit})"
