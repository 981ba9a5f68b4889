"""SELECTs behind the lists of benchmarks, models and workers. Functions take the session first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Double, Select, func, or_, select, type_coerce
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.errors import NotFoundError
from registry.lookups import model_named
from registry.queue.claims import differing_versions, queues_without_worker, worker_is_live
from registry.queue.progress import ACTIVE, overall, progress_of_several
from registry.schema.selectables import Row, measured_and_published, rows_of
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Evaluation,
    Model,
    ModelRevision,
    Question,
    QuestionOption,
    Shard,
    Worker,
)
from web.shown.queries import hub_name
from web.urls import parameters

_OF_VERSION = (
    select(Evaluation.benchmark_version_id, func.count().label("evaluations"))
    .where(Evaluation.state != "cancelled")
    .group_by(Evaluation.benchmark_version_id)
    .subquery()
)
BENCHMARKS: Final[Select[*tuple[Any, ...]]] = (
    select(
        Benchmark.name.label("benchmark"),
        BenchmarkVersion.id.label("benchmark_version_id"),
        BenchmarkVersion.version,
        BenchmarkVersion.content_digest,
        BenchmarkVersion.file_digest,
        BenchmarkVersion.language,
        BenchmarkVersion.split,
        BenchmarkVersion.licence,
        BenchmarkVersion.source,
        BenchmarkVersion.visibility,
        BenchmarkVersion.public_from,
        BenchmarkVersion.shuffle_seed,
        BenchmarkVersion.questions,
        BenchmarkVersion.few_shot_examples,
        BenchmarkVersion.created_at,
        func.coalesce(_OF_VERSION.c.evaluations, 0).label("evaluations"),
    )
    .join(BenchmarkVersion, BenchmarkVersion.benchmark_id == Benchmark.id)
    .outerjoin(_OF_VERSION, _OF_VERSION.c.benchmark_version_id == BenchmarkVersion.id)
    .order_by(func.lower(Benchmark.name), Benchmark.name, BenchmarkVersion.id.desc())
)


def benchmarks(session: Session, name: str | None = None) -> list[Row]:
    """Return benchmark versions by name, ignoring case, newest first within each; all, or only versions of `name`."""
    rows = rows_of(session, BENCHMARKS if name is None else BENCHMARKS.where(Benchmark.name == name))
    if name is not None and not rows:
        raise NotFoundError(f"no benchmark {name!r}; /benchmarks and /api/v1/benchmarks list the existing ones")
    return rows


def version_of(session: Session, benchmark: str, wanted: str | None) -> tuple[list[Row], Row]:
    """Return the versions of a benchmark, newest first, and the wanted version, by default the newest.

    Raises NotFoundError.
    """
    versions = benchmarks(session, benchmark)
    chosen = next((row for row in versions if wanted in (None, row["version"])), None)
    if chosen is None:
        listed = ", ".join(row["version"] for row in versions)
        raise NotFoundError(f"benchmark {benchmark} has no version {parameters.shorten(str(wanted))}; it has: {listed}")
    return versions, chosen


def shape(session: Session, benchmark_version_id: int) -> Row:
    """Return an outline of a version's questions: options, guessing accuracy, flags, subjects."""
    query: Select[*tuple[Any, ...]] = select(
        func.min(Question.n_options).label("fewest_options"),
        func.max(Question.n_options).label("most_options"),
        type_coerce(func.avg(1.0 / Question.n_options), Double()).label("guessing_accuracy"),
        func.count().filter(Question.refers_to_options | Question.sorted_numeric).label("flagged"),
        func.count(Question.subject.distinct()).label("subjects"),
    ).where(Question.benchmark_version_id == benchmark_version_id, ~Question.few_shot)
    return rows_of(session, query)[0]


