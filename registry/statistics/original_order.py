"""Whether the order of options that a benchmark was published with is an outlier among all orders.

A model that was trained on a benchmark's questions as they were published may do better in that order than in others.
So may one that merely prefers the positions where the benchmark has its keys. The test therefore draws other benchmarks
that might have been published, with as many keys at each position: the positions of the keys are exchanged between
questions, and the other options of each question stand in any order.
A liking for long options at some position is taken out first: by accident, the published order may have more there.
What that assumes, and what it finds: docs/decisions/0067-signs-of-contamination.md.
Sources: Oren et al., *Proving Test Set Contamination in Black Box Language Models* (2023), who permute the questions of
a benchmark; Ni et al., *Training on the Benchmark Is Not All You Need* (2024), who permute the options of a question.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import SEED

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

DRAWS: Final = 9_999
FIRST_DRAWS: Final = 999
CLEAR: Final = 0.1
"""Where the first draws give a higher p-value than this, no more are made: it could no longer become small."""
LEVEL: Final = 0.01
"""How often a model that never saw the published order is an outlier, at most."""
QUESTIONS_PER_LENGTH: Final = 10
"""Questions for each coefficient of a liking for long options: it is not estimated from fewer."""
AT_ONCE: Final = 500_000
"""Values gathered with one statement. It never changes a result."""
_TOLERANCE: Final = 1e-9
"""Standard deviations: sums in another order differ by less."""


@dataclass(frozen=True)
class Asked:
    """One question in all orders. values: (measures, positions of the key, orders of the others), higher is better.

    key, others: the place of the published order in the last two. lengths: of each order how long the option at each
    position is, in standard deviations of the question's options, shape (positions of the key, orders of the others,
    options); None: not known.
    """

    values: Floats
    key: int
    others: int
    lengths: Floats | None = None


@dataclass(frozen=True)
class Measure:
    """A mean over questions in their published order, what it would be of any other, and the one-sided p-value.

    Any other has options of the published lengths at the published positions. p_value: None where the measure is the
    same in every order.
    """

    observed: float
    expected: float
    p_value: float | None


@dataclass(frozen=True)
class Outlier:
    """All measures at once. p_value: the least of them times their number, at most 1; None as for a measure."""

    measures: tuple[Measure, ...]
    p_value: float | None


def compare_with_other_orders(questions: Sequence[Asked], *, draws: int = DRAWS, seed: int = SEED) -> Outlier | None:
    """How the published order compares with other benchmarks that are drawn; None where no other could be drawn.

    That is so where every key stands at the same position and no question was asked in every order of the others.
    Questions with equally many options and orders exchange their keys with each other. Stopping after FIRST_DRAWS where
    these are CLEAR keeps every p-value valid: it takes away none that would be small but for them.
    """
    alike: dict[tuple[int, ...], list[Asked]] = {}
    for question in questions:
        alike.setdefault(question.values.shape, []).append(question)
    groups = [_Group.of(members) for members in alike.values()]
    groups = [group for group in groups if group.can_be_drawn]
    if not groups:
        return None
    size = sum(group.keys.size for group in groups)
    expected = np.asarray(sum(group.expected() for group in groups)) / size
    generator = np.random.default_rng(seed)
    means = np.asarray(sum(group.published() for group in groups)) / size
    for more in (min(FIRST_DRAWS, draws), draws - min(FIRST_DRAWS, draws)):
        drawn = np.asarray(sum(group.drawn(generator, more) for group in groups)) / size
        means = np.concatenate([means, drawn])
        found = _outlier(means, expected)
        if found.p_value is None or found.p_value > CLEAR:
            break
    lengths = np.asarray(sum(group.owed_to_lengths for group in groups)) / size
    shown = zip(found.measures, lengths.tolist(), strict=True)
    return replace(
        found,
        measures=tuple(replace(one, observed=one.observed + of, expected=one.expected + of) for one, of in shown),
    )


def _outlier(means: Floats, expected: Floats) -> Outlier:
    """means: of the published order and of every draw, shape (1 + draws, measures)."""
    spread = means.std(axis=0)
    varies = spread > _TOLERANCE * np.maximum(1.0, np.abs(expected))
    # The published order is one of those that are at least as high as it is.
    shares = np.mean(means >= means[0] - _TOLERANCE * spread, axis=0)
    measures = tuple(
        Measure(observed, mean, share if known else None)
        for observed, mean, share, known in zip(
            means[0].tolist(), expected.tolist(), shares.tolist(), varies, strict=True
        )
    )
    known = shares[varies]
    return Outlier(measures, min(1.0, float(known.size * known.min())) if known.size else None)


def owed_to_lengths(values: Floats, lengths: Floats) -> Floats:
    """What the lengths of the options at each position predict of the values, by least squares; of their shape.

    values: (questions, positions, orders, measures). lengths: (questions, positions, orders, options). For each
    position of the key there are coefficients of their own, of each length and, with enough questions, of its square:
    answers are not linear in what a model likes. All orders of a question count alike, whichever of them was published,
    so that a p-value of what is left is as exact as one of the values.
    """
    questions, positions, orders, measures = values.shape
    owed, coefficients = np.zeros_like(values), lengths.shape[-1] - 1
    if questions < QUESTIONS_PER_LENGTH * coefficients:
        return owed
    if questions >= QUESTIONS_PER_LENGTH * 2 * coefficients:
        lengths = np.concatenate([lengths, lengths**2], axis=-1)
    within = values - values.mean(axis=(1, 2), keepdims=True)
    for place in range(positions):
        known = lengths[:, place].reshape(questions * orders, -1)
        known = known - known.mean(axis=0)
        found = np.linalg.lstsq(known, within[:, place].reshape(-1, measures), rcond=None)[0]
        owed[:, place] = (known @ found).reshape(questions, orders, measures)
    return owed


@dataclass(frozen=True)
class _Group:
    """Questions that exchange keys. values: (questions, positions, orders, measures); keys, others: (questions,).

    owed_to_lengths: the sum over questions, as they were published, of what was taken out of `values`: (measures,).
    """

    values: Floats
    keys: Integers
    others: Integers
    owed_to_lengths: Floats

    @classmethod
    def of(cls, questions: Sequence[Asked]) -> "_Group":
        values = np.moveaxis(np.stack([question.values for question in questions]), 1, -1)
        keys = np.array([question.key for question in questions], dtype=np.intp)
        others = np.array([question.others for question in questions], dtype=np.intp)
        lengths = [question.lengths for question in questions if question.lengths is not None]
        owed = np.zeros_like(values)
        if len(lengths) == len(questions):
            owed = owed_to_lengths(values, np.stack(lengths))
        return cls(values - owed, keys, others, owed[np.arange(keys.size), keys, others].sum(axis=0))

    @property
    def can_be_drawn(self) -> bool:
        return self.values.shape[2] > 1 or np.unique(self.keys).size > 1

    def expected(self) -> Floats:
        """The mean of all sums that might be drawn, shape (measures,)."""
        shares = np.bincount(self.keys, minlength=self.values.shape[1]) / self.keys.size
        return np.asarray(np.einsum("qpm,p->m", self.values.mean(axis=2), shares))

    def published(self) -> Floats:
        """The sum over questions as they were published, shape (1, measures)."""
        return np.asarray(self.values[np.arange(self.keys.size), self.keys, self.others].sum(axis=0, keepdims=True))

    def drawn(self, generator: np.random.Generator, draws: int) -> Floats:
        """Sums over questions of so many draws, shape (draws, measures)."""
        questions, positions, orders, measures = self.values.shape
        flat = self.values.reshape(-1, measures)
        first = np.arange(questions) * positions * orders
        found = [np.empty((0, measures))]
        most = max(1, AT_ONCE // questions)
        for start in range(0, draws, most):
            shape = (min(most, draws - start), questions)
            places = generator.permuted(np.broadcast_to(self.keys, shape), axis=1) * orders + first
            if orders > 1:
                places += generator.integers(orders, size=shape)
            found.append(flat.take(places, axis=0).sum(axis=1))
        return np.concatenate(found)
