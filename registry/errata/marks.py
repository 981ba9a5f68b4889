"""Errata: reviewers say that a question is disputed, that its key is wrong, or which key is right.

Nothing that was published or sealed changes: each change makes a new version of the benchmark version's errata, with a
link in the chain, and the metrics of every sealed evaluation under it are stored beside the published ones.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry import chain
from registry.db import database_now, one_at_a_time
from registry.digests import specification_digest
from registry.errata.stored import write_rescored
from registry.errata.versions import FORMAT, errata_content, newest_errata
from registry.errors import IngestError, NotFoundError, UsageError
from registry.lookups import find_version
from registry.names import suggestion
from registry.prompting.labels import letter
from registry.tables import (
    ERRATUM_STATUSES,
    BenchmarkVersion,
    ChainLink,
    ErrataVersion,
    Erratum,
    Evaluation,
    Question,
)
from registry.untrusted import RefusedError, decode

MAX_NOTE: Final = 2000
_MOST: Final = 1_000_000
"""Errata of a file."""
COMMAND_LINE: Final = "command line"


@dataclass(frozen=True)
class Mark:
    """What is said of a question, by its external id. answer: the option that is right, of a corrected key alone."""

    question: str
    status: str
    note: str
    answer: int | None = None
    actor: str = COMMAND_LINE
    at: datetime | None = None


def mark(session: Session, reference: str, said: Mark) -> ErrataVersion:
    """Says something of a question of a benchmark version, in place of what was said of it before.

    Raises NotFoundError for an unknown benchmark or question, UsageError for a status, answer or note that cannot be.
    """
    version = _locked(session, reference)
    rows = _current(session, version)
    row = _row(_questions(session, version, [said.question]), said, _now(session))
    return _store(session, version, rows | {row["question_id"]: row}, said.note, said.actor)


def take_back(
    session: Session, reference: str, question: str, note: str, *, actor: str = COMMAND_LINE
) -> ErrataVersion:
    """Takes back what was said of a question, which then counts as published. Raises UsageError where nothing was."""
    version = _locked(session, reference)
    rows = _current(session, version)
    found = _questions(session, version, [question])[question]
    if found.id not in rows:
        raise UsageError(f"question {question}: nothing is said of it; see shuffleboard benchmarks errata list")
    _check_note(note)
    return _store(session, version, {key: row for key, row in rows.items() if key != found.id}, note, actor)


def import_errata(
    session: Session, reference: str, document: Any, *, actor: str = COMMAND_LINE, source: str = "file"
) -> tuple[ErrataVersion, bool]:
    """Makes what a file of `errata_document` says the newest version, and returns it with whether it is new.

    It takes the place of all that was said before. Raises IngestError for a file of another benchmark's content, a
    changed one, or one that breaks the format.
    """
    version = _locked(session, reference)
    marks = _parsed(document, version, source)
    found = _questions(session, version, [one.question for one in marks])
    now = _now(session)
    try:
        rows = {row["question_id"]: row for row in (_row(found, one, now) for one in marks)}
    except UsageError as error:
        raise IngestError(f"{source}: {error}") from None
    newest, current = newest_errata(session, version.id), _current(session, version)
    for one in marks:  # whoever said it first, and when
        known = current.get(found[one.question].id)
        if (
            one.at is None
            and known is not None
            and (one.status, one.answer, one.note.strip())
            == (
                known["status"],
                known["answer"],
                known["note"],
            )
        ):
            rows[known["question_id"]] = known
    if current == rows and newest is not None:
        return newest, False
    return _store(session, version, rows, f"imported from {source}", actor), True


def read_errata(text: str, source: str) -> Any:
    """A file of errata as JSON. Raises IngestError for what is none."""
    try:
        return decode(text, items=_MOST)
    except RefusedError as error:
        raise IngestError(f"{source}: {error}") from None
    except ValueError:
        raise IngestError(f"{source}: it is no JSON; give a file of shuffleboard benchmarks errata export") from None


_KEYS: Final = {"question", "status", "published_answer", "answer", "note", "actor", "at"}


def _parsed(document: Any, version: BenchmarkVersion, source: str) -> list[Mark]:
    def refuse(problem: str) -> IngestError:
        return IngestError(f"{source}: {problem}")

    if (
        not isinstance(document, dict)
        or document.get("format") != FORMAT
        or not isinstance(document.get("errata"), list)
    ):
        raise refuse(f'it holds no errata: "format" should be {FORMAT!r}, and "errata" a list')
    content = document.get("content_digest")
    if content != version.content_digest:
        raise refuse(
            f"it is about questions with the digest {str(content)[:12]}…, and "
            f"{version.benchmark.name}@{version.version} has {version.content_digest[:12]}…; name the version that it "
            "is about"
        )
    if document.get("digest") not in (None, _digest_of(document)):
        raise refuse('what it says does not match its digest: it was changed; remove "digest" if you meant to')
    found = [_mark(item, f"{source}: erratum {number}") for number, item in enumerate(document["errata"], start=1)]
    names = [one.question for one in found]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise refuse(f"question {twice[:100]!r} is listed twice; keep one")
    return found


def _mark(item: Any, place: str) -> Mark:
    if not isinstance(item, dict) or not {"question", "status", "note"} <= item.keys() <= _KEYS:
        raise IngestError(f"{place}: give question, status and note, and answer for a corrected key")
    if not all(isinstance(item[key], str) for key in ("question", "status", "note")):
        raise IngestError(f"{place}: question, status and note are texts")
    answer, at = item.get("answer"), item.get("at")
    if not (answer is None or (isinstance(answer, int) and not isinstance(answer, bool))):
        raise IngestError(f"{place}: answer {str(answer)[:40]}: give the number of the right option, from 0")
    try:
        moment = None if at is None else datetime.fromisoformat(at)
    except (TypeError, ValueError):
        raise IngestError(f"{place}: at {str(at)[:40]!r} is no time such as 2026-11-21T13:00:00+00:00") from None
    if moment is not None and moment.tzinfo is None:
        raise IngestError(f"{place}: at {at!r} has no time zone; add one, such as +00:00")
    actor = item.get("actor", COMMAND_LINE)
    if not isinstance(actor, str) or not actor or len(actor) > 200:
        raise IngestError(f"{place}: actor {str(actor)[:40]!r}: give a name")
    return Mark(item["question"], item["status"], item["note"], answer, actor, moment)


def _digest_of(document: Mapping[str, Any]) -> str | None:
    """What `errata_digest` gives for a file; None for one with numbers that no errata have."""
    try:
        return specification_digest({key: document[key] for key in ("format", "content_digest", "errata")})
    except TypeError:
        return None


# One version after the other


def _locked(session: Session, reference: str) -> BenchmarkVersion:
    one_at_a_time(session, "errata")
    return find_version(session, reference)


def _now(session: Session) -> datetime:
    now: datetime | None = session.scalar(select(database_now()))
    assert now is not None
    return now


def _current(session: Session, version: BenchmarkVersion) -> dict[int, dict[str, Any]]:
    """Question id to the columns of what the newest version says of it."""
    newest = newest_errata(session, version.id)
    columns = [column.key for column in Erratum.__table__.columns if column.key != "errata_version_id"]
    return {
        one.question_id: {name: getattr(one, name) for name in columns}
        for one in ([] if newest is None else newest.errata)
    }


def _questions(session: Session, version: BenchmarkVersion, names: Sequence[str]) -> dict[str, Question]:
    """External id to its question. Raises NotFoundError for the first that is not asked."""
    query = select(Question).where(Question.benchmark_version_id == version.id, ~Question.few_shot)
    found: dict[str, Question] = {}
    for start in range(0, len(names), 500):
        part = query.where(Question.external_id.in_(names[start : start + 500]))
        found |= {question.external_id: question for question in session.scalars(part)}
    for name in names:
        if name not in found:
            known = select(Question.external_id).where(Question.benchmark_version_id == version.id, ~Question.few_shot)
            meant = suggestion(name[:200], session.scalars(known))
            raise NotFoundError(
                f"no question {name[:200]!r} in {version.benchmark.name}@{version.version}{meant}; errata are about "
                "questions that are asked, by their ids in the benchmark's file"
            )
    return found


def _row(found: Mapping[str, Question], said: Mark, now: datetime) -> dict[str, Any]:
    question = found[said.question]
    if said.status not in ERRATUM_STATUSES:
        raise UsageError(f"status {said.status[:40]!r}: use one of {', '.join(ERRATUM_STATUSES)}")
    corrected = said.status == "corrected-key"
    if corrected != (said.answer is not None):
        remedy = "give the right option" if corrected else "leave it out, or use corrected-key"
        raise UsageError(
            f"question {said.question}: {said.status} {'lacks an' if corrected else 'has an'} answer; {remedy}"
        )
    if said.answer is not None:
        if not 0 <= said.answer < question.n_options:
            raise UsageError(
                f"question {said.question} has {question.n_options} options, A to {letter(question.n_options - 1)}; "
                f"{letter(said.answer) if said.answer >= 0 else said.answer} is none of them"
            )
        if said.answer == question.answer:
            raise UsageError(
                f"question {said.question}: {letter(said.answer)} is the published key; nothing to correct"
            )
    _check_note(said.note)
    return {
        "question_id": question.id,
        "status": said.status,
        "answer": said.answer,
        "note": said.note.strip(),
        "actor": said.actor,
        "at": said.at or now,
    }


def _check_note(note: str) -> None:
    if not note.strip() or len(note) > MAX_NOTE:
        raise UsageError(f"a note is needed that says why, of at most {MAX_NOTE} characters: --note TEXT")


def _store(
    session: Session, version: BenchmarkVersion, rows: Mapping[int, Mapping[str, Any]], note: str, actor: str
) -> ErrataVersion:
    # Whatever is sealed meanwhile waits for the chain, and reads the newest errata once it has it.
    one_at_a_time(session, "chain")
    newest = newest_errata(session, version.id)
    errata = ErrataVersion(
        benchmark_version=version,
        number=1 if newest is None else newest.number + 1,
        note=note.strip()[:MAX_NOTE],
        actor=actor,
        at=_now(session),
        errata=[Erratum(**row) for row in rows.values()],
    )
    with session.no_autoflush:
        for one in errata.errata:
            one.question = session.get_one(Question, one.question_id)
        errata.digest = errata_digest(errata)
    session.add(errata)
    session.flush()
    sealed = select(Evaluation).where(Evaluation.benchmark_version_id == version.id, Evaluation.seal.is_not(None))
    write_rescored(session, errata, session.scalars(sealed.order_by(Evaluation.id)).all())
    chain.append(session, "errata", errata.digest, labels=errata_labels(errata))
    return errata


def errata_digest(errata: ErrataVersion) -> str:
    """SHA-256 of what a version says: equal for equal errata of the same content, in any registry."""
    return specification_digest(errata_content(errata))


def errata_labels(errata: ErrataVersion) -> str:
    """What the chain holds of a version besides its digest: the content it is about, its number, by whom, why, when."""
    return specification_digest(
        {
            "content_digest": errata.benchmark_version.content_digest,
            "number": errata.number,
            "note": errata.note,
            "actor": errata.actor,
            "at": errata.at.isoformat(),
        }
    )


def errata_problems(session: Session) -> Iterator[str]:
    """Versions of errata that do not match their digest or the chain, and those that the chain holds and are gone."""
    links = select(ChainLink.subject, ChainLink.labels).filter_by(kind="errata")
    linked = Counter((row.subject, row.labels) for row in session.execute(links))
    held: Counter[tuple[str, str | None]] = Counter()
    for errata in session.scalars(select(ErrataVersion).order_by(ErrataVersion.id)):
        version = errata.benchmark_version
        name = f"errata {errata.number} of {version.benchmark.name}@{version.version}"
        key = (errata.digest, errata_labels(errata))
        held[key] += 1
        if errata_digest(errata) != errata.digest:
            yield f"{name}: what they say does not match their digest"
        if key not in linked:
            yield f"chain: it does not contain {name} as they are stored"
    for digest, _ in linked - held:
        yield f"chain: errata {digest} are no longer in the registry, or have changed"
