"""Write sealed evaluations to folders, archive them (only the folder keeps the predictions), and restore them.

A folder is written under a temporary name and read back: its predictions must give the leaves that the seal covers.
Then it is renamed to its final name, which contains its digest, and recorded. Archiving deletes the rows of an
evaluation whose folder is correct, and restoring inserts them again, each in one transaction: a killed process leaves
all rows in their tables, or none. It may also leave an unused folder, which `strays` lists.
"""

import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

from registry import chain
from registry.boards.store import evaluations_of_entry
from registry.db import database_now, is_in, read_session, write_session
from registry.errors import ArchiveError, SealError, UsageError
from registry.files.stores import AT_ONCE, Store, store_at
from registry.lookups import find_board, find_sealed
from registry.predictions import archive_files
from registry.predictions.archive_files import EVALUATION, PART, PREDICTIONS, TEXT
from registry.predictions.archived import folder_name, place_of
from registry.predictions.bulk import insert_columns, renew_statistics
from registry.proposals import propose
from registry.sealed import folder
from registry.sealed.manifest import Leaf, QuestionRecords, question_leaves
from registry.tables import Archive, Evaluation, Generation, Prediction, QuestionSeal

MAX_DAYS: Final = 36_500
_SECONDS_A_DAY: Final = 86_400.0
YOUNG_SECONDS: Final = _SECONDS_A_DAY
"""A file that was written within a day may belong to a process that is about to record it."""
_VERSIONS: Final = 8
"""Maximum number of benchmark versions whose questions are cached while evaluations are archived."""
_RECORDED: Final = (
    select(Archive, Evaluation.seal)
    .join(Evaluation, Evaluation.id == Archive.evaluation_id)
    .order_by(Archive.evaluation_id)
)
"""The recorded folders, with the seals of their evaluations."""


@dataclass(frozen=True)
class Moved:
    """An archived or restored evaluation, or a planned archiving.

    size: bytes of the folder; None if it is only planned.
    """

    evaluation_id: int
    predictions: int
    texts: int
    url: str
    size: int | None = None


@dataclass(frozen=True)
class Policy:
    """Which sealed evaluations to archive: the listed ids, or the evaluations that meet all other conditions."""

    ids: tuple[int, ...] = ()
    board: str | None = None
    older_than_days: int | None = None
    larger_than: int | None = None


def choose_evaluations(session: Session, policy: Policy) -> list[int]:
    """Return the evaluations that a policy selects and that are not archived yet, by id.

    Raises UsageError for an empty policy or numbers out of range, NotFoundError or QueueError for a listed evaluation
    that does not exist or is not sealed.
    """
    days, least = policy.older_than_days, policy.larger_than
    if days is not None and not 0 <= days <= MAX_DAYS:
        raise UsageError(f"--older-than {days}: give a number of days from 0 to {MAX_DAYS}")
    conditions = (policy.board, days, least)
    if bool(policy.ids) == any(condition is not None for condition in conditions):
        raise UsageError("give evaluations, or one or more of --board, --older-than and --larger-than")
    archived = select(Archive.evaluation_id).where(Archive.state == "archived")
    query = select(Evaluation.id).where(Evaluation.seal.is_not(None), Evaluation.id.not_in(archived))
    if policy.ids:
        for evaluation_id in policy.ids:
            find_sealed(session, evaluation_id)
        query = query.where(is_in(Evaluation.id, policy.ids))
    if policy.board is not None:
        entries = find_board(session, policy.board).entries
        answering = [evaluations_of_entry(session, entry).values() for entry in entries]
        ids = {evaluation.id for evaluations in answering for evaluation in evaluations}
        query = query.where(is_in(Evaluation.id, ids))
    if days is not None:
        query = query.where(Evaluation.sealed_at < database_now(-days * _SECONDS_A_DAY))
    if least is not None:
        query = query.where(Evaluation.prompts > least)
    return list(session.scalars(query.order_by(Evaluation.id)))


def plan(session: Session, ids: Sequence[int], to: str = "") -> Iterator[Moved]:
    """Yield the moves that archiving these evaluations would make."""
    store = store_at(to)
    for evaluation_id in ids:
        find_sealed(session, evaluation_id)
        yield Moved(evaluation_id, *_count_stored(session, evaluation_id), store.url)


class Shared:
    """A cache for evaluations that are archived one after the other."""

    def __init__(self) -> None:
        self._records: dict[int, QuestionRecords] = {}

    def records(self, benchmark_version_id: int) -> QuestionRecords:
        """Return the cached questions of a benchmark version; the caller adds to them."""
        while len(self._records) > _VERSIONS:
            del self._records[next(iter(self._records))]
        return self._records.setdefault(benchmark_version_id, {})


