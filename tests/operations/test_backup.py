"""Backup, restore and move, which lose nothing, whose results verify, and whose failures change nothing."""

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Connection, Engine, inspect, select, text, update

from registry.db import Base, get_engine, read_session, write_session
from registry.errors import DatabaseError, IngestError, UsageError
from registry.files.stores import store_at
from registry.operations import backup as backups
from registry.operations import migrate, moving
from registry.operations.backup import backup, client_program, restore
from registry.operations.migrate import upgrade
from registry.operations.moving import move
from registry.queue import generation
from registry.schema import history
from registry.schema.audiences import audience_engine
from registry.schema.roles import RoleNames, apply_roles
from registry.schema.triggers import trigger_names
from registry.schema.views import VIEWS
from registry.sealed.verification import verify_all
from registry.tables import Archive, Evaluation, Model, Prediction, Question
from shuffleboard.cli.backups import move_command, restore_command
from tests.conftest import FilledDatabases
from tests.migration.populated import populate
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.population import add_model, queue_evaluation, table_counts
from tests.support.services import copy_database, postgres_execute

pytestmark = pytest.mark.long_on("sqlite")

Contents = dict[str, list[dict[str, Any]]]


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def contents(engine: Engine) -> Contents:
    """Return every row of every table as the registry reads it, in the order of keys, except the generation."""
    tables: Contents = {}
    with read_session(engine) as session:
        for table in Base.metadata.sorted_tables:
            if table.name == "registry_generation":
                continue
            rows = [dict(row) for row in session.execute(select(table)).mappings()]
            keys = [column.name for column in table.primary_key.columns]
            tables[table.name] = sorted(rows, key=lambda row: [str(row[key]) for key in keys])
    return tables


def seals(engine: Engine) -> dict[int, str | None]:
    with read_session(engine) as session:
        return {row.id: row.seal for row in session.execute(select(Evaluation.id, Evaluation.seal))}


def assert_arrived(engine: Engine, expected: Contents) -> None:
    """Check that rows, with their types, are the same and verified, and that the schema protects sealed rows."""
    assert contents(engine) == expected
    with read_session(engine) as session:
        assert verify_all(session)["ok"]
    history.require_current(engine)
    with pytest.raises(Exception, match="sealed evaluation cannot be changed"), write_session(engine) as session:
        session.execute(update(Prediction).values(correct=True))
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            states = dict(
                connection.execute(text("SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal")).all()
            )
            assert states == dict.fromkeys(trigger_names("postgresql"), "O")
        else:
            names = connection.scalars(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all()
            assert set(names) == set(trigger_names("sqlite"))
    with audience_engine(engine, "public").connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM leaderboard")) > 0
    assert set(inspect(engine).get_view_names()) == set(VIEWS)


def test_the_filled_registry_has_a_row_in_every_table(filled: Engine) -> None:
    assert [name for name, rows in table_counts(filled).items() if not rows] == []
    assert sum(seal is not None for seal in seals(filled).values()) == 2


# Backup and restore


@pytest.fixture
def empty(filled: Engine, request: pytest.FixtureRequest) -> str:
    """Return an empty database on the engine of `filled`."""
    name: str = request.getfixturevalue(f"{filled.dialect.name}_url")
    return name


def test_a_backup_restores_every_row(filled: Engine, empty: str, tmp_path: Path) -> None:
    expected = contents(filled)
    file = tmp_path / "backups" / "today.backup"
    result = backup(url_of(filled), file)
    assert (result.path, result.size, result.revision) == (file, file.stat().st_size, history.head())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name for path in file.parent.iterdir()} == {"today.backup", "today.backup.folders"}
    restored = restore(empty, file)
    assert (restored.from_revision, restored.sealed, restored.problems) == (history.head(), 2, [])
    assert_arrived(get_engine(empty), expected)


