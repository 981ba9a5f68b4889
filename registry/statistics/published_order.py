"""Whether the order in which a benchmark's options were published is as good as random.

If options stand by length, by alphabet or by number, an order drawn anew differs from the published one in more than
what a model may have memorised. Of each question, its options' values are compared with their positions, in two ways:
whether they ascend or descend along the positions, which the sum of position times rank says, and how often they are
sorted outright. Both are compared with all orders of the same options, so that nothing is assumed of the options. The
positions of the keys may not depend on the subject, or on the place in the file: exchanged between questions, they
would meet others that a model answers differently for reasons of its own.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

LEAST: Final = 30
"""Questions with options that differ, below which nothing is tested."""
PARTS: Final = 10
"""Parts of a file in which keys are looked at."""


@dataclass(frozen=True)
class Regularity:
    """What was found: of so many questions the share sorted, what it would be in any order, and how improbable it is.

    sorted, expected: in [0, 1], ascending or descending; None of keys, which have no order. p_value: of all ways of
    looking together, two-sided, by Bonferroni.
    """

    questions: int
    sorted: float | None
    expected: float | None
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


def key_places(questions: Sequence[tuple[Hashable, int, int]]) -> Regularity | None:
    """Whether the position of the key depends on the subject or on the place in the file; None for fewer than LEAST.

    questions: in the file's order, of each the subject, the number of options, and the key's position. Pearson's
    chi-squared test of independence, among questions with equally many options: of the subjects, and of PARTS equal
    parts of the file.

    >>> key_places([("a", 4, 0), ("b", 4, 1)] * 30).p_value < 1e-9
    True
    >>> key_places([("a", 4, place % 4) for place in range(80)]).p_value
    1.0
    """
    if len(questions) < LEAST:
        return None
    parts = [PARTS * place // len(questions) for place in range(len(questions))]
    p_values = []
    for groups in ([subject for subject, _, _ in questions], parts):
        statistic = degrees = 0.0
        for size in {options for _, options, _ in questions}:
            cells = Counter((group, key) for group, (_, of, key) in zip(groups, questions, strict=True) if of == size)
            rows, columns = Counter[Hashable](), Counter[int]()
            for (group, key), count in cells.items():
                rows[group] += count
                columns[key] += count
            shares = {key: count / columns.total() for key, count in columns.items()}
            statistic += sum(
                (cells[group, key] - count * share) ** 2 / (count * share)
                for group, count in rows.items()
                for key, share in shares.items()
            )
            degrees += (len(rows) - 1) * (len(columns) - 1)
        if degrees:
            p_values.append(_tail(statistic, degrees))
    return Regularity(len(questions), None, None, min(1.0, len(p_values) * min(p_values)) if p_values else 1.0)


def _tail(statistic: float, degrees: float) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(degrees, statistic))


def _ranks(values: Sequence[Any], counts: Counter[Any]) -> list[float]:
    """Average ranks from 0 on."""
    rank_of, below = {}, 0
    for value in sorted(counts):
        rank_of[value] = below + (counts[value] - 1) / 2
        below += counts[value]
    return [rank_of[value] for value in values]


def _two_sided(score: float) -> float:
    return math.erfc(abs(score) / math.sqrt(2))