def write(engine: Engine, evaluation_id: int, to: str = "", shared: Shared | None = None) -> Archive:
    """Write an evaluation's folder unless it exists and is correct, and return its record.

    to: a folder or s3://bucket/prefix; empty for the one in the settings. shared: the cache of the previous calls.
    Raises QueueError if the evaluation is not sealed, SealError if its rows do not match the seal, ArchiveError if the
    folder cannot be written, reads back differently, or is missing or changed although only it has the predictions.
    """
    store, shared = store_at(to), shared or Shared()
    with read_session(engine) as session:
        evaluation = find_sealed(session, evaluation_id)
        seal = evaluation.seal
        assert seal is not None
        row = session.get(Archive, evaluation_id)
        if row is not None and _is_in_place(row, seal, store):
            return row
        part = f"{seal}.{uuid.uuid4().hex[:8]}{PART}"
        try:
            digest, size, *counts = folder.write(session, evaluation, store, part)
            read = archive_files.groups(store, f"{part}/{PREDICTIONS}")
            _require_sealed(session, evaluation, read, shared.records(evaluation.benchmark_version_id))
            store.move(part, folder_name(seal, digest), folder.FILES)
        finally:
            store.remove(part)
    with write_session(engine) as session:
        current = session.get_one(Evaluation, evaluation_id, with_for_update=True, populate_existing=True)
        if current.seal != seal:  # the database was restored in the meantime
            raise ArchiveError(f"evaluation {evaluation_id} is another one than a moment ago; archive it again")
        row = session.get(Archive, evaluation_id)
        if row is not None and row.state == "written":
            session.delete(row)
            session.flush()
        if row is None or row.state == "written":
            row = Archive(
                evaluation_id=evaluation_id,
                state="written",
                location=store.url,
                digest=digest,
                size=size,
                predictions=counts[0],
                texts=counts[1],
            )
            session.add(row)
            if not chain.is_linked(session, "folder", digest, seal)[1]:
                chain.append(session, "folder", digest, labels=seal)
        session.flush()
    return row


def record(engine: Engine, ids: Iterable[int]) -> None:
    """Write the missing folders of these sealed evaluations, so that the chain contains them before an export.

    Raises the same errors as `write`.
    """
    shared = Shared()
    for evaluation_id in ids:
        write(engine, evaluation_id, shared=shared)


def _is_in_place(row: Archive, seal: str, store: Store) -> bool:
    """Return whether the folder is unchanged in this store, or the evaluation is archived in any store.

    Raises ArchiveError if it is archived and the folder is missing.
    """
    if row.state == "archived":
        place_of(row, seal)
        return True
    return row.location == store.url and not folder.find_changed_files(store, folder_name(seal, row.digest), row.digest)


def copy(session: Session, evaluation: Evaluation, to: Path) -> None:
    """Copy a sealed evaluation's folder to a local path, or write it there if the stored folder is missing or changed.

    Raises ArchiveError if the evaluation is archived and its folder is missing or changed.
    """
    row = session.get(Archive, evaluation.id)
    assert evaluation.seal is not None
    place = None
    if row is not None and row.state == "archived":
        place = _find_unchanged(row, evaluation.seal)
    elif row is not None and _is_in_place(row, evaluation.seal, store_at(row.location)):
        place = place_of(row, evaluation.seal)
    else:
        folder.write(session, evaluation, store_at(str(to.parent)), to.name)
    to.mkdir(exist_ok=True)
    for file in folder.FILES:
        if place is not None:
            place[0].copy(f"{place[1]}/{file}", to / file, linked=False)
        (to / file).chmod(0o644)
    to.chmod(0o755)


def _find_unchanged(row: Archive, seal: str) -> tuple[Store, str]:
    """Return the store and the name of an archived folder.

    Raises ArchiveError if its predictions are missing or changed.
    """
    store, name = place_of(row, seal)
    wrong = sorted({PREDICTIONS, EVALUATION}.intersection(folder.find_changed_files(store, name, row.digest)))
    if wrong:
        url = store.url_of(f"{name}/{wrong[0]}")
        raise ArchiveError(f"{url}: is not the file that was archived; bring that back from a backup")
    return store, name