def draw(engine: Engine) -> tuple[str, str]:
    """Return the registry's generation and the reason why it was drawn, as the next claim finds them."""
    with write_session(engine) as session:
        generation.current(session)
        generation_read = generation.read_generation(session)
    assert generation_read is not None
    assert generation_read.is_here
    return generation_read.generation, generation_read.reason


@pytest.mark.one_engine
def test_a_backup_has_the_folders_and_says_if_they_do_not_fit(filled: Engine, tmp_path: Path) -> None:
    place, file = tmp_path / "place", tmp_path / "file"
    with write_session(filled) as session:
        location = session.scalars(select(Archive.location)).one()
        shutil.copytree(Path(location.removeprefix("file://")), place)
        session.execute(text("DROP TRIGGER sealed_archive_update"))
        session.execute(update(Archive).values(location=place.as_uri()))
    result = shuffleboard_json("db", "backup", file, database_url=url_of(filled))
    assert (result["folders"], result["ok"]) == (1, True)
    (name,) = (path.name for path in place.iterdir())
    description = tmp_path / "file.folders" / "backup.json"
    assert json.loads(description.read_text()) == {"format_version": 1}
    description.write_text('{"format_version": 2}')
    with pytest.raises(IngestError, match=r"backup\.json: has backup format 2, and this version reads backup format 1"):
        restore(f"sqlite:///{tmp_path}/newer.db", file)
    assert not (tmp_path / "newer.db").exists()
    description.write_text('{"format_version": 1}')
    shutil.rmtree(place)
    message = shuffleboard("db", "backup", tmp_path / "without", database_url=url_of(filled), status=1).stderr
    assert f"not in the backup: evaluation 1 is archived, but {place.as_uri()}/{name} is missing" in message
    assert [path.name for path in tmp_path.glob("without*")] == ["without"]

    assert restore(f"sqlite:///{tmp_path}/again.db", file).problems == []
    folder = store_at().folder
    assert folder is not None
    assert [path.name for path in folder.iterdir()] == [name], "it came from beside the file"
    shutil.rmtree(folder)
    changed = tmp_path / "file.folders" / name / "metrics.parquet"
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    problems = restore(f"sqlite:///{tmp_path}/changed.db", file).problems
    assert any("metrics.parquet is not the file that was written" in problem for problem in problems)


def test_a_generation_lasts_until_the_database_is_restored_moved_or_put_elsewhere(
    filled: Engine, empty: str, other_engine: str, tmp_path: Path
) -> None:
    first, _ = draw(filled)
    assert draw(filled) == draw(filled)
    upgrade(url_of(filled))
    assert draw(filled)[0] == first
    backup(url_of(filled), tmp_path / "file")
    assert draw(filled)[0] == first
    restore(empty, tmp_path / "file")
    move(url_of(filled), other_engine)
    second, third = draw(get_engine(empty)), draw(get_engine(other_engine))
    assert (second[1], third[1]) == (generation.RESTORED, generation.MOVED)
    assert len({first, second[0], third[0]}) == 3
    assert draw(filled)[0] == first


