"""Pages and queries from a real standby of PostgreSQL's streaming replication, as long as it keeps up."""

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, event

from registry.db import get_engine, write_session
from registry.operations.migrate import upgrade
from registry.replica import read_only, standing
from registry.schema.audiences import dispose
from registry.schema.history import head
from registry.schema.roles import RoleNames, apply_roles
from registry.settings import Settings
from tests.commands import eventually, shuffleboard_json
from tests.population import add_model
from tests.services import PostgresServer, StandbyServer, postgres_execute
from tests.sql.conftest import PASSWORD, fill
from tests.web.accounts import add_one_of_each_role, bearer, csrf_of, signed_in, token_of
from web import create_app
from web.serving.reading import COOKIE

pytestmark = pytest.mark.long


@dataclass
class Replicated:
    """A registry with a standby. on_replica: the statements that pages and their state asked it, newest last."""

    primary: Engine
    server: PostgresServer
    standby: StandbyServer
    settings: Settings
    on_replica: list[str]

    def app(self) -> Flask:
        return create_app(self.settings)

    def pause(self) -> None:
        """From here on the standby receives the log and does not replay it."""
        postgres_execute(self.standby.url, "SELECT pg_wal_replay_pause()")
        eventually(lambda: self._asked("SELECT pg_get_wal_replay_pause_state()") == "paused", "replay is paused")

    def resume(self) -> None:
        postgres_execute(self.standby.url, "SELECT pg_wal_replay_resume()")

    def catch_up(self) -> None:
        """Waits until the standby has replayed all."""
        eventually(lambda: self.lag() == 0, "the standby has replayed all")

    def lag(self) -> int | None:
        engine = get_engine(self.standby.database_url("replicated"))
        return standing(self.primary, engine, most_seconds=1e9, revision=head()).lag_bytes

    def _asked(self, query: str) -> object:
        with read_only(get_engine(self.standby.database_url("replicated"))).connect() as connection:
            return connection.exec_driver_sql(query).scalar()

    def reads(self, client: FlaskClient, path: str, **options: object) -> tuple[str, bool]:
        """The page, and whether its rows came from the standby."""
        self.on_replica.clear()
        answer = client.get(path, **options)  # type: ignore[arg-type]
        assert answer.status_code == HTTPStatus.OK, answer.text
        return answer.text, any("model" in statement or "benchmark" in statement for statement in self.on_replica)


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    names = RoleNames(f"test_{uuid.uuid4().hex[:12]}")
    asked: list[str] = []
    with PostgresServer(durable=True) as server:  # a standby has what is flushed, so commits are
        postgres_execute(server.url, "CREATE DATABASE replicated TEMPLATE template0")
        url = server.database_url("replicated")
        upgrade(url)
        primary = get_engine(url)
        assert apply_roles(primary, names, dict.fromkeys(names.all, PASSWORD))
        fill(primary, tmp_path_factory.mktemp("replicated"))
        add_one_of_each_role(primary)
        with StandbyServer(server) as standby:
            settings = Settings(
                database_url=url,
                replica_url=standby.database_url("replicated"),
                anonymous_sql=True,
                sql_at_once=4,
            )

            def note(connection: object, _cursor: object, statement: str, *_rest: object) -> None:
                if connection.engine.url.port == standby.port:  # type: ignore[attr-defined]
                    asked.append(statement)

            event.listen(Engine, "before_cursor_execute", note)
            made = Replicated(primary, server, standby, settings, asked)
            with write_session(primary) as session:  # the age of what it replayed is known once it replayed something
                add_model(session, "replayed-first")
            made.catch_up()
            yield made
            event.remove(Engine, "before_cursor_execute", note)
            for used in (settings.resolved_replica_url(), standby.database_url("replicated"), url):
                dispose(get_engine(used))


@pytest.fixture(autouse=True)
def kept_up(replicated: Replicated) -> Iterator[None]:
    yield
    if not replicated.standby.runs:
        replicated.standby.start()
    replicated.resume()
    replicated.catch_up()


def test_anonymous_visitors_read_from_the_replica_and_programs_from_the_primary(replicated: Replicated) -> None:
    app = replicated.app()
    client = app.test_client()
    assert replicated.reads(client, "/models")[1]
    assert replicated.reads(client, "/benchmarks/open")[1]
    member = signed_in(app, "reader")
    replicated.catch_up()
    assert replicated.reads(member, "/benchmarks/open")[1]
    headers = bearer(token_of(replicated.primary, "admin"))
    assert not replicated.reads(client, "/api/v1/models", headers=headers)[1]
    assert client.get("/benchmarks/secret").status_code == HTTPStatus.NOT_FOUND


