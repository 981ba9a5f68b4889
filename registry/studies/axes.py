"""What moves the accuracy of an evaluation: each axis of its variants, and asking again.

An evaluation under a product of variant kinds has an axis for each kind. Its sealed replicates, if there are any, are
one more. What is computed: registry/statistics/axes.py.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import find_sealed, stands
from registry.prompting.variants import QuestionShape, VariantSetDefinition, stored_variants
from registry.results.archived import readable
from registry.tables import Evaluation, Prediction, Question, Variant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from registry.statistics.axes import Estimate

REPEATS: Final = "repeats"
Cell = tuple[int, ...]
"""Ordinals within each factor of the variants and, where there are several, the place of the replicate."""


@dataclass(frozen=True)
class Axis:
    """kind: of variants; None for replicates. names: of its levels, by ordinal within the kind."""

    name: str
    kind: str | None
    names: Mapping[int, str]


@dataclass(frozen=True)
class Answers:
    """What was answered to each question in each cell: whether it is right, and the option.

    designed: how many cells each question has in the full design, asked or not.
    """

    evaluations: tuple[int, ...]
    axes: tuple[Axis, ...]
    of_question: dict[int, dict[Cell, tuple[bool, int | None]]]
    designed: dict[int, int]

    def cells(self) -> tuple[frozenset[Cell], list[int]]:
        """The cells that the most questions were asked in (if equal, the most cells), and these questions by id."""
        asked: dict[frozenset[Cell], list[int]] = {}
        for question_id, answers in sorted(self.of_question.items()):
            asked.setdefault(frozenset(answers), []).append(question_id)
        cells = max(asked, key=lambda cells: (len(asked[cells]), len(cells)))
        return cells, asked[cells]


def axes_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """What each axis does to the accuracy of an evaluation, with 95 % intervals over questions.

    It covers the questions that were asked in one full set of cells: with orders of all rotations, those with as many
    options as most have. `left_out` counts the others.
    Raises NotFoundError, QueueError for one that is not sealed, and UsageError where nothing was varied, or where not
    all cells were asked.
    """
    from registry.statistics.axes import component_sets, decompose

    answers = answers_by_axis(session, evaluation_id)
    cells, questions = answers.cells()
    levels = [sorted({cell[place] for cell in cells}) for place in range(len(answers.axes))]
    varied = [place for place, of_axis in enumerate(levels) if len(of_axis) > 1]
    if not varied:
        raise UsageError(
            f"evaluation {evaluation_id} was asked in one variant, once; submit it with other --variants, such as "
            "'cyclic*wording', or with --replicate"
        )
    if any(answers.designed[question_id] != len(cells) for question_id in questions):
        raise UsageError(
            f"evaluation {evaluation_id} was asked in a sample of the cells; components need all of them: leave out "
            "'*sample', or see: shuffleboard statistics wordings"
        )
    if len(questions) < 2:
        raise UsageError(
            f"evaluation {evaluation_id}: only {len(questions)} question was asked in these cells; ask more"
        )
    correct, options = _arrays(answers, questions, levels)
    shape = (len(questions), *(len(levels[place]) for place in varied))
    found = decompose(correct.reshape(shape), options.reshape(shape))
    axes = [answers.axes[place] for place in varied]
    names = {chosen: " × ".join(axes[place].name for place in chosen) for chosen in component_sets(len(axes))}
    components = {
        " × ".join(filter(None, ("question" if with_questions else "", names[chosen]))): value
        for (chosen, with_questions), value in found.components.items()
    }
    return {
        "evaluations": list(answers.evaluations),
        "questions": len(questions),
        "left_out": len(answers.of_question) - len(questions),
        "cells": len(cells),
        "accuracy": found.accuracy,
        "axes": [
            {
                "axis": axis.name,
                "kind": axis.kind,
                "levels": [
                    {"level": level, "name": axis.names.get(level, str(level)), "accuracy": accuracy}
                    for level, accuracy in zip(levels[place], effect.accuracies, strict=True)
                ],
                "lowest_accuracy": min(effect.accuracies),
                "highest_accuracy": max(effect.accuracies),
                **{name: _estimate(getattr(effect, name)) for name in ESTIMATES},
            }
            for axis, place, effect in zip(axes, varied, found.effects, strict=True)
        ],
        "components": components,
        "resamples": found.resamples,
        "seed": found.seed,
    }


ESTIMATES: Final = ("moves", "fluctuation_rate", "worst_accuracy", "disagreement", "shared", "by_question")
"""The values of an axis that have an interval."""


def _estimate(estimate: "Estimate") -> dict[str, Any]:
    interval = estimate.interval
    return {"value": estimate.value, "interval": None if interval is None else [interval.low, interval.high]}


def answers_by_axis(session: Session, evaluation_id: int) -> Answers:
    """The answers of an evaluation and of its replicates by cell: those of prompts that show the question.

    Raises NotFoundError, QueueError for one that is not sealed, UsageError for orders that somebody else used.
    """
    evaluation = find_sealed(session, evaluation_id)
    definition = stored_variants(evaluation.variant_set)
    replicates = replicates_of(session, evaluation_id)
    if definition.kind == "imported":
        raise UsageError(
            f"evaluation {evaluation_id} has orders that were recorded elsewhere, which are no axes; see: shuffleboard "
            f"statistics noise {evaluation_id}"
        )
    readable(session, replicates)
    query = (
        select(
            Prediction.evaluation_id,
            Prediction.question_id,
            Prediction.variant,
            Prediction.correct,
            Prediction.chosen_option,
            Question.n_options,
        )
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id.in_(replicates), Prediction.question_shown)
        .execution_options(yield_per=10_000)
    )
    place_of = {number: place for place, number in enumerate(replicates)}
    levels: dict[int, dict[int, Cell]] = {}
    found: dict[int, dict[Cell, tuple[bool, int | None]]] = {}
    designed: dict[int, int] = {}
    for row in session.execute(query):
        if row.n_options not in levels:
            levels[row.n_options] = _levels(session, definition, row)
        cell = (*levels[row.n_options][row.variant], place_of[row.evaluation_id])
        found.setdefault(row.question_id, {})[cell] = (row.correct, row.chosen_option)
        designed[row.question_id] = len(levels[row.n_options]) * len(replicates)
    axes = [*_axes(session, evaluation, definition, levels), Axis(REPEATS, None, dict(enumerate(map(str, replicates))))]
    return Answers(tuple(replicates), tuple(axes), found, designed)


def replicates_of(session: Session, evaluation_id: int) -> list[int]:
    """A sealed evaluation and its sealed replicates that stand, the oldest first."""
    evaluation = session.get_one(Evaluation, evaluation_id)
    same = select(Evaluation.id).where(
        Evaluation.specification_digest == evaluation.specification_digest, Evaluation.seal.is_not(None), stands()
    )
    return sorted({evaluation.id, *session.scalars(same)})


def _levels(session: Session, definition: VariantSetDefinition, row: Any) -> dict[int, Cell]:
    """Ordinal of a variant to its ordinals within the factors, for questions with so many options."""
    question = session.get_one(Question, row.question_id)
    return definition.levels(QuestionShape(question.external_id, row.n_options, question.answer))


def _axes(
    session: Session, evaluation: Evaluation, definition: VariantSetDefinition, levels: Mapping[int, Mapping[int, Cell]]
) -> list[Axis]:
    """The axes of the variants, with the names under which their levels were stored."""
    stored = {
        (n_options, ordinal): name
        for n_options, ordinal, name in session.execute(
            select(Variant.n_options, Variant.ordinal, Variant.name).where(
                Variant.variant_set_id == evaluation.variant_set_id
            )
        )
    }
    found = []
    for place, (name, factor) in enumerate(zip(definition.axes, definition.factors, strict=True)):
        names: dict[int, str] = {}
        for n_options, cells in levels.items():
            for ordinal, cell in cells.items():
                parts = stored.get((n_options, ordinal), "").split(" × ")
                if len(parts) == len(definition.factors):
                    names.setdefault(cell[place], parts[place])
        found.append(Axis(name, factor.kind, names))
    return found


def _arrays(
    answers: Answers, questions: Sequence[int], levels: Sequence[Sequence[int]]
) -> "tuple[NDArray[np.bool_], NDArray[np.int16]]":
    """Whether each answer is right, and the options, shape (questions, levels of each axis …)."""
    import numpy as np

    from registry.statistics.axes import NO_ANSWER

    cells = list(itertools.product(*levels))
    rows = [[answers.of_question[question_id][cell] for cell in cells] for question_id in questions]
    shape = (len(questions), *map(len, levels))
    correct = np.array([[right for right, _ in row] for row in rows], dtype=np.bool_)
    options = np.array([[NO_ANSWER if option is None else option for _, option in row] for row in rows], dtype=np.int16)
    return correct.reshape(shape), options.reshape(shape)
