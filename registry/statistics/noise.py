"""Repeat noise apart from order effects: what a model changes when it is only asked again, and when options move.

A model that samples its answers disagrees with itself on the same prompt, and fluctuation over orders holds that
noise, too. With replicates, or variants that show an order twice, the two can be told apart.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import RESAMPLES, SEED, Interval, mean_intervals

Answer = tuple[tuple[int, ...], int | None]
"""The order shown and the option answered, never its position; None: no valid answer."""


@dataclass(frozen=True)
class Noise:
    """Disagreement between two predictions of a question, in [0, 1]: shares of pairs, averaged over questions.

    repeat_disagreement: of pairs with the same order, over questions that have such pairs.
    order_disagreement: of pairs with different orders, over questions that have such pairs.
    order_effect: order minus repeat disagreement, in [−1, 1], over the `questions` that have both kinds of pairs.
    interval: 95 %, bootstrap over those questions. repeat_pairs, order_pairs: over all questions. None: undefined.
    """

    repeat_disagreement: float | None
    order_disagreement: float | None
    order_effect: float | None
    repeat_pairs: int
    order_pairs: int
    questions: int
    interval: Interval | None


def noise(questions: Sequence[Sequence[Answer]], *, resamples: int = RESAMPLES, seed: int = SEED) -> Noise:
    """Separates repeat noise from order effects.

    questions: for each question, its predictions over all variants and replicates.
    A missing answer is equal to nothing, not even to another missing answer.
    The order effect of a model that is only noisy is 0 in expectation: if its answers to a question are drawn
    independently from one distribution, whatever the order, any two predictions disagree with the same probability,
    those with equal orders and those with different ones. It can therefore be negative by chance.

    >>> noise([[((0, 1), 1), ((0, 1), 1), ((1, 0), 0)]]).order_effect
    1.0
    """
    counted = [_pairs(predictions) for predictions in questions]
    repeat = np.array([_share(same) for same, _ in counted], dtype=np.float64)
    order = np.array([_share(different) for _, different in counted], dtype=np.float64)
    effect = (order - repeat)[~np.isnan(order - repeat)]
    (interval,) = mean_intervals(effect[:, None], resamples=resamples, seed=seed)
    return Noise(
        repeat_disagreement=_mean(repeat),
        order_disagreement=_mean(order),
        order_effect=_mean(effect),
        repeat_pairs=sum(pairs for (_, pairs), _ in counted),
        order_pairs=sum(pairs for _, (_, pairs) in counted),
        questions=effect.size,
        interval=interval,
    )


Pairs = tuple[int, int]
"""Pairs that disagree, and all pairs."""


def _pairs(predictions: Sequence[Answer]) -> tuple[Pairs, Pairs]:
    """Pairs with the same order, and pairs with different ones."""
    by_order: dict[tuple[int, ...], list[int | None]] = {}
    for order, answer in predictions:
        by_order.setdefault(order, []).append(answer)
    everything = _disagreeing([answer for _, answer in predictions])
    same = [_disagreeing(answers) for answers in by_order.values()]
    disagreeing, pairs = sum(pair[0] for pair in same), sum(pair[1] for pair in same)
    return (disagreeing, pairs), (everything[0] - disagreeing, everything[1] - pairs)


def _disagreeing(answers: Sequence[int | None]) -> Pairs:
    pairs = len(answers) * (len(answers) - 1) // 2
    counts = Counter(answer for answer in answers if answer is not None)
    return pairs - sum(count * (count - 1) // 2 for count in counts.values()), pairs


def _share(pairs: Pairs) -> float:
    return pairs[0] / pairs[1] if pairs[1] else np.nan


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
