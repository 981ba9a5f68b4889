"""What moves the accuracy of an evaluation: each axis of its variants, and asking again.

An evaluation under a product of variant kinds has an axis for each kind. Its sealed replicates, if there are any, are
one more. What is computed: registry/statistics/axes.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import find_sealed, replicates_of
from registry.metrics.axes import REPEATS
from registry.predictions.stored import require_rows
from registry.prompting.products import TIMES
from registry.prompting.variants import QuestionShape, VariantSetDefinition, stored_variants
from registry.scores.asked import has_all_cells
from registry.tables import Evaluation, Prediction, Question, Variant

if TYPE_CHECKING:
    from registry.scores.cells import Cell
    from registry.statistics.axes import Estimate


@dataclass(frozen=True)
class Axis:
    """kind: of variants; None for replicates. names: of its levels, by ordinal within the kind."""

    name: str
    kind: str | None
    names: Mapping[int, str]


@dataclass(frozen=True)
class Answers:
    """What was answered to each question in each cell: whether it is right.

    designed: how many cells each question has in the full design, asked or not.
    """

    evaluations: tuple[int, ...]
    axes: tuple[Axis, ...]
    of_question: dict[int, dict["Cell", bool]]
    designed: dict[int, int]


def axes_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """What each axis does to the accuracy of an evaluation, with 95 % intervals over questions.

    It covers the questions that were asked in one full set of cells: with orders of all rotations, those with as many
    options as most have. `left_out` counts the others. `chance_inside`: whether answers were, or may have been, drawn
    at random and none was repeated; then the component of the questions with all axes is None, since chance is in it.
    Raises NotFoundError, QueueError for one that is not sealed, and UsageError where nothing was varied, or where not
    all cells were asked.
    """
    from registry.scores.cells import Asked, chance_inside, read_grid
    from registry.statistics.axes import component_sets, decompose

    evaluation = find_sealed(session, evaluation_id)
    definition = _variants(evaluation)
    if definition.sample is not None:
        whole = definition.name.rpartition(TIMES)[0]
        raise UsageError(
            f"evaluation {evaluation_id} was asked in a sample of the cells, and what each axis does needs all of "
            f"them: submit it with --variants '{whole}'; what a sample tells: shuffleboard statistics wordings "
            f"{evaluation_id}"
        )
    if not has_all_cells(evaluation):
        raise UsageError(
            f"evaluation {evaluation_id} holds recorded orders; what each axis does needs every combination of levels"
        )
    replicates = replicates_of(session, evaluation_id)
    grid = read_grid(session, [Asked(tuple(replicates))])
    if grid is None or not grid.axes:
        raise UsageError(
            f"evaluation {evaluation_id} was asked in one variant, once; submit it with other --variants, such as "
            "'cyclic*wording', or with --replicate"
        )
    if len(grid.question_ids) < 2:
        raise UsageError(
            f"evaluation {evaluation_id}: only {len(grid.question_ids)} question was asked in these cells; ask more"
        )
    found = decompose(grid.correct, grid.options)
    names = {chosen: " × ".join(grid.axes[place] for place in chosen) for chosen in component_sets(len(grid.axes))}
    chance = chance_inside(session, replicates, grid.axes)
    every = tuple(range(len(grid.axes)))
    components = {
        " × ".join(filter(None, ("question" if with_questions else "", names[chosen]))): (
            None if chance and with_questions and chosen == every else value
        )
        for (chosen, with_questions), value in found.components.items()
    }
    asked = session.get_one(Question, grid.question_ids[0])
    axes = _axes(session, evaluation, {asked.n_options: _levels(definition, asked.n_options)}, replicates)
    return {
        "evaluations": replicates,
        "questions": len(grid.question_ids),
        "left_out": grid.left_out,
        "cells": grid.cells,
        "accuracy": found.accuracy,
        "axes": [
            {
                "axis": axes[place].name,
                "kind": axes[place].kind,
                "levels": [
                    {"level": level, "name": axes[place].names.get(level, str(level)), "accuracy": accuracy}
                    for level, accuracy in zip(levels, effect.accuracies, strict=True)
                ],
                "lowest_accuracy": min(effect.accuracies),
                "highest_accuracy": max(effect.accuracies),
                "moves_without_effect": effect.moves_without_effect,
                **{name: _estimate(getattr(effect, name)) for name in ESTIMATES},
                **({"by_question": {"value": None, "interval": None}} if chance and len(every) == 1 else {}),
            }
            for place, levels, effect in zip(grid.places, grid.levels, found.effects, strict=True)
        ],
        "components": components,
        "chance_inside": chance,
        "resamples": found.resamples,
        "seed": found.seed,
    }


ESTIMATES: Final = ("moves", "fluctuation_rate", "worst_accuracy", "disagreement", "shared", "by_question")
"""The values of an axis that have an interval."""


def _estimate(estimate: "Estimate") -> dict[str, Any]:
    interval = estimate.interval
    return {"value": estimate.value, "interval": None if interval is None else [interval.low, interval.high]}


def _variants(evaluation: Evaluation) -> VariantSetDefinition:
    """What a sealed evaluation varied. Raises UsageError for orders that somebody else used."""
    definition = stored_variants(evaluation.variant_set)
    if definition.kind == "imported":
        raise UsageError(
            f"evaluation {evaluation.id} has orders that were recorded elsewhere, which are no axes; see: shuffleboard "
            f"statistics noise {evaluation.id}"
        )
    return definition


def answers_by_axis(session: Session, evaluation_id: int) -> Answers:
    """The answers of an evaluation and of its replicates by cell: those of prompts that show the question.

    Raises NotFoundError, QueueError for one that is not sealed, UsageError for orders that somebody else used.
    """
    evaluation = find_sealed(session, evaluation_id)
    definition = _variants(evaluation)
    replicates = replicates_of(session, evaluation_id)
    of = Prediction
    query = (
        select(of.evaluation_id, of.question_id, of.variant, of.correct, Question.n_options)
        .join(Question, Question.id == of.question_id)
        .where(of.evaluation_id.in_(replicates), of.question_shown)
        .execution_options(yield_per=10_000)
    )
    place_of = {number: place for place, number in enumerate(replicates)}
    levels: dict[int, Mapping[int, Cell]] = {}
    found: dict[int, dict[Cell, bool]] = {}
    designed: dict[int, int] = {}
    require_rows(session, *replicates)
    for row in session.execute(query):
        if row.n_options not in levels:
            levels[row.n_options] = _levels(definition, row.n_options)
        cell = (*levels[row.n_options][row.variant], place_of[row.evaluation_id])
        found.setdefault(row.question_id, {})[cell] = row.correct
        designed[row.question_id] = len(levels[row.n_options]) * len(replicates)
    axes = _axes(session, evaluation, levels, replicates)
    return Answers(tuple(replicates), tuple(axes), found, designed)


def _levels(definition: VariantSetDefinition, n_options: int) -> Mapping[int, "Cell"]:
    """Ordinal of a variant to its ordinals within the factors, for questions with so many options."""
    return definition.levels(QuestionShape("", n_options, 0))


def _axes(
    session: Session, evaluation: Evaluation, levels: Mapping[int, Mapping[int, "Cell"]], replicates: Sequence[int]
) -> list[Axis]:
    """The axes of the variants, with the names under which their levels were stored, and that of the replicates."""
    definition = stored_variants(evaluation.variant_set)
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
    return [*found, Axis(REPEATS, None, dict(enumerate(map(str, replicates))))]
