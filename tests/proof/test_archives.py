"""Predictions of sealed evaluations move into files and back, and nothing else notices."""

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine, delete, event, func, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.errors import ArchiveError, QueueError, UsageError
from registry.exchange.exports.relations import RELATIONS, batches
from registry.exchange.exports.selection import ExportRequest, select_rows
from registry.files.stores import Store, store_at
from registry.operations import archiving
from registry.operations.archiving import Shared, archive, restore, strays, write
from registry.operations.backup import backup
from registry.operations.backup import restore as restored
from registry.operations.doctor import Context, services
from registry.operations.maintenance import Maintenance
from registry.operations.moving import move
from registry.operations.sizes import sizes
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.predictions.archived import folder_name
from registry.predictions.stored import read, unwritten
from registry.schema.audiences import audience_engine
from registry.scores.computed import computed_metrics
from registry.scores.contamination import contamination_document
from registry.scores.pride import pride_document
from registry.sealed.exporting import export_evaluation
from registry.settings import get_settings
from registry.studies.axes import axes_document
from registry.studies.comparing import compare_evaluations
from registry.studies.drift import drift_document
from registry.studies.noise import repeat_noise
from registry.studies.wordings import consistency_document
from registry.tables import Archive, Evaluation, Generation, Prediction, Question, QuestionSeal
from registry.verification import verify_all, verify_evaluation
from tests.commands import shuffleboard
from tests.proof.population import Population, submit_and_score
from web.publishing import publish
from web.publishing.files import CHECKSUMS
from web.shown import chart_data, queries

pytestmark = pytest.mark.long_on("postgresql")

Proof = tuple[Engine, Population]
Move = Callable[[Engine, int, Path], None]


def rows(engine: Engine) -> dict[str, list[Any]]:
    """All predictions and texts, with every column."""
    with read_session(engine) as session:
        return {
            table.__tablename__: sorted(map(tuple, session.execute(select(table.__table__))))
            for table in (Prediction, Generation)
        }


def archived(engine: Engine) -> list[int]:
    with read_session(engine) as session:
        ids = list(session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)))
    shared = Shared()
    for evaluation_id in ids:
        assert archive(engine, evaluation_id, shared=shared) is not None
    return ids


def test_what_is_archived_verifies_and_comes_back_bit_for_bit(proof: Proof) -> None:
    engine, _ = proof
    before = rows(engine)
    ids = archived(engine)
    assert rows(engine) == {"prediction": [], "generation": []}
    with read_session(engine) as session:
        report = verify_all(session)
    assert report["ok"], [report["problems"], [one["problems"] for one in report["evaluations"]]]
    assert [archive(engine, evaluation_id) for evaluation_id in ids] == [None] * len(ids)
    for evaluation_id in ids:
        assert restore(engine, evaluation_id) is not None
    assert rows(engine) == before
    with read_session(engine) as session:
        assert set(session.scalars(select(Archive.state))) == {"written"}
        assert verify_all(session)["ok"]


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without the last bits, which depend on the order in which a query's plan adds up."""
    return {name: round(value, 12) if isinstance(value, float) else value for name, value in values.items()}


