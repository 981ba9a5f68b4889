"""Databases as users have them: one of every released revision is upgraded, and nothing in it is lost.

Fixtures are made by `python -m tests.migration.make_fixture`. They are upgraded past the newest revision, to a drafted
one, so that there is always something to do.
"""

import gzip
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, inspect, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.metrics import METRICS
from registry.operations import migrate
from registry.queue.evaluations import move
from registry.results.asked import asked, one_order
from registry.results.computed import is_stored
from registry.schema import history
from registry.settings import Settings
from registry.tables import Evaluation, EvaluationMetric, Shard
from registry.verification import verify_evaluation
from tests.conftest import FilledDatabases
from tests.fake_scorer import FakeScorer
from tests.marks import long_but
from tests.migration.make_fixture import FIXTURES, fixture_path
from tests.migration.next_revision import NEXT
from tests.migration.test_migrations import definitions, revisions
from workers.loop import WorkerLoop

ENGINES = ("sqlite", "postgresql")
AVAILABLE = [(path.name.partition(".")[0], path.name.split(".")[1]) for path in sorted(FIXTURES.glob("*.sql.gz"))]
RELEASED = sorted({revision for revision, _ in AVAILABLE})
ALWAYS = {(revision, engine) for revision in (*RELEASED[:1], *RELEASED[-1:]) for engine in ENGINES} | {
    (revision, "sqlite") for revision in RELEASED[len(RELEASED) // 2 :][:1]
}
"""The oldest, from which every revision is gone through, the newest, which has rows in most tables, and one between."""


def test_every_revision_but_one_that_is_new_has_its_fixtures() -> None:
    wanted = {(revision, engine) for revision in revisions()[:-1] or revisions() for engine in ENGINES}
    missing = sorted(wanted - set(AVAILABLE))
    assert not missing, (
        f"no fixture of {missing}: check that revision out and run python -m tests.migration.make_fixture"
    )


def test_every_fixture_is_of_a_known_revision() -> None:
    unknown = {revision for revision, _ in AVAILABLE} - set(revisions())
    assert not unknown, (
        f"{unknown} are no revisions any more; if the history was written anew, remove their files from {FIXTURES}"
    )


def load(revision: str, engine_name: str, url: str) -> Engine:
    """A database that holds the fixture and nothing else."""
    script = gzip.decompress(fixture_path(revision, engine_name).read_bytes()).decode()
    if engine_name == "sqlite":
        with closing(sqlite3.connect(str(make_url(url).database))) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(script.encode())
    return get_engine(url)


Contents = dict[str, dict[tuple[Any, ...], dict[str, Any]]]
"""Table -> primary key -> column -> value as the driver gives it."""


def contents(engine: Engine) -> Contents:
    inspector = inspect(engine)
    found: Contents = {}
    with engine.execution_options(read_only=True).connect() as connection:
        for table in inspector.get_table_names():
            key = inspector.get_pk_constraint(table)["constrained_columns"]
            rows = connection.execute(text(f"SELECT * FROM {table}")).mappings()
            found[table] = {tuple(row[name] for name in key): dict(row) for row in rows}
    del found["alembic_version"]
    return found


def upgrade_of(revision: str) -> Callable[[Engine, Path], Contents]:
    """A function that makes an empty database the fixture's, upgrades it and returns what it held before."""

    def fill(engine: Engine, _folder: Path) -> Contents:
        url = engine.url.render_as_string(hide_password=False)
        load(revision, engine.dialect.name, url)
        assert history.current(engine) == revision
        before = contents(engine)
        engine.dispose()
        assert migrate.upgrade(url) == NEXT
        return before

    return fill


UPGRADES = {revision: upgrade_of(revision) for revision, _ in AVAILABLE}


@pytest.fixture(params=long_but(ALWAYS, AVAILABLE), ids=" ".join)
def upgraded(request: pytest.FixtureRequest, next_schema: Path, tmp_path: Path) -> Iterator[tuple[Engine, Contents]]:
    """A fixture's database at the drafted revision, and what it held before."""
    revision, engine_name = request.param
    databases: FilledDatabases = request.getfixturevalue(f"loaded_{engine_name}")
    with databases.copy(UPGRADES[revision], tmp_path) as (url, before):
        yield get_engine(url), before


DROPPED = {("account", "session_epoch")}
"""Columns that a later schema does without. Signing out is a row of browser_session now."""


def test_an_old_database_keeps_every_row(upgraded: tuple[Engine, Contents]) -> None:
    engine, before = upgraded
    after = contents(engine)
    assert len(before["prediction"]) > 24
    for table, rows in before.items():
        for key, row in rows.items():
            # Columns and rows may have come in; none may have gone or changed, but for those that are listed.
            kept = {name: value for name, value in row.items() if (table, name) not in DROPPED}
            assert {name: after[table][key][name] for name in kept} == kept, f"{table} {key}"
    assert {row["colour"] for row in after["benchmark"].values()} == {None}


def new(engine: Engine, _folder: Path) -> dict[str, str]:
    """Makes an empty database one of the drafted revision; returns what it consists of."""
    assert migrate.upgrade(engine.url.render_as_string(hide_password=False)) == NEXT
    return definitions(engine)


def test_an_old_database_gets_the_schema_of_a_new_one(
    upgraded: tuple[Engine, Contents], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    engine, _ = upgraded
    databases: FilledDatabases = request.getfixturevalue(f"loaded_{engine.dialect.name}")
    (tmp_path / "new").mkdir()
    with databases.copy(new, tmp_path / "new") as (_, wanted):
        found = definitions(engine)
    assert found.keys() == wanted.keys()
    # Tables grew by ALTER, so only the texts of views and triggers must be the same.
    for name, content in wanted.items():
        if name.startswith(("view", "trigger", "v ")):
            assert found[name] == content, name


def test_what_was_sealed_still_verifies(upgraded: tuple[Engine, Contents]) -> None:
    engine, _ = upgraded
    with read_session(engine) as session:
        sealed = session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None))).all()
        assert sealed
        for evaluation_id in sealed:
            assert verify_evaluation(session, evaluation_id)["problems"] == []
            _has_both_definitions(session, evaluation_id)


