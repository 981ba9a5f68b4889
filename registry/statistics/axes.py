"""What moves an accuracy: the order of the options, the wording, noise, or asking again.

A balanced design asks every question in every combination of the levels of some axes. Let y be 1 for a right answer, 0
for another, by question and level of each axis. For a set S of axes, e(S) is what a question's levels of S do to its y
together: y averaged over all other axes, less what every smaller set explains. With f(S) = Π over S of (levels − 1):

- d(S) = the mean over questions of |e(S)|² / f(S),
- u(S) = the mean over pairs of different questions of e(S) · e′(S) / f(S), which only what questions share makes other
  than zero.

With m(T∖S) the product of the numbers of levels of the axes that T has and S has not, the variance components are

    σ²(S) = Σ over T ⊇ S of (−1)^|T∖S| u(T) / m(T∖S),    σ²(question × S) = the same of d − u.

These are the method-of-moments estimates of the analysis of variance of a balanced design in which the questions and
every axis are random. They can be negative, where there is nothing to be estimated. Written with u and d they can be
resampled: drawn with replacement, a question meets its own copies, and pairs of copies are left out of u.

Source: Searle, Casella and McCulloch, *Variance Components* (1992), ch. 4.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import RANK_RESAMPLES, SEED, Interval, percentile_interval

Floats = NDArray[np.float64]
Axes = tuple[int, ...]

NO_ANSWER: Final = -32768
"""Stands for no valid answer, which equals nothing."""
DRAWS_AT_ONCE: Final = 4_000_000
"""Questions drawn before they are counted, over all resamples of a chunk; it never changes a result."""


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval over questions; None where it is undefined, or no interval is stated.

    samples: the value in each resample of the questions, shape (resamples,).
    """

    value: float | None
    interval: Interval | None
    samples: Floats


@dataclass(frozen=True)
class AxisEffect:
    """What one axis does while all others stay as they are.

    accuracies: of each level. moves: standard deviation (divisor levels − 1) of the accuracy over the axis's levels, as
    the root of its mean square over the combinations of the others: how far the benchmark's accuracy moves when this
    alone is chosen anew. moves_without_effect: the same if the answers to each question were dealt to the levels at
    random: answers that differ move the accuracy over few questions whatever the axis does.
    fluctuation_rate, worst_accuracy: over the axis's levels, averaged over questions and combinations of the others.
    disagreement: share of pairs of a question's answers that differ in this axis alone and are not equal. shared: the
    component σ²(axis), what it does to all questions alike; by_question: σ²(question × axis). Both, with their
    intervals, are of these levels; of levels drawn anew the intervals cover less.
    """

    accuracies: tuple[float, ...]
    moves: Estimate
    moves_without_effect: float
    fluctuation_rate: Estimate
    worst_accuracy: Estimate
    disagreement: Estimate
    shared: Estimate
    by_question: Estimate


@dataclass(frozen=True)
class Decomposition:
    """What each axis does, and how the variance of right answers is divided.

    components: by set of axes, of `component_sets`, and whether the questions are in it.
    """

    accuracy: float
    effects: tuple[AxisEffect, ...]
    components: Mapping[tuple[Axes, bool], float]
    resamples: int
    seed: int


def component_sets(axes: int) -> list[Axes]:
    """All sets of so many axes, the empty one first, smaller ones before larger ones."""
    return [chosen for size in range(axes + 1) for chosen in itertools.combinations(range(axes), size)]


