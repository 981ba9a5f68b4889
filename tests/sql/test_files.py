"""The files for queries, which have the sealed and visible rows and are written when due, completely or not."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from registry.db import get_engine, read_session, utc_text, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.sealed.archiving import archive
from registry.settings import Settings, get_settings
from registry.sql import NotReadyError, Queries
from registry.sql.files import Files
from registry.sql.process import Positioned
from registry.tables import Evaluation, Model, Prediction
from tests.proof.conftest import sqlite_proof
from tests.proof.population import Population
from tests.sql.conftest import LIMITS, Asked, fill, run_query
from tests.support.commands import eventually
from tests.support.population import write_lines

__all__ = ["sqlite_proof"]

COUNT = "SELECT count(*) FROM prediction_detail"


@pytest.fixture
def own(sqlite_template: Path, tmp_path: Path) -> Iterator[Asked]:
    """Yield a registry for one test."""
    shutil.copyfile(sqlite_template, tmp_path / "own.db")
    url = f"sqlite:///{tmp_path / 'own.db'}"
    fill(get_engine(url), tmp_path)
    yield Asked("sqlite", Settings(database_url=url, home=tmp_path, **LIMITS), url)
    get_engine(url).dispose()


def more(asked: Asked, folder: Path) -> None:
    """Seal another public evaluation."""
    rows = [{"question_id": f"open{n}", "variant": 0, "order": [0, 1, 2, 3], "position": 0} for n in range(4)]
    path = write_lines(folder / "more.out", rows)
    import_outputs(get_engine(asked.url), ImportRequest(path, "their-model", "open", "original"))


@pytest.mark.long
def test_one_more_sealed_evaluation_is_there_once_the_answers_are_old_enough(own: Asked, tmp_path: Path) -> None:
    assert run_query(own.settings, "public", COUNT).rows == ((16,),)
    more(own, tmp_path)
    assert run_query(own.settings, "public", COUNT).rows == ((16,),)
    current = own.settings.model_copy(update={"sql_refresh_seconds": 0})
    assert run_query(current, "public", COUNT).rows == ((20,),)


def test_a_thread_that_seeks_moves_no_other_thread(tmp_path: Path) -> None:
    """Check that several threads can read one file, as DuckDB does in a query over many files."""
    path = tmp_path / "pages"
    path.write_bytes(b"0123456789")
    with Positioned(str(path)) as file, ThreadPoolExecutor(1) as pool:
        file.seek(2)
        pool.submit(file.seek, 7).result()
        assert (file.read(3), pool.submit(file.read, 2).result()) == (b"234", b"78")
        assert (file.read(), file.tell()) == (b"56789", 10)


def test_an_evaluation_that_is_not_sealed_is_counted_and_left_out(own: Asked) -> None:
    engine = get_engine(own.url)
    with write_session(engine) as session:
        evaluation = session.scalars(select(Evaluation).order_by(Evaluation.id)).first()
        assert evaluation is not None
        copied = {
            column.name: getattr(evaluation, column.name)
            for column in Evaluation.__table__.columns
            if column.name not in ("id", "seal", "sealed_at", "seal_version")
        }
        session.add(Evaluation(**copied | {"replicate": 7, "state": "running"}))
    listed = Files(engine, own.settings).write("public")
    assert (listed.written, listed.waiting, listed.unsealed) == (1, 0, 1)
    assert run_query(own.settings, "public", COUNT).rows == ((16,),)
    states = "SELECT state FROM evaluation_progress ORDER BY state"
    assert run_query(own.settings, "public", states).rows == (("complete",), ("running",))
    answer = {"truncated": "", "cut_cells": 0, "columns": [], "rows": []}
    (note,) = Queries(engine, own.settings)._notes(answer, replace(listed, waiting=2))
    assert note == (
        "The views over questions and prompts have 1 of 3 sealed evaluations so far; the files of the others are being "
        "written, the newest first."
    )


def test_the_newest_sealed_evaluation_is_there_before_those_that_wait(own: Asked, tmp_path: Path) -> None:
    for _ in range(3):
        more(own, tmp_path)
    files = Files(get_engine(own.url), own.settings)
    files.folder.mkdir(parents=True)
    sealed = files._places("public")
    for number in reversed(sealed):
        assert files._list("public").waiting
        assert files._write_evaluations("public", 0.0) == 0
        paths = [path for path in files._list("public").files if "evaluation_id=" in path]
        assert f"evaluation_id={number}" in paths[0]
    assert files._list("public").waiting == 0


@pytest.mark.long
def test_lost_files_are_written_again_silently_whatever_their_age(own: Asked) -> None:
    settings = own.settings.model_copy(update={"sql_refresh_seconds": 86_400})
    assert run_query(settings, "public", COUNT).rows == ((16,),)
    shutil.rmtree(Files(get_engine(own.url), settings).folder / "evaluations")
    with pytest.raises(NotReadyError, match="are being written again; try again in a moment") as refusal:
        run_query(settings, "public", COUNT)
    assert "evaluation" not in str(refusal.value)

    def can_answer() -> bool:
        with suppress(NotReadyError):
            return run_query(settings, "public", COUNT).rows == ((16,),)
        return False

    eventually(can_answer, "the files are there again")


def test_what_has_not_changed_stays_open_and_says_that_it_is_current(own: Asked, tmp_path: Path) -> None:
    files = Files(get_engine(own.url), own.settings)
    first, times = files.write("public"), {path: path.stat().st_mtime_ns for path in files.folder.rglob("*.parquet")}
    second = files.write("public")
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert (second.key, list(second.files)) == (first.key, list(first.files))
    assert second.as_of > first.as_of
    more(own, tmp_path)
    third = files.write("public")
    assert third.key != second.key
    # DuckDB plans by the first file, so a file without rows is not listed if there are others.
    assert not [path for path in third.files if "evaluation_id=0" in path]
    assert set(second.files).intersection(third.files) >= {path for path in second.files if "evaluation_id=1" in path}


@pytest.mark.long
def test_nobody_waits_for_files_that_are_not_yet_too_old(own: Asked, tmp_path: Path) -> None:
    files = Files(get_engine(own.url), own.settings.model_copy(update={"sql_refresh_seconds": 86_400}))
    listed = files.write("public")
    half = files.folder / "public.json"
    half.write_text(half.read_text().replace(utc_text(listed.as_of), utc_text(listed.as_of - timedelta(hours=13))))
    more(own, tmp_path)
    current = files.current("public")
    assert current is not None
    assert current.written == 1
    eventually(lambda: (listing := files.listed("public")) is not None and listing.written == 2, "written meanwhile")


def test_an_evaluation_whose_file_cannot_be_written_leaves_none_half_written(
    own: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(get_engine(own.url), own.settings)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("registry.sql.files.as_written", full)
        with pytest.raises(OSError, match="No space left"):
            files.write("public")
    assert list(files.folder.rglob("*.part")) == []
    assert files.listed("public") is None
    assert files.write("public").written == 1


def test_older_lists_go_and_files_of_evaluations_that_are_gone_go_too(own: Asked) -> None:
    files = Files(get_engine(own.url), own.settings)
    (files.folder / "evaluations" / "evaluation_id=999").mkdir(parents=True)
    database = files.folder.name.split("-")[0]
    older, used, another = map(files.folder.with_name, (f"{database}-a", f"{database}-b", "another-c"))
    for place in (older, used, another):
        place.mkdir()
    for place in (older, another):
        os.utime(place, (0, 0))
    for number in range(5):
        with write_session(get_engine(own.url)) as session:
            session.scalars(select(Model)).one().family = f"family {number}"
        files.write("public")
    assert len(list((files.folder / "views").iterdir())) == 3
    assert [path.name for path in (files.folder / "evaluations").iterdir()] == ["evaluation_id=1"]
    assert [place.exists() for place in (older, used, another)] == [False, True, True]


def test_predictions_that_are_archived_are_there_with_the_others(sqlite_proof: tuple[Engine, Population]) -> None:
    engine, population = sqlite_proof
    settings = get_settings().model_copy(update={"database_url": engine.url.render_as_string(), "sql_at_once": 4})
    archive(engine, population.evaluation)
    with read_session(engine) as session:
        hot = session.scalar(select(func.count()).select_from(Prediction))
    by_evaluation = f"{COUNT} WHERE evaluation_id = {population.evaluation}"
    (archived,), (total,) = (run_query(settings, "public", query).rows[0] for query in (by_evaluation, COUNT))
    assert archived > 0
    assert total == archived + (hot or 0)