def documents(engine: Engine, found: Population, folder: Path) -> dict[str, Any]:
    """What is read of predictions, by what reads it; of an error its message."""
    one, other = found.source, found.evaluation
    with read_session(engine) as session:
        question_id = session.scalars(select(QuestionSeal.question_id).filter_by(evaluation_id=other)).all()[-1]
        selection = select_rows(session, ExportRequest("parquet", audience="all"), "1")
        readers: dict[str, Callable[[Session], Any]] = {
            "exported": lambda _: (
                export_evaluation(engine, get_settings(), other, folder / "exported")["seal"],
                {path.name: path.read_bytes() for path in (folder / "exported").glob("*.parquet")},
            ),
            "exports": lambda session: {
                name: list(batches(session, relation, selection)) for name, relation in RELATIONS.items()
            },
            "question page": lambda session: queries.predictions(session, other, question_id),
            "predictions": lambda session: queries.predictions_after(session, other, (question_id - 1, 0), limit=9),
            "choices": lambda session: queries.choices(session, question_id, [one, other]),
            "runs": lambda session: chart_data.runs(session, [one, other]),
            "positions": lambda session: chart_data.positions(session, other),
            "subjects": lambda session: chart_data.by_subject(session, other),
            "written": lambda session: chart_data.written(session, other, ["stated"]),
            "fails at": lambda session: list(session.scalars(chart_data.fails_at(session, other, 0))),
            "compared": lambda session: compare_evaluations(session, one, other),
            "drift": lambda session: drift_document(session, one, other),
            "noise": lambda session: repeat_noise(session, other),
            "wordings": lambda session: consistency_document(session, other),
            "axes": lambda session: axes_document(session, other),
            "pride": lambda session: pride_document(session, other),
            "contamination": lambda session: contamination_document(session, other),
            "metrics": lambda session: {
                scope: rounded(found) for scope, found in computed_metrics(session, other).items()
            },
        }
        result = {}
        for name, reader in readers.items():
            try:
                result[name] = reader(session)
            except (UsageError, QueueError) as error:
                result[name] = str(error)
    return result


def test_no_reader_notices_where_predictions_are(proof: Proof, tmp_path: Path) -> None:
    engine, found = proof
    folders = [tmp_path / name for name in ("before", "after", "public")]
    before = documents(engine, found, folders[0])
    public = audience_engine(engine, "public")
    assert documents(public, found, folders[2]) == before
    assert archive(engine, found.evaluation) is not None
    after = documents(engine, found, folders[1])
    assert {name for name in before if before[name] != after[name]} == set()
    shutil.rmtree(folders[2])
    assert documents(public, found, folders[2]) == before


# What the database allows


def refused(engine: Engine, *statements: Any) -> bool:
    """Whether the last of these statements is refused, after the others were carried out."""
    try:
        with write_session(engine) as session:
            for number, statement in enumerate(statements, start=1):
                try:
                    session.execute(statement)
                except DBAPIError:
                    if number == len(statements):
                        raise
                    return False
            session.rollback()
    except DBAPIError:
        return True
    return False


def test_the_database_allows_archiving_and_restoring_and_nothing_else(proof: Proof) -> None:
    engine, found = proof
    own, other = found.evaluation, found.source
    with read_session(engine) as session:
        counts = [
            session.scalar(select(func.count()).select_from(table).filter_by(evaluation_id=own))
            for table in (Prediction, Generation)
        ]
    values = {"location": "x", "digest": "0" * 64, "size": 1, "predictions": counts[0], "texts": counts[1]}
    written = insert(Archive).values(evaluation_id=own, state="written", **values)
    changed = update(Archive).filter_by(evaluation_id=own)
    begun = (written, changed.values(state="archiving"))
    gone = [delete(table).filter_by(evaluation_id=own) for table in (Generation, Prediction)]
    others = delete(Generation).filter_by(evaluation_id=other)
    assert refused(engine, gone[0])
    assert refused(engine, written, gone[0]), "before it is archived"
    assert refused(engine, written.values(state="archived"))
    assert refused(engine, written.values(state="archiving"))
    assert refused(engine, written.values(predictions=counts[0] - 1))
    assert refused(engine, written.values(texts=0))
    assert refused(engine, *begun, others)
    assert refused(engine, *begun, update(Prediction).filter_by(evaluation_id=own).values(tied=True))
    assert refused(engine, *begun, changed.values(state="archived")), "while there are rows"
    assert refused(engine, *begun, gone[0], changed.values(state="archived")), "while there are predictions"
    assert not refused(engine, *begun, *gone, changed.values(state="archived"))
    assert refused(engine, *begun, *gone, changed.values(state="archived", digest="1" * 64))
    assert refused(engine, *begun, *gone, delete(Archive))
    assert archive(engine, own) is not None
    row = insert(Prediction).values(
        evaluation_id=own,
        question_id=select(func.min(QuestionSeal.question_id)).filter_by(evaluation_id=own).scalar_subquery(),
        variant=0,
        prompt_key=0,
        shown=[0],
        question_shown=True,
        own_options=True,
        unchanged=True,
        correct=False,
        tied=False,
    )
    assert refused(engine, row)
    assert refused(engine, delete(Archive))
    assert refused(engine, changed.values(location="elsewhere"))
    assert refused(engine, changed.values(state="archiving"))
    assert refused(engine, changed.values(state="restoring"), row, changed.values(state="written")), "not all of it"
    assert restore(engine, own) is not None
    assert not refused(engine, delete(Archive)), "the file can be written again"


