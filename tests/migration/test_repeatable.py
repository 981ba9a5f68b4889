"""Views, triggers and audiences, which every upgrade restores to the code's own, whatever was there before."""

import threading
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from registry.db import get_engine
from registry.errors import DatabaseError
from registry.operations import migrate
from registry.schema import history, repeatable, views
from registry.schema.audiences import audience_engine
from registry.schema.triggers import trigger_names
from shuffleboard.cli.database import check_command, current_command
from tests.migration.test_migrations import definitions

CHANGED = "extraction_counts"
"""A view that is changed here; of the later views, only `board_headlines` reads other views."""


@pytest.fixture
def tomorrow(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the code's text of a view during the test."""
    today = views.view_sql

    def change(name: str, dialect: str) -> str:
        select = today(name, dialect)
        return f"SELECT counts.*, 1 AS coloured FROM (\n{select}\n) AS counts" if name == CHANGED else select

    for module in (views, repeatable.audiences):
        monkeypatch.setattr(module, "view_sql", change)
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    repeatable.digests.cache_clear()
    repeatable.audiences.sqlite_statements.cache_clear()


def columns(engine: Engine, view: str = CHANGED) -> set[str]:
    with engine.connect() as connection:
        return set(connection.execute(text(f"SELECT * FROM {view}")).keys())


@pytest.mark.usefixtures("tomorrow")
def test_a_view_of_other_code_is_refused_and_recreated_for_every_audience(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", database)
    engine = get_engine(database)
    with pytest.raises(DatabaseError, match=rf"other views or triggers .*{CHANGED}.*run: shuffleboard db upgrade"):
        history.require_current(engine)
    checked = CliRunner().invoke(check_command)
    assert isinstance(checked.exception, DatabaseError)
    assert f"to make again: {'' if engine.dialect.name == 'sqlite' else 'public.'}{CHANGED}\n" in checked.stdout
    assert CliRunner().invoke(current_command).stdout.count(CHANGED) == (1 if engine.dialect.name == "sqlite" else 3)
    migrate.upgrade(database)
    history.require_current(engine)
    assert CliRunner().invoke(check_command).stdout == "ok\n"
    for audience in ("public", "members", "all"):
        assert "coloured" in columns(audience_engine(engine, audience))
    if engine.dialect.name == "postgresql":
        assert "coloured" in columns(engine, f"shuffleboard_public.{CHANGED}")


@pytest.mark.usefixtures("tomorrow")
def test_an_unchanged_group_is_left_alone(database: str) -> None:
    engine = get_engine(database)
    query = {
        "sqlite": "SELECT name, rowid FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname, oid::bigint FROM pg_trigger WHERE NOT tgisinternal",
    }[engine.dialect.name]
    with engine.connect() as connection:
        before = dict(connection.execute(text(query)).all())
    migrate.upgrade(database)
    with engine.connect() as connection:
        assert dict(connection.execute(text(query)).all()) == before
    assert set(before) == set(trigger_names(engine.dialect.name))


def test_views_dropped_by_hand_or_removed_from_code_are_put_right(database: str) -> None:
    engine = get_engine(database)
    before = definitions(engine)
    table = "" if engine.dialect.name == "sqlite" else " ON prediction"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TRIGGER sealed_prediction_update{table}")
        connection.exec_driver_sql("DROP VIEW board_headlines" if table == "" else "DROP VIEW public.board_headlines")
        name = "long_gone" if table == "" else "public.long_gone"
        connection.exec_driver_sql(f"CREATE VIEW {name} AS SELECT 1 AS one")
        connection.exec_driver_sql(f"INSERT INTO schema_definition VALUES ('{name}', 'view', 'of earlier code')")
        connection.exec_driver_sql("CREATE VIEW of_somebody AS SELECT 2 AS two")
    migrate.upgrade(database)
    after = definitions(engine)
    (somebody,) = after.keys() - before.keys()
    assert somebody.endswith(" of_somebody")
    assert {name: after[name] for name in before} == before
    with engine.connect() as connection:
        assert repeatable.absent(connection) == repeatable.not_todays(connection) == []


@pytest.mark.usefixtures("tomorrow")
def test_readers_see_the_old_views_or_the_new_ones_and_never_none(
    postgresql_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upgrade twice at once while several views and audiences are read all the time."""
    engine = get_engine(postgresql_database)
    stop, problems, seen = threading.Event(), [], set()

    def read(place: str) -> None:
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            while not stop.is_set():
                try:
                    result = connection.execute(text(f"SELECT * FROM {place}{CHANGED}"))
                    seen.add("coloured" in set(result.keys()))
                    connection.execute(text(f"SELECT count(*) FROM {place}leaderboard"))
                except DBAPIError as error:
                    problems.append(str(error))
                    return

    def upgrade() -> None:
        try:
            migrate.upgrade(postgresql_database)
        except DatabaseError as error:
            problems.append(str(error))

    places = ("", "shuffleboard_public.", "shuffleboard_members_tables.")
    readers = [threading.Thread(target=read, args=(place,)) for place in places]
    upgrades = [threading.Thread(target=upgrade) for _ in range(2)]
    for thread in readers:
        thread.start()
    while not seen and not problems:
        time.sleep(0.01)
    for thread in upgrades:
        thread.start()
    for thread in upgrades:
        thread.join()
    deadline = time.monotonic() + 20
    while True not in seen and not problems and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in readers:
        thread.join()
    assert problems == []
    assert seen == {False, True}
    history.require_current(engine)
