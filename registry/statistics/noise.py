"""Repeat noise and order effects: changes when a prompt is only repeated, and when its options move.

A model that samples its answers disagrees with itself on the same prompt, and fluctuation over orders includes that
noise. If a prompt was repeated, in the same evaluation or in another, the two can be separated.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import RESAMPLES, SEED, Interval, mean_intervals

Answer = tuple[tuple[int, ...], int | None]
"""The order shown, and the ordinal of the chosen option in the benchmark's order; None without a valid answer."""

Pairs = tuple[int, int]
"""The number of pairs that disagree, and the number of all pairs."""


@dataclass(frozen=True)
class Noise:
    """Disagreement between two predictions of a question, in [0, 1]: shares of pairs, averaged over questions.

    repeat_disagreement: share of pairs with the same order that disagree, over the `repeat_questions` that have such
    pairs.
    order_disagreement: share of pairs with different orders that disagree, over the `order_questions` that have such
    pairs.
    order_effect: order minus repeat disagreement, in [−1, 1], over the `questions` that have both kinds of pairs.
    interval: 95 % interval of the order effect, from the same bootstrap as repeat_interval and order_interval.
    repeat_pairs, order_pairs: numbers of pairs over all questions. None: undefined, or no interval is stated.
    """

    repeat_disagreement: float | None
    order_disagreement: float | None
    order_effect: float | None
    repeat_pairs: int
    order_pairs: int
    repeat_questions: int
    order_questions: int
    questions: int
    interval: Interval | None
    repeat_interval: Interval | None
    order_interval: Interval | None


def noise(questions: Sequence[Sequence[Answer]], *, resamples: int = RESAMPLES, seed: int = SEED) -> Noise:
    """Separate repeat noise from order effects.

    questions: for each question, its predictions over all variants and replicates.
    A missing answer is equal to nothing, not even to another missing answer.
    The order effect of a model that is only noisy is 0 in expectation: if its answers to a question are drawn
    independently from one distribution, whatever the order, any two predictions disagree with the same probability,
    whether their orders are equal or different. It can therefore be negative by chance.

    >>> noise([[((0, 1), 1), ((0, 1), 1), ((1, 0), 0)]]).order_effect
    1.0
    """
    counted = [pairs_of(predictions) for predictions in questions]
    same, different = [pair[0] for pair in counted], [pair[1] for pair in counted]
    return noise_of_pairs(same, different, resamples=resamples, seed=seed)


def noise_of_pairs(
    same: Sequence[Pairs], different: Sequence[Pairs], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Noise:
    """Compute `noise` from the counted pairs of each question.

    same, different: shape (questions,), the same questions in the same order: pairs with the same order, and pairs with
    different orders. They may be from two evaluations, one with repeated prompts and one with moved options.
    """
    repeat, order = _shares(same), _shares(different)
    effect = order - repeat
    columns = (repeat, order, effect)
    intervals = mean_intervals(np.stack(columns, axis=1), resamples=resamples, seed=seed)
    defined = [values[~np.isnan(values)] for values in columns]
    return Noise(
        repeat_disagreement=_mean(defined[0]),
        order_disagreement=_mean(defined[1]),
        order_effect=_mean(defined[2]),
        repeat_pairs=sum(pairs for _, pairs in same),
        order_pairs=sum(pairs for _, pairs in different),
        repeat_questions=defined[0].size,
        order_questions=defined[1].size,
        questions=defined[2].size,
        repeat_interval=intervals[0],
        order_interval=intervals[1],
        interval=intervals[2],
    )


def pairs_of(predictions: Sequence[Answer]) -> tuple[Pairs, Pairs]:
    """Count the pairs of a question's predictions with the same order, and those with different orders.

    >>> pairs_of([((0, 1), 1), ((0, 1), 1), ((1, 0), 0)])
    ((0, 1), (2, 2))
    """
    by_order: dict[tuple[int, ...], list[int | None]] = {}
    for order, answer in predictions:
        by_order.setdefault(order, []).append(answer)
    all_pairs = _count_disagreeing([answer for _, answer in predictions])
    same = [_count_disagreeing(answers) for answers in by_order.values()]
    disagreeing, pairs = sum(pair[0] for pair in same), sum(pair[1] for pair in same)
    return (disagreeing, pairs), (all_pairs[0] - disagreeing, all_pairs[1] - pairs)


def _count_disagreeing(answers: Sequence[int | None]) -> Pairs:
    pairs = len(answers) * (len(answers) - 1) // 2
    counts = Counter(answer for answer in answers if answer is not None)
    return pairs - sum(count * (count - 1) // 2 for count in counts.values()), pairs


def _shares(pairs: Sequence[Pairs]) -> NDArray[np.float64]:
    """Return the share of each question's pairs that disagree; NaN if it has none."""
    return np.array(
        [disagreeing / pair_count if pair_count else np.nan for disagreeing, pair_count in pairs], dtype=np.float64
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if values.size else None
