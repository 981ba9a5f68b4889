"""The roles on PostgreSQL: the application can do all that the registry does, but cannot undo a seal."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml
from click.testing import CliRunner, Result
from sqlalchemy import make_url, text, update
from sqlalchemy.exc import ProgrammingError

from registry.db import get_engine, read_session, write_session
from registry.errors import DatabaseError, UsageError
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.predictions.bulk import MANY_ROWS, renew_statistics
from registry.schema.roles import RoleNames, apply_roles, script
from registry.settings import Settings
from registry.tables import Evaluation, ModelRevision, Shard
from shuffleboard.cli.database import roles_command
from tests.sql.conftest import PASSWORD, libpq, role_url
from tests.support import services
from tests.support.commands import ROOT, shuffleboard_json
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from workers.loop import WorkerLoop


@pytest.fixture
def names(postgresql_database: str) -> Iterator[RoleNames]:
    """Yield unique names of roles, which are dropped with their objects at the end."""
    names = RoleNames(f"test_{uuid.uuid4().hex[:12]}")
    yield names
    for role in names.all:
        get_engine(role_url(postgresql_database, role)).dispose()
    get_engine(postgresql_database).dispose()
    with psycopg.connect(postgresql_database.replace("+psycopg", ""), autocommit=True) as connection:
        existing = {role for (role,) in connection.execute("SELECT rolname FROM pg_roles").fetchall()}
        for role in existing.intersection(names.all):
            connection.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


@pytest.fixture
def roles(postgresql_database: str, names: RoleNames) -> RoleNames:
    """Return the roles of `postgresql_database`, made twice: the second time changes nothing."""
    passwords = dict.fromkeys(names.all, PASSWORD)
    assert apply_roles(get_engine(postgresql_database), names, passwords)
    assert apply_roles(get_engine(postgresql_database), names, {})
    return names


def test_the_application_submits_scores_and_seals_and_can_undo_none_of_it(
    postgresql_database: str, roles: RoleNames, tmp_path: Path
) -> None:
    url = role_url(postgresql_database, roles.app)
    engine = get_engine(url)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=2)
    loop = WorkerLoop(engine, Settings(home=tmp_path, database_url=url, poll_seconds=0.05), FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    with read_session(engine) as session:
        assert find_evaluation(session, evaluation_id).seal is not None

    for statement in (
        "TRUNCATE prediction",
        "TRUNCATE evaluation CASCADE",
        "DROP TRIGGER sealed_prediction_delete ON prediction",
        "CREATE TRIGGER mine BEFORE DELETE ON prediction EXECUTE FUNCTION refuse_change()",
        "ALTER TABLE prediction DISABLE TRIGGER ALL",
        "ALTER TABLE evaluation DROP COLUMN seal",
        "CREATE OR REPLACE FUNCTION refuse_sealed() RETURNS trigger LANGUAGE sql AS ''",
        "SET session_replication_role = replica",
        "DROP TABLE prediction",
        "DROP VIEW leaderboard",
        "CREATE TABLE mine (a integer)",
        "CREATE TEMP TABLE mine (a integer)",
        "CREATE SCHEMA mine",
        "UPDATE alembic_version SET version_num = 'x'",
        f"ALTER ROLE {roles.reader} RESET ALL",
        f"SET ROLE {roles.owner}",
        f"GRANT SELECT ON prediction TO {roles.reader}",
    ):
        with engine.connect() as connection:
            if statement.startswith("GRANT"):
                # PostgreSQL only warns; the check is that nothing was granted.
                connection.execute(text(statement))
                connection.commit()
                granted = text(f"SELECT has_table_privilege('{roles.reader}', 'prediction', 'SELECT')")
                assert connection.scalar(granted) is False
                continue
            with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
                connection.execute(text(statement))
    with engine.connect() as connection, pytest.raises(Exception, match="of a sealed evaluation cannot be changed"):
        connection.execute(text("DELETE FROM prediction"))


KUBERNETES = ROOT / "docker" / "kubernetes"


@pytest.fixture
def scaler(postgresql_database: str, roles: RoleNames) -> Iterator[str]:
    """Yield the URL of the login that docker/kubernetes/keda/role.sql creates, with a name that no other test uses."""
    script = (KUBERNETES / "keda" / "role.sql").read_text(encoding="utf-8")
    role = f"{roles.prefix}_scaler"
    with psycopg.connect(libpq(postgresql_database), autocommit=True) as connection:
        for _ in range(2):  # it may be run again
            connection.execute(script.replace("shuffleboard_scaler", role))
        connection.execute(f"ALTER ROLE {role} PASSWORD '{PASSWORD}'")
        yield libpq(role_url(postgresql_database, role))
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


def test_the_autoscalers_role_sees_only_the_amount_of_work(
    postgresql_database: str, scaler: str, tmp_path: Path
) -> None:
    engine = get_engine(postgresql_database)
    queue_evaluation(engine, tmp_path, shards=5)
    paused = queue_evaluation(engine, tmp_path, shards=2, model="paused", benchmark="paused")
    queue_evaluation(engine, tmp_path, shards=3, model="large", benchmark="large", queue="gpu")
    with write_session(engine) as session:
        first = [shard for shard in session.query(Shard).order_by(Shard.id) if shard.evaluation_id < paused]
        first[0].state, first[0].elapsed_s = "done", 8.0
        first[1].state, first[1].lease_until = "leased", session.scalar(text("SELECT now()"))
        first[2].not_before = session.scalar(text("SELECT now() + interval '1 hour'"))
        first[3].not_before = session.scalar(text("SELECT now() - interval '1 hour'"))
        session.execute(update(Evaluation).where(Evaluation.id == paused).values(state="paused"))
        session.query(Shard).filter_by(evaluation_id=paused).first().state = "cancelled"
        session.execute(update(ModelRevision).where(ModelRevision.id == 2).values(state="registered"))
    counted = {}
    with psycopg.connect(scaler, autocommit=True) as connection:
        for folder in ("keda", "keda-gpu"):
            scaled = next(yaml.safe_load_all((KUBERNETES / folder / "scaler.yaml").read_text(encoding="utf-8")))
            [trigger] = scaled["spec"]["triggers"]
            counted[scaled["metadata"]["name"]] = connection.execute(trigger["metadata"]["query"]).fetchone()
        for statement in (
            "SELECT error FROM shard",
            "SELECT * FROM evaluation",
            "SELECT * FROM question",
            "SELECT * FROM account",
            "UPDATE shard SET state = 'done'",
            "SELECT * FROM shuffleboard_public.leaderboard",
        ):
            with pytest.raises(psycopg.Error, match=r"permission denied|read-only transaction"):
                connection.execute(statement)
    # Of five shards of four prompts one is done, at two seconds a prompt, and one waits; a model is new. Nothing of the
    # other queue is measured: twelve prompts of a fiftieth of a second.
    assert counted == {"worker": (3 * 4 * 2 + 600,), "worker-gpu": (1,)}


def test_the_application_renews_statistics_of_tables_that_it_does_not_own(
    postgresql_database: str, roles: RoleNames, tmp_path: Path
) -> None:
    engine = get_engine(role_url(postgresql_database, roles.app))
    queue_evaluation(engine, tmp_path, shards=3)
    with write_session(engine) as session:
        renew_statistics(session, MANY_ROWS)
    with read_session(engine) as session:
        for table in ("question", "evaluation_question"):
            counted = text(f"SELECT reltuples FROM pg_class WHERE oid = 'public.{table}'::regclass")
            assert session.scalar(counted) == 3


def test_the_owner_upgrades_and_readers_see_what_it_adds(postgresql_database: str, roles: RoleNames) -> None:
    owner = role_url(postgresql_database, roles.owner)
    upgrade(owner)
    with get_engine(owner).begin() as connection:
        connection.execute(text("CREATE TABLE later (a integer)"))
        connection.execute(text("CREATE VIEW shuffleboard_public.later AS SELECT 1 AS a"))
    with get_engine(role_url(postgresql_database, roles.reader)).connect() as connection:
        assert connection.scalar(text("SELECT a FROM later")) == 1
    with get_engine(role_url(postgresql_database, roles.app)).begin() as connection:
        connection.execute(text("INSERT INTO public.later VALUES (1)"))


def test_readers_have_their_limits_from_their_role(postgresql_database: str, roles: RoleNames) -> None:
    with psycopg.connect(libpq(role_url(postgresql_database, roles.reader))) as connection:

        def setting(name: str) -> str:
            return connection.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]

        assert setting("statement_timeout") == "1min"
        assert setting("default_transaction_read_only") == "on"
        assert setting("temp_file_limit") == "256MB"
        assert setting("search_path") == "shuffleboard_public"
        limit = connection.execute("SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user").fetchone()
        assert limit == (8,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SET temp_file_limit = -1")


def test_a_reader_can_lift_only_limits_that_postgresql_lets_roles_lift(
    postgresql_database: str, roles: RoleNames
) -> None:
    url = role_url(postgresql_database, roles.reader)
    with psycopg.connect(libpq(url), autocommit=True) as reader:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            reader.execute(f"ALTER ROLE {roles.reader} SET statement_timeout = 0")
        reader.execute("SET default_transaction_read_only = off")
        for lifted in ("SET statement_timeout = 0", "SET work_mem = '10GB'", "PASSWORD 'theirs'"):
            reader.execute(f"ALTER ROLE {roles.reader} {lifted}")
        for kept in (
            "CONNECTION LIMIT -1",
            "SET temp_file_limit = -1",
            "RESET temp_file_limit",
            "VALID UNTIL 'infinity'",
            "CREATEROLE",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"ALTER ROLE {roles.reader} {kept}")


def test_without_a_superuser_the_owner_of_a_database_makes_what_it_may(
    postgresql_database: str, names: RoleNames
) -> None:
    admin = f"{names.prefix}_admin"
    database = make_url(postgresql_database).database
    services.postgres_execute(
        postgresql_database,
        f"CREATE ROLE {admin} LOGIN CREATEROLE PASSWORD '{PASSWORD}'",
        f"ALTER DATABASE {database} OWNER TO {admin}",
        f"""DO $$ DECLARE item text; BEGIN
            FOR item IN SELECT format('ALTER %s %I.%I OWNER TO {admin}', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE'
            END, nspname, relname)
                FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
                WHERE relkind IN ('r', 'v') AND (nspname = 'public' OR nspname LIKE 'shuffleboard%')
                UNION ALL SELECT format('ALTER SCHEMA %I OWNER TO {admin}', nspname) FROM pg_namespace WHERE nspname =
                'public' OR nspname LIKE 'shuffleboard%' UNION ALL SELECT format('ALTER FUNCTION %s OWNER TO {admin}',
                pg_proc.oid::regprocedure) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
            LOOP EXECUTE item; END LOOP; END $$""",
    )
    engine = get_engine(role_url(postgresql_database, admin))
    try:
        assert not apply_roles(engine, names, dict.fromkeys(names.all, PASSWORD))
        with get_engine(role_url(postgresql_database, names.reader)).connect() as reader:
            assert reader.scalar(text("SELECT count(*) FROM leaderboard")) == 0
    finally:
        engine.dispose()
        services.postgres_execute(
            postgresql_database,
            f"ALTER DATABASE {database} OWNER TO CURRENT_USER",
            f"REASSIGN OWNED BY {admin} TO CURRENT_USER",
            f"DROP OWNED BY {admin}",
            f"DROP ROLE {admin}",
        )


def test_the_command_makes_roles_with_passwords_from_a_file(
    postgresql_database: str, names: RoleNames, tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("".join(f"{role}={PASSWORD}\n" for role in names.all), encoding="utf-8")
    created = shuffleboard_json(
        "db", "roles", "--prefix", names.prefix, "--passwords", passwords, database_url=postgresql_database
    )
    assert created["roles"] == list(names.all)
    assert PASSWORD not in str(created)
    assert created["reader_database_urls"]["public"].startswith(f"postgresql://{names.reader}:PASSWORD@127.0.0.1:")
    with get_engine(role_url(postgresql_database, names.reader)).connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM leaderboard")) == 0
        # The server stores a verifier, which the client computes.
    with get_engine(postgresql_database).connect() as connection:
        stored = connection.scalar(text(f"SELECT rolpassword FROM pg_authid WHERE rolname = '{names.reader}'"))
        assert stored.startswith("SCRAM-SHA-256$")


def call(url: str, *words: object) -> Result:
    """Run `shuffleboard db roles WORDS` in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SHUFFLEBOARD_DATABASE_URL", url)
        return CliRunner().invoke(roles_command, [str(word) for word in words])


