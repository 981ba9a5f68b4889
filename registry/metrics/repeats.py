r"""One scale for order and chance: right once, right twice in one order, right in two orders.

A model is right less often in two different orders than once, for two reasons: the order, and chance. Chance matters if
a model samples its answers, since it then answers the same prompt differently. Right *twice in one order* is left after
chance; right *once in each of two orders* is left after chance and order. So the loss has two parts:

    average accuracy = right in two orders + order loss + chance loss.

Each function takes the outcomes of all expected variants of one question. Two answers are repeats of one another if
they are to the same prompt, so with the same order, labels and words. Question q has m distinct prompts, and prompt j
has kⱼ answers, xⱼ right; a missing answer is wrong. A value is None for a question with fewer than two distinct
prompts: untested is not robust. If the model samples its answers, or this is unknown, the metrics that separate chance
from order are None unless a prompt was repeated. Every value but the two ends of the bracket is unbiased, whatever the
probabilities of right answers are. View: question_metrics.

Example E: two orders, each sent twice. The first is answered right twice, the second once, so x = (2, 1).

>>> from registry.metrics import VariantOutcome
>>> asked = [(0, (0, 1)), (0, (0, 1)), (0, (1, 0)), (1, (1, 0))]
>>> E = [VariantOutcome(j, option, 0, order, original=j == 0) for j, (option, order) in enumerate(asked)]
>>> average_accuracy(E), right_twice_same_order(E), right_twice_across_orders(E), chance_loss(E), order_loss(E)
(0.75, 0.5, 0.5, 0.25, 0.0)
>>> right_in_every_order(E), worst_order_low(E), worst_order_high(E)
(0.5, 0.5, 0.75)

Source of the probability of being right several times: Yao et al., *τ-bench* (pass^k). Over orders: Hoeffding, *A Class
of Statistics with Asymptotically Normal Distribution* (1948), who shows that such means over all choices are unbiased.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from registry.metrics import examples
from registry.metrics.averaging import MeanOverQuestions
from registry.metrics.entry import TESTED, Example, Metric
from registry.metrics.outcome import Outcomes, every_answer, prompt_of
from registry.metrics.papers import Source, goliakova

TIMES: Final = 2
"""The number of right answers in the metrics of the catalogue: S₂, D₂ and L₂."""


@dataclass(frozen=True)
class Orders:
    """A question's answers, right or wrong, grouped by distinct prompt in the order in which they were given.

    sampled: whether the model draws its answers at random; None: unknown.
    """

    answers: tuple[tuple[bool, ...], ...]
    sampled: bool | None

    @property
    def counts(self) -> list[tuple[int, int]]:
        """Return for each prompt the number of right answers, and the number of all answers."""
        return [(sum(answers), len(answers)) for answers in self.answers]

    @property
    def asked_again(self) -> list[tuple[int, int]]:
        """Return the counts of prompts that measure chance: repeated ones, or all if repeats get the same answer."""
        return self.counts if self.sampled is False else [counts for counts in self.counts if counts[1] >= TIMES]


def group_by_prompt(outcomes: Outcomes) -> Orders | None:
    """Group the answers by prompt, over orders of the question's own options; None for fewer than two prompts."""
    by_prompt: dict[object, list[bool]] = {}
    answers = every_answer(outcomes)
    for outcome in answers:
        by_prompt.setdefault(prompt_of(outcome), []).append(outcome.correct)
    return Orders(tuple(map(tuple, by_prompt.values())), answers[0].sampled) if len(by_prompt) > 1 else None


def group_repeated(outcomes: Outcomes) -> Orders | None:
    """Group the answers by prompt; None if no prompt was repeated."""
    orders = group_by_prompt(outcomes)
    return orders if orders is not None and max(map(len, orders.answers)) > 1 else None


def right_once(counts: Sequence[tuple[int, int]]) -> float | None:
    """Return A, the probability that one answer is right, in [0, 1]: a mean over prompts; None without any.

    >>> right_once([(2, 2), (1, 2)]), right_once([(1, 1), (1, 1), (0, 1)])
    (0.75, 0.6666666666666666)
    """
    return fmean(right / times for right, times in counts) if counts else None


def all_right(counts: Sequence[tuple[int, int]]) -> float:
    """Return W, the probability that one answer drawn in each prompt is right in all of them, in [0, 1].

    counts: for each prompt the number of right answers, and the number of all answers.

    >>> all_right([(2, 2), (1, 2)])
    0.5
    """
    return math.prod(right / times for right, times in counts)


