"""Processes that seal, archive, restore, export, import, verify, publish and back up are killed, and nothing is lost.

Half of the kills are at a step on the database or on files, and half at any time, by another process.
`SHUFFLEBOARD_TEST_KILLS=2000 pytest tests/proof/test_killed.py -k many` kills that often.
"""

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Engine, delete, event, func, select

from registry.db import get_engine, read_session, write_session
from registry.files.manifests import MANIFEST
from registry.files.stores import Store, store_at
from registry.operations.backup import backup
from registry.operations.backup import restore as restored
from registry.operations.maintenance import Maintenance
from registry.predictions.archived import folder_name
from registry.sealed.archiving import archive, restore, strays, write
from registry.sealed.exporting import export_evaluation
from registry.sealed.files import find_changed_files
from registry.sealed.importing import import_evaluation
from registry.sealed.verification import verify_all, verify_evaluation
from registry.settings import get_settings
from registry.tables import Archive, Evaluation, Prediction
from tests.proof.population import Population, submit_and_score
from tests.proof.test_archives import Proof, rows, url_of
from tests.support.population import table_counts
from web.publishing import publish
from web.publishing.files import CHECKSUMS

FEW: Final = 8
MANY: Final = int(os.environ.get("SHUFFLEBOARD_TEST_KILLS", "80"))
PLACES: Final = ("folder", "store")
"""Places of archives: the disk, and an S3-compatible store."""

EXPORTED: Final = "exported"

Move = Callable[[Engine, int, Path], None]


class Killed:
    """A counter of a process's steps on the database and on files, which kills it at one of these steps."""

    def __init__(self, at: float) -> None:
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
    """Seal the scored evaluation, and write its folder."""
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


def exporting(engine: Engine, evaluation_id: int, folder: Path) -> None:
    export_evaluation(engine, get_settings(), evaluation_id, folder / EXPORTED)


def importing(engine: Engine, _: int, folder: Path) -> None:
    """Import the evaluation that was exported next to the folder."""
    import_evaluation(engine, folder.parent / EXPORTED)


def verifying(engine: Engine, evaluation_id: int, _: Path) -> None:
    with read_session(engine) as session:
        verify_evaluation(session, evaluation_id)
        verify_all(session)


MOVES: tuple[Move, ...] = (sealing, writing, archiving_one, restoring)
ALL_MOVES = (*MOVES, publishing, backing_up, exporting, importing, verifying)


def run_move(taken: Connection, environment: Mapping[str, str], at: float, url: str, move: Move, *of: Any) -> None:
    """Run a move that is killed at a step; send the number of steps and the seconds that it took."""
    os.environ.update(environment)
    killed, engine, begun = Killed(at), get_engine(url), time.monotonic()
    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(engine, name, killed.step)
    for owner, names in ((Store, ("writing", "move", "remove", "digest", "_place")), (Path, ("rename", "replace"))):
        for name in names:
            setattr(owner, name, killed.around(getattr(owner, name)))
    os.fsync = killed.around(os.fsync)
    taken.send(None)
    move(engine, *of)
    taken.send((killed.done, time.monotonic() - begun))


def kill_at(engine: Engine, at: int, move: Callable[..., None], *of: Any) -> int:
    """Run a move in a process that is killed at a step; return its number of steps, 0 if killed."""
    return _run(engine, at, None, move, *of)[0]


def kill_after(engine: Engine, seconds: float, move: Move, *of: Any) -> int:
    """Run a move in a process that is killed after some seconds; return its number of steps, 0 if killed."""
    return _run(engine, 0, seconds, move, *of)[0]


def _run(engine: Engine, at: int, seconds: float | None, move: Callable[..., None], *of: Any) -> tuple[int, float]:
    engine.dispose()
    # S3 clients leave threads, so processes are then forked from a server that never used S3.
    context = multiprocessing.get_context("fork" if store_at().folder else "forkserver")
    context.set_forkserver_preload([__name__])
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=run_move, args=(sending, dict(os.environ), at, url_of(engine), move, *of))
    child.start()
    sending.close()
    with receiving:
        assert receiving.recv() is None  # it begins
        if seconds is not None:
            child.join(seconds)
            child.kill()
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL)
        return (0, 0.0) if child.exitcode else receiving.recv()


def prepare(engine: Engine, move: Move, evaluation_id: int, folder: Path) -> int:
    """Make a move possible that was made before; return its evaluation."""
    folder.mkdir(exist_ok=True)
    if move is sealing:
        return submit_and_score(engine, "original", new_replicate=True, sealed=False)
    if move is writing:
        with write_session(engine) as session:
            session.execute(delete(Archive).filter_by(evaluation_id=evaluation_id))
    if move is restoring or (move in (exporting, verifying) and int(folder.name) % 2):
        archive(engine, evaluation_id)
    if move is importing and not (folder.parent / EXPORTED).exists():
        exporting(engine, evaluation_id, folder.parent)
    return evaluation_id


def files_in(folder: Path) -> dict[str, bytes]:
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in contents.items() if not name.endswith((".partial", CHECKSUMS))}


