"""Moves the predictions and texts of sealed evaluations into files, and back: `shuffleboard evaluations archive`.

A file is written under a temporary name and read back: its digests must be the leaves that the seal covers. Then one
transaction gives it its name, records it and removes the rows, so that a process that is killed leaves the rows in
their tables, or the file recorded: never both, never neither. What it may leave besides is a file that nothing refers
to, which `orphans` lists.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlalchemy import Engine, and_, delete, func, select, update
from sqlalchemy.orm import Session

from registry.boards.store import evaluations_of_entry
from registry.db import among, database_now, read_session, utc_text, write_session
from registry.errors import ArchiveError, SealError, UsageError
from registry.files.stores import Store, store_at
from registry.lookups import find_board, find_sealed
from registry.proof.manifest import Leaf, QuestionRecords, question_leaves
from registry.results import archive_files, binary_copy
from registry.results.archive_files import (
    ENDING,
    FORMAT,
    GROUP,
    MANIFEST,
    PART,
    PREDICTION_COLUMNS,
    QUESTION,
    SCHEMA,
    TEXT,
    TEXT_COLUMNS,
)
from registry.results.archived import file_name, place_as_archived, place_of
from registry.results.bulk import insert_rows, renew_statistics
from registry.schema.documented import columns_of
from registry.tables import Archive, Evaluation, EvaluationQuestion, Generation, Prediction, Question, QuestionSeal

MAX_DAYS: Final = 36_500
_SECONDS_A_DAY: Final = 86_400.0
YOUNG_SECONDS: Final = _SECONDS_A_DAY
"""Files of an archive that were written within a day may belong to an archiving that goes on."""
_VERSIONS: Final = 8
"""Benchmark versions whose questions are kept while evaluations are archived."""


@dataclass(frozen=True)
class Moved:
    """An evaluation whose predictions moved, or would: how many, and the bytes of the file where there is one."""

    evaluation_id: int
    predictions: int
    texts: int
    url: str
    size: int | None = None


@dataclass(frozen=True)
class Policy:
    """Which sealed evaluations are archived: all that are named, or those to which everything else applies."""

    ids: tuple[int, ...] = ()
    board: str | None = None
    older_than_days: int | None = None
    larger_than: int | None = None


def chosen(session: Session, policy: Policy) -> list[int]:
    """The evaluations that a policy archives and that are not archived, by id.

    Raises UsageError for a policy that says nothing, or numbers out of range; NotFoundError and QueueError for an
    evaluation that is named and is not there or not sealed.
    """
    days, least = policy.older_than_days, policy.larger_than
    if days is not None and not 0 <= days <= MAX_DAYS:
        raise UsageError(f"--older-than {days}: give a number of days from 0 to {MAX_DAYS}")
    conditions = (policy.board, days, least)
    if bool(policy.ids) == any(condition is not None for condition in conditions):
        raise UsageError("give evaluations, or one or more of --board, --older-than and --larger-than")
    archived = select(Archive.evaluation_id)
    query = select(Evaluation.id).where(Evaluation.seal.is_not(None), Evaluation.id.not_in(archived))
    if policy.ids:
        for evaluation_id in policy.ids:
            find_sealed(session, evaluation_id)
        query = query.where(among(Evaluation.id, policy.ids))
    if policy.board is not None:
        entries = find_board(session, policy.board).entries
        answering = [evaluations_of_entry(session, entry, in_part=True).values() for entry in entries]
        query = query.where(among(Evaluation.id, {evaluation.id for found in answering for evaluation in found}))
    if days is not None:
        query = query.where(Evaluation.sealed_at < database_now(-days * _SECONDS_A_DAY))
    if least is not None:
        query = query.where(Evaluation.prompts > least)
    return list(session.scalars(query.order_by(Evaluation.id)))


def plan(session: Session, ids: Sequence[int], to: str = "") -> Iterator[Moved]:
    """What archiving these evaluations would move."""
    store = store_at(to)
    for evaluation_id in ids:
        evaluation = find_sealed(session, evaluation_id)
        assert evaluation.seal is not None
        counts = _stored(session, evaluation_id)
        yield Moved(evaluation_id, *counts, store.url_of(file_name(evaluation.seal)))


class Shared:
    """What several evaluations that are archived one after the other have in common, so that it is built once."""

    def __init__(self) -> None:
        self._records: dict[int, QuestionRecords] = {}

    def records(self, benchmark_version_id: int) -> QuestionRecords:
        """The questions of a benchmark version, to be added to."""
        while len(self._records) > _VERSIONS:
            del self._records[next(iter(self._records))]
        return self._records.setdefault(benchmark_version_id, {})


def archive(engine: Engine, evaluation_id: int, to: str = "", shared: Shared | None = None) -> Moved | None:
    """Moves an evaluation's predictions and texts into a file; None where they are in one already.

    to: a folder or s3://bucket/prefix; empty: the one that settings name. shared: of the evaluations that were archived
    before. Raises QueueError for one that is not sealed, SealError where its rows are not what was sealed, ArchiveError
    where the file cannot be written or does not hold what it was given; then everything is as it was.
    """
    store, shared = store_at(to), shared or Shared()
    with read_session(engine) as session:
        evaluation = find_sealed(session, evaluation_id)
        if session.get(Archive, evaluation_id) is not None:
            return None
        seal = evaluation.seal
        assert seal is not None
        part = f"{seal}.{uuid.uuid4().hex[:8]}{PART}"
        try:
            description = _description(evaluation)
            with store.writing(part) as stream:
                counts = archive_files.write(stream, _tables(session, evaluation_id), description)
            read = archive_files.groups(store, part)
            _require_sealed(session, evaluation, read, shared.records(evaluation.benchmark_version_id))
            digest, size = store.digest(part)
        except BaseException:
            store.remove(part)
            raise
    try:
        with write_session(engine) as session:
            held = session.get_one(Evaluation, evaluation_id, with_for_update=True, populate_existing=True)
            if held.seal != seal:  # the database was restored meanwhile
                raise ArchiveError(f"evaluation {evaluation_id} is another one than a moment ago; archive it again")
            if session.get(Archive, evaluation_id) is not None:
                return None
            manifest = {
                **description,
                "file": file_name(seal),
                "sha256": digest,
                "bytes": size,
                "predictions": counts[0],
                "texts": counts[1],
            }
            with store.writing(f"{seal}{MANIFEST}") as stream:
                stream.write((json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode())
            store.move(part, file_name(seal))
            session.add(
                Archive(
                    evaluation_id=evaluation_id,
                    state="archiving",
                    location=store.url,
                    digest=digest,
                    size=size,
                    predictions=counts[0],
                    texts=counts[1],
                )
            )
            session.flush()
            for table in (Generation, Prediction):
                session.execute(delete(table.__table__).where(table.evaluation_id == evaluation_id))  # type: ignore[arg-type]
            session.execute(update(Archive).filter_by(evaluation_id=evaluation_id).values(state="archived"))
            session.flush()
            # Last of all: deleting may take long, and with the commit the file is all there is.
            place_as_archived(session.get_one(Archive, evaluation_id), seal)
    finally:
        store.remove(part)
    return Moved(evaluation_id, *counts, store.url_of(file_name(seal)), size)


def restore(engine: Engine, evaluation_id: int) -> Moved | None:
    """Brings an evaluation's predictions and texts back into their tables; None where they are there.

    The file is kept: an older backup of the database may refer to it. Raises ArchiveError where it is missing or not
    what was archived; then everything is as it was.
    """
    with write_session(engine) as session:
        evaluation = session.get_one(Evaluation, find_sealed(session, evaluation_id).id, with_for_update=True)
        row = session.get(Archive, evaluation_id)
        if row is None:
            return None
        assert evaluation.seal is not None
        store, name = place_of(row, evaluation.seal)
        moved = Moved(evaluation_id, row.predictions, row.texts, store.url_of(name), row.size)
        if store.digest(name) != (row.digest, row.size):
            raise ArchiveError(
                f"{store.url_of(name)}: is not the file that was archived; bring that back from a backup"
            )
        row.state = "restoring"
        session.flush()
        ids = _ids(session, evaluation_id)
        for group in archive_files.groups(store, name):
            _insert(session, evaluation_id, ids, group)
        renew_statistics(session, moved.predictions)
        _require_sealed(session, evaluation, _tables(session, evaluation_id), {})
        session.delete(row)
    return moved


def orphans(session: Session, store: Store, older_than_s: float = YOUNG_SECONDS) -> tuple[list[str], list[str]]:
    """URLs of the files of archives that nothing refers to, in a store, and of those that are missing or not whole.

    Not files that were written within `older_than_s`: an archiving may be about to refer to them.
    """
    query = select(Archive, Evaluation.seal).join(Evaluation, Evaluation.id == Archive.evaluation_id)
    known: dict[str, set[str]] = {store.url: set()}
    missing = []
    for row, seal in session.execute(query.order_by(Archive.evaluation_id)):
        assert seal is not None
        try:
            found, name = place_of(row, seal)
            known.setdefault(found.url, set()).update({name, f"{seal}{MANIFEST}"})
            with found.reading(name) as stream:
                if stream.size() != row.size:
                    missing.append(f"{found.url_of(name)} (not {row.size} bytes)")
        except ArchiveError:
            missing.append(store_at(row.location).url_of(file_name(seal)))
    listed = []
    for url, names in known.items():
        place = store_at(url)
        listed += [
            place.url_of(name)
            for name in place.names(older_than_s)
            if name not in names and name.endswith((ENDING, MANIFEST, PART)) and _is_seal(name.split(".")[0])
        ]
    return listed, missing


def remove_parts(store: Store) -> list[str]:
    """Removes what archivings that were killed left unfinished, once it is certainly nobody's; URLs of these files."""
    found = [name for name in store.names(YOUNG_SECONDS) if name.endswith(PART) and _is_seal(name.split(".")[0])]
    for name in found:
        store.remove(name)
    return [store.url_of(name) for name in found]


