"""Processes whose version differs from the database's: old code writes nothing into a newer database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text

from registry import __version__
from registry.db import get_engine, read_session
from registry.errors import UpgradedError
from registry.operations.migrate import upgrade
from registry.schema import history
from registry.tables import Evaluation, Prediction, Shard, Worker
from tests.chaos.processes import Worker as Process
from tests.support.commands import PATIENCE_S, command_process, eventually, fake_worker, shuffleboard
from tests.support.population import queue_evaluation
from web import create_app

NEWER = "2.0.0"
NEEDED = f"was upgraded by Shuffleboard {NEWER}, and this is {__version__}; install Shuffleboard {NEWER} or newer"


def stamp(url: str, version: str = NEWER) -> None:
    """Mark a database as upgraded by this version of the package."""
    with get_engine(url).begin() as connection:
        connection.execute(text("UPDATE schema_stamp SET version = :version"), {"version": version})


def test_an_upgrade_stores_the_version_of_the_package(database: str) -> None:
    with get_engine(database).connect() as connection:
        assert history.read_origin(connection) == history.SchemaOrigin(history.head(), __version__)


@pytest.mark.parametrize(
    "words",
    [
        ("worker", "--until-idle"),
        ("worker", "beat", "--once"),
        ("serve", "--port", "0"),
        ("evaluations", "cancel", "1"),
        ("evaluations", "import", "folder"),
        ("models", "list"),
        ("db", "upgrade"),
        ("db", "check"),
        ("db", "prune", "--older-than", "1"),
    ],
    ids=" ".join,
)
def test_an_older_process_refuses_a_newer_database_and_names_its_version(
    database: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    stamp(database)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "manifest.json").write_text('{"format": "evaluation"}')
    words = tuple(str(tmp_path / word) if word == "folder" else word for word in words)
    with command_process(*words, database_url=database, home=tmp_path) as process:
        assert process.wait(PATIENCE_S) == UpgradedError.exit_status == 75
        assert NEEDED in process.log.read_text()
        assert "Traceback" not in process.log.read_text()


def test_a_database_of_an_older_version_is_used(database: str) -> None:
    stamp(database, "0.0.9")
    history.require_current(get_engine(database))


def test_the_website_writes_nothing_into_a_database_that_was_upgraded(database: str) -> None:
    client = create_app(database_url=database).test_client()
    stamp(database)
    assert client.post("/api/v1/benchmarks", json={}).status_code == 503
    assert client.get("/readyz").status_code == 503


def test_the_doctor_names_the_version_that_is_needed(database: str) -> None:
    stamp(database)
    report = shuffleboard("doctor", status=None, database_url=database).stdout
    assert f"upgraded by Shuffleboard {NEWER}, and this is {__version__}" in report
    assert f"install Shuffleboard {NEWER} or newer" in report


def test_a_message_about_an_older_database_says_how_long_an_upgrade_takes(database: str, next_schema: Path) -> None:
    message = shuffleboard("models", "list", status=1, database_url=database).stderr
    assert "run: shuffleboard db upgrade (takes less than a minute)" in message
    assert "db upgrade takes less than a minute" in shuffleboard("db", "current", database_url=database).stdout


@pytest.fixture
def at_work(database: str, tmp_path: Path) -> Iterator[tuple[Engine, Process, Path]]:
    """Yield a registry with two shards, and a worker that waits in the first shard until the file exists."""
    engine, gate = get_engine(database), tmp_path / "gate"
    queue_evaluation(engine, tmp_path, shards=2)
    settings = {"database_url": database, "poll_seconds": 0.05, "reconcile_seconds": 0.2, "home": tmp_path}
    with fake_worker("--gate", gate, **settings) as worker:
        eventually(lambda: states(engine) == ["leased", "queued"], "the worker has a shard")
        yield engine, worker, gate


def states(engine: Engine) -> list[str]:
    with read_session(engine) as session:
        return list(session.scalars(select(Shard.state).order_by(Shard.ordinal)))


def test_a_worker_finishes_its_shard_and_ends_if_its_database_is_upgraded(
    at_work: tuple[Engine, Process, Path], next_schema: Path
) -> None:
    engine, worker, gate = at_work
    upgrade(engine.url.render_as_string(hide_password=False))
    stamp(engine.url.render_as_string(hide_password=False))
    assert worker.status is None
    gate.touch()
    assert worker.wait(PATIENCE_S) == 75
    assert states(engine) == ["done", "queued"]
    log = worker.log.read_text()
    assert "shard_done" in log
    assert f"the database was upgraded by Shuffleboard {NEWER} while this process of Shuffleboard {__version__}" in log
    assert "Traceback" not in log
    with read_session(engine) as session:
        assert session.scalars(select(Evaluation.seal)).all() == [None], "sealing is for code of the new version"
        assert session.scalars(select(Worker.stopped_at)).one() is not None
        assert len(session.scalars(select(Prediction.variant)).all()) > 0