def test_a_copied_file_or_postgresql_database_is_another_generation(
    filled: Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first, _ = draw(filled)
    filled.dispose()
    if filled.dialect.name == "sqlite":
        shutil.copyfile(str(filled.url.database), tmp_path / "copy.db")
        copy = f"sqlite:///{tmp_path / 'copy.db'}"
    else:
        server, name = request.getfixturevalue("postgres_server"), f"{filled.url.database}_copy"
        copy_database(server.url, name, str(filled.url.database))
        copy = server.database_url(name)
        request.addfinalizer(lambda: postgres_execute(server.url, f"DROP DATABASE {name} WITH (FORCE)"))
    second, reason = draw(get_engine(copy))
    assert second != first
    assert reason == generation.NOTICED
    get_engine(copy).dispose()
    assert draw(filled)[0] == first


def test_postgresql_s_own_upkeep_draws_no_generation(postgresql_filled: Engine) -> None:
    first, _ = draw(postgresql_filled)
    with postgresql_filled.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        for upkeep in ("VACUUM FREEZE", "VACUUM FULL", "CLUSTER", "REINDEX TABLE"):
            using = " USING pk_registry_generation" if upkeep == "CLUSTER" else ""
            connection.exec_driver_sql(f"{upkeep} registry_generation{using}")
        connection.exec_driver_sql("CHECKPOINT")
        connection.exec_driver_sql("SELECT pg_switch_wal()")
    assert draw(postgresql_filled)[0] == first


def test_the_generation_is_shown_and_drawn_by_command(filled: Engine) -> None:
    settings = {"database_url": url_of(filled)}
    first, _ = draw(filled)
    assert shuffleboard_json("db", "generation", **settings)["generation"] == first
    drawn = shuffleboard_json("db", "generation", "--new", **settings)
    assert drawn["generation"] == draw(filled)[0] != first
    assert drawn["reason"] == generation.ASKED
    assert drawn["generation"] in shuffleboard("db", "generation", **settings).stdout


def test_a_backup_while_others_write_holds_one_moment(filled: Engine, empty: str, tmp_path: Path) -> None:
    """Check with an open transaction that has written half of its rows."""
    expected = contents(filled)
    with write_session(filled) as session:
        add_model(session, "half")
        session.flush()
        backup(url_of(filled), tmp_path / "file")
    restore(empty, tmp_path / "file")
    assert contents(get_engine(empty)) == expected
    assert "half" in {row["name"] for row in contents(filled)["model"]}


def test_a_backup_of_an_older_schema_is_upgraded(
    filled_sqlite: FilledDatabases,
    sqlite_url: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> None:
    revision = history.head()
    with filled_sqlite.copy(populate, tmp_path_factory.mktemp("old")) as (old, _):
        request.getfixturevalue("next_schema")
        backup(old, tmp_path / "file")
        restored = restore(sqlite_url, tmp_path / "file")
    assert (restored.from_revision, restored.revision, restored.problems) == (revision, history.head(), [])
    assert restored.sealed == 2


@pytest.mark.parametrize("name", ["file", "file.folders"])
def test_a_backup_is_never_written_over_another(sqlite_filled: Engine, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(UsageError, match=f"{name}: already exists; give another file"):
        backup(url_of(sqlite_filled), tmp_path / "file")
    assert (tmp_path / name).read_text() == "precious"


def test_leftovers_of_killed_backups_are_removed_after_a_day(sqlite_filled: Engine, tmp_path: Path) -> None:
    old, young = tmp_path / ".backup-old", tmp_path / ".backup-young"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, 0))
    backup(url_of(sqlite_filled), tmp_path / "file")
    assert (old.exists(), young.exists()) == (False, True)


def test_only_an_empty_database_is_restored_into(filled: Engine, tmp_path: Path) -> None:
    backup(url_of(filled), tmp_path / "file")
    expected = contents(filled)
    filled.dispose()
    with pytest.raises(DatabaseError, match="is not empty"):
        restore(url_of(filled), tmp_path / "file")
    assert contents(filled) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"hello", "not a backup .*b'hello'.*; give a file that `db backup` wrote"),
        (b"SQLite format 3\0" + b"rubbish" * 99, "not a registry; give a file"),
        (b"PGDMP", "is a backup of PostgreSQL, but the database is on SQLite; .*shuffleboard db move"),
    ],
)
def test_what_is_no_backup_of_this_engine_is_refused(
    content: bytes, problem: str, sqlite_url: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match=problem):
        restore(sqlite_url, tmp_path / "file")
    assert not (tmp_path / "test.db").exists()


