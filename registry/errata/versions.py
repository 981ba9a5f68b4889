"""What reviewers say of a benchmark's questions, and what that makes of the keys that stored answers are scored by.

Errata are versions of the whole list: the newest holds, older ones stay. `registry.errata.marks` makes them.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, true
from sqlalchemy.orm import Session, aliased

from registry.scores.corrections import AS_PUBLISHED, NOTHING, WITHOUT_DISPUTED, Correction, scope_of
from registry.tables import ErrataVersion, Erratum, Evaluation

WRONG_KEY: Final = "wrong-key"


def newest_errata(session: Session, version_id: int) -> ErrataVersion | None:
    """The errata of a benchmark version that hold; None where nobody has said anything."""
    of = ErrataVersion
    return session.scalar(select(of).filter_by(benchmark_version_id=version_id).order_by(of.number.desc()).limit(1))


def versions_of_errata(session: Session, version_id: int) -> list[ErrataVersion]:
    """All versions of the errata of a benchmark version, the newest first."""
    of = ErrataVersion
    return list(session.scalars(select(of).filter_by(benchmark_version_id=version_id).order_by(of.number.desc())))


def correction(errata: ErrataVersion | None, treatment: str) -> Correction:
    """What a treatment makes of the published keys.

    Without disputed questions, every question of the errata is left out. With corrected keys, those with a corrected
    key count with it, those with a wrong one do not count, and disputed ones count as published: nothing is decided of
    them.
    """
    if errata is None or treatment == AS_PUBLISHED:
        return NOTHING
    if treatment == WITHOUT_DISPUTED:
        return Correction(frozenset(one.question_id for one in errata.errata), {})
    return Correction(
        frozenset(one.question_id for one in errata.errata if one.status == WRONG_KEY),
        {one.question_id: one.answer for one in errata.errata if one.answer is not None},
    )


def is_newest() -> ColumnElement[bool]:
    """A condition: an `errata_version` is the newest of its benchmark version."""
    later = aliased(ErrataVersion)
    newest = select(func.max(later.number)).where(later.benchmark_version_id == ErrataVersion.benchmark_version_id)
    return ErrataVersion.number == newest.scalar_subquery()


def left_out(treatment: str) -> Select[int]:
    """Selects the questions that do not count under the newest errata of any benchmark."""
    found = (
        select(Erratum.question_id)
        .join(ErrataVersion, ErrataVersion.id == Erratum.errata_version_id)
        .where(is_newest())
    )
    return found if treatment == WITHOUT_DISPUTED else found.where(Erratum.status == WRONG_KEY)


def scopes_in_force(session: Session, treatment: str) -> dict[int, str]:
    """Benchmark version id to the scope of a treatment under its newest errata; those without errata are absent."""
    of = ErrataVersion
    newest = select(of.benchmark_version_id, func.max(of.number)).group_by(of.benchmark_version_id)
    return {version_id: scope_of(treatment, number) for version_id, number in session.execute(newest)}


def scope_condition(
    scope: ColumnElement[str], evaluation_id: ColumnElement[int], scopes: Mapping[int, str]
) -> ColumnElement[bool]:
    """Whether a stored metric is that of the newest errata, or as published where its benchmark has none.

    scopes: of `scopes_in_force`.
    """

    def of(version_ids: Any) -> ColumnElement[bool]:
        return evaluation_id.in_(select(Evaluation.id).where(Evaluation.benchmark_version_id.in_(version_ids)))

    versions: dict[str, list[int]] = {}
    for version_id, name in scopes.items():
        versions.setdefault(name, []).append(version_id)
    corrected = [and_(scope == name, of(ids)) for name, ids in versions.items()]
    untouched = and_(scope == "all", ~of(list(scopes)) if scopes else true())
    return or_(untouched, *corrected)


def errata_document(errata: ErrataVersion) -> dict[str, Any]:
    """A version of errata as plain JSON, without database ids: what the digest is over, and its place."""
    version = errata.benchmark_version
    return {
        **errata_content(errata),
        "benchmark": version.benchmark.name,
        "version": version.version,
        "errata_version": errata.number,
        "digest": errata.digest,
        "note": errata.note,
        "actor": errata.actor,
        "at": errata.at.isoformat(),
    }


def errata_content(errata: ErrataVersion) -> dict[str, Any]:
    """What the digest of a version is over: the benchmark's content, and every erratum by its question's id."""
    return {
        "format": FORMAT,
        "content_digest": errata.benchmark_version.content_digest,
        "errata": [_entry(one) for one in sorted(errata.errata, key=lambda one: one.question.external_id)],
    }


FORMAT: Final = "shuffleboard errata 1"


def _entry(one: Erratum) -> dict[str, Any]:
    return {
        "question": one.question.external_id,
        "status": one.status,
        "published_answer": one.question.answer,
        "answer": one.answer,
        "note": one.note,
        "actor": one.actor,
        "at": one.at.isoformat(),
    }
