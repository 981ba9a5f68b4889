"""Exact binomial tails, and intervals of shares from them.

They are written in plain Python, since commands that start quickly use them. Source: Clopper and Pearson, *The Use of
Confidence or Fiducial Limits Illustrated in the Case of the Binomial* (1934).
"""

from math import exp, lgamma, log
from typing import Final

TAIL: Final = 0.025
"""Probability on either side of a 95 % interval."""


def binomial_tail(hits: int, n: int, share: float) -> float:
    """Return the probability of at least `hits` of n, each with probability `share`.

    Terms are added away from the mode until they are negligible, so that n may be large.

    >>> round(binomial_tail(3, 3, 0.5), 3), round(binomial_tail(1, 3, 0.5), 3)
    (0.125, 0.875)
    """
    if hits <= 0 or share >= 1:
        return 1.0
    if share <= 0 or hits > n:
        return 0.0
    upward = hits > n * share
    k = hits if upward else hits - 1
    term = exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(share) + (n - k) * log(1 - share))
    odds, total = share / (1 - share), 0.0
    while term > 1e-17 * total and 0 <= k <= n:
        total += term
        term *= (n - k) / (k + 1) * odds if upward else k / ((n - k + 1) * odds)
        k += 1 if upward else -1
    return min(1.0, total) if upward else max(0.0, 1.0 - total)


def exact_low(hits: int, n: int, tail: float = TAIL) -> float:
    """Return the lower end of the exact interval of a share, in [0, 1].

    >>> round(exact_low(5, 10), 3), exact_low(0, 10)
    (0.187, 0.0)
    """
    if hits <= 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_tail(hits, n, middle) < tail else (low, middle)
    return low


def exact_high(hits: int, n: int, tail: float = TAIL) -> float:
    """Return the upper end of the exact interval of a share, in [0, 1].

    >>> round(exact_high(5, 10), 3), exact_high(10, 10)
    (0.813, 1.0)
    """
    return 1.0 - exact_low(n - hits, n, tail)
