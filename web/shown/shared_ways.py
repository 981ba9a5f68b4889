"""Which models were asked the same questions in the same way: only then is a difference between them theirs."""

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
"""What a URL says of a way of asking."""
MOST: Final = 5000
"""Evaluations that are looked at, the newest."""


def sealed_by_way(session: Session, models: Sequence[str], wanted: Mapping[str, str]) -> list[dict[str, Row]]:
    """Every way in which some of the models were asked: model → its newest evaluation. Those of most models first.

    wanted: of WAY, what it has to be. Among ways of equally many models those in several orders come first, then those
    of more questions, then the newest. Only evaluations that are sealed and stand.
    Raises NotFoundError for a model that does not exist.
    """
    _require(session, models)
    found: dict[str, dict[str, Row]] = {}
    for row in queries.sealed_evaluations(session, (Model.name.in_(models), not_withdrawn()), limit=MOST):
        if all(str(row[key]) == value for key, value in wanted.items()):
            found.setdefault(row["asked_digest"], {}).setdefault(row["model"], row)
    return sorted(found.values(), key=_preference)


def _preference(way: Mapping[str, Row]) -> tuple[Any, ...]:
    newest = max(way.values(), key=lambda row: row["evaluation_id"])
    orders = newest["distinct_prompts_max"] or 0
    return (-len(way), orders < 2, -newest["questions"], -newest["evaluation_id"])


def _require(session: Session, models: Sequence[str]) -> None:
    known = set(session.scalars(select(Model.name).where(Model.name.in_(models))))
    for name in models:
        if name not in known:
            raise NotFoundError(f"no model {name!r}; /models and /api/v1/models list the existing ones")


def asking_the_others(session: Session, models: Sequence[str], way: Mapping[str, Row]) -> list[str]:
    """The commands that ask the models that a way lacks in that way, too."""
    one = next(iter(way.values()))
    lacking = [model for model in models if model not in way]
    query = (
        select(Model.name, ModelRevision.number, ModelRevision.kind)
        .join(ModelRevision, ModelRevision.model_id == Model.id)
        .where(Model.name.in_(lacking))
        .order_by(ModelRevision.number)
    )
    newest = {name: {"model": name, "revision": number, "kind": kind} for name, number, kind in session.execute(query)}
    asked = {key: one[key] for key in ("benchmark", "protocol", "shots", "question_filter")}
    return [asking(newest[name] | asked, one["variants"]) for name in lacking if name in newest]
