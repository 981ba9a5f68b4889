"""The evaluations and benchmark versions of an export, limited to those that its audience may see."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NoReturn

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.errors import NotFoundError
from registry.lookups import find_evaluation, find_revision, find_version
from registry.names import split_reference
from registry.predictions.stored import filter_archived
from registry.proposals import propose
from registry.schema.audiences import AUDIENCES, Audience, visible_to
from registry.tables import BenchmarkVersion, Evaluation, ModelRevision


@dataclass(frozen=True)
class ExportRequest:
    """A request for an export. Filters are joined by "and"; an empty filter restricts nothing.

    benchmarks: NAME (all its versions) or NAME@VERSION. models: NAME (all its revisions) or NAME@REVISION.
    organisation: the publisher of the results. tasks: BENCHMARK=TASK or BENCHMARK:METRIC=TASK, a benchmark's task on
    Hugging Face's hub. Only some formats need organisation and tasks. without: relations that are left out.
    """

    format: str
    audience: Audience = "public"
    evaluations: tuple[int, ...] = ()
    benchmarks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    organisation: str | None = None
    code_version: str = ""
    tasks: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()

    def filters(self) -> dict[str, Any]:
        """Return the filters in the manifest's form."""
        return {
            "evaluations": list(self.evaluations),
            "benchmarks": list(self.benchmarks),
            "models": list(self.models),
        }


OF_PREDICTIONS: Final = ("predictions", "option_probability", "samples")
"""Parts of an export that leave out archived evaluations: relations, and the samples of Every Eval Ever."""


@dataclass(frozen=True)
class Selection:
    """The records of an export, selected once; all of its relations are read in the same transaction.

    evaluation_ids: ascending. version_ids: benchmark versions whose questions are exported.
    whole: whether there is no filter, so that rows that belong to no evaluation are exported too.
    archived: evaluations whose predictions are archived and therefore not exported.
    """

    request: ExportRequest
    as_of: datetime
    schema_revision: str
    whole: bool
    evaluation_ids: tuple[int, ...] = ()
    version_ids: tuple[int, ...] = field(default=())
    archived: tuple[int, ...] = ()

    def evaluations_of(self, relation: str) -> list[int]:
        """Return the evaluations that have rows in a relation."""
        return [one for one in self.evaluation_ids if relation not in OF_PREDICTIONS or one not in self.archived]


def select_rows(session: Session, request: ExportRequest, schema_revision: str) -> Selection:
    """Select the evaluations and benchmark versions that the audience may see and the filters name.

    Raises NotFoundError for a filter that names something unknown, or something that this audience may not see: the
    message then names the audience that may.
    """
    for evaluation_id in request.evaluations:
        version = find_evaluation(session, evaluation_id).benchmark_version
        _require_visible(session, f"evaluation {evaluation_id}", [version], request.audience)
    versions = select(BenchmarkVersion.id).where(visible_to(request.audience))
    query = select(Evaluation.id, Evaluation.benchmark_version_id)
    if request.benchmarks:
        named = [version for name in request.benchmarks for version in _versions(session, name, request.audience)]
        versions = versions.where(BenchmarkVersion.id.in_(named))
        query = query.where(Evaluation.benchmark_version_id.in_(named))
    if request.models:
        revisions = [revision for name in request.models for revision in _revisions(session, name)]
        query = query.where(Evaluation.model_revision_id.in_(revisions))
    if request.evaluations:
        query = query.where(Evaluation.id.in_(request.evaluations))
    allowed = tuple(session.scalars(versions.order_by(BenchmarkVersion.id)))
    rows = session.execute(query.where(Evaluation.benchmark_version_id.in_(allowed)).order_by(Evaluation.id)).all()
    evaluated = {row.benchmark_version_id for row in rows}
    by_evaluation = bool(request.evaluations or request.models)
    if by_evaluation and not rows:
        _reject_nothing(session, request, query)
    as_of = session.scalars(select(database_now())).one()
    return Selection(
        request,
        as_of,
        schema_revision,
        not (by_evaluation or request.benchmarks),
        tuple(row.id for row in rows),
        tuple(version for version in allowed if version in evaluated) if by_evaluation else allowed,
        tuple(filter_archived(session, (row.id for row in rows))),
    )


def _reject_nothing(session: Session, request: ExportRequest, query: Select[int, int]) -> NoReturn:
    """Raise an error that explains why no evaluation is left: the filters may name evaluations for another audience."""
    matching = query.join(BenchmarkVersion).with_only_columns(Evaluation.id).limit(1)
    for audience in AUDIENCES[AUDIENCES.index(request.audience) + 1 :]:
        if session.scalar(matching.where(visible_to(audience))) is not None:
            raise NotFoundError(
                f"the evaluations of {', '.join(request.models)} are not for the audience {request.audience!r}; "
                f"--audience {audience} includes some"
            )
    raise NotFoundError(f"no evaluation matches all the filters; leave one out ({propose('evaluations list')})")


def _versions(session: Session, reference: str, audience: Audience) -> Sequence[int]:
    """Return the ids of the versions that NAME or NAME@VERSION means.

    Raises NotFoundError if the audience may see none.
    """
    version = find_version(session, reference)
    if split_reference(reference)[1] is not None:
        _require_visible(session, f"benchmark {reference}", [version], audience)
        return [version.id]
    _require_visible(session, f"benchmark {reference}", version.benchmark.versions, audience)
    return [row.id for row in version.benchmark.versions]


def _revisions(session: Session, reference: str) -> Sequence[int]:
    revision = find_revision(session, reference)
    if split_reference(reference)[1] is not None:
        return [revision.id]
    query = select(ModelRevision.id).where(ModelRevision.model_id == revision.model_id)
    return session.scalars(query).all()


def _require_visible(session: Session, what: str, versions: Sequence[BenchmarkVersion], audience: Audience) -> None:
    named = select(BenchmarkVersion.id).where(BenchmarkVersion.id.in_([version.id for version in versions])).limit(1)
    allowed_audiences = [name for name in AUDIENCES if session.scalar(named.where(visible_to(name))) is not None]
    if audience not in allowed_audiences:
        raise NotFoundError(
            f"{what} is not for the audience {audience!r}; --audience {allowed_audiences[0]} includes it"
        )
