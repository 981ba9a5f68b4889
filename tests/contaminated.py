"""Made-up models that like a position, some of which saw a benchmark as it was published."""

from collections.abc import Sequence

import numpy as np

from registry.statistics.original_order import LEVEL, Asked, compare_with_other_orders

LIKES_FIRST = (2.0, 0.0, 0.0, -1.0)
"""By how many nats more probable an option is at each of four positions, on average over questions."""
EVEN = (0.25, 0.25, 0.25, 0.25)
MOSTLY_FIRST = (0.6, 0.2, 0.1, 0.1)
"""Shares of a benchmark's keys at each of four positions."""


def made_up(
    generator: np.random.Generator,
    *,
    questions: int = 100,
    others: int = 1,
    liking: Sequence[float] = LIKES_FIRST,
    shares: Sequence[float] = EVEN,
    seen: float = 0.0,
) -> list[Asked]:
    """Answers in four rotations, or with others=6 in all 24 orders: log-odds of the key, and right or wrong.

    Log-odds have a standard normal part of each question and one of each order, and the liking, whose strength varies
    from question to question. seen: the share of questions whose published order is known by heart.
    """
    shape = (questions, 4, others)
    keys = generator.choice(4, size=questions, p=shares)
    other = generator.integers(others, size=questions)
    strength = 2 * generator.random((questions, 1, 1)) * np.asarray(liking)[None, :, None]
    odds = generator.standard_normal((questions, 1, 1)) + strength + generator.standard_normal(shape)
    odds[np.arange(questions), keys, other] += np.where(generator.random(questions) < seen, 5.0, 0.0)
    values = np.stack([odds > 0, odds], axis=1).astype(np.float64)
    return [Asked(*item) for item in zip(values, keys.tolist(), other.tolist(), strict=True)]


def is_outlier(benchmark: Sequence[Asked]) -> bool:
    """Whether the published order is one."""
    found = compare_with_other_orders(benchmark)
    return found is not None and found.p_value is not None and found.p_value <= LEVEL


def is_outlier_of_any_order(generator: np.random.Generator, benchmark: Sequence[Asked], draws: int = 999) -> bool:
    """Whether it would be one if published orders were compared with any orders, whatever the positions of the keys."""
    values = np.stack([question.values[1].ravel() for question in benchmark])
    observed = sum(question.values[1, question.key, question.others] for question in benchmark)
    drawn = values[np.arange(len(values)), generator.integers(values.shape[1], size=(draws, len(values)))].sum(axis=1)
    return bool((1 + np.count_nonzero(drawn >= observed - 1e-9)) / (1 + draws) <= LEVEL)
