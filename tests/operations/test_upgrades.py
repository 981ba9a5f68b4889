"""Upgrades that run: they soon give up if another transaction blocks them, and can list their steps beforehand."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from psycopg.errors import DeadlockDetected
from sqlalchemy import Engine, inspect, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.errors import DatabaseError
from registry.lookups import find_evaluation
from registry.operations import migrate
from registry.queue.evaluations import move
from registry.schema import history
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import Evaluation, Shard
from shuffleboard.cli.database import check_command, current_command
from tests.conftest import FilledDatabases
from tests.migration.next_revision import NEXT, TITLE
from tests.migration.populated import populate
from tests.migration.test_migrations import definitions
from tests.support.commands import PATIENCE_S, command_process, eventually
from tests.support.fake_scorer import FakeScorer
from tests.support.population import KEPT_BY_UPGRADES
from workers.loop import WorkerLoop

OLD = history.head()
pytestmark = pytest.mark.usefixtures("next_schema")


@pytest.fixture
def postgresql_url(filled_postgresql: FilledDatabases, tmp_path: Path) -> Iterator[str]:
    """Yield a database with evaluations, whose schema is the one before the next revision."""
    with filled_postgresql.copy(populate, tmp_path) as (url, _):
        yield url


@pytest.fixture
def old(postgresql_url: str, next_schema: Path) -> Engine:
    return get_engine(postgresql_url)


Contents = dict[str, dict[tuple[Any, ...], dict[str, Any]]]
"""Table -> primary key -> column -> value as the driver gives it."""


def contents(engine: Engine) -> Contents:
    inspector = inspect(engine)
    tables: Contents = {}
    with engine.execution_options(read_only=True).connect() as connection:
        for table in set(inspector.get_table_names()) - KEPT_BY_UPGRADES - {"registry_generation"}:
            key = inspector.get_pk_constraint(table)["constrained_columns"]
            rows = connection.execute(text(f"SELECT * FROM {table}")).mappings()
            tables[table] = {tuple(row[name] for name in key): dict(row) for row in rows}
    return tables


def test_a_migration_without_its_lock_gives_up_and_lets_readers_continue(
    old: Engine, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check with a reader in a transaction that does not end, for which an ALTER TABLE must wait."""
    before = definitions(old), contents(old)
    refused: list[str] = []

    def upgrade() -> None:
        try:
            migrate.upgrade(postgresql_url)
        except DatabaseError as error:
            refused.append(str(error))

    monkeypatch.setitem(migrate.LIMITS, "lock_timeout", "2s")
    with old.connect() as reader:
        reader.execute(text("SELECT count(*) FROM evaluation"))
        thread = threading.Thread(target=upgrade)
        thread.start()
        waiting = text(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname "
            "= current_database())"
        )
        with old.connect() as watching:
            while thread.is_alive() and not watching.scalar(waiting):
                watching.rollback()
                time.sleep(0.01)
            assert thread.is_alive()
            watching.rollback()
            # Readers wait behind the migration until it gives up.
            assert watching.scalar(text("SELECT count(*) FROM evaluation")) == 4
        thread.join()
        assert reader.scalar(text("SELECT count(*) FROM prediction")) > 0
    assert len(refused) == 1
    assert f"from {OLD} failed and was rolled back: canceling statement due to lock timeout" in refused[0]
    assert refused[0].endswith("; stop workers and website, which are using its tables, and run it again")
    assert (definitions(old), contents(old)) == before
    assert history.current(old) == OLD
    assert migrate.upgrade(postgresql_url) == history.head()