def _is_seal(stem: str) -> bool:
    return len(stem) == 64 and set(stem) <= set("0123456789abcdef")


def _stored(session: Session, evaluation_id: int) -> tuple[int, int]:
    """How many predictions and texts of an evaluation are in their tables."""
    counts = [
        session.scalar(select(func.count()).select_from(table).where(table.evaluation_id == evaluation_id)) or 0
        for table in (Prediction, Generation)
    ]
    return counts[0], counts[1]


def _ids(session: Session, evaluation_id: int) -> dict[str, int]:
    """External id to number of the questions of an evaluation, by external id."""
    query = (
        select(Question.external_id, Question.id)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
    )
    return dict(sorted((row[0], row[1]) for row in session.execute(query)))


def _tables(session: Session, evaluation_id: int) -> Iterator[pa.Table]:
    """The rows of an archive, as they are in the database's tables: whole questions, by external id, in row groups."""
    query = (
        select(Question.external_id, Question.id, EvaluationQuestion.n_variants)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
    )
    names: list[str] = []
    ids: list[int] = []
    rows = 0
    asked = sorted((row[0], row[1], row[2]) for row in session.execute(query))
    for external_id, question_id, variants in [*asked, ("", 0, GROUP)]:
        if ids and (question_id == 0 or rows >= GROUP):
            table = _table(session, evaluation_id, names, ids)
            if len(table):
                yield table
            names, ids, rows = [], [], 0
        names.append(external_id)
        ids.append(question_id)
        rows += variants


