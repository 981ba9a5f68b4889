"""Answers by question and cell: every combination of the levels of what an evaluation varied.

An evaluation under a product of variant kinds has an axis for each kind; its sealed replicates are one more.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.metrics.averaging import Value
from registry.metrics.axes import REPEATS
from registry.predictions.stored import require_rows
from registry.prompting.protocols.answering import drawn
from registry.prompting.variants import QuestionShape, stored_variants
from registry.scores.asked import has_all_cells, varied_axes
from registry.statistics.axes import NO_ANSWER, AxisEffect, Decomposition, Estimate, decompose
from registry.statistics.bootstrap import MINIMUM_QUESTIONS, RESAMPLES, SEED, Interval
from registry.tables import Evaluation, Prediction, Question, QuestionScore

Cell = tuple[int, ...]
"""The level of each factor of the variants and, where there are several, the place of the replicate."""
_CHUNK: Final = 10_000


@dataclass(frozen=True)
class Asked:
    """Evaluations that were asked the same: one, or it and its replicates.

    question_ids: which of their questions count; None: all.
    """

    evaluations: tuple[int, ...]
    question_ids: Collection[int] | None = None


@dataclass(frozen=True)
class Grid:
    """The answers to the questions that were asked in one full set of cells, the set that most were.

    axes: of two levels or more, by name. places: of these among the factors; replicates come last. levels: of each
    axis, the ordinals within the factor. correct, options: shape (questions, levels of each axis …). left_out: how many
    questions were asked in other cells.
    """

    axes: tuple[str, ...]
    places: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
    question_ids: tuple[int, ...]
    correct: NDArray[np.bool_]
    options: NDArray[np.int16]
    left_out: int

    @property
    def cells(self) -> int:
        """How many cells each question was asked in."""
        return math.prod(map(len, self.levels))


def read_grid(session: Session, asked: Sequence[Asked]) -> Grid | None:
    """The answers of some evaluations of different questions, together.

    None where nothing is known of axes: recorded orders, a sample of cells, or evaluations that varied other things.
    """
    groups: dict[tuple[Cell, ...], list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}
    names: set[tuple[str, ...]] = set()
    for one in asked:
        if not all(has_all_cells(session.get_one(Evaluation, number)) for number in one.evaluations):
            return None
        definition = stored_variants(session.get_one(Evaluation, one.evaluations[0]).variant_set)
        names.add((*definition.axes, REPEATS))
        for cells, numbers, answers in _by_cells(session, one):
            groups.setdefault(cells, []).append((numbers, answers))
    if len(names) != 1 or not groups:
        return None
    sizes = {cells: sum(len(numbers) for numbers, _ in found) for cells, found in groups.items()}
    chosen = max(sizes, key=lambda cells: (sizes[cells], len(cells)))
    levels = [tuple(sorted(set(of_axis))) for of_axis in zip(*chosen, strict=True)]
    if math.prod(map(len, levels)) != len(chosen):
        return None
    varied = [place for place, of_axis in enumerate(levels) if len(of_axis) > 1]
    answers = np.concatenate([found for _, found in groups[chosen]])
    shape = (len(answers), *(len(levels[place]) for place in varied))
    (of_factors,) = names
    return Grid(
        tuple(of_factors[place] for place in varied),
        tuple(varied),
        tuple(levels[place] for place in varied),
        tuple(np.concatenate([numbers for numbers, _ in groups[chosen]]).tolist()),
        (answers[..., 0] > 0).reshape(shape),
        answers[..., 1].astype(np.int16).reshape(shape),
        sum(sizes.values()) - sizes[chosen],
    )


def _by_cells(session: Session, one: Asked) -> Iterator[tuple[tuple[Cell, ...], NDArray[np.int64], NDArray[np.int64]]]:
    """Cells in order, the questions that were asked in all of them, and whether each answer is right, and what it is.

    Questions: shape (questions,). Answers: shape (questions, cells, 2).
    """
    definition = stored_variants(session.get_one(Evaluation, one.evaluations[0]).variant_set)
    rows = [_rows(session, number, one) for number in one.evaluations]
    for n_options in np.unique(rows[0][:, 2]) if len(rows[0]) else ():
        of_shape = [row[row[:, 2] == n_options] for row in rows]
        ordinals = np.unique(of_shape[0][:, 1])
        by_question = []
        for found in of_shape:
            numbers, counts = np.unique(found[:, 0], return_counts=True)
            whole = np.isin(found[:, 0], numbers[counts == len(ordinals)])
            by_question.append(found[whole].reshape(-1, len(ordinals), found.shape[1]))
        if any(len(found) != len(by_question[0]) for found in by_question):
            continue
        level_of = definition.levels(QuestionShape("", int(n_options), 0))
        cells = tuple(
            (*level_of[ordinal], replicate) for ordinal in ordinals.tolist() for replicate in range(len(rows))
        )
        answers = np.stack([found[..., 3:] for found in by_question], axis=2)
        yield cells, by_question[0][:, 0, 0], answers.reshape(len(answers), len(cells), 2)


def _rows(session: Session, evaluation_id: int, one: Asked) -> NDArray[np.int64]:
    """Question, variant, number of options, whether the answer is right, and the answer; by question and variant."""
    query = (
        select(
            Prediction.question_id, Prediction.variant, Question.n_options, Prediction.correct, Prediction.chosen_option
        )
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.question_shown)
        .order_by(Prediction.question_id, Prediction.variant)
        .execution_options(yield_per=_CHUNK)
    )
    wanted = one.question_ids
    chunks = [np.empty((0, 5), dtype=np.int64)]
    require_rows(session, evaluation_id)
    for part in session.execute(query).partitions(_CHUNK):
        kept = [
            (
                question_id,
                variant,
                n_options,
                correct,
                NO_ANSWER if option is None else option,
            )
            for question_id, variant, n_options, correct, option in part
            if wanted is None or question_id in wanted
        ]
        chunks.append(np.array(kept, dtype=np.int64).reshape(-1, 5))
    return np.concatenate(chunks)


# The metrics of an axis

STATED: Final[Mapping[str, tuple[str, float]]] = {
    "moves": ("moves", 100.0),
    "fluctuation_rate": ("fluctuation_rate", 1.0),
    "worst_accuracy": ("worst_accuracy", 1.0),
    "variance": ("shared", 10_000.0),
    "question_variance": ("by_question", 10_000.0),
}
"""Figure of an axis → where AxisEffect has it, and the metric's unit in terms of that."""