# Files


def file_of(engine: Engine, evaluation_id: int) -> Path:
    with read_session(engine) as session:
        seal = session.get_one(Evaluation, evaluation_id).seal
        assert seal is not None
        row = session.get_one(Archive, evaluation_id)
        folder = store_at(row.location).folder
        assert folder is not None
        return folder / folder_name(seal, row.digest) / PREDICTIONS


@pytest.mark.one_engine
def test_a_changed_byte_names_the_question_and_a_missing_file_is_named(sqlite_proof: Proof) -> None:
    engine, found = sqlite_proof
    archived(engine)
    file = file_of(engine, found.evaluation)
    whole = file.read_bytes()
    with read_session(engine) as session:
        names = set(session.scalars(select(Question.external_id).where(~Question.few_shot)))
    with pq.ParquetFile(file) as parquet:
        group = parquet.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        place = {column.path_in_schema: column.data_page_offset for column in columns}
    for path in ("shown.list.element", "label_logprobs.list.element", "generation_text"):
        at = place[path] + 40
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with read_session(engine) as session:
            report = verify_evaluation(session, found.evaluation)
        assert not report["ok"]
        assert any("is not the file that was written" in problem for problem in report["problems"])
        assert set(report["questions"]) & names, path
        with pytest.raises(ArchiveError, match="not the file that was archived"):
            restore(engine, found.evaluation)
    file.write_bytes(whole[: len(whole) // 2])
    assert file.parent.name in findings(engine)
    file.unlink()
    with read_session(engine) as session:
        (problem,) = [one for one in verify_evaluation(session, found.evaluation)["problems"] if "archive" in one]
        assert f"{file.parent.name} is missing or not whole" in problem
        with pytest.raises(ArchiveError, match="SHUFFLEBOARD_ARCHIVES"):
            queries.predictions(session, found.evaluation, 3)
    assert file.parent.name in findings(engine)
    file.write_bytes(whole)
    for other in (path for path in file.parent.iterdir() if path != file):
        right = other.read_bytes()
        other.write_bytes(right[:9] + bytes([right[9] ^ 1]) + right[10:])
        with read_session(engine) as session:
            (problem,) = verify_evaluation(session, found.evaluation)["problems"]
        assert f"{other.name} is not the file that was written" in problem
        other.write_bytes(right)
    assert restore(engine, found.evaluation) is not None
    at = place["label_logprobs.list.element"] + 40
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with read_session(engine) as session:
        report = verify_evaluation(session, found.evaluation)
    assert set(report["questions"]) & names, "also where its rows are in their tables"
    assert write(engine, found.evaluation).state == "written"
    assert file.read_bytes() == whole, "and it is written again"
    file.unlink()
    assert file.parent.name in findings(engine)
    with read_session(engine) as session:
        assert verify_evaluation(session, found.evaluation)["ok"], "nothing is lost"


def findings(engine: Engine) -> str:
    """What the doctor says of archives."""
    return services.archives(Context(get_settings(), engine, "0")).found


def folder_of_archives() -> Path:
    folder = store_at().folder
    assert folder is not None
    return folder


def test_a_file_that_was_written_a_moment_ago_is_not_called_removable(sqlite_proof: Proof) -> None:
    """The doctor may look between the writing of a file and its record."""
    engine, found = sqlite_proof
    archive(engine, found.evaluation)
    restore(engine, found.evaluation)
    file = file_of(engine, found.evaluation)
    with write_session(engine) as session:
        session.execute(delete(Archive))
    with read_session(engine) as session:
        assert strays(session, store_at()).unknown == [], "as long as it is young"
        for path in file.parent.iterdir():
            os.utime(path, (0, 0))
        assert strays(session, store_at()).unknown == [file.parent.as_uri()]
    write(engine, found.evaluation)
    with read_session(engine) as session:
        assert strays(session, store_at()) == archiving.Strays([], [], [])


def test_an_archiving_whose_file_was_removed_meanwhile_fails_and_keeps_the_rows(proof: Proof) -> None:
    engine, found = proof
    before = rows(engine)
    checked = archiving.place_of

    def remove(row: Archive, seal: str) -> object:
        file_of(engine, found.evaluation).unlink()
        return checked(row, seal)

    with (
        mock.patch.object(archiving, "place_of", side_effect=remove),
        pytest.raises(ArchiveError, match="is missing or not whole"),
    ):
        archive(engine, found.evaluation)
    assert rows(engine) == before
    with read_session(engine) as session:
        assert session.scalar(select(Archive.state)) == "written"


def test_another_evaluation_s_archive_under_this_one_s_name_is_refused_by_every_reader(sqlite_proof: Proof) -> None:
    engine, _ = sqlite_proof
    ids = archived(engine)
    right, wrong = (file_of(engine, one) for one in ids[:2])
    shutil.copyfile(wrong, right)

    query = select(Prediction.variant).where(Prediction.evaluation_id == ids[0])
    with (
        read_session(engine) as session,
        pytest.raises(ArchiveError, match="another seal"),
    ):
        read(session, [ids[0]], query)
    with pytest.raises(ArchiveError, match="is not the file that was archived"):
        restore(engine, ids[0])


def test_what_killed_archivings_left_unfinished_is_removed_by_the_next_once_it_is_a_day_old(
    sqlite_proof: Proof, tmp_path: Path
) -> None:
    engine, found = sqlite_proof
    old, young, others = (tmp_path / name for name in (f"{'a' * 64}.1.part", f"{'b' * 64}.2.part", "notes.part"))
    for path in (old, young, others):
        path.mkdir()
    for path in (old, others):
        os.utime(path, (0, 0))
    url = engine.url.render_as_string(hide_password=False)
    said = shuffleboard("evaluations", "archive", found.evaluation, "--to", tmp_path, database_url=url)
    assert f"removed {old.as_uri()}" in said.stderr
    assert [path.exists() for path in (old, young, others)] == [False, True, True]


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/archives"])
def test_an_impossible_folder_is_named_as_such(sqlite_proof: Proof, place: str) -> None:
    engine, found = sqlite_proof
    with pytest.raises(ArchiveError, match=rf"file://{place}: cannot be written to .* --to, or SHUFFLEBOARD_ARCHIVES"):
        archive(engine, found.evaluation, place)


@pytest.mark.one_engine
def test_others_read_the_files_as_they_are(sqlite_proof: Proof) -> None:
    engine, found = sqlite_proof
    with read_session(engine) as session:
        right = session.scalar(select(func.count()).select_from(Prediction).filter_by(evaluation_id=2, correct=True))
        seal = session.get_one(Evaluation, found.evaluation).seal
    assert archive(engine, found.evaluation) is not None
    file = file_of(engine, found.evaluation)
    digest = hashlib.sha256((file.parent / EVALUATION).read_bytes()).hexdigest()
    assert file.parent.name == f"{seal}-{digest[:12]}"
    assert file.stat().st_mode & 0o777 == 0o600
    numbers = "array_agg(question_id)"
    counted = f"SELECT count(*) FILTER (correct), list_sort({numbers}) = {numbers} FROM '{file}'"
    assert duckdb.execute(counted).fetchall() == [(right, True)]
    assert pd.read_parquet(file).correct.sum() == right
    described = json.loads(pq.read_schema(file).metadata[b"shuffleboard"])
    assert described["seal"] == seal
    assert described["columns"].keys() >= {"question", "variant", "shown", "label_logprobs", "generation_text"}
    assert pd.read_parquet(file)[["prompt_digest", "entropy"]].notna().to_numpy().all(), (
        "every column stands in the file"
    )


# Killed at any point


class Killed:
    """Counts what a process does to the database and to files, and kills it at one of these steps."""

    def __init__(self, at: int) -> None:
        self.at, self.done = at, 0

    def step(self, *_: Any, **__: Any) -> None:
        self.done += 1
        if self.done == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any, **named: Any) -> Any:
            self.step()
            result = method(*arguments, **named)
            self.step()
            return result

        return stepping


def sealing(engine: Engine, _: int, __: Path) -> None:
    """Seals what is scored, and writes its folder."""
    Maintenance(engine, get_settings()).seal_complete()


def publishing(engine: Engine, _: int, folder: Path) -> None:
    publish(get_settings().model_copy(update={"database_url": url_of(engine)}), "main", folder / "site")


def backing_up(engine: Engine, _: int, folder: Path) -> None:
    backup(url_of(engine), folder / "file")


def writing(engine: Engine, evaluation_id: int, _: Path) -> None:
    write(engine, evaluation_id)


def archiving_one(engine: Engine, evaluation_id: int, _: Path) -> None:
    archive(engine, evaluation_id)


def restoring(engine: Engine, evaluation_id: int, _: Path) -> None:
    restore(engine, evaluation_id)


MOVES: tuple[Move, ...] = (sealing, writing, archiving_one, restoring)
ALL_MOVES = (*MOVES, publishing, backing_up)


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def moved(taken: Connection, environment: Mapping[str, str], at: int, url: str, move: Move, *of: Any) -> None:
    """Moves, and is killed at a step; sends how many steps it took."""
    os.environ.update(environment)
    here, engine = Killed(at), get_engine(url)
    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(engine, name, here.step)
    for owner, names in ((Store, ("writing", "move", "remove", "digest", "_place")), (Path, ("rename", "replace"))):
        for name in names:
            setattr(owner, name, here.around(getattr(owner, name)))
    os.fsync = here.around(os.fsync)
    move(engine, *of)
    taken.send(here.done)


def killed_at(engine: Engine, at: int, move: Move, *of: Any) -> int:
    """Runs a move in a process of its own that is killed at a step; returns how many steps it took, 0 if killed."""
    engine.dispose()
    # Where S3 was used there are threads, so that processes are made of one that did not use it.
    context = multiprocessing.get_context("fork" if store_at().folder else "forkserver")
    context.set_forkserver_preload([__name__])
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=moved, args=(sending, dict(os.environ), at, url_of(engine), move, *of))
    child.start()
    sending.close()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    with receiving:
        return 0 if child.exitcode else receiving.recv()