def _table(session: Session, evaluation_id: int, names: Sequence[str], ids: Sequence[int]) -> pa.Table:
    """The rows of some questions, in their order. names: their external ids."""
    columns = [Prediction.__table__.columns[name] for name in PREDICTION_COLUMNS]
    texts = [Generation.__table__.columns[name] for name in TEXT_COLUMNS]
    query = (
        select(Prediction.question_id, *columns, *texts)
        .outerjoin(
            Generation,
            and_(
                Generation.evaluation_id == Prediction.evaluation_id,
                Generation.question_id == Prediction.question_id,
                Generation.variant == Prediction.variant,
            ),
        )
        .where(Prediction.evaluation_id == evaluation_id, among(Prediction.question_id, ids))
    )
    schema = pa.schema([pa.field("question_id", pa.int64()), *list(SCHEMA)[1:]])
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        found = binary_copy.read(connection, query, schema)
    else:
        found = archive_files.table_of(session.execute(query).all(), schema)
    numbers = np.asarray(found.column("question_id"))
    by_id = np.argsort(ids)
    place = by_id[np.searchsorted(np.asarray(ids)[by_id], numbers)]
    order = np.lexsort((np.asarray(found.column("variant")), place))
    asked = pa.array(names, pa.string()).take(pa.array(place))
    return found.set_column(0, SCHEMA.field(QUESTION), asked).take(pa.array(order))