def archive(engine: Engine, evaluation_id: int, to: str = "", shared: Shared | None = None) -> Moved | None:
    """Delete an evaluation's predictions and texts from their tables; its folder keeps them.

    The folder is written first unless it exists and is correct. Returns None if the evaluation was archived before.
    Raises the same errors as `write`; the rows are then unchanged.
    """
    row = write(engine, evaluation_id, to, shared)
    if row.state == "archived":
        return None
    with write_session(engine) as session:
        evaluation = session.get_one(Evaluation, evaluation_id, with_for_update=True, populate_existing=True)
        current = session.get(Archive, evaluation_id)
        if current is None or (current.location, current.digest) != (row.location, row.digest):
            raise ArchiveError(f"evaluation {evaluation_id} is another one than a moment ago; archive it again")
        if current.state == "archived":
            return None
        seal = evaluation.seal
        assert seal is not None
        current.state = "archiving"
        session.flush()
        for table in (Generation, Prediction):
            session.execute(delete(table.__table__).where(table.evaluation_id == evaluation_id))  # type: ignore[arg-type]
        session.execute(update(Archive).filter_by(evaluation_id=evaluation_id).values(state="archived"))
        session.flush()
        # This comes last: deleting may take long, and after the commit only the file has the predictions.
        store, name = place_of(current, seal)
    return Moved(evaluation_id, row.predictions, row.texts, store.url_of(name), row.size)


def restore(engine: Engine, evaluation_id: int) -> Moved | None:
    """Insert an archived evaluation's predictions and texts into their tables again; return None if it is not archived.

    The folder remains; metrics that were defined since archiving are added. Raises ArchiveError if the folder is
    missing or changed; nothing then changes.
    """
    with write_session(engine) as session:
        evaluation = session.get_one(Evaluation, find_sealed(session, evaluation_id).id, with_for_update=True)
        row = session.get(Archive, evaluation_id)
        if row is None or row.state != "archived":
            return None
        assert evaluation.seal is not None
        store, name = _find_unchanged(row, evaluation.seal)
        file = f"{name}/{PREDICTIONS}"
        row.state = "restoring"
        session.flush()
        for group in archive_files.groups(store, file):
            _insert(session, evaluation_id, group)
        renew_statistics(session, row.predictions)
        # The rows are compared with the file, which was compared with the leaves when it was written.
        for group in archive_files.groups(store, file):
            question_ids = pc.unique(group.column("question_id")).to_pylist()
            if not any(map(group.equals, archive_files.rows_of(session, evaluation_id, question_ids))):
                raise SealError(
                    f"evaluation {evaluation_id}: what was inserted is not what {store.url_of(file)} holds, so nothing "
                    "was restored; restore a backup"
                )
        row.state = "written"
        session.flush()
        # This imports numpy, which the website does without, although its SQL page writes folders.
        from registry.sealed.backfills import add_missing_metrics

        add_missing_metrics(session, evaluation_id)
        return Moved(evaluation_id, row.predictions, row.texts, store.url_of(name), row.size)


# Backups


def take_along(session: Session, target: Store) -> tuple[int, list[str]]:
    """Copy the folders of sealed evaluations into a backup's store; return their number, and problems of archived ones.

    A missing or changed folder is skipped if its rows are in their tables, since it can be written again.
    """
    count, problems = 0, []
    for row, seal in session.execute(_RECORDED):
        assert seal is not None
        try:
            store, name = place_of(row, seal)
            wrong = [store.url_of(f"{name}/{file}") for file in folder.find_changed_files(store, name, row.digest)]
            problem = f"evaluation {row.evaluation_id} is archived, but {', '.join(wrong)} is not what was written"
        except ArchiveError as error:
            wrong, problem = [row.location], str(error)
        if not wrong:
            _copy_folder(store, name, target)
            count += 1
        elif row.state == "archived":
            problems.append(f"not in the backup: {problem}")
    return count, problems


def bring_along(session: Session, source: Store) -> None:
    """Restore missing or changed folders from a backup's store, if it contains them."""
    for row, seal in session.execute(_RECORDED):
        assert seal is not None
        name, target = folder_name(seal, row.digest), store_at()
        with suppress(ArchiveError):
            target, _ = place_of(row, seal)
            if not folder.find_changed_files(target, name, row.digest):
                continue
        if source.has(f"{name}/{EVALUATION}"):
            _copy_folder(source, name, target)


def _copy_folder(source: Store, name: str, target: Store) -> None:
    """Copy a folder from one store to another, where it appears complete or not at all."""
    part = f"{name[:64]}.{uuid.uuid4().hex[:8]}{PART}"
    try:
        for file in folder.FILES:
            with source.reading(f"{name}/{file}") as stream, target.writing(f"{part}/{file}") as copied:
                shutil.copyfileobj(stream, copied, AT_ONCE)
        target.move(part, name, folder.FILES)
    finally:
        target.remove(part)


@dataclass(frozen=True)
class Strays:
    """URLs of folders that need attention.

    unknown: nothing refers to them. lost: missing or incomplete folders of archived evaluations, whose rows are nowhere
    else. missing: other recorded folders that are missing or incomplete.
    """

    unknown: list[str]
    lost: list[str]
    missing: list[str]