def test_a_damaged_postgresql_backup_leaves_the_database_empty(
    postgresql_filled: Engine, postgresql_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    backup(url_of(postgresql_filled), file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(DatabaseError, match=r"pg_restore: error: .*; fix that and run it again"):
        restore(postgresql_url, file)
    assert history.current(get_engine(postgresql_url)) is None
    assert inspect(get_engine(postgresql_url)).get_table_names() == []


def test_a_backup_of_newer_code_is_refused_before_anything_is_written(
    filled: Engine, empty: str, tmp_path: Path
) -> None:
    with filled.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '299912312359'")
    backup(url_of(filled), tmp_path / "file")
    with pytest.raises(DatabaseError, match="at revision 299912312359, newer than this code; upgrade the code"):
        restore(empty, tmp_path / "file")
    assert history.current(get_engine(empty)) is None


def test_restoring_tampered_rows_says_so_and_ends_with_status_1(
    sqlite_filled: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(url_of(sqlite_filled), tmp_path / "file")
    with closing(sqlite3.connect(tmp_path / "file")) as connection, connection:
        connection.execute("DROP TRIGGER sealed_prediction_update")
        connection.execute("UPDATE prediction SET chosen_option = (chosen_option + 1) % 4 WHERE variant = 0")
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", f"sqlite:///{tmp_path / 'new.db'}")
    outcome = CliRunner().invoke(restore_command, [str(tmp_path / "file")])
    assert outcome.exit_code == 1
    assert "question q0" in outcome.stderr
    assert "verified:" not in outcome.stdout
    get_engine(f"sqlite:///{tmp_path / 'new.db'}").dispose()


# PostgreSQL's client


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Return a function that makes fake client programs, which write their arguments and password to files.

    There are no other client programs.
    """
    monkeypatch.setattr(backups, "DEBIAN_PROGRAMS", tmp_path / "debian")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    def make(folder: str, version: int) -> Path:
        program = tmp_path / folder / "pg_dump"
        program.parent.mkdir(parents=True)
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = --version ] && echo "pg_dump (PostgreSQL) {version}.3 (Debian {version}.3-1)" && exit\n'
            f'echo "$@" > {tmp_path}/arguments; echo "$PGPASSWORD" > {tmp_path}/password\n'
            'for word in "$@"; do case $word in --file=*) echo dump > "${word#--file=}";; esac; done\n'
        )
        program.chmod(0o755)
        return program

    return make


def test_a_missing_client_is_named(programs: Callable[[str, int], Path]) -> None:
    with pytest.raises(DatabaseError, match=r"pg_dump is not installed here; install .* 15 or newer"):
        client_program("pg_dump", 15)


def test_a_client_that_is_older_than_the_server_is_named(programs: Callable[[str, int], Path]) -> None:
    programs("path", 14)
    with pytest.raises(DatabaseError, match="pg_dump is from PostgreSQL 14, older than the server's 15; install"):
        client_program("pg_dump", 15)


def test_the_newest_installed_client_is_used_where_the_first_is_too_old(programs: Callable[[str, int], Path]) -> None:
    old, new, newest = programs("path", 14), programs("debian/9/bin", 9), programs("debian/17/bin", 17)
    assert client_program("pg_dump", 14) == old
    assert client_program("pg_dump", 15) == newest
    assert new.exists()


def test_a_password_is_no_argument_of_the_client(
    programs: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs("path", 99)
    monkeypatch.setattr(backups, "_server_version", lambda _url: 15)
    monkeypatch.setattr(backups, "is_pooled", lambda _engine: False)
    monkeypatch.setattr(history, "current", lambda _engine: history.head())
    monkeypatch.setattr(backups, "read_session", lambda _engine: nullcontext())
    monkeypatch.setattr(backups, "take_along", lambda _session, _target: (0, []))
    backup("postgresql+psycopg://ann:hunter%202@db.example.org:5433/board?sslmode=verify-full", tmp_path / "file")
    arguments = (tmp_path / "arguments").read_text()
    assert "hunter" not in arguments
    assert "--dbname=host=db.example.org dbname=board user=ann port=5433 sslmode=verify-full" in arguments
    assert (tmp_path / "password").read_text() == "hunter 2\n"


@pytest.fixture
def roles(postgresql_filled: Engine) -> Iterator[RoleNames]:
    names = RoleNames(f"ops_{os.getpid()}_{id(postgresql_filled) % 10**6}")
    apply_roles(postgresql_filled, names, {})
    yield names
    with postgresql_filled.begin() as connection:
        for role in names.all:
            connection.exec_driver_sql(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
            connection.exec_driver_sql(f"DROP OWNED BY {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")


def test_the_applications_role_makes_a_backup_that_another_server_restores(
    postgresql_filled: Engine, roles: RoleNames, postgresql_url: str, tmp_path: Path
) -> None:
    """Check a target server that lacks the roles, since rights and owners are not in the backup."""
    expected = contents(postgresql_filled)
    backup(str(postgresql_filled.url.set(username=roles.app)), tmp_path / "file")
    application = get_engine(str(postgresql_filled.url.set(username=roles.app)))
    assert draw(application) == draw(postgresql_filled)
    application.dispose()
    assert restore(postgresql_url, tmp_path / "file").problems == []
    assert_arrived(get_engine(postgresql_url), expected)
    with get_engine(postgresql_url).connect() as connection:
        owners = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
        assert connection.scalars(text(owners)).all() == ["postgres"]


# Move


@pytest.fixture(params=("sqlite", "postgresql"))
def elsewhere(request: pytest.FixtureRequest) -> str:
    """Return an empty database on each engine in turn."""
    name: str = request.getfixturevalue(f"{request.param}_url")
    return name


@pytest.fixture
def other_engine(filled: Engine, request: pytest.FixtureRequest) -> str:
    """Return an empty database on the engine that `filled` does not use."""
    other_dialect = {"sqlite": "postgresql", "postgresql": "sqlite"}[filled.dialect.name]
    name: str = request.getfixturevalue(f"{other_dialect}_url")
    return name


def test_a_registry_moves_between_engines_with_ids_and_seals(
    filled: Engine, other_engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "BATCH", 7)
    expected, sealed = contents(filled), seals(filled)
    messages: list[str] = []
    moved = move(url_of(filled), other_engine, messages.append)
    assert (moved.sealed, moved.problems) == (2, [])
    assert moved.rows == {name: len(rows) for name, rows in expected.items()}
    assert f"prediction: {len(expected['prediction'])} rows" in messages
    target = get_engine(other_engine)
    assert_arrived(target, expected)
    assert seals(target) == sealed
    assert contents(filled) == expected


def test_work_goes_on_after_a_move_with_new_ids(sqlite_filled: Engine, elsewhere: str, tmp_path: Path) -> None:
    move(url_of(sqlite_filled), elsewhere)
    target = get_engine(elsewhere)
    evaluation_id = queue_evaluation(target, tmp_path, model="another", benchmark="another")
    assert evaluation_id == max(seals(sqlite_filled)) + 1
    with read_session(target) as session:
        assert session.scalars(select(Model.id).where(Model.name == "another")).one() == 4001
        assert session.scalars(select(Question.id).order_by(Question.id.desc()).limit(1)).one() == 7


def test_ids_that_were_given_away_are_not_given_again(postgresql_filled: Engine, postgresql_url: str) -> None:
    """Check the id of the newest model, which is deleted in the source, but may still be in somebody's notes."""
    with postgresql_filled.begin() as connection:
        connection.exec_driver_sql("SELECT setval('model_id_seq', 5000)")
    move(url_of(postgresql_filled), postgresql_url)
    with write_session(get_engine(postgresql_url)) as session:
        model = Model(name="next")
        session.add(model)
        session.flush()
        assert model.id == 5001


@pytest.mark.long_on("sqlite")
def test_a_move_into_what_db_upgrade_has_made(sqlite_filled: Engine, database: str) -> None:
    """Check a database with packaged suites, printed results, roles and categories, which the registry has as well."""
    expected = contents(sqlite_filled)
    move(url_of(sqlite_filled), database)
    assert_arrived(get_engine(database), expected)


def test_an_old_registry_moves_after_its_upgrade(
    filled_sqlite: FilledDatabases, postgresql_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with filled_sqlite.copy(populate, tmp_path) as (url, _):
        request.getfixturevalue("next_schema")
        with pytest.raises(DatabaseError, match="run: shuffleboard db upgrade"):
            move(url, postgresql_url)
        migrate.upgrade(url)
        before = seals(get_engine(url))
        assert move(url, postgresql_url).problems == []
        assert seals(get_engine(postgresql_url)) == before


def test_a_move_never_adds_to_a_registry(sqlite_filled: Engine, database: str) -> None:
    with write_session(get_engine(database)) as session:
        add_model(session, "of-somebody")
    before = table_counts(get_engine(database))
    with pytest.raises(DatabaseError, match="is not empty: model has rows; give an empty database"):
        move(url_of(sqlite_filled), database)
    assert table_counts(get_engine(database)) == before


def test_a_move_to_itself_is_refused(sqlite_filled: Engine) -> None:
    with pytest.raises(UsageError, match="own database"):
        move(url_of(sqlite_filled), url_of(sqlite_filled))


def lose_a_row(write: Connection) -> None:
    write.exec_driver_sql("DELETE FROM saved_query")


def change_a_value(write: Connection) -> None:
    write.exec_driver_sql("UPDATE account SET password_hash = 'another'")


@pytest.mark.parametrize(
    ("fault", "problem", "engine_name"),
    [
        (lose_a_row, "saved_query arrived with 0 of 1 rows", "sqlite"),
        (change_a_value, "account arrived with 1 of 1 rows, or with different contents", "postgresql"),
    ],
)
def test_a_move_that_fails_leaves_the_target_as_it_was(
    fault: Callable[[Connection], None],
    problem: str,
    engine_name: str,
    sqlite_filled: Engine,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sealing = moving._Seals.write

    def faulty(seals: Any, write: Connection) -> None:
        sealing(seals, write)
        fault(write)

    monkeypatch.setattr(moving._Seals, "write", faulty)
    elsewhere = request.getfixturevalue(f"{engine_name}_url")
    with pytest.raises(DatabaseError, match=problem):
        move(url_of(sqlite_filled), elsewhere)
    target = get_engine(elsewhere)
    if target.dialect.name == "sqlite":
        assert target.url.database is not None
        assert not Path(target.url.database).exists()
    assert history.current(target) is None
    assert inspect(target).get_table_names() == []


def test_a_failed_move_leaves_the_triggers_of_a_database_at_head(
    sqlite_filled: Engine, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = get_engine(database)
    before = contents(target)
    monkeypatch.setattr(moving._Seals, "write", lambda _seals, write: lose_a_row(write))
    with pytest.raises(DatabaseError, match="rolled back"):
        move(url_of(sqlite_filled), database)
    assert contents(target) == before
    with pytest.raises(Exception, match="never change"), target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM suite")


def test_a_text_that_postgresql_cannot_hold_is_named(sqlite_filled: Engine, postgresql_url: str) -> None:
    with write_session(sqlite_filled) as session:
        add_model(session, "model").model.developer = "nul \0 byte"
    with pytest.raises(DatabaseError, match=r"rolled back: .*0x00; fix that and run it again"):
        move(url_of(sqlite_filled), postgresql_url)
    assert history.current(get_engine(postgresql_url)) is None


def test_the_command_prints_what_moved_and_no_password(
    sqlite_filled: Engine, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", url_of(sqlite_filled))
    address = postgresql_url.replace("+psycopg", "").replace("postgres@", "postgres:hunter2@")
    outcome = CliRunner().invoke(move_command, ["--to", address])
    assert outcome.exit_code == 0, outcome.output
    assert "verified: 2 sealed evaluations, every snapshot, and the chain" in outcome.stdout
    assert "hunter2" not in outcome.output
    get_engine(address.replace("postgresql:", "postgresql+psycopg:")).dispose()
