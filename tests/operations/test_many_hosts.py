"""Hosts that share only PostgreSQL and Redis, both with TLS and passwords."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import select

from registry.db import get_engine, read_session, write_session
from registry.errors import DatabaseError, UsageError
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.queue.broker import broker_address, require_admission
from registry.queue.hints import hints_of, send_hints
from registry.schema.history import current
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import Shard, Worker
from shuffleboard.cli.worker import worker
from tests.operations.secured import Authority, SecuredPostgres, SecuredRedis
from tests.support.commands import eventually, fake_worker, terminate
from tests.support.population import predictions, queue_evaluation
from tests.support.services import free_port

SHARDS = 6


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """Return our authority and a foreign one, which has signed none of our certificates."""
    folder = tmp_path_factory.mktemp("authorities")
    return Authority(folder / "ours"), Authority(folder / "another")


@pytest.fixture(scope="module")
def postgres(authorities: tuple[Authority, Authority]) -> Iterator[SecuredPostgres]:
    with SecuredPostgres(authorities[0]) as server:
        yield server


@pytest.fixture(scope="module")
def redis(authorities: tuple[Authority, Authority]) -> Iterator[SecuredRedis]:
    with SecuredRedis(authorities[0]) as server:
        yield server


@pytest.mark.long
def test_two_hosts_score_one_evaluation_over_tls(
    postgres: SecuredPostgres, redis: SecuredRedis, tmp_path: Path
) -> None:
    """Check workers with separate data directories, among which messages distribute the work."""
    upgrade(postgres.url)
    engine = get_engine(postgres.url)
    shared = {"database_url": postgres.url, "broker_url": redis.url, "lease_seconds": 5.0, "reconcile_seconds": 1.0}
    homes = [tmp_path / "host-1", tmp_path / "host-2"]
    gate = tmp_path / "gate"
    with (
        fake_worker("--gate", gate, home=homes[0], **shared) as first,
        fake_worker("--gate", gate, home=homes[1], **shared) as second,
    ):
        evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
        with write_session(engine) as session:
            hints = hints_of(session, Shard.evaluation_id == evaluation_id)
        assert send_hints(Settings(**shared), hints) == SHARDS

        def at_work() -> int:
            with read_session(engine) as session:
                return len(session.scalars(select(Shard.id).where(Shard.state == "leased")).all())

        eventually(lambda: at_work() == 2, "both are at work")
        gate.touch()

        def complete() -> bool:
            with read_session(engine) as session:
                return find_evaluation(session, evaluation_id).state == "complete"

        eventually(complete, "the evaluation is sealed")
        assert [terminate(first), terminate(second)] == [0, 0]
    with read_session(engine) as session:
        assert len(set(session.scalars(select(Shard.worker_id)))) == 2
        assert set(session.scalars(select(Shard.crashes))) == {0}
        assert len(session.scalars(select(Worker.id).where(Worker.stopped_at.is_not(None))).all()) == 2
        assert verify_evaluation(session, evaluation_id)["problems"] == []
    assert len(predictions(engine, evaluation_id)) == 4 * SHARDS
    encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL"
    with engine.connect() as connection:
        assert connection.exec_driver_sql(encrypted).scalar() is True
    engine.dispose()


# Errors are one line without secrets


def break_database(postgres: SecuredPostgres, wrong: Authority) -> dict[str, tuple[str, str]]:
    return {
        "password": (postgres.url_with(postgres.authority.ca, "hunter2"), "password authentication failed"),
        "authority": (postgres.url_with(wrong.ca), "certificate verify failed"),
        "no TLS": (postgres.url_with(wrong.ca, mode="disable"), "no encryption"),
        "missing file": (
            postgres.url_with(Path("/nowhere/ca.pem")),
            'certificate file "/nowhere/ca.pem" does not exist',
        ),
    }


@pytest.mark.parametrize("what", ["password", "authority", "no TLS", "missing file"])
def test_a_database_that_does_not_let_us_in_says_why(
    what: str, postgres: SecuredPostgres, authorities: tuple[Authority, Authority]
) -> None:
    url, reason = break_database(postgres, authorities[1])[what]
    engine = get_engine(url)
    with pytest.raises(DatabaseError) as refused:
        current(engine)
    engine.dispose()
    message = str(refused.value)
    assert reason in message
    assert "check SHUFFLEBOARD_DATABASE_URL" in message
    assert "\n" not in message
    assert "hunter2" not in message
    assert "correct" not in message


def break_broker(redis: SecuredRedis, wrong: Authority) -> dict[str, tuple[str, str]]:
    return {
        "password": (
            redis.url_with(redis.authority.ca, "hunter2"),
            "refuses the password .*correct SHUFFLEBOARD_BROKER_URL",
        ),
        "authority": (redis.url_with(wrong.ca), "invalid certificate .*ssl_ca_certs=FILE"),
        "no authority": (redis.url_with(None), "invalid certificate .*ssl_ca_certs=FILE"),
        "missing file": (redis.url_with(Path("/nowhere/ca.pem")), "ssl_ca_certs=/nowhere/ca.pem: no such file"),
        "no Redis": ("http://127.0.0.1/0", "is not a Redis URL"),
    }


@pytest.mark.parametrize("what", ["password", "authority", "no authority", "missing file", "no Redis"])
def test_a_broker_that_will_never_let_us_in_says_why(
    what: str, redis: SecuredRedis, authorities: tuple[Authority, Authority]
) -> None:
    url, reason = break_broker(redis, authorities[1])[what]
    with pytest.raises(UsageError) as refused:
        require_admission(Settings(broker_url=url))
    message = str(refused.value)
    assert re.search(reason, message), message
    assert "\n" not in message
    assert "hunter2" not in message
    assert "correct horse" not in message


@pytest.mark.parametrize("what", ["password", "authority", "no authority", "missing file"])
def test_submitting_sends_nothing_to_a_broker_that_is_not_the_one_meant(
    what: str, redis: SecuredRedis, authorities: tuple[Authority, Authority]
) -> None:
    """Check that submitting succeeds all the same, since workers find the work by themselves."""
    url, _ = break_broker(redis, authorities[1])[what]
    assert send_hints(Settings(broker_url=url), [(1, "cpu")]) == 0


def test_a_worker_with_the_wrong_password_does_not_begin(
    postgresql_database: str, redis: SecuredRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", postgresql_database)
    monkeypatch.setenv("SHUFFLEBOARD_BROKER_URL", redis.url_with(redis.authority.ca, "hunter2"))
    outcome = CliRunner().invoke(worker)
    assert isinstance(outcome.exception, UsageError)
    assert "refuses the password" in str(outcome.exception)
    with read_session(get_engine(postgresql_database)) as session:
        assert session.scalars(select(Worker.id)).all() == []


def test_a_broker_that_is_down_is_waited_for() -> None:
    require_admission(Settings(broker_url=f"redis://127.0.0.1:{free_port()}/0"))


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("redis://host/0", "redis://host/0"),
        ("rediss://host/0", "rediss://host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=a", "rediss://host/0?ssl_ca_certs=a&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
    ],
)
def test_celery_checks_certificates_unless_it_is_told_not_to(given: str, used: str) -> None:
    assert broker_address(Settings(broker_url=given)) == used
