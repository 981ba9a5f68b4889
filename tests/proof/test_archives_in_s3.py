"""Archives in an S3-compatible store, used through its protocol."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.db import read_session
from registry.errors import ArchiveError
from registry.files.stores import store_at
from registry.predictions.archive_files import EVALUATION
from registry.predictions.archived import folder_name
from registry.sealed.archiving import Strays, archive, restore, strays
from registry.sealed.verification import verify_all
from registry.settings import get_settings
from registry.sql.files import Files
from registry.tables import Archive, Evaluation
from tests.proof.conftest import URL
from tests.proof.population import Population
from tests.proof.test_archives import archive_all, rows
from tests.sql.conftest import run_query
from tests.support.services import S3Server

pytestmark = pytest.mark.long


def objects(server: S3Server) -> dict[str, bytes]:
    return files_in(server.objects("results"))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_predictions_move_into_a_store_are_read_there_and_come_back(
    proof: tuple[Engine, Population], in_s3: S3Server, tmp_path: Path
) -> None:
    engine, population = proof
    before = rows(engine)
    folder = archive(engine, population.evaluation, str(tmp_path / "folder"))
    assert folder is not None
    in_folder = files_in(tmp_path / "folder")
    assert restore(engine, population.evaluation) is not None
    ids = archive_all(engine)
    assert rows(engine) == {"prediction": [], "generation": []}
    stored = objects(in_s3)
    assert {name: stored[name] for name in in_folder} == in_folder, "the same bytes, wherever they are"
    assert len(stored) == 4 * len(ids), "a folder each, and no part of one"
    with read_session(engine) as session:
        report = verify_all(session)
        assert report["ok"], report["problems"]
        assert strays(session, store_at(), older_than_s=0) == Strays([], [], [])
        row = session.get_one(Archive, population.evaluation)
        seal = session.get_one(Evaluation, population.evaluation).seal
        assert (row.location, row.digest) == (
            URL,
            store_at().digest(f"{folder_name(seal or '', row.digest)}/{EVALUATION}")[0],
        )
    url = engine.url.render_as_string(hide_password=False)
    settings = get_settings().model_copy(update={"database_url": url, "sql_seconds": 60.0})
    Files(engine, settings).write("public")
    answer = run_query(settings, "public", "SELECT count(*) FROM prediction_detail")
    assert answer.rows == ((len(before["prediction"]),),)
    for evaluation_id in ids:
        assert restore(engine, evaluation_id) is not None
    assert rows(engine) == before
    assert objects(in_s3) == stored, "an older backup may refer to them"


@pytest.mark.one_engine
def test_archives_under_a_prefix_have_no_neighbours(
    sqlite_proof: tuple[Engine, Population], in_s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    prefix = f"{URL}/teams/one"
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES", f"{prefix}/")
    before = rows(engine)
    ids = archive_all(engine)
    assert rows(engine) == {"prediction": [], "generation": []}
    folder = in_s3.objects("results") / "teams" / "one"
    assert len(list(folder.iterdir())) == len(ids), "a folder each, and no part of one"
    assert [path.name for path in in_s3.objects("results").iterdir()] == ["teams"]
    names = [f"{digit * 64}{ending}" for digit, ending in (("a", "-0"), ("c", ".1.part"))]
    for place in (folder.parent.parent, folder.parent, folder, folder.parent / "oneself", folder / "inner"):
        place.mkdir(exist_ok=True)
        for name in names:
            (place / name).write_bytes(b"anything")
    with read_session(engine) as session:
        assert verify_all(session)["ok"]
        assert strays(session, store_at(), older_than_s=0) == Strays([f"{prefix}/{name}" for name in names], [], [])
        assert session.get_one(Archive, population.evaluation).location == prefix
    for evaluation_id in ids:
        assert restore(engine, evaluation_id) is not None
    assert rows(engine) == before


@pytest.mark.one_engine
def test_what_a_store_refuses_is_said_and_nothing_is_lost(
    sqlite_proof: tuple[Engine, Population], in_s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    before = rows(engine)
    with pytest.raises(ArchiveError, match=r"s3://nowhere/archives: cannot be written to \(.*(?i:bucket)"):
        archive(engine, population.evaluation, "s3://nowhere/archives")
    (tmp_path / "another").write_text("another")
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES_SECRET_KEY_FILE", str(tmp_path / "another"))
    with pytest.raises(ArchiveError, match=r"s3://results/\w+.*cannot be read or written \(.*(?i:denied|signature)"):
        archive(engine, population.evaluation)
    assert rows(engine) == before
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES_SECRET_KEY_FILE", str(tmp_path / "SECRET_KEY"))
    archive_all(engine)
    for path in in_s3.objects("results").iterdir():
        shutil.rmtree(path)
    with pytest.raises(ArchiveError, match=r"is archived, but s3://results/[\w-]+ is missing"):
        restore(engine, population.evaluation)
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ArchiveError, match="cannot be read or written"):
        restore(engine, population.evaluation)
