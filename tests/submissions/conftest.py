"""Fixtures for a registry with a benchmark, a suite, a board and an account of each role, without evaluations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, select

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.rules import NO_TERMS, Terms
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import ModelRequest, request_submission
from registry.db import get_engine, read_session, write_session
from registry.digests import sha256_text
from registry.people.accounts import ROLES, Viewer, create_account, find_account, set_password, viewer_of_account
from registry.revisions.store import ModelFiles
from registry.settings import Settings
from registry.tables.accounts import Account, AuditEvent
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_benchmark, question
from tests.web.accounts import PASSWORD, signed_in, token_of
from web import create_app
from workers.loop import WorkerLoop

HUB = "somebody/small-model"
FILES = ModelFiles(sha256_text("weights"), sha256_text("tokenizer"), None, "0" * 40)
"""The model's files that workers find, since the tests have no hub."""


def fill(engine: Engine, folder: Path) -> None:
    """Store benchmark `bench` of six questions, suite `core` on it, board `main`, and an account of each role."""
    with write_session(engine) as session:
        for role in ROLES:  # without a password, since hashing one takes longer than most of these tests
            create_account(session, role, role)
        add_benchmark(session, folder, [question(number) for number in range(6)])
        tasks = [{"benchmarks": ("bench",)}]
        import_suite(session, SuiteDefinition(name="core", title="Core", variants=("cyclic", "original"), tasks=tasks))
        import_board(session, BoardDefinition(name="main", suite="core", columns=("accuracy@cyclic",)))


@pytest.fixture
def engine(database: str, tmp_path: Path) -> Engine:
    """Return a filled registry on each engine in turn."""
    engine = get_engine(database)
    fill(engine, tmp_path)
    return engine


@pytest.fixture
def lite(sqlite_database: str, tmp_path: Path) -> Engine:
    """Return an engine on SQLite, for tests that do not depend on the database."""
    engine = get_engine(sqlite_database)
    fill(engine, tmp_path)
    return engine


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings with one permitted endpoint for models."""
    file = tmp_path / "endpoints.toml"
    file.write_text('[local]\nurl_prefix = "http://127.0.0.1:9/v1"\n', encoding="utf-8")
    return Settings(home=tmp_path, endpoints=str(file), poll_seconds=0.02, public_url="https://board.example.org")


@pytest.fixture
def endpoints(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the same settings, and use them as the settings of the process."""
    monkeypatch.setenv("SHUFFLEBOARD_ENDPOINTS", settings.endpoints)
    return settings


def viewer(engine: Engine, name: str) -> Viewer:
    """Return the viewer of an account."""
    with read_session(engine) as session:
        return viewer_of_account(session.scalars(select(Account).filter_by(name=name)).one())


def ask(
    engine: Engine,
    settings: Settings,
    who: str = "submitter",
    suite: str = "core",
    terms: Terms = NO_TERMS,
    **requested: Any,
) -> int:
    """Submit the model on the hub; return the submission's number."""
    model = ModelRequest(**({"hub": HUB} | requested))
    with write_session(engine) as session:
        submission, _ = request_submission(
            session, session, viewer(engine, who), model, suite, "please", settings, terms=terms
        )
        return submission.id


def work(engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch, files: Any = FILES) -> None:
    """Run a worker until nothing is left to score; it finds these files, or raises this error."""

    def inspect(*_asked: object) -> ModelFiles:
        if isinstance(files, Exception):
            raise files
        assert isinstance(files, ModelFiles)
        return files

    monkeypatch.setattr("workers.loop.inspect_files", inspect)
    loop = WorkerLoop(engine, settings, FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.maintain()
    loop.stop()


def actions(engine: Engine, outcome: str = "done") -> list[tuple[str, str, str | None]]:
    """Return (account, action, object) for each entry of the audit trail with this outcome."""
    with read_session(engine) as session:
        rows = session.scalars(select(AuditEvent).filter_by(outcome=outcome).order_by(AuditEvent.id))
        return [(row.actor, row.action, row.target) for row in rows]


@pytest.fixture
def app(engine: Engine, settings: Settings) -> Flask:
    """Return the website of the filled registry."""
    return create_app(settings, database_url=engine.url.render_as_string(hide_password=False))


@pytest.fixture
def browser(app: Flask, engine: Engine) -> Callable[[str], FlaskClient]:
    """Return a function that returns a browser in which an account is signed in."""

    def browse(name: str) -> FlaskClient:
        with write_session(engine) as session:
            set_password(find_account(session, name), PASSWORD)
        return signed_in(app, name)

    return browse


@pytest.fixture
def headers(engine: Engine) -> Callable[[str], dict[str, str]]:
    """Return a function that returns an account's request headers for programs."""
    return lambda name: {"Authorization": f"Bearer {token_of(engine, name)}"}
