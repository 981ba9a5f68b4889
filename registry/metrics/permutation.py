"""Metrics over a set of orders: Goliakova et al., Eq. 1 to 9, Gupta et al., Eq. 1, and SCORE (Nowak et al., Eq. 2).

Papers: *Metric assessment protocol in the context of answer fluctuation on MCQ tasks*; *Changing Answer Order Can
Decrease MMLU Accuracy*; *ABCD: All Biases Come Disguised*.

Each function takes the outcomes of **all expected variants of one question** and returns a value, or None if it is
undefined. A question with missing variants is not passed in: unscored is never wrong. View: question_metrics.
Examples: four options, the right one is 1, and the cyclic orders are answered 1, 1, 1, 2.

>>> from registry.metrics import VariantOutcome
>>> orders = [(0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2)]
>>> E = [VariantOutcome(j, option, 1, orders[j], original=j == 0) for j, option in enumerate([1, 1, 1, 2])]

Untested is not robust: all but accuracy are None for a question with fewer than two distinct prompts.
"""

from collections import Counter
from typing import Any, Final

from registry.metrics import examples
from registry.metrics.averaging import FunctionOfTwoMeans, MeanOverQuestions, zero_or_one
from registry.metrics.entry import TESTED, TWO_ORDERS, TWO_PROMPTS, Example, Metric
from registry.metrics.outcome import Outcomes, VariantOutcome, original_variant, own_variants, require_two_prompts
from registry.metrics.papers import cavalin, goliakova, gupta, nowak


def accuracy(outcomes: Outcomes) -> float | None:
    """Return whether the original order is answered right: 0 or 1; None without the original.

    The original is the lowest variant that shows the question as the benchmark has it.
    """
    original = original_variant(outcomes)
    return None if original is None else float(original.correct)


def _orders(outcomes: Outcomes) -> list[VariantOutcome]:
    """Return the set R; empty if the question has fewer than two distinct prompts."""
    return require_two_prompts(outcomes, own_variants(outcomes))


def worst_accuracy(outcomes: Outcomes) -> float | None:
    """Return WAcc: 1 if every order is answered right, else 0. E: 0."""
    orders = _orders(outcomes)
    return float(all(outcome.correct for outcome in orders)) if orders else None


def best_accuracy(outcomes: Outcomes) -> float | None:
    """Return BAcc: 1 if some order is answered right, else 0. E: 1."""
    orders = _orders(outcomes)
    return float(any(outcome.correct for outcome in orders)) if orders else None


def sensitivity_gap(outcomes: Outcomes) -> float | None:
    """Return SensG: best minus worst accuracy, 0 or 1. E: 1."""
    best, worst = best_accuracy(outcomes), worst_accuracy(outcomes)
    return None if best is None or worst is None else best - worst


def strong_accuracy(outcomes: Outcomes) -> float | None:
    """Return SAcc: if the first order is answered right, the share of orders with the same answer, else 0. E: 0.75.

    The first order counts itself, as Eq. 3 is printed. In [0, 1].
    """
    orders = _orders(outcomes)
    if not orders:
        return None
    if not orders[0].correct:
        return 0.0
    return sum(outcome.option == orders[0].option for outcome in orders) / len(orders)


def fluctuation_rate(outcomes: Outcomes) -> float | None:
    """Return FR: 0 if every order gets the same answer as the first, else 1; None for fewer than two orders. E: 1.

    A missing answer equals nothing, not even another missing answer. Untested is not stable, hence None for one order.
    """
    orders = _orders(outcomes)
    if len(orders) < 2:
        return None
    first = orders[0].option
    return float(first is None or any(outcome.option != first for outcome in orders))


def retest_accuracy(outcomes: Outcomes) -> float | None:
    """Return *our metric* of Gupta et al.: right on the original, times the other orders' share right. E: 2/3.

    In [0, 1]; None without the original or without other orders.
    """
    original = original_variant(outcomes)
    if original is None:
        return None
    others = [outcome for outcome in _orders(outcomes) if outcome is not original]
    return original.correct * sum(outcome.correct for outcome in others) / len(others) if others else None


def pct_drop(accuracy: Any, retest_accuracy: Any) -> Any:
    """Return the % drop of Gupta et al.: the accuracy lost on retest, in percent, up to 100. 50 → 40: 20.

    From two means over the questions that have both; undefined if the accuracy is 0.
    """
    return 100 * (accuracy - retest_accuracy) / accuracy