def prepared(engine: Engine, move: Move, evaluation_id: int, folder: Path) -> int:
    """Makes a move possible that was made before; returns the evaluation that it is of."""
    folder.mkdir(exist_ok=True)
    if move is sealing:
        return submit_and_score(engine, "original", new_replicate=True, sealed=False)
    if move is writing:
        with write_session(engine) as session:
            session.execute(delete(Archive).filter_by(evaluation_id=evaluation_id))
    if move is restoring:
        archive(engine, evaluation_id)
    return evaluation_id


def files_in(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if not name.endswith((".partial", CHECKSUMS))}


def require_whole(engine: Engine, evaluation_id: int) -> None:
    """All predictions of an evaluation are in one place, as sealed, and the doctor names what else there is."""
    with read_session(engine) as session:
        row = session.get(Archive, evaluation_id)
        left = session.scalar(select(func.count()).select_from(Prediction).filter_by(evaluation_id=evaluation_id))
        recorded = select(Archive, Evaluation.seal).join(Evaluation, Evaluation.id == Archive.evaluation_id)
        known = {folder_name(seal or "", one.digest) for one, seal in session.execute(recorded)}
        report = verify_evaluation(session, evaluation_id)
        assert report["ok"], report["problems"]
        found = strays(session, store_at(), older_than_s=0)
    assert bool(left) is (row is None or row.state == "written"), "neither lost nor double"
    assert not found.lost + found.missing
    unknown = {store_at().url_of(name) for name in store_at().folders() if name not in known}
    assert unknown <= set(found.unknown), "the doctor names what nobody is archived in"