def _insert(session: Session, evaluation_id: int, ids: Mapping[str, int], table: pa.Table) -> None:
    """Brings rows of an archive back into the database's tables. ids: external id to number of a question."""
    keys = [
        {"evaluation_id": evaluation_id, "question_id": ids[external_id], "variant": variant}
        for external_id, variant in archive_files.values_of(table, [QUESTION, "variant"])
    ]
    predictions = archive_files.values_of(table, PREDICTION_COLUMNS)
    insert_rows(
        session,
        Prediction,
        [key | dict(zip(PREDICTION_COLUMNS, row, strict=True)) for key, row in zip(keys, predictions, strict=True)],
    )
    texts = archive_files.values_of(table, [f"{TEXT}{name}" for name in TEXT_COLUMNS])
    written = [key | dict(zip(TEXT_COLUMNS, row, strict=True)) for key, row in zip(keys, texts, strict=True)]
    insert_rows(session, Generation, [row for row in written if row["text"] is not None])


def _require_sealed(
    session: Session, evaluation: Evaluation, tables: Iterable[pa.Table], records: QuestionRecords
) -> None:
    """Raises SealError unless tables of predictions hold what the seal covers of each question.

    records: of `question_leaves`.
    """
    query = select(QuestionSeal.question_id, QuestionSeal.leaf).filter_by(evaluation_id=evaluation.id)
    sealed = dict(session.execute(query).all())
    found = question_leaves(session, evaluation.id, records, tables)
    computed: dict[int, Leaf] = {leaf.question_id: leaf for leaf in found}
    wrong = [leaf.external_id for leaf in computed.values() if sealed.get(leaf.question_id) != leaf.leaf]
    if wrong or sealed.keys() - computed.keys():
        first = f"question {min(wrong)}" if wrong else "a question"
        raise SealError(
            f"evaluation {evaluation.id}: {first} is not what was sealed, so nothing was moved; see what is affected "
            f"with: shuffleboard verify {evaluation.id}"
        )


def _description(evaluation: Evaluation) -> dict[str, Any]:
    """What an archive is of, and what its columns mean."""
    documented = columns_of("prediction_detail")
    meanings = {QUESTION: documented["external_id"].meaning}
    for name in SCHEMA.names:
        view = {f"{TEXT}text": "generation", f"{TEXT}extracted": "extracted"}.get(name, name)
        if view in documented:
            meanings[name] = documented[view].meaning
    assert evaluation.sealed_at is not None
    return {
        "format": FORMAT,
        "seal": evaluation.seal,
        "seal_version": evaluation.seal_version,
        "sealed_at": utc_text(evaluation.sealed_at),
        "model": evaluation.model_revision.model.name,
        "revision": evaluation.model_revision.number,
        "benchmark": evaluation.benchmark_version.benchmark.name,
        "benchmark_version": evaluation.benchmark_version.version,
        "protocol": evaluation.protocol.name,
        "shots": evaluation.protocol.shots,
        "variants": evaluation.variant_set.name,
        "specification": evaluation.specification,
        "columns": meanings,
    }