@dataclass(frozen=True)
class Facets:
    """A filter for a version's questions; None keeps all.

    q: part of the question, its context or an option. flagged: only questions whose options refer to each other or are
    sorted numbers. answered: further questions that match q, because their written answers contain it.
    """

    q: str | None = None
    subject: str | None = None
    flagged: bool = False
    answered: Sequence[int] = ()

    @classmethod
    def asked_for(cls, arguments: parameters.Arguments) -> "Facets":
        """Read the facets from a query string."""
        flagged = parameters.choice(arguments, "flagged", ("yes",), "") == "yes"
        return cls(parameters.text(arguments, "q"), parameters.text(arguments, "subject"), flagged)

    def within(
        self, benchmark_version_id: int, also: Select[*tuple[Any, ...]] | None = None
    ) -> Select[*tuple[Any, ...]] | None:
        """Select the ids of the questions, only among the ids that `also` selects; None if the filter keeps all."""
        if self == Facets():
            return also
        ids = select(Question.id).where(*self.conditions(benchmark_version_id))
        return ids if also is None else ids.where(Question.id.in_(also))

    def conditions(self, benchmark_version_id: int) -> list[ColumnElement[bool]]:
        """Return the conditions on columns of `question`."""
        clauses = [Question.benchmark_version_id == benchmark_version_id, ~Question.few_shot]
        if self.q is not None:
            options = select(QuestionOption.question_id).where(
                QuestionOption.question_id == Question.id, QuestionOption.text.icontains(self.q, autoescape=True)
            )
            texts = (Question.text, Question.context, Question.external_id)
            own = [text.icontains(self.q, autoescape=True) for text in texts]
            clauses.append(or_(*own, options.exists(), is_in(Question.id, self.answered)))
        if self.subject is not None:
            clauses.append(Question.subject == self.subject)
        if self.flagged:
            clauses.append(Question.refers_to_options | Question.sorted_numeric)
        return clauses


def benchmark_questions(
    session: Session, benchmark_version_id: int, facets: Facets, *, limit: int, offset: int
) -> list[Row]:
    """Return a version's questions in file order."""
    query = (
        select(
            Question.id.label("question_id"),
            Question.external_id,
            Question.subject,
            Question.text,
            Question.n_options,
            (Question.refers_to_options | Question.sorted_numeric).label("flagged"),
        )
        .where(*facets.conditions(benchmark_version_id))
        .order_by(Question.ordinal)
        .limit(limit)
        .offset(offset)
    )
    return rows_of(session, query)


def questions_counted(session: Session, benchmark_version_id: int, facets: Facets) -> int:
    """Count a version's questions that match the facets."""
    return session.scalar(select(func.count(Question.id)).where(*facets.conditions(benchmark_version_id))) or 0


def subjects(session: Session, benchmark: str) -> list[str]:
    """Return every subject of a benchmark's versions."""
    query = (
        select(Question.subject)
        .join(BenchmarkVersion, BenchmarkVersion.id == Question.benchmark_version_id)
        .join(Benchmark, Benchmark.id == BenchmarkVersion.benchmark_id)
        .where(Benchmark.name == benchmark, Question.subject.is_not(None), ~Question.few_shot)
    )
    return sorted(filter(None, session.scalars(query.distinct())))


# Printed results


def list_printed(session: Session, metrics: Sequence[str], *, benchmark: str | None, q: str | None) -> list[Row]:
    """Return numbers of these metrics published in papers: one row per table, model, benchmark and protocol.

    Each row has `origin` and the metrics, None if the table has no such number. benchmark: only printed benchmarks
    whose name is part of this one, comparing letters and digits and ignoring case. q: part of the model's name.
    """
    c = measured_and_published.c
    query = select(c.origin, c.model, c.benchmark, c.protocol, c.metric, c.value)
    by_key: dict[tuple[str, str, str, str], Row] = {}
    for row in rows_of(session, query.where(c.origin != "measured", c.metric.in_(metrics))):
        key = (row["origin"], row["benchmark"] or "", row["model"] or "", row["protocol"] or "")
        named = benchmark is None or (key[1] and _plain(key[1]) in _plain(benchmark))
        if named and (q or "").casefold() in key[2].casefold():
            names = dict(zip(("origin", "benchmark", "model", "protocol"), key, strict=True))
            by_key.setdefault(key, names | dict.fromkeys(metrics))[row["metric"]] = row["value"]
    return [by_key[key] for key in sorted(by_key)]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


# Models and workers


def model_choices(session: Session) -> dict[str, list[str]]:
    """Return the choices for filtering models: every family and licence, and every kind of revision."""
    columns = (Model.family, Model.licence, ModelRevision.kind)
    rows = rows_of(session, select(*columns).join(ModelRevision, ModelRevision.model_id == Model.id).distinct())
    return {key: sorted({row[key] for row in rows} - {None}) for key in ("family", "licence", "kind")}