def kill_at_seeded_points(
    engine: Engine, found: Population, points: int, folder: Path, moves: tuple[Move, ...] = ALL_MOVES
) -> None:
    """Kills each move in turn; what it left is whole, and the next such move completes it."""
    rng, killed, steps = random.Random(32), 0, dict[Move, int]()
    write(engine, found.evaluation)
    for point in range(-len(moves), points):
        move, place = moves[point % len(moves)], folder / str(point)
        of = prepared(engine, move, found.evaluation, place)
        before = rows(engine) if move is not restoring else None
        if point < 0:
            steps[move] = killed_at(engine, 0, move, of, place)
        else:
            killed += killed_at(engine, rng.randint(1, steps[move]), move, of, place) == 0
        left = files_in(place)
        if move is sealing:
            move(engine, of, place)
        require_whole(engine, of)
        if move is publishing:
            move(engine, of, place)
            assert left.items() <= files_in(place).items(), "only whole files"
        if move is backing_up and (place / "file").exists():
            assert (place / "file.folders").is_dir(), "a backup has the folders, too"
            if engine.dialect.name == "sqlite":
                assert restored(f"sqlite:///{place / 'restored.db'}", place / "file").problems == []
        restore(engine, found.evaluation)
        assert before in (None, rows(engine))
        assert move is sealing or require_whole(engine, found.evaluation) is None
    assert killed > points // 2