@dataclass(frozen=True)
class OfAxes:
    """What metrics say of the axes of some answers: name → value and number of questions; intervals; resamples."""

    values: Mapping[str, Value]
    intervals: Mapping[str, Interval | None]
    samples: Mapping[str, NDArray[np.float64]]


NO_AXES: Final = OfAxes({}, {}, {})


def stored_axes(session: Session, evaluation: Evaluation, *, resamples: int = RESAMPLES) -> OfAxes:
    """What one evaluation says of its axes: what is stored with it. resamples: 0 for values without intervals."""
    if not varied_axes(evaluation):
        return NO_AXES
    return axis_metrics(session, [Asked((evaluation.id,))], resamples=resamples)


def axis_metrics(session: Session, asked: Sequence[Asked], *, resamples: int = RESAMPLES, seed: int = SEED) -> OfAxes:
    """What evaluations of different questions say of their axes together; only metrics that have a value."""
    grid = read_grid(session, asked)
    if grid is None or len(grid.question_ids) < 2 or not grid.axes:
        return NO_AXES
    enough = len(grid.question_ids) >= MINIMUM_QUESTIONS
    found = decompose(grid.correct, grid.options, resamples=resamples if enough else 0, seed=seed)
    evaluations = [number for one in asked for number in one.evaluations]
    listed = all(session.get_one(Evaluation, number).lists_options for number in evaluations)
    return _of_axes(grid, found, listed=listed, chance=chance_inside(session, evaluations, grid.axes))


def chance_inside(session: Session, evaluations: Sequence[int], axes: Sequence[str]) -> bool:
    """Whether the component of the questions with all these axes also holds what answers vary by chance, p(1 − p).

    It does if answers were drawn at random, or nothing says that they were not, and no axis is that of repeats.
    """
    if {"repeat", REPEATS} & set(axes):
        return False
    score = QuestionScore
    query = select(score.evaluation_id, func.max(score.probability_variants)).group_by(score.evaluation_id)
    probable = {row[0]: row[1] for row in session.execute(query.where(score.evaluation_id.in_(evaluations)))}
    return any(
        drawn(
            one.specification["protocol"],
            recorded=one.specification["engine"]["name"] == "replay",
            probable=bool(probable.get(one.id)),
        )
        is not False
        for one in (session.get_one(Evaluation, number) for number in evaluations)
    )


def _of_axes(grid: Grid, found: Decomposition, *, listed: bool, chance: bool) -> OfAxes:
    """The metrics of the axes that a model saw varied.

    listed: whether prompts list the options, and so their order. chance: whether the component of the questions with
    all axes holds what answers vary by chance; then it is undefined.
    """
    effects: dict[str, AxisEffect] = dict(zip(grid.axes, found.effects, strict=True))
    values: dict[str, Value] = {}
    intervals: dict[str, Interval | None] = {}
    samples: dict[str, NDArray[np.float64]] = {}
    for name, metric in METRICS.items():
        of = metric.over_cells
        if of is None or of.axis not in effects or (of.axis == "order" and not listed):
            continue
        if of.kind == "question_variance" and chance and len(grid.axes) == 1:
            continue
        attribute, factor = STATED[of.kind]
        estimate: Estimate = getattr(effects[of.axis], attribute)
        if estimate.value is None:
            continue
        values[name] = (factor * estimate.value, len(grid.question_ids))
        ends = estimate.interval
        intervals[name] = None if ends is None else Interval(factor * ends.low, factor * ends.high)
        samples[name] = factor * estimate.samples
    return OfAxes(values, intervals, samples)