def same_order(counts: Sequence[tuple[int, int]], times: int = TIMES) -> float | None:
    """Return S, the probability that answers to one prompt are right `times` times, in [0, 1]: a mean over prompts.

    Only prompts with at least as many answers count; None if there is none.

    >>> same_order([(2, 2), (1, 2)]), same_order([(11, 11), (1, 1)], times=11), same_order([(1, 1)])
    (0.5, 1.0, None)
    """
    shares = [math.comb(right, times) / math.comb(answered, times) for right, answered in counts if answered >= times]
    return fmean(shares) if shares else None


def compute_across_orders(counts: Sequence[tuple[int, int]], times: int = TIMES) -> float | None:
    """Return D, the probability that answers to `times` different prompts are all right, in [0, 1].

    A mean over all sets of `times` prompts; None for fewer prompts.

    >>> counts = [(2, 2)], [(2, 2), (1, 2)], [(2, 2), (1, 2), (0, 2)]
    >>> tuple(map(compute_across_orders, counts))
    (None, 0.5, 0.16666666666666666)
    """
    if len(counts) < times:
        return None
    # sums[a]: the sum over sets of `a` prompts of the products of their shares.
    sums = [1.0] + [0.0] * times
    for right, answered in counts:
        for size in range(times, 0, -1):
            sums[size] += sums[size - 1] * right / answered
    return sums[times] / math.comb(len(counts), times)


def _group_equally_repeated(outcomes: Outcomes) -> Orders | None:
    """Group the answers by prompt; None unless all prompts were repeated equally often."""
    orders = group_repeated(outcomes)
    return None if orders is None or len(set(map(len, orders.answers))) > 1 else orders


def right_in_every_order(outcomes: Outcomes) -> float | None:
    """Return W, the probability of being right in every order, with one answer to each; in [0, 1]. E: 0.5.

    The product over orders of the share of right answers. With one answer to each order it would be worst accuracy.
    """
    orders = group_repeated(outcomes)
    return None if orders is None else all_right(orders.counts)


def average_accuracy(outcomes: Outcomes) -> float | None:
    """Return A, the probability that one answer is right, in [0, 1]: a mean over orders. E: 0.75.

    Each order counts with all its answers. It is AAcc of Goliakova et al., in which every order has one answer.
    """
    orders = group_by_prompt(outcomes)
    return None if orders is None else right_once(orders.counts)


def right_twice_same_order(outcomes: Outcomes) -> float | None:
    """Return S₂, the probability of being right twice in one order, in [0, 1]: a mean over repeated orders. E: 0.5.

    If the model does not sample, it is average accuracy: a repeat gets the same answer.
    """
    orders = group_by_prompt(outcomes)
    if orders is None:
        return None
    return right_once(orders.counts) if orders.sampled is False else same_order(orders.counts)


def right_twice_across_orders(outcomes: Outcomes) -> float | None:
    """Return D₂, the probability of being right once in each of two orders, in [0, 1]. E: 0.5.

    A mean over pairs of orders. It needs no repeats, and its expectation does not depend on the number of orders or of
    repeats.
    """
    orders = group_by_prompt(outcomes)
    return None if orders is None else compute_across_orders(orders.counts)


def chance_loss(outcomes: Outcomes) -> float | None:
    """Return A − S₂, the cost of chance alone, in [0, 0.5]; 0 if the model does not sample its answers. E: 0.25.

    It is the mean of p(1 − p) over orders, estimated without bias. A is over the same orders as S₂: orders with only
    one answer do not count.
    """
    orders, twice = group_by_prompt(outcomes), right_twice_same_order(outcomes)
    accuracy = None if orders is None else right_once(orders.asked_again)
    return None if accuracy is None or twice is None else accuracy - twice


def order_loss(outcomes: Outcomes) -> float | None:
    """Return L₂ = S₂ − D₂, the cost of changing the order, chance removed; in [−1, 1]. E: 0.

    At least 0 in expectation, and 0 if the order does nothing. It is the sum of two variance components of right
    answers: of orders, and of orders by question. If only the original order was repeated, S₂ is that of the original.
    """
    same, across = right_twice_same_order(outcomes), right_twice_across_orders(outcomes)
    return None if same is None or across is None else same - across


def worst_order_low(outcomes: Outcomes) -> float | None:
    """Return the lower end of a bracket around the accuracy in a question's worst order, in [0, 1]. E: 0.5.

    This is the lowest share. It is too low in expectation: among shares that differ only by chance, the lowest is below
    their common value. None also if orders have different numbers of answers.
    """
    orders = _group_equally_repeated(outcomes)
    return None if orders is None else min(right / times for right, times in orders.counts)