def test_an_upgrade_that_meets_a_deadlock_begins_again(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, begun = migrate._upgrade_once, []

    def meet_deadlocks(engine: Engine) -> None:
        begun.append(engine)
        if len(begun) < 3:
            raise OperationalError("ALTER TABLE evaluation", None, DeadlockDetected("deadlock detected"))
        begin(engine)

    monkeypatch.setattr(migrate, "_upgrade_once", meet_deadlocks)
    assert migrate.upgrade(sqlite_url) == history.head()
    assert len(begun) == 3


def test_an_upgrade_waits_for_another_and_then_has_nothing_to_do(
    old: Engine, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, done = threading.Event(), threading.Event()
    load_suites = migrate.load_shipped_suites

    def work(session: Session) -> None:
        load_suites(session)
        if not at_work.is_set():
            at_work.set()
            done.wait()

    monkeypatch.setattr(migrate, "load_shipped_suites", work)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(migrate.upgrade, postgresql_url)
        try:
            eventually(at_work.is_set, "the first upgrade has the new schema, and has not committed it")
            second = pool.submit(migrate.upgrade, postgresql_url)
            waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            with old.execution_options(isolation_level="AUTOCOMMIT").connect() as watching:
                eventually(lambda: second.done() or watching.scalar(waiting), "the second upgrade waits for its turn")
            assert not second.done()
        finally:
            done.set()
        assert (first.result(), second.result()) == (NEXT, NEXT)


def test_an_empty_database_may_be_set_up_by_several_processes_at_once(database_url: str) -> None:
    with ExitStack() as stack:
        upgrades = [stack.enter_context(command_process("db", "upgrade", database_url=database_url)) for _ in range(3)]
        ended = [upgrade.wait(PATIENCE_S) for upgrade in upgrades]
        assert ended == [0] * 3, "".join(upgrade.log.read_text() for upgrade in upgrades)
        assert {upgrade.said.read_text() for upgrade in upgrades} == {f"database is at revision {OLD}\n"}


def test_the_shipped_limits_are_those_of_the_migration_s_transaction(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "telling.py").write_text(
        '"""Tell the limits."""\n'
        "from alembic import op\n"
        'revision = "299912312359"\n'
        f'down_revision = "{NEXT}"\n'
        "def upgrade():\n"
        "    for name in ('lock_timeout', 'statement_timeout'):\n"
        "        op.execute(f\"CREATE TABLE told_{name} AS SELECT current_setting('{name}') AS value\")\n"
    )
    folders = (*history.version_folders(), folder)
    monkeypatch.setattr(history, "version_folders", lambda: folders)
    engine = get_engine(postgresql_url)
    migrate.upgrade(postgresql_url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT value FROM told_lock_timeout")) == "3s"
        assert connection.scalar(text("SELECT value FROM told_statement_timeout")) == "30min"
        # They end with the migration.
        assert connection.scalar(text("SHOW lock_timeout")) == "0"


def test_a_statement_that_takes_too_long_rolls_the_upgrade_back(
    old: Engine, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = definitions(old), contents(old)
    monkeypatch.setitem(migrate.LIMITS, "statement_timeout", "1ms")
    with pytest.raises(DatabaseError, match="due to statement timeout"):
        migrate.upgrade(postgresql_url)
    assert (definitions(old), contents(old)) == before


def test_what_comes_after_the_migrations_is_part_of_the_upgrade(
    old: Engine, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that an interrupted upgrade is completed."""
    before = definitions(old), contents(old)
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "load_shipped_suites", lambda _session: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            migrate.upgrade(postgresql_url)
    assert (definitions(old), contents(old)) == before
    assert history.current(old) == OLD
    assert migrate.upgrade(postgresql_url) == NEXT


@pytest.fixture
def old_sqlite(
    filled_sqlite: FilledDatabases, next_schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    with filled_sqlite.copy(populate, tmp_path) as (url, _):
        monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", url)
        yield get_engine(url)


@pytest.mark.parametrize("engine_name", ["sqlite", "postgresql"])
def test_an_upgrade_keeps_every_row_and_what_was_begun_is_finished(
    engine_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    engine = request.getfixturevalue({"sqlite": "old_sqlite", "postgresql": "old"}[engine_name])
    before, definitions_before = contents(engine), definitions(engine)
    migrate.upgrade(engine.url.render_as_string(hide_password=False))
    after = contents(engine)
    assert len(before["prediction"]) > 24
    assert {row.pop("colour") for row in after["benchmark"].values()} == {None}
    assert after == before
    # The table was changed by ALTER; views and triggers were dropped for that and then restored.
    now = definitions(engine)
    assert now.keys() == definitions_before.keys()
    assert {name for name in definitions_before if now[name] != definitions_before[name]} <= {
        "table benchmark",
        "table schema_catalogue",
        "table schema_definition",
    }
    with write_session(engine) as session:
        begun = session.scalars(select(Evaluation.id).where(Evaluation.seal.is_(None))).all()
        past = datetime(2000, 1, 1, tzinfo=UTC)
        session.execute(update(Shard).where(Shard.state == "leased").values(lease_until=past))
        move(session, session.scalars(select(Shard.evaluation_id).where(Shard.state == "failed")).one(), "retry")
    loop = WorkerLoop(engine, Settings(home=tmp_path, poll_seconds=0.05), FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    with read_session(engine) as session:
        for evaluation_id in session.scalars(select(Evaluation.id)):
            assert verify_evaluation(session, evaluation_id)["problems"] == []
        assert len(begun) == 2
        assert {find_evaluation(session, evaluation_id).state for evaluation_id in begun} == {"complete"}


def test_commands_say_which_migrations_would_be_run(old_sqlite: Engine) -> None:
    shown = CliRunner().invoke(current_command, ["--json"])
    document = json.loads(shown.stdout)
    assert (document["revision"], document["head"]) == (OLD, history.head())
    newer = [revision for revision, _ in migrate.pending(OLD)]
    assert [item["revision"] for item in document["pending"]] == newer
    assert document["pending"][-1] == {"revision": NEXT, "title": f"{TITLE}."}
    assert f"to run: {NEXT}  " in CliRunner().invoke(current_command).stdout

    checked = CliRunner().invoke(check_command, ["--json"])
    assert isinstance(checked.exception, DatabaseError)
    document = json.loads(checked.stdout)
    assert (document["ok"], [item["revision"] for item in document["pending"]]) == (False, newer)
    assert f"to run: {newer[0]}  " in CliRunner().invoke(check_command).stdout

    migrate.upgrade(str(old_sqlite.url))
    document = json.loads(CliRunner().invoke(check_command, ["--json"]).stdout)
    # The revision is the test's own: the code lacks its column.
    assert (document["pending"], {each["kind"] for each in document["differences"]}) == ([], {"extra"})
    assert json.loads(CliRunner().invoke(current_command, ["--json"]).stdout)["pending"] == []


def test_looking_at_the_schema_waits_for_no_writer(old_sqlite: Engine) -> None:
    with old_sqlite.begin():  # takes SQLite's only write lock
        assert history.current(get_engine(str(old_sqlite.url))) == OLD