def require_whole(engine: Engine, evaluation_id: int) -> None:
    """Check that all predictions are in one place, as sealed, and that the doctor reports all other files."""
    with read_session(engine) as session:
        row = session.get(Archive, evaluation_id)
        left = session.scalar(select(func.count()).select_from(Prediction).filter_by(evaluation_id=evaluation_id))
        recorded = select(Archive, Evaluation.seal).join(Evaluation, Evaluation.id == Archive.evaluation_id)
        folder_names = {folder_name(seal or "", archive_row.digest) for archive_row, seal in session.execute(recorded)}
        report = verify_evaluation(session, evaluation_id)
        assert report["ok"], report["problems"]
        leftovers = strays(session, store_at(), older_than_s=0)
    assert bool(left) is (row is None or row.state == "written"), "neither lost nor double"
    assert not leftovers.lost + leftovers.missing
    unknown = {store_at().url_of(name) for name in store_at().folders() if name not in folder_names}
    assert unknown <= set(leftovers.unknown), "the doctor names what nobody is archived in"


def require_complete(move: Move, engine: Engine, evaluation_id: int, folder: Path, left: Mapping[str, bytes]) -> None:
    """Check that a killed move has had all of its effect or none, and that the next such move completes it."""
    if move is publishing:
        move(engine, evaluation_id, folder)
        assert left.items() <= files_in(folder).items(), "only whole files"
    if move is backing_up and (folder / "file").exists():
        assert (folder / "file.folders").is_dir(), "a backup has the folders, too"
        if engine.dialect.name == "sqlite":
            assert restored(f"sqlite:///{folder / 'restored.db'}", folder / "file").problems == []
    if move is exporting:
        if (folder / EXPORTED).exists():
            assert find_changed_files(folder / EXPORTED) == {}, "only a whole folder has its name"
        else:
            move(engine, evaluation_id, folder)
        assert json.loads((folder / EXPORTED / MANIFEST).read_text())["seal"] == seals_in(engine)[evaluation_id]


def require_imported(engine: Engine, folder: Path, empty: Mapping[str, int], seal: str) -> None:
    """Check that a registry has all of a killed import or nothing, and that the import succeeds then."""
    if not seals_in(engine):
        assert table_counts(engine) == empty
    importing(engine, 0, folder)
    assert list(seals_in(engine).values()) == [seal]
    with read_session(engine) as session:
        assert verify_all(session)["ok"]


def seals_in(engine: Engine) -> dict[int, str | None]:
    with read_session(engine) as session:
        return dict(session.execute(select(Evaluation.id, Evaluation.seal)).all())


def kill_at_seeded_points(
    engine: Engine,
    found: Population,
    points: int,
    folder: Path,
    moves: tuple[Move, ...] = ALL_MOVES,
    another: Callable[[], str] = lambda: "",
) -> None:
    """Kill each move in turn; check that the registry is consistent, and that the next such move completes it.

    another: returns the URL of an empty registry.
    """
    rng, killed, lengths = random.Random(32), 0, dict[Move, tuple[int, float]]()
    write(engine, found.evaluation)
    for point in range(-len(moves), points):
        move, place = moves[point % len(moves)], folder / str(point)
        before = None if move is sealing else rows(engine)
        moved_id = prepare(engine, move, found.evaluation, place)
        before, seals = before or rows(engine), seals_in(engine)
        target = get_engine(another()) if move is importing else engine
        empty = table_counts(target) if move is importing else {}
        if point < 0:
            lengths[move] = _run(target, 0, None, move, moved_id, place)
        elif rng.random() < 0.5:
            killed += kill_at(target, rng.randint(1, lengths[move][0]), move, moved_id, place) == 0
        else:
            killed += kill_after(target, rng.uniform(0, lengths[move][1]), move, moved_id, place) == 0
        left = files_in(place)
        if move is sealing:
            move(engine, moved_id, place)
        require_whole(engine, moved_id)
        if move is importing:
            require_imported(target, place, empty, str(seals[moved_id]))
        require_complete(move, engine, moved_id, place, left)
        restore(engine, found.evaluation)
        assert rows(engine) == before
        assert {number: seals_in(engine)[number] for number in seals if seals[number]}.items() <= seals.items()
        assert move is sealing or require_whole(engine, found.evaluation) is None
    assert killed > points // 2


@pytest.mark.parametrize(
    ("proof", "place"),
    [("sqlite", "folder"), pytest.param("postgresql", "store", marks=pytest.mark.long)],
    indirect=["proof"],
)
def test_a_process_killed_while_sealing_archiving_or_restoring_loses_nothing(
    proof: Proof, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if place == "store":
        request.getfixturevalue("in_s3")
    kill_at_seeded_points(*proof, FEW, tmp_path, MOVES)


@pytest.mark.long
@pytest.mark.parametrize("place", PLACES)
def test_many_kills_lose_nothing(
    proof: Proof, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if place == "store":
        request.getfixturevalue("in_s3")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where killed processes leave temporary files
    another = request.getfixturevalue(f"lasting_{proof[0].dialect.name}")
    kill_at_seeded_points(*proof, MANY, tmp_path, another=another)