def decompose(
    correct: NDArray[np.bool_],
    answers: NDArray[np.int16],
    *,
    resamples: int = RANK_RESAMPLES,
    seed: int = SEED,
) -> Decomposition:
    """The effects of each axis and the variance components of a balanced design.

    correct, answers: shape (questions, levels of the first axis, …); answers are ordinals of options, NO_ANSWER none.
    resamples: 0 for values without intervals. An axis needs two levels, and components two questions. Raises
    MetricInputError for anything else.
    """
    if correct.shape != answers.shape or correct.ndim < 2 or min(correct.shape) < 2:
        raise MetricInputError(
            f"right answers of shape {correct.shape} and answers of shape {answers.shape}; give both for at least two "
            "questions and two levels of each axis"
        )
    y = correct.astype(np.float64)
    questions, levels = len(y), y.shape[1:]
    sets = component_sets(len(levels))
    effects = {chosen: _effects(y, chosen) for chosen in sets}
    moving = [_within(y, axis) for axis in range(len(levels))]
    plain = np.stack(
        [values for axis in range(len(levels)) for values in _answer_shares(correct, answers, axis)], axis=1
    )
    columns = _Columns([*effects.values(), *moving], plain)
    degrees = {chosen: float(math.prod(levels[axis] - 1 for axis in chosen)) for chosen in sets}

    def values_of(moments: "_Moments") -> dict[tuple[str, object], Floats]:
        """Every value of every resample, shape (resamples,), from what the resamples came to."""
        u = {chosen: moments.shared[:, place] / degrees[chosen] for place, chosen in enumerate(sets)}
        d = {chosen: moments.own[:, place] / degrees[chosen] for place, chosen in enumerate(sets)}
        found: dict[tuple[str, object], Floats] = {}
        for chosen in sets:
            found["component", (chosen, False)] = _component(chosen, sets, levels, u)
            apart = {key: d[key] - u[key] for key in sets}
            found["component", (chosen, True)] = _component(chosen, sets, levels, apart)
        for axis in range(len(levels)):
            place = len(sets) + axis
            mean_square = (questions - 1) / questions * moments.shared[:, place] + moments.own[:, place] / questions
            found["moves", axis] = np.sqrt(np.maximum(0.0, mean_square / (levels[axis] - 1)))
            found["moves_without_effect", axis] = np.sqrt(moments.own[:, place] / questions / (levels[axis] - 1))
            for number, name in enumerate(_SHARES):
                found[name, axis] = moments.plain[:, axis * len(_SHARES) + number]
        return found

    own = values_of(columns.moments(np.ones((1, questions))))
    drawn = [values_of(columns.moments(counts)) for counts in _counts(questions, resamples, seed)]
    samples = {key: np.concatenate([np.empty(0), *(chunk[key] for chunk in drawn)]) for key in own}

    def estimate(name: str, key: object) -> Estimate:
        of_key = samples[name, key]
        interval = percentile_interval(of_key, questions) if resamples else None
        return Estimate(float(own[name, key][0]), interval, of_key)

    return Decomposition(
        accuracy=float(y.mean()),
        effects=tuple(
            AxisEffect(
                tuple(float(value) for value in _mean_over_others(y, axis)),
                moves=estimate("moves", axis),
                moves_without_effect=float(own["moves_without_effect", axis][0]),
                fluctuation_rate=estimate("fluctuation_rate", axis),
                worst_accuracy=estimate("worst_accuracy", axis),
                disagreement=estimate("disagreement", axis),
                shared=estimate("component", ((axis,), False)),
                by_question=estimate("component", ((axis,), True)),
            )
            for axis in range(len(levels))
        ),
        components={
            (chosen, with_questions): float(own["component", (chosen, with_questions)][0])
            for chosen in sets
            for with_questions in (False, True)
            if chosen or with_questions
        },
        resamples=resamples,
        seed=seed,
    )


_SHARES: Final = ("fluctuation_rate", "worst_accuracy", "disagreement")


def _mean_over_others(y: Floats, axis: int) -> Floats:
    return np.asarray(y.mean(axis=tuple(place for place in range(y.ndim) if place != axis + 1)))


