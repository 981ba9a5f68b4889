"""Accuracy of guessing over M variants, and the success rate a model needs to be right p times.

Paper: Cavalin et al., *Improving Score Reliability of Multiple Choice Benchmarks with Consistency Evaluation and
Altered Answer Choices*, Table 7. The printed chance "1/p" is 1/k for k options. The threshold .9995 is inferred: it
reproduces the printed rates for p = 0 to 7; the rates for 8, 9 and 10 fit no single rule.

Guessing is one uniform draw among the options for each prompt, independent of every other; a model that keeps its guess
from order to order does more than that.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

from registry.errors import MetricInputError
from registry.statistics.exact import exact_high, exact_low

CERTAINTY: Final = Fraction(9995, 10_000)

WITHIN: Final = 0.02
"""An accuracy whose interval ends no more than this above the chance level is no better than guessing."""


@dataclass(frozen=True)
class AgainstGuessing:
    """An accuracy compared with the chance level, by its 95 % interval from low to high.

    relation: `better` if the whole interval lies above chance; `no better` if it ends at most WITHIN above chance; `not
    distinguished` otherwise, since the questions are too few to decide. exact: whether low and high are the exact
    interval of Clopper and Pearson, because the accuracy has no stated interval.
    """

    chance: float
    low: float
    high: float
    relation: Literal["better", "not distinguished", "no better"]
    exact: bool


@dataclass(frozen=True)
class GuessingRow:
    """A row of the guessing table, for one p.

    chance: probability that guessing is right at least p times. minimum_success_rate: MSGR(p), exact. shown: MSGR(p),
    rounded up.
    """

    p: int
    chance: float
    minimum_success_rate: float
    shown: float


def at_least(p: int, M: int, rate: float | Fraction) -> float:
    """Return P(at least p of M right) if each is right at `rate`, in [0, 1]: Σ_{j≥p} C(M, j) rate^j (1 − rate)^(M−j).

    Exact, then rounded to float64, if the rate is a Fraction.
    Raises MetricInputError if p is not in 0…M or the rate not in [0, 1].

    >>> at_least(2, 3, Fraction(1, 2))
    0.5
    """
    if not 0 <= p <= M:
        raise MetricInputError(f"at least {p} of {M} variants; give a number from 0 to {M}")
    if not 0 <= rate <= 1:
        raise MetricInputError(f"a rate of {rate}; give one from 0 to 1")
    terms = [math.comb(M, j) * rate**j * (1 - rate) ** (M - j) for j in range(p, M + 1)]
    return float(sum(terms)) if isinstance(rate, Fraction) else min(1.0, math.fsum(terms))


def minimum_success_rate(p: int, M: int, k: int) -> float:
    """Return MSGR(p): the smallest rate, at least 1/k, that is right at least p of M times with probability .9995.

    Raises MetricInputError if p is not in 0…M, or for fewer than two options.
    """
    from scipy.special import betaincinv

    if not 0 <= p <= M:
        raise MetricInputError(f"at least {p} of {M} variants; give a number from 0 to {M}")
    if k < 2:
        raise MetricInputError(f"{k} options; a guess needs at least 2")
    # The binomial tail from p on is the regularised incomplete beta function of p and M − p + 1.
    return max(1 / k, float(betaincinv(p, M - p + 1, float(CERTAINTY)))) if p else 1 / k


def correct_for_guessing(value: float | None, chance: float | None) -> float | None:
    """Rescale a share of right answers so that guessing is 0 and perfect is 1: (x − c) / (1 − c).

    value: x in [0, 1]; chance: c in [0, 1), the accuracy of guessing on the same questions. The result is in [−c/(1 −
    c), 1]; below 0 is worse than guessing. None if either is None.

    >>> tuple(correct_for_guessing(share, 0.25) for share in (0.625, 0.25, 1.0, None))
    (0.5, 0.0, 1.0, None)
    """
    return None if value is None or chance is None else (value - chance) / (1 - chance)


@lru_cache(8192)  # a board makes the same comparison several times for each model, and again for each of its selections
def compare_with_guessing(
    chance: float | None, value: float | None, n: int | None, low: float | None = None, high: float | None = None
) -> AgainstGuessing | None:
    """Compare an accuracy over n questions with guessing; None without the chance level or the accuracy.

    low, high: the accuracy's stated 95 % interval. If they are None, the exact interval of a share of n is used. For an
    average over orders it is too long, so it never makes a guesser look better than chance.

    >>> few = compare_with_guessing(0.5, 0.6, 20)
    >>> few.relation, round(few.low, 2), round(few.high, 2)
    ('not distinguished', 0.36, 0.81)
    >>> compare_with_guessing(0.5, 0.49, 5000, 0.476, 0.504).relation
    'no better'
    >>> compare_with_guessing(0.5, 0.6, 5000, 0.586, 0.614).relation
    'better'
    """
    if chance is None or value is None or not n:
        return None
    exact = low is None or high is None
    if low is None or high is None:
        hits = round(value * n)
        low, high = exact_low(hits, n), exact_high(hits, n)
    near = high <= chance + WITHIN
    return AgainstGuessing(
        chance, low, high, "better" if low > chance else "no better" if near else "not distinguished", exact
    )


def round_up(rate: float) -> float:
    """Round a rate up to the next hundredth, as it is shown.

    >>> round_up(0.532), round_up(0.2)
    (0.54, 0.2)
    """
    return math.ceil(100 * rate - 1e-9) / 100


def guessing_table(M: int, k: int) -> list[GuessingRow]:
    """Return a row for each p from 0 to M, for questions of k options: Table 7, for any number of variants.

    Raises MetricInputError for fewer than two options.
    """
    rates = [minimum_success_rate(p, M, k) for p in range(M + 1)]
    return [GuessingRow(p, at_least(p, M, Fraction(1, k)), rate, round_up(rate)) for p, rate in enumerate(rates)]