def worst_order_high(outcomes: Outcomes) -> float | None:
    """Return the upper end of a bracket around the accuracy in a question's worst order, in [0, 1]. E: 0.75.

    This is the mean over the repeats r of whether answer r is right in the order with the fewest right answers among
    the other repeats; if several orders have equally few, the mean over these. It is too high in expectation: that
    order need not be the worst. None also if orders have different numbers of answers.
    """
    orders = _group_equally_repeated(outcomes)
    if orders is None:
        return None
    held_out = []
    for repeat in range(len(orders.answers[0])):
        others = [sum(answers) - answers[repeat] for answers in orders.answers]
        worst = [answers for answers, right in zip(orders.answers, others, strict=True) if right == min(others)]
        held_out.append(fmean(float(answers[repeat]) for answers in worst))
    return fmean(held_out)


_SOURCES: Final[tuple[Source, ...]] = (goliakova("WAcc, as far as chance and order go; with repeats it is ours"),)
_ORDERS: Final = "At least two orders of the question's own options, such as `cyclic`."
_NEEDS: Final = (
    "At least two orders of the question's own options, one or more of which were asked several times, such as "
    "`cyclic:repeats=2`."
)
_SEPARATE: Final = (
    f"{_ORDERS} If the model samples its answers, one or more orders asked several times, such as `cyclic:repeats=2`."
)
_EQUALLY: Final = f"{_NEEDS} Every order equally often."
_UNTESTED: Final = "variants missing, or fewer than two distinct prompts"
_UNDEFINED: Final = f"{_UNTESTED}, or none that was asked twice"
_UNSEPARATED: Final = (
    "variants missing, fewer than two distinct prompts, or a model that may sample its answers and was asked none twice"
)
_ASKED_TWICE: Final = f"question_score.right_in_every_order is not null and {TESTED}"
_IN_ORDERS: Final = f"question_score.average_accuracy is not null and {TESTED}"
_SEPARATED: Final = f"(not evaluation.samples or question_score.right_in_every_order is not null) and {_IN_ORDERS}"
_EQUALLY_OFTEN: Final = f"question_score.worst_order_low is not null and {TESTED}"
_UNEQUAL: Final = f"{_UNDEFINED}; also if orders were asked differently often"
_SAME_ORDER: Final = (
    "case when not evaluation.samples then question_score.average_accuracy "
    "else question_score.right_twice_same_order end"
)


