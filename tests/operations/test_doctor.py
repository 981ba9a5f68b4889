"""The doctor, which finds no problem in a sound deployment, and reports each planted fault with its remedy."""

import json
import os
import re
import struct
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from redis import Redis
from sqlalchemy import Engine, update

from registry.db import database_now, get_engine, make_engine, read_session, write_session
from registry.operations.doctor import CHECKS, Context, Finding, Limits, database, examine, host, services
from registry.queue import stalls
from registry.queue.claims import Claim, claim
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.schema.roles import RoleNames, apply_roles
from registry.settings import Settings
from registry.tables import Evaluation, ModelRevision, Shard, Worker
from shuffleboard.cli.doctor import doctor as doctor_command
from tests.migration.next_revision import NEXT, TITLE
from tests.sql.conftest import PASSWORD, libpq, role_url
from tests.support.population import queue_evaluation
from tests.support.services import RedisServer, free_port

CODE = "0.1.0+of-the-tests"


class Deployment:
    """A registry with queued work and a live worker on another host, whose settings or rows a planted fault changes."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self.engine = engine
        self.home = home
        self.settings: dict[str, Any] = {}
        self.limits: dict[str, Any] = {"free_bytes": 1}
        self.evaluation_id = queue_evaluation(engine, home, shards=2)
        self.add_worker()

    def add_worker(self, name: str = "worker", **columns: Any) -> None:
        row = {"host": "gpu-1", "pid": 7, "device": "cuda:0", "versions": {"shuffleboard": CODE}, "queues": ["cpu"]}
        with write_session(self.engine) as session:
            session.add(Worker(id=name, **row | columns))

    def run(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def examine(self) -> dict[str, Finding]:
        url = self.engine.url.render_as_string(hide_password=False)
        settings = Settings(home=self.home, **{"database_url": url} | self.settings)
        context = Context(settings, self.engine, CODE, Limits(**self.limits))
        return {finding.name: finding for finding in examine(context)}


@pytest.fixture
def sqlite(sqlite_database: str, tmp_path: Path) -> Deployment:
    return Deployment(get_engine(sqlite_database), tmp_path)


@pytest.fixture
def postgresql(postgresql_database: str, tmp_path: Path) -> Deployment:
    return Deployment(get_engine(postgresql_database), tmp_path)


EXPECTED = {"postgresql": {"rights"}}
"""Expected findings: tests work as a superuser, which causes a warning."""


def named(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.status != "ok"}


@pytest.mark.parametrize("engine_name", ["sqlite", "postgresql"])
def test_a_deployment_in_order_has_no_problem(engine_name: str, request: pytest.FixtureRequest) -> None:
    findings = request.getfixturevalue(engine_name).examine()
    assert named(findings) == EXPECTED.get(engine_name, set())
    assert all(finding.status != "problem" for finding in findings.values())
    assert all(bool(finding.remedy) == (finding.status != "ok") for finding in findings.values())
    of_engine = {check.name for check in CHECKS if check.dialect in ("", engine_name)}
    assert findings.keys() == of_engine


# Faults

Plant = Callable[[Deployment, pytest.FixtureRequest], None]
FAULTS: dict[str, tuple[str, Plant, str, str, str, str]] = {}
"""Name → engine, function that plants the fault, its check, the status, the finding, the remedy."""


def fault(engine_name: str, check: str, status: str, found: str, remedy: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[plant.__name__] = (engine_name, plant, check, status, found, remedy)
        return plant

    return keep


@fault("sqlite", "schema", "problem", f"{NEXT} {TITLE}", "db backup FILE.*shuffleboard db upgrade")
def an_old_schema(_here: Deployment, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("next_schema")


@fault("sqlite", "schema", "problem", "202611212008 is older than the first release", "set SHUFFLEBOARD_.* and run: ")
def a_schema_from_before_the_first_release(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("UPDATE alembic_version SET version_num = '202611212008'")


@fault("sqlite", "schema", "problem", "299912312359 is newer than this code's", "install the version of the code")
def a_schema_of_newer_code(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("UPDATE alembic_version SET version_num = '299912312359'")


@fault(
    "sqlite", "schema", "problem", "other views or triggers than this code's: chain_links", "shuffleboard db upgrade"
)
def a_view_of_other_code(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("UPDATE schema_definition SET digest = 'another' WHERE name = 'chain_links'")


@fault("sqlite", "triggers", "problem", "missing: sealed_prediction_update", "triggers/sqlite.sql.*verify --all")
def a_missing_trigger(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("DROP TRIGGER sealed_prediction_update")


@fault(
    "sqlite",
    "triggers",
    "problem",
    "changed since they were created: sealed_shard_delete",
    "registry/schema/triggers/sqlite.sql",
)
def a_trigger_that_does_nothing(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("DROP TRIGGER sealed_shard_delete")
    here.run("CREATE TRIGGER sealed_shard_delete BEFORE DELETE ON shard WHEN false BEGIN SELECT 1; END")


@fault("postgresql", "triggers", "problem", "switched off: sealed_prediction_delete", "ENABLE TRIGGER")
def a_disabled_trigger(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("ALTER TABLE prediction DISABLE TRIGGER sealed_prediction_delete")


@fault(
    "postgresql",
    "triggers",
    "problem",
    "changed since they were created: refuse_sealed$",
    "registry/schema/triggers/postgresql.sql",
)
def a_trigger_function_that_does_nothing(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("CREATE OR REPLACE FUNCTION refuse_sealed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")


@fault("sqlite", "views", "problem", "missing: board_headlines", "shuffleboard db upgrade")
def a_missing_view(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("DROP VIEW board_headlines")


@fault("postgresql", "views", "problem", "shuffleboard_public.chain_links", "db upgrade.*db roles")
def a_missing_view_of_an_audience(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("DROP VIEW shuffleboard_public.chain_links")


@fault("sqlite", "database file", "problem", "can be written by everyone .mode 666", "chmod 600")
def a_database_file_for_everyone(here: Deployment, _request: pytest.FixtureRequest) -> None:
    database.file_of(Context(Settings(), here.engine, CODE)).chmod(0o666)


@fault("sqlite", "database file", "problem", "network file system .nfs4.", "db move --to URL")
def a_database_on_a_network_file_system(here: Deployment, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("monkeypatch").setattr(database, "file_system", lambda _path: "nfs4")


@fault("sqlite", "writing", "problem", "database is locked", "stop the process that holds the lock")
def a_writer_that_never_ends(here: Deployment, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("monkeypatch").setattr(database, "BUSY_SECONDS", 0.0)
    holding = here.engine.connect()
    transaction = holding.begin()
    request.addfinalizer(holding.close)
    request.addfinalizer(transaction.rollback)


@fault("postgresql", "writing", "problem", "read-only transaction", "")
def a_database_that_only_reads(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run(f'ALTER DATABASE "{here.engine.url.database}" SET default_transaction_read_only = on')
    here.engine.dispose()


@fault("postgresql", "connections", "warning", r"\d+ of \d+ connections", "raise max_connections")
def few_connections_left(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.limits["connections"] = 0.0


@fault("postgresql", "connections", "warning", "31 live workers, a website and its readers may need 151", "pooler")
def more_workers_than_connections(here: Deployment, _request: pytest.FixtureRequest) -> None:
    for number in range(30):
        here.add_worker(f"worker {number}")


@fault("postgresql", "statistics", "warning", r"model \(\d+ rows since", "ANALYZE model")
def old_statistics(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.run("INSERT INTO model (name, created_at) SELECT 'm' || n, now() FROM generate_series(1, 30000) AS n")
    here.run("SELECT pg_stat_force_next_flush()")
    here.limits["stale_rows"] = 25_000


@fault("sqlite", "broker", "problem", "redis://127.0.0.1:.* does not answer", "start Redis")
def a_redis_that_is_down(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.settings["broker_url"] = f"redis://:secret-of-redis@127.0.0.1:{free_port()}/0"


@fault("sqlite", "broker", "warning", "drops messages .*allkeys-lru", "maxmemory-policy noeviction")
def a_redis_that_evicts(here: Deployment, request: pytest.FixtureRequest) -> None:
    server: RedisServer = request.getfixturevalue("private_redis_server")
    here.settings["broker_url"] = server.url
    with Redis.from_url(server.url) as client:
        client.config_set("maxmemory", "100mb")
        client.config_set("maxmemory-policy", "allkeys-lru")


def refusing(request: pytest.FixtureRequest, here: Deployment, command: str) -> None:
    """Use a Redis after a command that makes it answer but refuse messages."""
    server: RedisServer = request.getfixturevalue("private_redis_server")
    here.settings["broker_url"] = server.url
    with Redis.from_url(server.url) as client:
        client.execute_command(*command.split())


@fault("sqlite", "broker", "problem", "a replica of 127.0.0.1:1, which takes no messages", "leads to the primary")
def a_redis_that_is_read_only(here: Deployment, request: pytest.FixtureRequest) -> None:
    refusing(request, here, "REPLICAOF 127.0.0.1 1")


@fault("sqlite", "broker", "problem", "of 1B; its memory is full", "raise maxmemory")
def a_redis_that_is_full(here: Deployment, request: pytest.FixtureRequest) -> None:
    refusing(request, here, "CONFIG SET maxmemory 1")


@fault("sqlite", "broker", "problem", "refuses to write .*no permissions", "ACL SETUSER")
def a_redis_without_the_right_to_write(here: Deployment, request: pytest.FixtureRequest) -> None:
    refusing(request, here, "ACL SETUSER default -@write")


@fault("sqlite", "broker", "problem", "refuses to write .*replicas", "fix what Redis names")
def a_redis_with_too_few_replicas(here: Deployment, request: pytest.FixtureRequest) -> None:
    refusing(request, here, "CONFIG SET min-replicas-to-write 1")


@fault(
    "sqlite", "broker", "problem", "redis://… is not a Redis URL; .* percent-encode", "correct SHUFFLEBOARD_BROKER_URL"
)
def a_broker_s_password_that_is_not_encoded(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.settings["broker_url"] = "redis://:secret-of-redis/#1@127.0.0.1:6379/0"


@fault(
    "sqlite",
    "leases",
    "problem",
    "held by dead workers: shard 1 of evaluation 1, process 7 on gpu-1",
    "shuffleboard worker",
)
def a_dead_worker_that_holds_a_lease(here: Deployment, _request: pytest.FixtureRequest) -> None:
    hold(here, lease_until=database_now(-100))
    with write_session(here.engine) as session:
        session.execute(update(Worker).values(last_seen=database_now(-100)))


@fault(
    "sqlite",
    "progress",
    "warning",
    r"slower than measured: shard 1 of evaluation 1, process 7 on gpu-1, in work for 500\d s",
    "worker's log",
)
def a_worker_that_hangs(here: Deployment, _request: pytest.FixtureRequest) -> None:
    hold(here, claimed_at=database_now(-5000))


@fault("sqlite", "progress", "warning", "taken from hung .* shard 1 of evaluation 1, process 7 on gpu-1", "its device")
def a_worker_that_hung(here: Deployment, _request: pytest.FixtureRequest) -> None:
    claimed = hold(here)
    with write_session(here.engine) as session:
        assert stalls.give_up(session, claimed, "worker", "no progress for 300 s")


def hold(here: Deployment, **changes: Any) -> Claim:
    """Claim a shard for the deployment's worker."""
    with write_session(here.engine) as session:
        claimed = claim(session, "worker", queues=["cpu"], lease_seconds=60)
        assert claimed is not None
        if changes:
            session.execute(update(Shard).where(Shard.state == "leased").values(**changes))
    return claimed


