"""Storage of checked benchmarks, and changes of their visibility."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from registry.benchmarks.contract import BenchmarkFile, QuestionRecord
from registry.db import database_now, one_at_a_time
from registry.errors import IngestError, UsageError
from registry.lookups import find_version
from registry.names import check_name, split_reference
from registry.proposals import propose
from registry.tables import VISIBILITIES, Benchmark, BenchmarkVersion, Question, QuestionOption


def import_benchmark(
    session: Session,
    content: BenchmarkFile,
    *,
    name: str,
    version: str | None = None,
    language: str = "en",
    licence: str | None = None,
    source: str | None = None,
    visibility: str | None = None,
) -> tuple[BenchmarkVersion, bool]:
    """Store a benchmark version and return it, with whether it is new.

    If the benchmark has a version with the same content, that version is returned. `version` defaults to the first
    twelve digits of the content digest. `visibility` defaults to that of the benchmark's newest version, with its date,
    so that correcting a hidden benchmark publishes nothing; for a new benchmark to public.
    Raises IngestError if other content has the version's name, or the existing version has another visibility.
    """
    digest = content.content_digest
    version = check_name("version", version or digest[:12])
    check_visibility(visibility or "public")
    one_at_a_time(session, "import benchmark")
    benchmark = session.scalar(select(Benchmark).where(Benchmark.name == check_name("benchmark", name)))
    if benchmark is None:
        benchmark = Benchmark(name=name)
        session.add(benchmark)
        session.flush()
    for existing in benchmark.versions:
        if existing.content_digest == digest:
            if visibility not in (None, existing.visibility):
                raise IngestError(
                    f"benchmark {name}@{existing.version} already exists and is {existing.visibility}; to change that: "
                    f"{propose('benchmarks visibility', f'{name}@{existing.version}', visibility)}"
                )
            return existing, False
        if existing.version == version:
            raise IngestError(
                f"benchmark {name} has a version {version!r} with other content ({existing.content_digest[:12]}…, not "
                f"{digest[:12]}…); choose another --version"
            )
    newest = max(benchmark.versions, key=lambda version: version.id, default=None)
    row = BenchmarkVersion(
        benchmark=benchmark,
        version=version,
        content_digest=digest,
        file_digest=content.file_digest,
        language=language,
        split=content.split,
        licence=licence,
        source=source,
        visibility=visibility or (newest.visibility if newest else "public"),
        public_from=newest.public_from if newest is not None and visibility is None else None,
        shuffle_seed=content.shuffle_seed,
        questions=len(content.questions),
        few_shot_examples=len(content.pool),
    )
    session.add(row)
    session.flush()
    _store_questions(session, row.id, content.questions, few_shot=False)
    _store_questions(session, row.id, content.pool, few_shot=True)
    return row, True


def check_visibility(visibility: str) -> str:
    """Return the visibility if it is valid; raise UsageError otherwise."""
    if visibility not in VISIBILITIES:
        raise UsageError(f"visibility {visibility[:40]!r}: use one of {', '.join(VISIBILITIES)}")
    return visibility


def set_visibility(
    session: Session, reference: str, visibility: str, public_from: datetime | None = None
) -> list[BenchmarkVersion]:
    """Change the visibility of a benchmark in every version (`NAME`) or one (`NAME@VERSION`); return these versions.

    public_from: the moment from which everyone may see it; None: an earlier date no longer applies. Raises
    NotFoundError for an unknown benchmark, UsageError for a date in the past or with `public`.
    """
    check_visibility(visibility)
    if public_from is not None:
        if visibility == "public":
            raise UsageError("public from: the benchmark would be public at once; give members or hidden with a date")
        if public_from <= session.scalars(select(database_now())).one():
            raise UsageError(
                f"public from {public_from:%Y-%m-%d %H:%M} UTC: that has passed; give a later date, or make it public"
            )
    newest = find_version(session, reference)
    versions = [newest] if split_reference(reference)[1] is not None else list(newest.benchmark.versions)
    for version in versions:
        version.visibility, version.public_from = visibility, public_from
    session.flush()
    return versions


def _store_questions(session: Session, version_id: int, records: Iterable[QuestionRecord], *, few_shot: bool) -> None:
    records = list(records)
    if not records:
        return
    ids = session.scalars(
        insert(Question).returning(Question.id, sort_by_parameter_order=True),
        [
            {
                "benchmark_version_id": version_id,
                "few_shot": few_shot,
                "external_id": record.external_id,
                "ordinal": ordinal,
                "subject": record.subject,
                "context": record.context,
                "text": record.text,
                "answer": record.answer,
                "n_options": len(record.options),
                "refers_to_options": record.refers_to_options,
                "sorted_numeric": record.sorted_numeric,
                "extra": record.extra or None,
            }
            for ordinal, record in enumerate(records)
        ],
    ).all()
    session.execute(
        insert(QuestionOption),
        [
            {"question_id": question_id, "ordinal": ordinal, "text": text}
            for question_id, record in zip(ids, records, strict=True)
            for ordinal, text in enumerate(record.options)
        ],
    )