def _effects(y: Floats, chosen: Axes) -> Floats:
    """e(S) of each question, shape (questions, levels of S together)."""
    others = tuple(place for place in range(1, y.ndim) if place - 1 not in chosen)
    found: Floats = y.mean(axis=others, keepdims=True)
    for axis in chosen:
        found = found - found.mean(axis=axis + 1, keepdims=True)
    return found.reshape(len(y), -1)


def _within(y: Floats, axis: int) -> Floats:
    """Y less its mean over the levels of an axis, as its mean square over the combinations of the others counts it."""
    combinations = math.prod(y.shape[1:]) / y.shape[axis + 1]
    found: Floats = (y - y.mean(axis=axis + 1, keepdims=True)) / math.sqrt(combinations)
    return found.reshape(len(y), -1)


def _component(chosen: Axes, sets: Sequence[Axes], levels: Sequence[int], of: Mapping[Axes, Floats]) -> Floats:
    terms = []
    for larger in sets:
        if set(chosen) <= set(larger):
            more = set(larger) - set(chosen)
            terms.append((-1) ** len(more) * of[larger] / math.prod(levels[axis] for axis in more))
    return np.asarray(np.sum(terms, axis=0))


def _answer_shares(correct: NDArray[np.bool_], answers: NDArray[np.int16], axis: int) -> tuple[Floats, Floats, Floats]:
    """Of each question the _SHARES: over the axis's levels, averaged over the combinations of the others."""
    lined = np.moveaxis(answers, axis + 1, -1).reshape(len(answers), -1, answers.shape[axis + 1])
    right = np.moveaxis(correct, axis + 1, -1).reshape(lined.shape)
    steady = (lined == lined[..., :1]).all(axis=-1) & (lined[..., 0] != NO_ANSWER)
    number = lined.shape[-1]
    # Of n answers that are the same option n (n − 1) / 2 pairs are equal.
    counts = [(lined == option).sum(axis=-1) for option in np.unique(lined).tolist() if option != NO_ANSWER]
    equal = sum((count * (count - 1) / 2).mean(axis=1) for count in counts)
    return (
        1.0 - steady.mean(axis=1),
        right.all(axis=-1).mean(axis=1),
        1.0 - np.broadcast_to(np.asarray(equal, dtype=np.float64), len(lined)) / (number * (number - 1) / 2),
    )


@dataclass(frozen=True)
class _Moments:
    """By resample: `shared` the u and `own` the d of each block before they are divided by degrees; `plain` means."""

    shared: Floats
    own: Floats
    plain: Floats


class _Columns:
    """What is resampled of each question: blocks of effects, whose squares and products are wanted, and plain values.

    blocks: shape (questions, columns) each. plain: shape (questions, columns).
    """

    def __init__(self, blocks: Sequence[Floats], plain: Floats) -> None:
        self._blocks, self._plain = blocks, plain
        self._squares = np.stack([(block**2).sum(axis=1) for block in blocks], axis=1)

    def moments(self, counts: Floats) -> _Moments:
        """counts: how often each question was drawn, shape (resamples, questions)."""
        drawn = counts.sum(axis=1, keepdims=True)
        own = counts @ self._squares / drawn
        together = np.stack([((counts @ block) ** 2).sum(axis=1) for block in self._blocks], axis=1)
        same = counts**2 @ self._squares
        pairs = drawn**2 - (counts**2).sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # 0/0: one question was drawn every time
            shared = (together - same) / pairs
        return _Moments(shared, own, counts @ self._plain / drawn)


def _counts(questions: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each question is drawn in each resample, in chunks; chunks never change what is drawn."""
    generator = np.random.default_rng(seed)
    rows = max(1, DRAWS_AT_ONCE // questions)
    for start in range(0, resamples, rows):
        drawn = generator.integers(0, questions, (min(rows, resamples - start), questions), dtype=np.int32)
        counts = np.empty(drawn.shape)
        for row, of_row in zip(counts, drawn, strict=True):
            row[:] = np.bincount(of_row, minlength=questions)
        yield counts
