"""Filters of evaluations by their questions, protocol, model and time of sealing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Evaluation,
    Model,
    ModelRevision,
    Protocol,
    Question,
    VariantSet,
)

_ONE_PROMPT: Final = Evaluation.distinct_prompts_max == 1
ASKED_HOW: Final = {
    "one-order": and_(_ONE_PROMPT, or_(func.coalesce(Evaluation.variants_max, 1) <= 1, ~Evaluation.lists_options)),
    "repeats": and_(_ONE_PROMPT, Evaluation.variants_max > 1, Evaluation.lists_options),
    "several-orders": Evaluation.distinct_prompts_max > 1,
}
"""Conditions on how often a question was asked: once, repeatedly with one prompt, or with different prompts."""

LOADED: Final = ("huggingface", "gguf")
"""Kinds of revisions whose weights a worker loads."""
CLOSED: Final = ("proprietary", "closed", "commercial")
"""Licences that keep the weights from the public."""
_CLOSED: Final = func.coalesce(func.lower(func.trim(Model.licence)), "").in_(CLOSED)
OPENNESS: Final = {
    "open": and_(~_CLOSED, or_(Model.licence.is_not(None), ModelRevision.kind.in_(LOADED))),
    "closed": or_(_CLOSED, and_(Model.licence.is_(None), ModelRevision.kind == "openai")),
}
"""SQL conditions on models with open and with closed weights, as in `openness_of`."""


def openness_of(kind: str, licence: str | None) -> str | None:
    """Return `open` if anyone may download a model's weights, `closed` if not, None if unknown.

    >>> openness_of("external", "Apache-2.0"), openness_of("openai", None), openness_of("external", None)
    ('open', 'closed', None)
    """
    if licence is not None and licence.strip().casefold() in CLOSED:
        return "closed"
    if licence is not None or kind in LOADED:
        return "open"
    return "closed" if kind == "openai" else None


@dataclass(frozen=True)
class Selection:
    """A filter of evaluations; a field that is None selects all.

    q: part of the model's name. Times are inclusive. openness: a key of OPENNESS. released_from, released_to: days.
    subject: select only benchmarks with this subject, and compute metrics over its questions alone. asked: a key of
    ASKED_HOW.
    """

    benchmark: str | None = None
    subject: str | None = None
    protocol: str | None = None
    shots: int | None = None
    variants: str | None = None
    model: str | None = None
    q: str | None = None
    family: str | None = None
    licence: str | None = None
    kind: str | None = None
    min_parameters: int | None = None
    max_parameters: int | None = None
    openness: str | None = None
    released_from: datetime | None = None
    released_to: datetime | None = None
    sealed_from: datetime | None = None
    sealed_to: datetime | None = None
    asked: str | None = None

    @property
    def scope(self) -> str:
        """Return the scope of questions over which metrics are computed."""
        return "all" if self.subject is None else f"subject:{self.subject}"


def evaluation_conditions(session: Session, selection: Selection) -> list[ColumnElement[bool]]:
    """Return a selection's conditions on columns of `evaluation` alone, so that counting needs no join."""
    protocol_conditions = _match_values({Protocol.name: selection.protocol, Protocol.shots: selection.shots})
    conditions: list[ColumnElement[bool]] = []
    revisions = _load_revision_ids(session, selection)
    if revisions is not None:
        conditions.append(is_in(Evaluation.model_revision_id, revisions))
    if protocol_conditions:
        conditions.append(Evaluation.protocol_id.in_(select(Protocol.id).where(*protocol_conditions)))
    if selection.variants is not None:
        conditions.append(
            Evaluation.variant_set_id.in_(select(VariantSet.id).where(VariantSet.name == selection.variants))
        )
    if selection.benchmark is not None:
        versions = select(BenchmarkVersion.id).join(Benchmark).where(Benchmark.name == selection.benchmark)
        conditions.append(Evaluation.benchmark_version_id.in_(versions))
    if selection.subject is not None:
        having = select(Question.benchmark_version_id).where(Question.subject == selection.subject, ~Question.few_shot)
        conditions.append(Evaluation.benchmark_version_id.in_(having))
    if selection.sealed_from is not None:
        conditions.append(Evaluation.sealed_at >= selection.sealed_from)
    if selection.sealed_to is not None:
        conditions.append(Evaluation.sealed_at <= selection.sealed_to)
    if selection.asked is not None:
        conditions.append(ASKED_HOW[selection.asked])
    return conditions


def _load_revision_ids(session: Session, selection: Selection) -> Sequence[int] | None:
    """Return the ids of the selected models' revisions; None if all models are selected.

    It is a list because PostgreSQL overestimates a subquery: it would read all evaluations to find a model's dozen.
    """
    model_conditions = _match_values(
        {
            Model.family: selection.family,
            Model.licence: selection.licence,
            ModelRevision.kind: selection.kind,
        }
    )
    if selection.model is not None:
        model_conditions.append(func.lower(Model.name) == selection.model.lower())
    if selection.q is not None:
        model_conditions.append(func.lower(Model.name).contains(selection.q.lower(), autoescape=True))
    if selection.min_parameters is not None:
        model_conditions.append(Model.parameters >= selection.min_parameters)
    if selection.max_parameters is not None:
        model_conditions.append(Model.parameters <= selection.max_parameters)
    if selection.openness is not None:
        model_conditions.append(OPENNESS[selection.openness])
    if selection.released_from is not None:
        model_conditions.append(Model.released >= selection.released_from.date().isoformat())
    if selection.released_to is not None:
        model_conditions.append(Model.released <= selection.released_to.date().isoformat())
    if not model_conditions:
        return None
    cached: dict[Selection, Sequence[int]] = session.info.setdefault("revisions", {})
    if selection not in cached:
        revisions = select(ModelRevision.id).join(Model, Model.id == ModelRevision.model_id).where(*model_conditions)
        cached[selection] = session.scalars(revisions).all()
    return cached[selection]


def _match_values(values: Mapping[Any, Any]) -> list[ColumnElement[bool]]:
    return [column == value for column, value in values.items() if value is not None]