@pytest.mark.one_engine
def test_a_process_that_is_killed_while_it_seals_writes_archives_or_restores_loses_nothing(
    sqlite_proof: Proof, tmp_path: Path
) -> None:
    kill_at_seeded_points(*sqlite_proof, 4, tmp_path, MOVES)


@pytest.mark.long
def test_eighty_kills_lose_nothing_on_either_engine(
    proof: Proof, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where killed processes leave what they were making
    kill_at_seeded_points(*proof, 80, tmp_path)


@pytest.mark.long
def test_a_registry_with_archives_moves_to_another_database(
    sqlite_proof: Proof, postgresql_url: str, tmp_path: Path
) -> None:
    engine, found = sqlite_proof
    before = rows(engine)
    archived(engine)
    moved = move(engine.url.render_as_string(hide_password=False), postgresql_url)
    assert moved.rows["archive"] == 2
    assert moved.problems == []
    target = get_engine(postgresql_url)
    assert restore(target, found.source) is not None
    assert restore(target, found.evaluation) is not None
    assert rows(target) == before


def test_sizes_are_by_table_and_by_evaluation_wherever_it_is(proof: Proof) -> None:
    engine, found = proof
    moved = archive(engine, found.source)
    assert moved is not None
    measured = sizes(engine, limit=5)
    by_evaluation = {one.evaluation_id: one for one in measured.evaluations}
    assert (by_evaluation[found.source].archived, by_evaluation[found.source].hot) == (moved.size, 0)
    assert by_evaluation[found.evaluation].hot > 0
    assert {one.table for one in measured.tables} >= {"prediction", "question_score", "archive"}
    assert 0 < sum(one.total for one in measured.tables) <= measured.database


@pytest.mark.one_engine
def test_a_round_of_maintenance_writes_the_files_that_are_missing(
    sqlite_proof: Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, found = sqlite_proof
    maintenance = Maintenance(engine, get_settings())
    with monkeypatch.context() as patched:
        patched.setenv("SHUFFLEBOARD_ARCHIVES", "/dev/null/archives")
        maintenance.seal_complete()  # which logs that nothing can be written there
        with read_session(engine) as session:
            assert len(unwritten(session)) == 2
    maintenance.seal_complete()
    before = file_of(engine, found.evaluation).stat().st_mtime_ns
    maintenance.seal_complete()
    assert file_of(engine, found.evaluation).stat().st_mtime_ns == before
    with read_session(engine) as session:
        assert unwritten(session) == []
        assert strays(session, store_at(), older_than_s=0) == archiving.Strays([], [], [])
        assert verify_all(session)["ok"]