@fault("sqlite", "versions", "warning", r"this is 0.1.0\+of-the-tests; others: gpu-2 \(0.0.9\)", "restart the workers")
def a_worker_of_another_version(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.add_worker("other", host="gpu-2", versions={"shuffleboard": "0.0.9"})


@fault("sqlite", "versions", "warning", "workers differ in torch 2.12 and 2.13", "constraints.txt on every host")
def workers_with_different_packages(here: Deployment, _request: pytest.FixtureRequest) -> None:
    for name, version in (("one", "2.12"), ("two", "2.13")):
        here.add_worker(name, host=name, versions={"shuffleboard": CODE, "torch": version})


@fault("sqlite", "queues", "problem", "waiting on gpu, which no live worker", "shuffleboard worker --queues gpu")
def a_queue_without_a_worker(here: Deployment, _request: pytest.FixtureRequest) -> None:
    queue_evaluation(here.engine, here.home, benchmark="other", queue="gpu")


@fault("sqlite", "workers", "warning", "process 8 on gpu-2 since", "check its log")
def a_worker_that_fell_silent(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.add_worker("silent", host="gpu-2", pid=8, last_seen=database_now(-1000))


@fault("sqlite", "workers", "warning", "process 4000000 on .* since", "check its log")
def a_worker_whose_process_has_just_ended(here: Deployment, _request: pytest.FixtureRequest) -> None:
    here.add_worker("ended", host=os.uname().nodename, pid=4_000_000, last_seen=database_now(-15))


@fault("sqlite", "parked shards", "warning", "evaluation 1 .1: MemoryError: too large", "evaluations retry 1")
def a_parked_shard(here: Deployment, _request: pytest.FixtureRequest) -> None:
    with write_session(here.engine) as session:
        session.execute(update(Shard).where(Shard.id == 1).values(state="failed", error="MemoryError: too large"))


@fault("sqlite", "waiting", "warning", "evaluation 1 on cpu since", "add workers")
def work_that_waits_for_days(here: Deployment, _request: pytest.FixtureRequest) -> None:
    with write_session(here.engine) as session:
        session.execute(update(Evaluation).values(created_at=database_now(-90_000)))


@fault("sqlite", "sealing", "warning", "scored and not sealed: evaluation 1", "seal_refused")
def an_evaluation_that_nobody_seals(here: Deployment, _request: pytest.FixtureRequest) -> None:
    with write_session(here.engine) as session:
        session.execute(update(Shard).values(state="done"))


def add_local_model(here: Deployment, content: bytes) -> Path:
    folder = here.home / "weights"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(content)
    with write_session(here.engine) as session:
        files = ModelFiles("1" * 64, "2" * 64, None)
        add_revision(session, "local", RevisionRequest("huggingface", str(folder)), files=files)
        session.execute(update(Worker).values(host=os.uname().nodename))
    return folder


def safetensors(values: int) -> bytes:
    """Return a file that declares four numbers and contains `values` numbers."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4 * values)


@fault("sqlite", "models", "problem", "local revision 1: .*weights: no such file or folder", "put the files back")
def a_model_whose_files_are_gone(here: Deployment, _request: pytest.FixtureRequest) -> None:
    folder = add_local_model(here, safetensors(4))
    assert "models" not in named(here.examine())
    folder.rename(folder.with_name("elsewhere"))


@fault("sqlite", "models", "problem", "local revision 1: model.safetensors has 7. bytes, not 8.", "put the files back")
def a_model_that_was_cut_off(here: Deployment, _request: pytest.FixtureRequest) -> None:
    add_local_model(here, safetensors(2))


@fault("sqlite", "endpoints", "problem", "not on an endpoint", "SHUFFLEBOARD_ENDPOINTS")
def an_endpoint_that_is_not_allowed(here: Deployment, _request: pytest.FixtureRequest) -> None:
    with write_session(here.engine) as session:
        session.execute(update(ModelRevision).values(kind="openai", location="https://api.example.org/v1"))


@fault("sqlite", "endpoints", "problem", "fake: 127.0.0.1:.* does not answer .Connection refused", "start the server")
def an_endpoint_that_is_down(here: Deployment, _request: pytest.FixtureRequest) -> None:
    location = f"http://127.0.0.1:{free_port()}/v1"
    with write_session(here.engine) as session:
        session.execute(update(ModelRevision).values(kind="openai", location=location))
    file = here.home / "endpoints.toml"
    file.write_text(f'[served]\nurl_prefix = "{location}"\n')
    here.settings["endpoints"] = str(file)


@fault("sqlite", "secret key", "problem", "secret.key: others may read .* .mode 644.", "chmod 600 .*secret.key")
def a_secret_key_for_everyone(here: Deployment, _request: pytest.FixtureRequest) -> None:
    (here.home / "secret.key").write_text("0" * 64)
    (here.home / "secret.key").chmod(0o644)


@fault("sqlite", "clocks", "warning", r"the database [+-]3\d\d\.\d s", "NTP")
def a_clock_that_is_wrong(here: Deployment, request: pytest.FixtureRequest) -> None:
    right = services.host_now

    def wrong() -> datetime:
        return right() - timedelta(seconds=333)

    request.getfixturevalue("monkeypatch").setattr(services, "host_now", wrong)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_with_its_remedy(name: str, request: pytest.FixtureRequest) -> None:
    engine_name, plant, check, status, message, remedy = FAULTS[name]
    deployment: Deployment = request.getfixturevalue(engine_name)
    plant(deployment, request)
    findings = deployment.examine()
    finding = findings[check]
    assert finding.status == status
    assert re.search(message, finding.found), finding.found
    assert finding.remedy
    assert re.search(remedy, finding.remedy), finding.remedy
    assert "secret-of-redis" not in str(findings)
    if check != "schema":  # without it, none of the checks that read it run
        # If the worker with the lease is dead, no worker is alive, which is also reported.
        also = {"workers", "queues"} if name == "a_dead_worker_that_holds_a_lease" else set()
        assert named(findings) - also == {check} | EXPECTED.get(engine_name, set())


def test_a_connection_that_has_only_read_keeps_to_the_server_s_settings(
    postgresql: Deployment, request: pytest.FixtureRequest
) -> None:
    a_database_that_only_reads(postgresql, request)
    with read_session(postgresql.engine):
        pass
    with postgresql.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on"


def test_a_disk_that_is_nearly_full_is_named(sqlite: Deployment) -> None:
    sqlite.limits["free_bytes"] = 1 << 60
    findings = sqlite.examine()
    assert named(findings) == {"database space", "data directory"}
    for name in named(findings):
        assert findings[name].status == "problem"
        assert re.search(r"[\d.]+ GiB are free on the disk of /", findings[name].found)
        assert "free space" in findings[name].remedy


def test_what_needs_the_schema_is_not_looked_at_without_it(sqlite: Deployment, request: pytest.FixtureRequest) -> None:
    an_old_schema(sqlite, request)
    findings = sqlite.examine()
    assert findings["leases"].found == "not checked: needs the schema"
    assert findings["secret key"].status == "ok"


def test_a_key_mounted_for_our_group_is_not_open_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.setattr(os, "getegid", lambda: 10001)

    def is_open(mode: int, user: int, group: int) -> bool:
        return host._is_open_to_others(os.stat_result((mode, 0, 0, 0, user, group, 0, 0, 0, 0)))

    assert [is_open(mode, 0, 10001) for mode in (0o440, 0o400, 0o444, 0o460)] == [False, False, True, True]
    assert [is_open(0o440, *owner) for owner in ((0, 100), (10001, 10001))] == [True, True]


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    engine = get_engine(f"postgresql+psycopg://ann:hunter2@127.0.0.1:{free_port()}/none")
    findings = {finding.name: finding for finding in examine(Context(Settings(home=tmp_path), engine, CODE))}
    assert findings["database"].status == "problem"
    assert "ann:***@127.0.0.1" in findings["database"].found
    assert "SHUFFLEBOARD_DATABASE_URL" in findings["database"].remedy
    assert "hunter2" not in str(findings)
    assert findings["schema"].status == "warning"


def test_no_database_is_made_by_looking(tmp_path: Path) -> None:
    engine = get_engine(f"sqlite:///{tmp_path / 'none.db'}")
    findings = {finding.name: finding for finding in examine(Context(Settings(home=tmp_path), engine, CODE))}
    assert findings["database"].status == "problem"
    assert not (tmp_path / "none.db").exists()


# Roles


@pytest.fixture
def roles(postgresql: Deployment) -> Iterator[tuple[Deployment, RoleNames]]:
    """Yield a deployment that works as the application's role, and whose readers are configured."""
    url = postgresql.engine.url.render_as_string(hide_password=False)
    names = RoleNames(f"test_{uuid.uuid4().hex[:12]}")
    apply_roles(postgresql.engine, names, dict.fromkeys(names.all, PASSWORD))
    owner, postgresql.engine = postgresql.engine, get_engine(role_url(url, names.app))
    yield postgresql, names
    postgresql.engine.dispose()
    with owner.begin() as connection:
        for role in names.all:
            connection.exec_driver_sql(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
            connection.exec_driver_sql(f"DROP OWNED BY {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")


def test_rights_are_a_problem_if_the_application_owns_a_table(
    roles: tuple[Deployment, RoleNames], postgresql_database: str
) -> None:
    deployment, names = roles
    findings = deployment.examine()
    assert named(findings) == set()
    assert findings["rights"].found == f"{names.app} owns nothing and may only change rows"
    assert findings["readers"].found == f"{names.reader} and {names.member_reader}: documented views only"
    with get_engine(postgresql_database).begin() as owner:
        owner.exec_driver_sql(f"ALTER TABLE saved_query OWNER TO {names.app}")
        owner.exec_driver_sql(f"GRANT SELECT ON account TO {names.reader}")
        owner.exec_driver_sql(f"GRANT USAGE ON SCHEMA public TO {names.reader}")
    findings = deployment.examine()
    assert named(findings) == {"rights", "readers"}
    assert findings["rights"].status == findings["readers"].status == "problem"
    assert f"{names.app} owns saved_query" in findings["rights"].found
    assert "shuffleboard db roles" in findings["rights"].remedy
    assert f"{names.reader} can read or change 1 relations outside of the schema" in findings["readers"].found
    with get_engine(postgresql_database).begin() as owner:
        owner.exec_driver_sql(f"ALTER TABLE saved_query OWNER TO {names.owner}")
        owner.exec_driver_sql(f"GRANT TRUNCATE ON prediction TO {names.app}")
    assert f"{names.app} may empty, or act as the owner of, prediction" in deployment.examine()["rights"].found


def test_limits_that_a_reader_lifted_are_found_and_set_again(
    roles: tuple[Deployment, RoleNames], postgresql_database: str
) -> None:
    deployment, names = roles
    with psycopg.connect(libpq(role_url(postgresql_database, names.reader))) as reader:
        reader.read_only = False
        reader.execute(f"ALTER ROLE {names.reader} SET statement_timeout = 0")
        reader.execute(f"ALTER ROLE {names.reader} SET join_collapse_limit = 1000")
        reader.execute(f"ALTER ROLE {names.reader} RESET work_mem")
    check = deployment.examine()["readers"]
    assert check.status == "problem"
    assert check.found == (
        f"{names.reader}: join_collapse_limit is 1000 instead of not set; statement_timeout is 0 instead of 60000ms; "
        "work_mem is not set instead of 16MB"
    )
    assert "shuffleboard db roles --prompt" in check.remedy
    apply_roles(get_engine(postgresql_database), names, {})
    assert deployment.examine()["readers"].status == "ok"


# The command


def test_the_command_ends_with_status_1_where_there_is_a_problem(
    sqlite: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", str(sqlite.engine.url))
    outcome = CliRunner().invoke(doctor_command, ["--json", "--free-gib", "0"])
    document = json.loads(outcome.stdout)
    # The worker of the deployment runs another version, which is a warning.
    assert (outcome.exit_code, document["ok"]) == (0, True)
    assert {check["name"] for check in document["checks"] if check["status"] != "ok"} == {"versions"}
    sqlite.run("DROP VIEW board_headlines")
    outcome = CliRunner().invoke(doctor_command, ["--free-gib", "0"])
    assert outcome.exit_code == 1
    assert re.search(r"^PROBLEM  views +missing: board_headlines\n +→ ", outcome.stdout, re.MULTILINE)
    in_order = len(document["checks"]) - 2
    assert outcome.stdout.endswith(f"1 problem, 1 warning, {in_order} in order\n")


@pytest.mark.parametrize(
    ("vllm", "said"), [("0.11.0", "vLLM 0.11.0 scores the models that it knows"), (None, "vLLM is not installed here")]
)
def test_it_says_which_engine_scores_on_the_gpus_of_a_host(
    monkeypatch: pytest.MonkeyPatch, vllm: str | None, said: str
) -> None:
    def installed(_package: str) -> str:
        if vllm is None:
            raise PackageNotFoundError
        return vllm

    monkeypatch.setattr(host.shutil, "which", lambda _name: "/usr/bin/nvidia-smi")
    slices = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5b)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-0f3a)\n"
        "  MIG 1g.5gb+me   Device  1: (UUID: MIG-GPU-5d5b/7/0)"
    )
    answers = {"-c": "1 2.13.0", "-L": slices}
    monkeypatch.setattr(
        host, "_run_program", lambda command: answers.get(command[1], "NVIDIA A100-SXM4-40GB, 580, 40960 MiB, 0 MiB")
    )
    monkeypatch.setattr(host, "installed", installed)
    outcome = host.accelerator(Context(Settings(), make_engine("sqlite://"), CODE))
    assert outcome.status == "ok"
    assert said in outcome.found
    assert "3g.20gb MIG-0f3a, 1g.5gb+me MIG-GPU-5d5b/7/0" in outcome.found