def _has_both_definitions(session: Session, evaluation_id: int) -> None:
    """Beside every value in an older definition stands the newest; NULL where nothing was asked in two prompts."""
    of = EvaluationMetric
    stored: dict[str, dict[int, float | None]] = {}
    for name, version, value in session.execute(
        select(of.metric, of.definition_version, of.value).where(of.evaluation_id == evaluation_id, of.scope == "all")
    ):
        stored.setdefault(name, {})[version] = value
    once = one_order(asked(session, evaluation_id))
    for name, metric in METRICS.items():
        if not is_stored(metric, "all"):
            continue
        values = stored[name]
        assert metric.definition_version in values, name
        # The view says the newest, which an older one may not stand in for.
        shown = session.execute(
            text("SELECT value FROM evaluation_metrics WHERE evaluation_id = :id AND scope = 'all' AND metric = :name"),
            {"id": evaluation_id, "name": name},
        ).scalar_one()
        assert shown == values[metric.definition_version], name
        assert not (once and metric.needs_two_prompts and shown is not None), name


def test_what_was_begun_is_finished_by_the_new_code(upgraded: tuple[Engine, Contents], tmp_path: Path) -> None:
    engine, _ = upgraded
    with write_session(engine) as session:
        begun = session.scalars(select(Evaluation.id).where(Evaluation.seal.is_(None))).all()
        assert len(begun) == 2
        # The fixture's worker is long gone.
        past = datetime(2000, 1, 1, tzinfo=UTC)
        session.execute(update(Shard).where(Shard.state == "leased").values(lease_until=past))
        move(session, session.scalars(select(Shard.evaluation_id).where(Shard.state == "failed")).one(), "retry")
    loop = WorkerLoop(engine, Settings(home=tmp_path, poll_seconds=0.05), FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    with read_session(engine) as session:
        for evaluation_id in begun:
            assert find_evaluation(session, evaluation_id).state == "complete"
            assert verify_evaluation(session, evaluation_id)["problems"] == []