def strays(session: Session, store: Store, older_than_s: float = YOUNG_SECONDS) -> Strays:
    """Return the unused folders of a store, and the recorded folders that are missing or incomplete in any store.

    Unused folders that were written within `older_than_s` are skipped: a process may be about to record them.
    """
    listed = {store.url: store.folders()}
    known = set[str]()
    result = Strays([], [], [])
    for row, seal in session.execute(_RECORDED):
        assert seal is not None
        name = folder_name(seal, row.digest)
        if row.location not in listed:
            listed[row.location] = store_at(row.location).folders()
        place = next((url for url in (row.location, store.url) if name in listed[url]), row.location)
        known.add(f"{place}/{name}")
        size, _ = listed[place].get(name, (None, 0.0))
        if size != row.size:
            fault = "missing" if size is None else f"{size} bytes, not {row.size}"
            (result.lost if row.state == "archived" else result.missing).append(f"{place}/{name} ({fault})")
    result.unknown.extend(
        f"{url}/{name}"
        for url, folders in listed.items()
        for name, (_, age) in sorted(folders.items())
        if _is_seal(name) and age >= older_than_s and f"{url}/{name}" not in known
    )
    return result


def open_predictions(session: Session, seconds: float) -> tuple[int, list[str]]:
    """Test that the predictions in folders can be opened, archived ones first; return the number opened, and problems.

    seconds: time after which no further folder is opened. Missing folders are skipped, because `strays` reports them.
    """
    end, count, problems = time.monotonic() + seconds, 0, []
    for row, seal in sorted(session.execute(_RECORDED).all(), key=lambda pair: pair[0].state != "archived"):
        if time.monotonic() > end:
            break
        assert seal is not None
        with suppress(ArchiveError):
            store, name = place_of(row, seal)
            if not store.has(file := f"{name}/{PREDICTIONS}"):
                continue
            try:
                with archive_files.open_predictions(store, file):
                    count += 1
            except ArchiveError as error:
                problems.append(str(error))
    return count, problems


def remove_parts(store: Store) -> list[str]:
    """Delete unfinished folders of killed processes once they are old enough; return their URLs."""
    listed = sorted(store.folders().items())
    parts = [name for name, (_, age) in listed if name.endswith(PART) and _is_seal(name) and age >= YOUNG_SECONDS]
    for name in parts:
        store.remove(name)
    return [store.url_of(name) for name in parts]


def _is_seal(name: str) -> bool:
    """Return whether a name begins with a seal."""
    return set(name[:64]) <= set("0123456789abcdef") and name[64:65] in ("-", ".")


def _count_stored(session: Session, evaluation_id: int) -> tuple[int, int]:
    """Return the numbers of predictions and texts of an evaluation in their tables."""
    counts = [
        session.scalar(select(func.count()).select_from(table).where(table.evaluation_id == evaluation_id)) or 0
        for table in (Prediction, Generation)
    ]
    return counts[0], counts[1]


def _insert(session: Session, evaluation_id: int, table: pa.Table) -> None:
    """Insert rows of a file into the tables of predictions and texts."""
    written = table.filter(table.column(f"{TEXT}text").is_valid())
    for table_class, rows, prefix in ((Prediction, table, ""), (Generation, written, TEXT)):
        names = {name: f"{prefix}{name}" for name in table_class.__table__.columns.keys() if name != "evaluation_id"}  # noqa: SIM118
        names |= {"question_id": "question_id", "variant": "variant"}
        columns = {name: rows.column(name_in_file) for name, name_in_file in names.items()}
        insert_columns(session, table_class, columns | {"evaluation_id": pa.repeat(evaluation_id, len(rows))})


def _require_sealed(
    session: Session, evaluation: Evaluation, tables: Iterable[pa.Table], records: QuestionRecords
) -> None:
    """Raise SealError unless tables of predictions give the sealed leaf of each question.

    records: see `question_leaves`.
    """
    query = select(QuestionSeal.question_id, QuestionSeal.leaf).filter_by(evaluation_id=evaluation.id)
    sealed = dict(session.execute(query).all())
    leaves = question_leaves(session, evaluation.id, records, tables)
    computed: dict[int, Leaf] = {leaf.question_id: leaf for leaf in leaves}
    wrong = [leaf.external_id for leaf in computed.values() if sealed.get(leaf.question_id) != leaf.leaf]
    if wrong or sealed.keys() - computed.keys():
        first = f"question {min(wrong)}" if wrong else "a question"
        raise SealError(
            f"evaluation {evaluation.id}: {first} is not what was sealed, so nothing was moved; see what is affected "
            f"with: {propose('verify', evaluation.id)}"
        )
