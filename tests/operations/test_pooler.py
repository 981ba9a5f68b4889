"""All operations through a real PgBouncer in transaction mode, with fewer connections than clients."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from registry.db import get_engine, is_pooled, read_session
from registry.lookups import find_evaluation
from registry.operations.backup import restore
from registry.operations.migrate import upgrade
from registry.schema.audiences import AUDIENCES, audience_engine
from registry.schema.roles import RoleNames, apply_roles
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import Shard
from tests.sql.conftest import PASSWORD, VISIBILITIES, fill, role_url, run_query
from tests.support.commands import eventually, fake_worker, shuffleboard, shuffleboard_json, terminate
from tests.support.population import queue_evaluation
from tests.support.services import PoolerServer, PostgresServer, postgres_execute
from tests.web.accounts import add_account, bearer, token_of
from web import create_app

pytestmark = pytest.mark.long

CONNECTIONS = 3
SHARDS = 12


@dataclass(frozen=True)
class Pooled:
    """A registry behind a pooler.

    url: the application's URL with the pooler. direct: the superuser's URL with the server.
    """

    url: str
    direct: str
    settings: Settings

    @property
    def engine(self) -> Engine:
        return get_engine(self.url)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """Yield a database with content for each audience, migrated, secured and filled through the pooler."""
    names = RoleNames(f"test_{uuid.uuid4().hex[:12]}")
    with (
        PostgresServer() as server,
        PoolerServer(server, ("postgres", *names.all), connections=CONNECTIONS) as pooler,
    ):
        postgres_execute(server.url, "CREATE DATABASE pooled TEMPLATE template0")
        owner, direct = pooler.database_url("pooled"), server.database_url("pooled")
        upgrade(owner)
        assert apply_roles(get_engine(owner), names, dict.fromkeys(names.all, PASSWORD))
        url = role_url(owner, names.app)
        fill(get_engine(url), tmp_path_factory.mktemp("pooled"))
        yield Pooled(url, direct, Settings(database_url=url))
        for used in (owner, url, direct):
            get_engine(used).dispose()


def list_left_behind(engine: Engine) -> set[tuple[str, int, str, str]]:
    """Return the state that remains in the pooler's connections: search path, statements, limits, isolation."""
    query = (
        "SELECT pg_backend_pid(), current_setting('search_path'), (SELECT count(*) FROM pg_prepared_statements), "
        "current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation')"
    )
    with ExitStack() as stack:  # all of them at once, so that each is a different connection
        connections = [stack.enter_context(engine.connect()) for _ in range(CONNECTIONS)]
        settings = {tuple(connection.exec_driver_sql(query).one()) for connection in connections}
    assert len({pid for pid, *_ in settings}) == CONNECTIONS
    return {tuple(rest) for _, *rest in settings}  # type: ignore[misc]


NOTHING = {('"$user", public', 0, "0", "read committed")}


def test_workers_score_and_seal_while_pages_are_read(pooled: Pooled, tmp_path: Path) -> None:
    """Check two workers and a thread of the website for each audience, which are more than the connections."""
    shared = {"database_url": pooled.url, "lease_seconds": 5.0, "reconcile_seconds": 0.5, "poll_seconds": 0.05}
    client = create_app(database_url=pooled.url, keep_pages=False).test_client()
    pace = ("--seconds-per-prompt", 0.02)
    with (
        fake_worker(*pace, home=tmp_path / "1", **shared) as first,
        fake_worker(*pace, home=tmp_path / "2", **shared) as second,
    ):
        evaluation_id = queue_evaluation(pooled.engine, tmp_path, shards=SHARDS)

        def complete() -> bool:
            assert client.get("/").status_code == client.get("/queue").status_code == HTTPStatus.OK
            with read_session(pooled.engine) as session:
                return find_evaluation(session, evaluation_id).state == "complete"

        eventually(complete, "the evaluation is sealed")
        assert [terminate(first), terminate(second)] == [0, 0]
    with read_session(pooled.engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []
        assert set(session.scalars(select(Shard.crashes))) == set(session.scalars(select(Shard.failures))) == {0}
    assert list_left_behind(pooled.engine) == NOTHING


def test_an_audience_sees_its_own_whichever_connection_it_is_lent(pooled: Pooled) -> None:
    """Check connections that audiences use in turn, also during another audience's transaction."""
    query = "SELECT string_agg(name, ' ' ORDER BY name) FROM benchmark WHERE name = ANY (%(names)s)"
    seen = {"public": "open", "members": "club open", "all": "club open secret"}
    for _ in range(3 * CONNECTIONS):
        for audience in AUDIENCES:
            with pooled.engine.connect() as other, audience_engine(pooled.engine, audience).connect() as connection:
                other.exec_driver_sql("SELECT 1")
                names = connection.exec_driver_sql(query, {"names": list(VISIBILITIES)}).scalar()
                assert names == seen[audience]
                connection.rollback()
                assert connection.exec_driver_sql(query, {"names": list(VISIBILITIES)}).scalar() == seen[audience]
    assert list_left_behind(pooled.engine) == NOTHING


def test_pages_the_api_and_queries_answer_each_viewer(pooled: Pooled) -> None:
    add_account(pooled.engine, "ann", "admin")
    client = create_app(pooled.settings, keep_pages=False).test_client()
    headers = bearer(token_of(pooled.engine, "ann"))
    for _ in range(2 * CONNECTIONS):
        assert client.get("/benchmarks/secret").status_code == HTTPStatus.NOT_FOUND
        assert client.get("/benchmarks/secret", headers=headers).status_code == HTTPStatus.OK
        assert client.get("/api/v1/evaluations").get_json()["total"] >= 1
    query = "SELECT DISTINCT benchmark FROM leaderboard WHERE benchmark IN ('open', 'club', 'secret') ORDER BY 1"
    assert run_query(pooled.settings, "public", query).rows == (("open",),)
    assert run_query(pooled.settings, "members", query).rows == (("club",), ("open",))
    assert list_left_behind(pooled.engine) == NOTHING


def test_commands_read_and_write_through_it(pooled: Pooled, tmp_path: Path) -> None:
    """Check commands that read large results piece by piece, or everything from one snapshot."""
    at = {"database_url": pooled.url}
    assert is_pooled(pooled.engine)
    assert shuffleboard_json("verify", "--all", **at)["ok"]
    shuffleboard("export", "--format", "csv", "--out", tmp_path / "export", **at)
    shuffleboard("evaluations", "export", 1, "--to", tmp_path / "exported", **at)
    shuffleboard("doctor", **at)
    shuffleboard("db", "move", "--to", f"sqlite:///{tmp_path / 'moved.db'}", **at)
    assert list_left_behind(pooled.engine) == NOTHING


def test_a_backup_goes_past_it(pooled: Pooled, tmp_path: Path, postgresql_url: str) -> None:
    """Check that a backup connects directly, since pg_dump would leave the connection without a search path."""
    at = {"database_url": pooled.url}
    refused = shuffleboard("db", "backup", tmp_path / "file", status=2, **at)
    assert "is a connection pooler; set SHUFFLEBOARD_DIRECT_DATABASE_URL" in refused.stderr
    assert not (tmp_path / "file").exists()
    shuffleboard("db", "backup", tmp_path / "file", direct_database_url=pooled.direct, **at)
    assert restore(postgresql_url, tmp_path / "file").problems == []
    assert list_left_behind(pooled.engine) == NOTHING
