"""Models prompted with the same questions in the same way: only then is a difference due to the models."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import NotFoundError
from registry.lookups import not_withdrawn
from registry.schema.selectables import Row
from registry.scores.asked import asking
from registry.tables import Model, ModelRevision
from web.shown import queries

WAY: Final = ("benchmark", "benchmark_version", "variants", "protocol", "shots")
"""Parameters of a URL that identify a way of prompting."""
MOST: Final = 5000
"""Most evaluations to read, newest first."""


def group_sealed_by_way(session: Session, models: Sequence[str], wanted: Mapping[str, str]) -> list[dict[str, Row]]:
    """Return the ways in which some of the models were prompted, most models first: model → its newest evaluation.

    wanted: required values of the keys in WAY. Among ways with equally many models, several orders come first, then
    more questions, then the newest. Withdrawn and unsealed evaluations do not count. Raises NotFoundError for a model
    that does not exist.
    """
    _require(session, models)
    by_way: dict[str, dict[str, Row]] = {}
    for row in queries.list_sealed(session, (Model.name.in_(models), not_withdrawn()), limit=MOST):
        if all(str(row[key]) == value for key, value in wanted.items()):
            by_way.setdefault(row["asked_digest"], {}).setdefault(row["model"], row)
    return sorted(by_way.values(), key=_preference)


def _preference(way: Mapping[str, Row]) -> tuple[Any, ...]:
    newest = max(way.values(), key=lambda row: row["evaluation_id"])
    orders = newest["distinct_prompts_max"] or 0
    return (-len(way), orders < 2, -newest["questions"], -newest["evaluation_id"])


def _require(session: Session, models: Sequence[str]) -> None:
    existing = set(session.scalars(select(Model.name).where(Model.name.in_(models))))
    for name in models:
        if name not in existing:
            raise NotFoundError(f"no model {name!r}; /models and /api/v1/models list the existing ones")


def asking_the_others(session: Session, models: Sequence[str], way: Mapping[str, Row]) -> list[str]:
    """Return the commands that prompt the missing models in the same way."""
    shown = next(iter(way.values()))
    lacking = [model for model in models if model not in way]
    query = (
        select(Model.name, ModelRevision.number, ModelRevision.kind)
        .join(ModelRevision, ModelRevision.model_id == Model.id)
        .where(Model.name.in_(lacking))
        .order_by(ModelRevision.number)
    )
    newest = {name: {"model": name, "revision": number, "kind": kind} for name, number, kind in session.execute(query)}
    way_of_prompting = {key: shown[key] for key in ("benchmark", "protocol", "shots", "question_filter")}
    return [asking(newest[name] | way_of_prompting, shown["variants"]) for name in lacking if name in newest]