METRICS: Final = (
    Metric(
        name="average_accuracy",
        label="Average accuracy",
        better="higher",
        summary="The probability that an answer is right: right answers over all tested orders.",
        formulas=(r"\text{AAcc} = \frac{1}{m} \sum_{j=1}^{m} \frac{x_j}{k_j}",),
        sources=(goliakova("Eq. 1–9, AAcc"),),
        needs=_ORDERS,
        example=Example(
            examples.REPEATED_ORDERS,
            "Of the first question the shares are 2/2 and 1/2, of the second 2/2 and 0: (3/4 + 1/2)/2.",
            "0.625",
        ),
        differs="In the paper every order is asked once. If an order is asked several times, its share of right "
        "answers counts.",
        averaging=MeanOverQuestions(average_accuracy, "question_score.average_accuracy", _IN_ORDERS),
        undefined=_UNTESTED,
    ),
    Metric(
        name="right_twice_same_order",
        label="Right twice in one order",
        better="higher",
        summary="The probability that two answers to the same prompt are both right: only chance lowers it.",
        formulas=(r"S_a = \frac{1}{m} \sum_{j=1}^{m} \binom{x_j}{a} / \binom{k_j}{a}", "a = 2"),
        sources=_SOURCES,
        needs=f"{_SEPARATE} If the model does not sample its answers, it is average accuracy.",
        example=Example(
            examples.REPEATED_ORDERS,
            "Of the first question one pair of two is right twice, of the second too: (1/2 + 1/2)/2.",
            "0.5",
        ),
        averaging=MeanOverQuestions(right_twice_same_order, _SAME_ORDER, _SEPARATED),
        undefined=_UNSEPARATED,
    ),
    Metric(
        name="right_twice_across_orders",
        label="Right in two orders",
        better="higher",
        summary="The probability that answers in two different orders are both right: chance and order lower it. It "
        "does not depend on how many orders were asked, nor on how often, so that all models can be compared by it.",
        formulas=(
            r"D_a = \frac{1}{\binom{m}{a}} \sum_{J} \prod_{j \in J} \frac{x_j}{k_j}",
            r"a = 2 = \left| J \right|",
        ),
        sources=_SOURCES,
        needs=_ORDERS,
        example=Example(
            examples.REPEATED_ORDERS,
            "Of the one pair of orders the shares are 1 and 1/2 in the first question, 1 and 0 in the second: "
            "(1/2 + 0)/2.",
            "0.25",
        ),
        averaging=MeanOverQuestions(right_twice_across_orders, "question_score.right_twice_across_orders", _IN_ORDERS),
        undefined=_UNTESTED,
    ),
    Metric(
        name="chance_loss",
        label="Chance loss",
        better="lower",
        summary="The cost of chance: average accuracy less right twice in one order. 0 if the model does not sample "
        "its answers.",
        formulas=(r"\text{AAcc} - S_2",),
        sources=_SOURCES,
        needs=_SEPARATE,
        example=Example(
            examples.REPEATED_ORDERS, "Average accuracy less right twice in one order: .625 − .5.", "0.125"
        ),
        high=0.5,
        averaging=MeanOverQuestions(
            chance_loss,
            "case when not evaluation.samples then 0.0 "
            "else question_score.repeated_accuracy - question_score.right_twice_same_order end",
            _SEPARATED,
        ),
        undefined=_UNSEPARATED,
    ),
    Metric(
        name="order_loss",
        label="Order loss",
        better="lower",
        summary="The cost of changing the order, chance removed: right twice in one order less right in two orders.",
        formulas=(r"L_2 = S_2 - D_2",),
        sources=_SOURCES,
        needs=_SEPARATE,
        example=Example(
            examples.REPEATED_ORDERS, "Right twice in one order less right in two orders: .5 − .25.", "0.25"
        ),
        low=-1.0,
        averaging=MeanOverQuestions(
            order_loss, f"{_SAME_ORDER} - question_score.right_twice_across_orders", _SEPARATED
        ),
        undefined=_UNSEPARATED,
    ),
    Metric(
        name="right_in_every_order",
        label="Right in every order",
        better="higher",
        summary="The probability of being right in every order, each asked once, from all answers to each.",
        formulas=(r"W = \prod_{j=1}^{m} \frac{x_j}{k_j}",),
        sources=_SOURCES,
        needs=_NEEDS,
        example=Example(
            examples.REPEATED_ORDERS,
            "Of the first question the shares are 2/2 and 1/2, of the second 2/2 and 0: (1/2 + 0)/2.",
            "0.25",
        ),
        averaging=MeanOverQuestions(right_in_every_order, "question_score.right_in_every_order", _ASKED_TWICE),
        undefined=_UNDEFINED,
    ),
    Metric(
        name="worst_order_low",
        label="Worst order, at least",
        for_papers=True,
        better="higher",
        summary="Lower end of a bracket around the accuracy in each question's worst order: too low in expectation.",
        formulas=(r"\min_{j} \frac{x_j}{k}",),
        sources=_SOURCES,
        needs=_EQUALLY,
        example=Example(
            examples.REPEATED_ORDERS,
            "The lowest share is 1/2 in the first question, and 0 in the second: (1/2 + 0)/2.",
            "0.25",
        ),
        averaging=MeanOverQuestions(worst_order_low, "question_score.worst_order_low", _EQUALLY_OFTEN),
        undefined=_UNEQUAL,
    ),
    Metric(
        name="worst_order_high",
        label="Worst order, at most",
        for_papers=True,
        better="higher",
        summary="Upper end of that bracket: each repeat in the order that is worst by the others. Too high in "
        "expectation.",
        formulas=(r"\frac{1}{k} \sum_{r=1}^{k} y_{r, j(r)}", r"j(r) = \text{argmin}_{j} \sum_{s \neq r} y_{s,j}"),
        sources=_SOURCES,
        needs=_EQUALLY,
        example=Example(
            examples.REPEATED_ORDERS,
            "First question: by the second answers the second order is worst, and its first answer is right, 1; by the "
            "first answers both are equal, and their second answers are right and wrong, 1/2. Second question: 0 and "
            "0. (3/4 + 0)/2.",
            "0.375",
        ),
        averaging=MeanOverQuestions(worst_order_high, "question_score.worst_order_high", _EQUALLY_OFTEN),
        undefined=_UNEQUAL,
    ),
)
