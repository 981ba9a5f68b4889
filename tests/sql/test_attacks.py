"""Attacks are refused twice: by the guard, and without it by the limits behind it."""

import fcntl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import OperationalError

from registry.db import get_engine
from registry.errors import QueryRefusedError
from registry.schema.public_sql.guard import checked
from registry.schema.public_sql.runner import ask, run_query
from tests import services
from tests.population import table_counts
from tests.sql.attacks import ATTACKS, Attack
from tests.sql.conftest import Asked


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_the_guard_refuses(attack: Attack, dialect: str) -> None:
    with pytest.raises(QueryRefusedError):
        checked(attack.sql, dialect)


def state(asked: Asked) -> object:
    """What an attack could have changed: rows, names, large objects, seals."""
    engine = get_engine(asked.url)
    with engine.execution_options(read_only=True).connect() as connection:
        objects = connection.scalar(
            text(
                "SELECT count(*) FROM sqlite_master"
                if asked.engine == "sqlite"
                else "SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_largeobject_metadata)"
            )
        )
        seals = connection.execute(text("SELECT id, seal FROM evaluation ORDER BY id")).all()
    return table_counts(engine), sorted(inspect(engine).get_view_names()), objects, seals


@pytest.fixture
def unchanged(asked: Asked) -> Iterator[None]:
    before = state(asked)
    yield
    assert state(asked) == before


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("asked", "every"),
    [
        *(("sqlite", 3), ("postgresql", 5)),
        *(pytest.param(engine, 1, marks=pytest.mark.long) for engine in ("sqlite", "postgresql")),
    ],
    indirect=["asked"],
)
def test_without_the_guard_the_database_refuses_or_ends_it(asked: Asked, every: int) -> None:
    # The process's own kill is not what should end them: that is tested by itself.
    settings = asked.settings.model_copy(update={"sql_seconds": 1.0})
    meant = [attack.sql for attack in ATTACKS.values() if asked.engine in attack.engines][::every]

    def outcome(sql: str) -> str | None:
        try:
            result = ask(settings, "public", sql)
        except QueryRefusedError:
            return None
        return f"{sql} gave {result.rows[:2]}"

    with ThreadPoolExecutor(3) as pool:
        answered = [found for found in pool.map(outcome, meant) if found is not None]
    assert not answered


def test_nothing_secret_is_in_the_catalogue_that_postgresql_shows_everyone(postgresql_asked: Asked) -> None:
    def first(sql: str) -> object:
        return ask(postgresql_asked.settings, "public", sql).rows[0][0]

    assert (
        first(
            "SELECT count(*) FROM pg_stat_activity WHERE query <> '<insufficient privilege>' AND pid <> pg_backend_pid() AND usename <> current_user"
        )
        == 0
    )
    assert first("SELECT count(*) FROM pg_roles WHERE rolpassword <> '********'") == 0
    assert first("SELECT count(*) FROM pg_settings WHERE name IN ('data_directory', 'hba_file', 'config_file')") == 0


def test_a_query_waits_for_a_place_on_its_host_and_is_refused_where_none_becomes_free(
    sqlite_asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.schema.public_sql.runner.WAIT_SECONDS", 0.0)
    settings = sqlite_asked.settings.model_copy(update={"home": tmp_path, "sql_at_once": 1})
    with (tmp_path / "sql-0.lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(QueryRefusedError, match="1 queries are already running; try again in a moment"):
            run_query(settings, "public", "SELECT 1")
    assert run_query(settings, "public", "SELECT 1").rows == ((1,),)


def test_a_cross_join_ends_at_the_time_limit(asked: Asked) -> None:
    settings = asked.settings.model_copy(update={"sql_seconds": 0.5})
    joined = ", ".join(f"option_probability AS o{number}" for number in range(8))
    with pytest.raises(QueryRefusedError, match=r"did not finish within 0\.5 s; query less"):
        run_query(settings, "public", f"SELECT count(*) FROM {joined} WHERE o0.probability IS NULL")


@pytest.mark.long_on("postgresql")
def test_a_sort_of_very_many_rows_ends_at_the_limit_of_memory_or_temporary_files(asked: Asked) -> None:
    joined = ", ".join(f"option_probability AS o{number}" for number in range(5))
    sorted_by = ", ".join(f"o{number}.evaluation_id" for number in range(5))
    query = f"SELECT o0.variant, o1.variant, o2.variant, o3.variant FROM {joined} ORDER BY o4.variant, {sorted_by}"
    with pytest.raises(QueryRefusedError, match=r"memory|temporary space"):
        run_query(asked.settings, "public", query)


def test_one_instruction_of_sqlite_that_runs_for_minutes_is_ended_with_its_process(
    sqlite_asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.schema.public_sql.runner.GRACE_SECONDS", 0.2)
    settings = sqlite_asked.settings.model_copy(update={"sql_seconds": 0.3})
    doubled = ", ".join(f"t{n + 1} AS MATERIALIZED (SELECT x || x AS x FROM t{n})" for n in range(17))
    query = f"WITH t0 AS (SELECT 'aaaa' AS x), {doubled} SELECT instr(x || x, x || 'b') FROM t17"
    with pytest.raises(QueryRefusedError, match=r"did not finish within 0\.3 s"):
        ask(settings, "public", query)


def test_a_backend_that_wants_more_memory_than_the_system_allows_gets_an_error_and_the_server_goes_on(
    private_postgres_server: services.PostgresServer,
) -> None:
    # As a superuser, who may call it: at once, since nothing is written into what is not given.
    with get_engine(private_postgres_server.url).connect() as connection:
        with pytest.raises(OperationalError, match="out of memory"):
            connection.execute(text("SELECT repeat('x', 1000000000)"))
        connection.rollback()
        assert connection.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize(("digests", "reason"), [(2500, "temporary space"), (1900, "values that are too large")])
def test_a_huge_cell_ends_at_the_limit_of_temporary_files_or_of_the_process_that_asks(
    postgresql_asked: Asked, digests: int, reason: str
) -> None:
    # The text put in the place of each `a` in it: 400 MB, and 230 MB, which the server sends.
    once = f"(SELECT string_agg(md5(i::text), '') AS x FROM generate_series(1, {digests}) AS i) AS once"
    with pytest.raises(QueryRefusedError, match=reason):
        ask(postgresql_asked.settings, "public", f"SELECT replace(x, 'a', x) FROM {once}")
