"""Facts about a model other than its answers, and the conditions that a board sets on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy.orm import Session

from registry.boards.definition import ModelChoice
from registry.leaderboard.costs import costs_of
from registry.leaderboard.selection import openness_of
from registry.tables import Evaluation, ModelRevision


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model on a board, None if unknown. openness: whether the weights are open or closed.

    cost: the cost of all its evaluations on the board; thinking: whether its answers there have thoughts.
    """

    name: str
    family: str | None
    developer: str | None
    licence: str | None
    openness: str | None
    parameters: int | None
    released: str | None
    cost: Decimal | None
    thinking: bool | None


def facts_of_models(
    session: Session, rows: Sequence[tuple[ModelRevision, Sequence[Evaluation | None]]]
) -> list[ModelFacts]:
    """Return the facts about each revision, given its evaluations on the board."""
    costs = costs_of(session, [item.id for _, items in rows for item in items if item is not None])
    return [
        _facts(revision, [evaluation for evaluation in evaluations if evaluation is not None], costs)
        for revision, evaluations in rows
    ]


def _facts(revision: ModelRevision, evaluations: Sequence[Evaluation], costs: Any) -> ModelFacts:
    model = revision.model
    spent = [costs.get(item.id) for item in evaluations]
    thoughts = [
        evaluation.thought_tokens_per_answer for evaluation in evaluations if evaluation.tokens_per_answer is not None
    ]
    return ModelFacts(
        model.name,
        model.family,
        model.developer,
        model.licence,
        openness_of(revision.kind, model.licence),
        model.parameters,
        model.released,
        None if None in spent or not spent else Decimal(repr(sum(spent))),
        any(thoughts) if thoughts else None,
    )


def takes(choice: ModelChoice, model: ModelFacts) -> bool:
    """Return whether a model meets a board's conditions; an unknown value meets none."""
    listed = (
        (choice.names, model.name),
        (choice.families, model.family),
        (choice.developers, model.developer),
        (choice.licences, model.licence),
    )
    at_most = (
        (model.parameters, choice.parameters_to),
        (model.released, choice.released_to),
        (model.cost, choice.cost_to),
    )
    at_least = ((model.parameters, choice.parameters_from), (model.released, choice.released_from))
    return (
        all(not wanted or value in wanted for wanted, value in listed)
        and all(wanted is None or value == wanted for wanted, value in _list_exact_conditions(choice, model))
        and all(end is None or (value is not None and value <= end) for value, end in at_most)  # type: ignore[operator]
        and all(end is None or (value is not None and value >= end) for value, end in at_least)  # type: ignore[operator]
    )


def _list_exact_conditions(choice: ModelChoice, model: ModelFacts) -> tuple[tuple[Any, Any], ...]:
    return ((choice.openness, model.openness), (choice.thinking, model.thinking))