_REVISIONS_OF = (
    select(ModelRevision.model_id, func.count().label("revisions")).group_by(ModelRevision.model_id).subquery()
)
_EVALUATIONS_OF = (
    select(ModelRevision.model_id, func.count().label("evaluations"))
    .join(Evaluation, Evaluation.model_revision_id == ModelRevision.id)
    .join(BenchmarkVersion, BenchmarkVersion.id == Evaluation.benchmark_version_id)
    .where(Evaluation.state != "cancelled")
    .group_by(ModelRevision.model_id)
    .subquery()
)
MODEL: Final[Select[*tuple[Any, ...]]] = select(
    Model.name.label("model"),
    Model.family,
    Model.developer,
    Model.parameters,
    Model.licence,
    Model.released,
    Model.url,
    Model.created_at,
)
MODELS: Final = (
    MODEL.add_columns(
        func.coalesce(_REVISIONS_OF.c.revisions, 0).label("revisions"),
        func.coalesce(_EVALUATIONS_OF.c.evaluations, 0).label("evaluations"),
    )
    .outerjoin(_REVISIONS_OF, _REVISIONS_OF.c.model_id == Model.id)
    .outerjoin(_EVALUATIONS_OF, _EVALUATIONS_OF.c.model_id == Model.id)
    .order_by(func.lower(Model.name), Model.name)
)
REVISIONS: Final[Select[*tuple[Any, ...]]] = select(
    ModelRevision.number.label("revision"),
    ModelRevision.kind,
    ModelRevision.location,
    ModelRevision.requested_revision,
    ModelRevision.revision.label("commit"),
    ModelRevision.dtype,
    ModelRevision.quantisation,
    ModelRevision.adapter,
    ModelRevision.adapter_commit,
    ModelRevision.adapter_merged,
    ModelRevision.base_digest,
    ModelRevision.adapter_digest,
    ModelRevision.weights_digest,
    ModelRevision.tokenizer_digest,
    ModelRevision.chat_template_digest,
    ModelRevision.state,
    ModelRevision.created_at,
).order_by(ModelRevision.number.desc())


def models(session: Session) -> list[Row]:
    """Return models by name, ignoring case, with the numbers of their revisions and evaluations."""
    return rows_of(session, MODELS)


def model(session: Session, name: str) -> Row:
    """Return a model with its revisions, newest first. Raises NotFoundError if there is none."""
    row = model_named(session, name)
    rows = [] if row is None else rows_of(session, MODEL.where(Model.name == row.name))
    if row is None or not rows:
        raise NotFoundError(f"no model {name!r}; /models and /api/v1/models list the existing ones")
    revisions = rows_of(session, REVISIONS.join(ModelRevision.model).where(Model.name == row.name))
    private = ("location", "adapter")
    return rows[0] | {
        "revisions": [revision | {name: hub_name(revision[name]) for name in private} for revision in revisions]
    }


WORKERS: Final[Select[*tuple[Any, ...]]] = (
    select(
        Worker.host,
        Worker.device,
        Worker.queues,
        Worker.versions,
        Model.name.label("loaded_model"),
        ModelRevision.number.label("loaded_revision"),
        select(Shard.id).where(Shard.worker_id == Worker.id, Shard.state == "leased").exists().label("scoring"),
        Worker.started_at,
        Worker.last_seen,
    )
    .outerjoin(ModelRevision, ModelRevision.id == Worker.loaded_model_revision_id)
    .outerjoin(Model, Model.id == ModelRevision.model_id)
    .order_by(Worker.host, Worker.started_at)
)


def live_workers(session: Session) -> list[Row]:
    """Return workers with a recent heartbeat, by the database's clock, and whether they are scoring."""
    return rows_of(session, WORKERS.where(worker_is_live()))


def queue(session: Session) -> Row:
    """Return a summary of the queue: live workers, their versions, queues without a worker, total progress."""
    workers = live_workers(session)
    active = select(Evaluation.id).join(BenchmarkVersion, BenchmarkVersion.id == Evaluation.benchmark_version_id)
    ids = session.scalars(active.where(Evaluation.state.in_(ACTIVE))).all()
    return {
        "overall": overall(progress_of_several(session, ids).values(), len(workers)),
        "queues_without_worker": queues_without_worker(session),
        "workers": workers,
        "differing_versions": differing_versions(worker["versions"] for worker in workers),
    }
