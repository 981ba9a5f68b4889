"""Whether the order in which a benchmark's options were published is as good as random.

If options stand by length, by alphabet or by number, an order drawn anew differs from the published one in more than
what a model may have memorised. Of each question, its options' values are compared with their positions, in two ways:
whether they ascend or descend along the positions, which the sum of position times rank says, and how often they are
sorted outright. Both are compared with all orders of the same options, so that nothing is assumed of the options.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

LEAST: Final = 30
"""Questions with options that differ, below which nothing is tested."""


@dataclass(frozen=True)
class Regularity:
    """What was found: of so many questions the share sorted, what it would be in any order, and how improbable it is.

    sorted, expected: in [0, 1], ascending or descending. p_value: of both ways together, two-sided, by Bonferroni.
    """

    questions: int
    sorted: float
    expected: float
    p_value: float


def regularity(questions: Sequence[Sequence[Any]]) -> Regularity | None:
    """Whether values stand in order; None for fewer than LEAST questions in which they differ.

    questions: of each the values of its options, in the published order.

    >>> regularity([["a", "b", "c"]] * 30).sorted, regularity([["a"]] * 30)
    (1.0, None)
    """
    slope = variance = expected = spread = 0.0
    counted = in_order = 0
    for values in questions:
        size = len(values)
        counts = Counter(values)
        if len(counts) < 2:
            continue
        counted += 1
        ranks = _ranks(values, counts)
        middle = (size - 1) / 2
        slope += sum((place - middle) * (rank - middle) for place, rank in enumerate(ranks))
        squares = sum((place - middle) ** 2 for place in range(size))
        variance += squares * sum((rank - middle) ** 2 for rank in ranks) / (size - 1)
        # Of all orders, either direction: options of one value may change places.
        probability = min(1.0, 2 * math.prod(map(math.factorial, counts.values())) / math.factorial(size))
        expected += probability
        spread += probability * (1 - probability)
        in_order += ranks in (sorted(ranks), sorted(ranks, reverse=True))
    if counted < LEAST:
        return None
    p_values = [_two_sided(slope / math.sqrt(variance))]
    if spread > 0:
        p_values.append(_two_sided((in_order - expected) / math.sqrt(spread)))
    return Regularity(counted, in_order / counted, expected / counted, min(1.0, len(p_values) * min(p_values)))


def _ranks(values: Sequence[Any], counts: Counter[Any]) -> list[float]:
    """Average ranks from 0 on."""
    rank_of, below = {}, 0
    for value in sorted(counts):
        rank_of[value] = below + (counts[value] - 1) / 2
        below += counts[value]
    return [rank_of[value] for value in values]


def _two_sided(score: float) -> float:
    return math.erfc(abs(score) / math.sqrt(2))