def score(outcomes: Outcomes) -> float | None:
    """Return SCORE: share of unordered pairs of orders with the same answer, in [0, 1]. E: 0.5.

    None for fewer than two orders. Missing answers agree with nothing but count among the orders.
    """
    orders = _orders(outcomes)
    M = len(orders)
    if M < 2:
        return None
    counts = Counter(outcome.option for outcome in orders if outcome.option is not None)
    return sum(n * (n - 1) // 2 for n in counts.values()) / (M * (M - 1) // 2)


_ORDERS_TESTED: Final = f"question_score.variants > 0 and {TESTED}"
_TWO_ORDERS_TESTED: Final = f"question_score.variants > 1 and {TESTED}"
_UNTESTED: Final = "variants missing, or fewer than two distinct prompts"

METRICS: Final = (
    Metric(
        name="accuracy",
        label="Accuracy",
        zero_or_one=True,
        better="higher",
        summary="Right answers on the benchmark's own order of the options.",
        formulas=(r"V_0 = [ m_{\text{original}} = a ]",),
        sources=(gupta("V₀"), cavalin("MCQA")),
        needs="The original order.",
        example=Example(examples.FOUR_ORDERS, "The original order is answered b, which is right.", "1"),
        averaging=MeanOverQuestions(accuracy, zero_or_one("question_score.original_correct")),
        undefined="the original is not stored",
    ),
    Metric(
        name="worst_accuracy",
        label="Worst accuracy",
        zero_or_one=True,
        better="higher",
        summary="Questions answered right under every tested order.",
        formulas=(r"\text{WAcc} = \prod_{j=1}^{|R|} [ m_j = a ]",),
        sources=(goliakova("Eq. 1–9, WAcc"),),
        needs=TWO_PROMPTS,
        example=Example(examples.FOUR_ORDERS, "The fourth order is wrong: 1 · 1 · 1 · 0.", "0"),
        averaging=MeanOverQuestions(
            worst_accuracy,
            "case when question_score.correct = question_score.variants then 1.0 else 0.0 end",
            _ORDERS_TESTED,
        ),
        undefined=_UNTESTED,
    ),
    Metric(
        name="best_accuracy",
        label="Best accuracy",
        zero_or_one=True,
        better="higher",
        summary="Questions answered right under at least one tested order.",
        formulas=(r"\text{BAcc} = 1 - \prod_{j=1}^{|R|} [ m_j \neq a ]",),
        sources=(goliakova("Eq. 1–9, BAcc"),),
        needs=TWO_PROMPTS,
        example=Example(examples.FOUR_ORDERS, "Not all orders are wrong: 1 − 0 · 0 · 0 · 1.", "1"),
        averaging=MeanOverQuestions(
            best_accuracy, "case when question_score.correct > 0 then 1.0 else 0.0 end", _ORDERS_TESTED
        ),
        undefined=_UNTESTED,
    ),
    Metric(
        name="strong_accuracy",
        label="Strong accuracy",
        for_papers=True,
        better="higher",
        summary="If the first order is right, the share of orders with the same answer.",
        formulas=(r"\text{SAcc} = [ m_1 = a ] \cdot \frac{1}{|R|} \sum_{j=1}^{|R|} [ m_1 = m_j ]",),
        sources=(goliakova("Eq. 3, SAcc"),),
        needs=TWO_PROMPTS,
        example=Example(
            examples.FOUR_ORDERS,
            "The first order is right, and three of four orders, itself among them, have its answer: 1 · 3/4.",
            "0.75",
        ),
        differs="The paper says that SAcc equals WAcc on two orders, and its Table 1 has the two columns equal. That "
        "is true of `retest_accuracy`, not of Eq. 3, which counts the first order itself: right, then wrong gives ½ "
        "and 0.",
        averaging=MeanOverQuestions(
            strong_accuracy,
            "case when question_score.first_option = question.answer "
            "then question_score.agreeing * 1.0 / question_score.variants else 0.0 end",
            _ORDERS_TESTED,
        ),
        undefined=_UNTESTED,
    ),
    Metric(
        name="retest_accuracy",
        label="Retest accuracy",
        better="higher",
        summary="Right on the original order and right again on the other orders, averaged over them.",
        formulas=(r"V_0 \cdot \frac{1}{M} \sum_{i=1}^{M} V_i",),
        sources=(gupta("Eq. 1, “our metric”"),),
        needs="The original order and at least one other, such as `shuffle`.",
        example=Example(
            examples.FOUR_ORDERS, "The original is right, and so are two of the three others: 1 · 2/3.", "0.667"
        ),
        averaging=MeanOverQuestions(
            retest_accuracy,
            "case when question_score.original_correct "
            "then question_score.others_correct * 1.0 / question_score.others else 0.0 end",
            f"question_score.others > 0 and {TESTED}",
        ),
        undefined="variants missing, no original, or fewer than two distinct prompts",
    ),
    Metric(
        name="pct_drop",
        label="Drop",
        better="lower",
        summary="How much of the accuracy is lost on retest, in percent.",
        formulas=(r"100 \cdot \frac{\text{accuracy} - \text{retest accuracy}}{\text{accuracy}}",),
        sources=(gupta("% drop"),),
        needs="The original order and at least one other. Both means are taken over the questions that have both; "
        "undefined where the accuracy is 0.",
        example=Example(examples.RETEST, "Accuracy 5/10, retest accuracy 4/10: 100 · (.5 − .4)/.5.", "20"),
        high=100.0,
        unit="percent",
        averaging=FunctionOfTwoMeans(
            {"accuracy": accuracy, "retest_accuracy": retest_accuracy}, pct_drop, share_of_first=True
        ),
        undefined="no question has a value, or the accuracy is 0",
    ),
    Metric(
        name="sensitivity_gap",
        label="Sensitivity gap",
        for_papers=True,
        zero_or_one=True,
        better="lower",
        summary="Questions right under some orders and wrong under others.",
        formulas=(r"\text{SensG} = \text{BAcc} - \text{WAcc}",),
        sources=(goliakova("Eq. 1–9, SensG"),),
        needs=TWO_PROMPTS,
        example=Example(examples.FOUR_ORDERS, "Right somewhere, not everywhere: 1 − 0.", "1"),
        averaging=MeanOverQuestions(
            sensitivity_gap,
            "case when question_score.correct > 0 and question_score.correct < question_score.variants "
            "then 1.0 else 0.0 end",
            _ORDERS_TESTED,
        ),
        undefined=_UNTESTED,
    ),
    Metric(
        name="fluctuation_rate",
        label="Fluctuation rate",
        zero_or_one=True,
        better="lower",
        summary="Questions whose answers, one in each order of the options, are not all the same.",
        formulas=(r"\text{FR} = 1 - \prod_{j=1}^{|R|} [ m_1 = m_j ]",),
        sources=(goliakova("Eq. 1–9, FR"),),
        needs=TWO_ORDERS,
        example=Example(examples.FOUR_ORDERS, "The fourth answer is not the first one: 1 − 1 · 1 · 1 · 0.", "1"),
        differs="By the formula as printed a single order has the rate 0. Here it is undefined: untested is not "
        "stable.",
        averaging=MeanOverQuestions(
            fluctuation_rate,
            "case when question_score.agreeing = question_score.variants then 0.0 else 1.0 end",
            _TWO_ORDERS_TESTED,
        ),
        undefined=_UNTESTED,
    ),
    Metric(
        name="score",
        label="SCORE",
        better="higher",
        summary="Pairs of orders that get the same answer, right or wrong.",
        formulas=(r"\text{SCORE} = \frac{2}{\left| R \right| ( \left| R \right| - 1 )} \sum_{i < j} [ m_i = m_j ]",),
        sources=(nowak("Eq. 2"),),
        needs=f"{TWO_ORDERS} The paper's are those of `answer-moving`.",
        example=Example(
            examples.FOUR_ORDERS, "Of the 6 pairs of orders, the 3 among the first three orders agree: 3/6.", "0.5"
        ),
        differs="The evaluation harness of SCORE sums over ordered pairs by its description, which would reach 2, maps "
        "answers back to options wrongly, and compares strings, so that two missing answers agree. Here pairs are "
        "unordered, and a missing answer agrees with nothing but counts among the orders.",
        averaging=MeanOverQuestions(
            score,
            "question_score.equal_pairs * 1.0 / (question_score.variants * (question_score.variants - 1) / 2)",
            _TWO_ORDERS_TESTED,
        ),
        undefined=_UNTESTED,
    ),
)