def test_a_kept_page_is_made_anew_once_the_replica_has_replayed_something(replicated: Replicated) -> None:
    client = replicated.app().test_client()
    name = f"m{uuid.uuid4().hex[:8]}"
    assert name not in replicated.reads(client, "/models")[0]
    replicated.pause()
    with write_session(replicated.primary) as session:
        add_model(session, name)
    assert name not in replicated.reads(client, "/models")[0]
    replicated.resume()
    replicated.catch_up()
    text, from_replica = replicated.reads(client, "/models")
    assert name in text
    assert from_replica


def test_a_browser_sees_what_it_wrote_before_the_replica_does(replicated: Replicated) -> None:
    """Saving a query is a write; whoever wrote nothing still reads from the replica."""
    app = replicated.app()
    member, visitor = signed_in(app, "admin"), app.test_client()
    replicated.catch_up()
    assert replicated.reads(member, "/models")[1]
    replicated.pause()
    token = csrf_of(member, "/sql")
    name = f"m{uuid.uuid4().hex[:8]}"
    with write_session(replicated.primary) as session:  # stands for what the form's request changes
        add_model(session, name)
    saved = member.post("/sql/saved", data={"csrf_token": token, "name": "mine", "q": "SELECT 1 AS one"})
    assert saved.status_code == HTTPStatus.SEE_OTHER
    assert re.search(rf"{COOKIE}=[0-9A-F]+/[0-9A-F]+; .*HttpOnly", "\n".join(saved.headers.getlist("Set-Cookie")))
    text, from_replica = replicated.reads(member, "/models")
    assert (name in text, from_replica) == (True, False)
    text, from_replica = replicated.reads(visitor, "/models")
    assert (name in text, from_replica) == (False, True)
    replicated.resume()
    replicated.catch_up()
    text, from_replica = replicated.reads(member, "/models")
    assert (name in text, from_replica) == (True, True)


def test_a_replica_that_dies_is_read_around_and_named(
    replicated: Replicated, capfd: pytest.CaptureFixture[str]
) -> None:
    app = replicated.app()
    client = app.test_client()
    assert replicated.reads(client, "/models")[1]
    assert client.get("/readyz").get_json()["replica"]["used"]
    replicated.standby.kill()
    for path in ("/models", "/benchmarks", "/"):
        answer = client.get(path)
        assert answer.status_code == HTTPStatus.OK
    assert client.get("/readyz").get_json() == {
        "status": "ready",
        "replica": {"used": False, "lag_seconds": None, "lag_bytes": None},
    }
    assert "shuffleboard_replica_used 0.0" in client.get("/metrics").text
    assert "replica_not_used" in "".join(capfd.readouterr())
    found = examined(replicated)
    assert (found["status"], "does not answer" in found["found"]) == ("warning", True)


def test_a_replica_that_is_too_far_behind_is_not_read_from(replicated: Replicated) -> None:
    settings = replicated.settings.model_copy(update={"replica_lag_seconds": 1e-9})
    replicated.pause()
    with write_session(replicated.primary) as session:
        add_model(session, f"m{uuid.uuid4().hex[:8]}")
    client = create_app(settings).test_client()
    assert not replicated.reads(client, "/models")[1]

    def told() -> dict[str, Any]:
        return dict(client.get("/readyz").get_json()["replica"])

    eventually(lambda: told()["lag_bytes"] is not None, "a busy replica answers")
    said = told()
    assert (said["used"], said["lag_bytes"] > 0, said["lag_seconds"] > 0) == (False, True, True)


def test_a_replica_that_keeps_up_is_in_order(replicated: Replicated) -> None:
    found = examined(replicated)
    assert found["status"] == "ok"
    assert re.search(r"\d+\.\d s and \d+ bytes behind", found["found"])


def test_a_replica_of_an_idle_primary_is_not_behind(replicated: Replicated) -> None:
    engine = get_engine(replicated.standby.database_url("replicated"))
    time.sleep(0.3)  # the last transaction is that old by now
    with replicated.primary.connect() as connection:  # what no transaction waits for stays unflushed for a while
        connection.exec_driver_sql("SELECT pg_logical_emit_message(false, 'nothing', 'in particular')")
        found = standing(replicated.primary, engine, most_seconds=0.2, revision=head())
    assert found.trouble == ""


def test_another_primary_is_no_replica(replicated: Replicated) -> None:
    found = standing(replicated.primary, replicated.primary, most_seconds=10.0, revision=head())
    assert found.trouble == "is not a standby of a streaming replication"


def examined(replicated: Replicated) -> dict[str, str]:
    """The doctor's finding about the replica."""
    given = {name: getattr(replicated.settings, name) for name in ("database_url", "replica_url")}
    findings = shuffleboard_json("doctor", **given)
    return next(one for one in findings["checks"] if one["name"] == "replica")