def test_the_command_prints_the_same_statements_for_a_superuser_to_run(
    postgresql_database: str, names: RoleNames
) -> None:
    printed = call(postgresql_database, "--prefix", names.prefix, "--sql").stdout
    statements = list(script(names, str(make_url(postgresql_database).database)))
    assert printed == "".join(f"{statement};\n" for statement in statements)
    with psycopg.connect(postgresql_database.replace("+psycopg", "")) as connection:
        connection.execute(printed)
        counted = connection.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE %s", (f"{names.prefix}%",))
        assert counted.fetchone() == (4,)


@pytest.mark.parametrize(
    ("url", "words", "message"),
    [
        ("sqlite:///none.db", [], "only PostgreSQL has roles"),
        ("postgresql://127.0.0.1:1/none", ["--prefix", "x; DROP", "--sql"], "prefix 'x; DROP'"),
        ("postgresql://127.0.0.1:1/none", ["--passwords", "passwords"], "line 1: no ROLE=PASSWORD"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(
    url: str, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passwords").write_text("hunter2\n", encoding="utf-8")
    refused = call(url, *words).exception
    assert isinstance(refused, UsageError)
    assert message in str(refused)
    assert "hunter2" not in str(refused)


def test_a_password_of_another_role_is_refused(postgresql_database: str, names: RoleNames) -> None:
    with pytest.raises(UsageError, match="postgres is not one of the roles"):
        apply_roles(get_engine(postgresql_database), names, {"postgres": "x"})


def test_roles_that_may_not_be_made_change_nothing(postgresql_database: str, roles: RoleNames) -> None:
    engine = get_engine(role_url(postgresql_database, roles.app))
    with pytest.raises(DatabaseError, match=r"the roles were not created .* nothing was changed"):
        apply_roles(engine, RoleNames(f"{roles.prefix}b"), {})
