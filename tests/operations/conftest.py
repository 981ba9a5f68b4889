"""Fixtures for registries with a row in every table, which tests back up, move and examine."""

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from registry.db import get_engine, write_session
from registry.digests import sha256_text
from registry.queue import claims
from registry.queue.evaluations import EvaluationRequest, submit
from registry.schema.audiences import dispose
from registry.sealed.archiving import archive
from registry.sealed.withdrawals import withdraw
from registry.tables import (
    ChainSignature,
    EvaluationQuestion,
    Exclusion,
    Model,
)
from registry.tables.accounts import (
    Account,
    AccountIdentity,
    ApiToken,
    AuditEvent,
    BrowserSession,
    SavedQuery,
    Submission,
    SubmissionEvaluation,
)
from registry.tables.drafts import Draft
from registry.tables.providers import Budget, ProviderBatch, ProviderCall, RateLimit
from tests.migration.next_revision import drafted, next_schema
from tests.proof.population import populate
from tests.support.services import OutsidePostgres, PostgresServer, copy_database, postgres_execute

__all__ = ["drafted", "next_schema"]
"""Imported fixtures; the fixtures of this file need not be listed."""

LATER = datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
"""A time with microseconds."""
PAST = datetime(2021, 2, 3, tzinfo=UTC)

NUMBERS = {"large": 1e22, "minus zero": -0.0, "whole": 3.0, "third": 1 / 3, "small": 5e-324, "text": "“ä” \n"}
"""Values that the engines write in different ways."""


def fill(engine: Engine, folder: Path) -> None:
    """Store evaluations (two sealed, one withdrawn and archived, one in work, one parked) and accounts with objects."""
    population = populate(engine, folder)
    with write_session(engine) as session:
        withdraw(session, population.source, "its prompts had a typing error: “ä” → 'a'")
        # An id that is much larger than the number of rows.
        session.add(Model(id=4000, name="of a high number", parameters=2**62))
        for variants in ("full", "original-inverse"):
            submit(session, EvaluationRequest(model="fake", benchmark="bench", variants=variants, shard_prompts=8))
    for _ in range(2):
        with write_session(engine) as session:
            claim = claims.claim(session, "worker", queues=["cpu"], lease_seconds=3600)
    assert claim is not None
    with write_session(engine) as session:
        claims.fail(session, claim, "MemoryError: a made-up failure")
        _add_people(session, population.evaluation)
        _add_money(session, population.evaluation)
        _add_rules(session, population.evaluation)
    archive(engine, population.source, str(folder / "archives"))


def _add_rules(session, evaluation_id: int) -> None:  # type: ignore[no-untyped-def]
    signed = {"head": "ab" * 32, "key": "cd" * 32, "public_key": "…", "statement": "{}", "signature": "c2ln"}
    session.add(ChainSignature(position=1, at=LATER, **signed))


def _add_people(session, evaluation_id: int) -> None:  # type: ignore[no-untyped-def]
    account = Account(name="ann", role="admin", password_hash="$argon2id$…", last_login_at=LATER)
    session.add(account)
    session.flush()
    session.add(BrowserSession(digest=sha256_text("cookie"), account_id=account.id))
    session.add(AccountIdentity(issuer="https://id.example.org", subject="ann “ä”", account_id=account.id))
    token = ApiToken(account_id=account.id, name="ci", hint="sb_12", digest=sha256_text("token"), scopes=["read"])
    submission = Submission(
        account_id=account.id,
        suite="suite",
        model={"name": "fake", "kind": "external", "sizes": [1, 2.5]},
        state="approved",
        decided_by=account.id,
        decided_at=LATER,
        estimate={"prompts": 12, "seconds": 1.25},
    )
    query = SavedQuery(slug="abc", account_id=account.id, name="mine", sql="SELECT 1", public=True)
    session.add_all([token, submission, query])
    session.flush()
    session.add_all(
        [
            AuditEvent(account_id=account.id, actor="ann", action="token.make", outcome="done", details={"a": None}),
            SubmissionEvaluation(submission_id=submission.id, evaluation_id=evaluation_id),
        ]
    )


def _add_money(session, evaluation_id: int) -> None:  # type: ignore[no-untyped-def]
    question = session.scalars(select(EvaluationQuestion).filter_by(evaluation_id=evaluation_id)).first()
    batch = {
        "tag": "0a1b",
        "requests": 1,
        "state": "ended",
        "remote_id": "batch_ä",
        "sent_at": LATER,
        "ended_at": LATER,
    }
    call = {"state": "answered", "ended_at": LATER, "cost": 0.000125, "outcome": "complete", "text": "(ä) …"}
    session.add_all(
        [
            RateLimit(key="env:EXAMPLE_API_KEY", requests_free_at=LATER, tokens_free_at=LATER),
            Budget(kind="account", subject="ann", amount=12.5, spent=0.1, held=0.0),
            ProviderCall(evaluation_id=evaluation_id, question_id=question.question_id, variant=0, **call),
            ProviderBatch(evaluation_id=evaluation_id, shard_id=question.shard_id, **batch),
            Exclusion(scope="host:ä", shard_id=question.shard_id, lasting=True, error="too large"),
            Draft(
                evaluation_id=evaluation_id,
                question_id=question.question_id,
                variant=0,
                fingerprint="ab" * 32,
                written={"text": "ä"},
            ),
        ]
    )


@pytest.fixture(scope="session")
def sqlite_filled_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite file with the full registry, which tests copy."""
    folder = tmp_path_factory.mktemp("filled")
    path = folder / "filled.db"
    shutil.copyfile(sqlite_template, path)
    engine = get_engine(f"sqlite:///{path}")
    fill(engine, folder)
    engine.dispose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the main file is copied
    return path


@pytest.fixture
def sqlite_filled(sqlite_filled_template: Path, tmp_path: Path) -> Iterator[Engine]:
    """Yield a filled registry on SQLite for one test."""
    path = tmp_path / "registry" / "filled.db"
    path.parent.mkdir()
    shutil.copyfile(sqlite_filled_template, path)
    engine = get_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def postgresql_filled_template(
    postgres_server: PostgresServer | OutsidePostgres,
    postgresql_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Yield the name of a PostgreSQL database with the full registry, which tests copy."""
    name = f"{postgresql_template}_filled"
    copy_database(postgres_server.url, name, postgresql_template)
    engine = get_engine(postgres_server.database_url(name))
    fill(engine, tmp_path_factory.mktemp("filled"))
    dispose(engine)
    yield name
    postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgresql_filled(
    postgres_server: PostgresServer | OutsidePostgres, postgresql_filled_template: str
) -> Iterator[Engine]:
    """Yield a filled registry on PostgreSQL for one test."""
    name = f"shuffleboard_filled_{uuid.uuid4().hex}"
    copy_database(postgres_server.url, name, postgresql_filled_template)
    engine = get_engine(postgres_server.database_url(name))
    yield engine
    dispose(engine)
    postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=("sqlite", "postgresql"))
def filled(request: pytest.FixtureRequest) -> Engine:
    """Return a filled registry on each engine in turn."""
    engine: Engine = request.getfixturevalue(f"{request.param}_filled")
    return engine
