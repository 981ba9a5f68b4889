"""The SQL page, accounts and tokens over the API."""

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine

from registry.db import get_engine
from tests.sql.conftest import Asked, asked, postgresql_asked, sqlite_asked
from tests.web.accounts import add_one_of_each_role, bearer, refusals, token_of
from web import create_app

__all__ = ["asked", "postgresql_asked", "sqlite_asked"]

pytestmark = pytest.mark.one_engine


@pytest.fixture
def engine(database: str) -> Engine:
    engine = get_engine(database)
    add_one_of_each_role(engine)
    return engine


@pytest.fixture
def client(engine: Engine, database: str) -> FlaskClient:
    return create_app(database_url=database).test_client()


def test_a_query_is_asked_and_answered(asked: Asked) -> None:
    client = create_app(asked.settings.model_copy(update={"anonymous_sql": True})).test_client()
    answer = client.post("/api/v1/sql", json={"query": "SELECT benchmark, scored FROM leaderboard"})
    document = answer.get_json()
    assert (answer.status_code, document["rows"], document["types"]) == (200, [["open", 4]], ["VARCHAR", "BIGINT"])
    assert document["as_of"].endswith("Z")
    answer = client.post("/api/v1/sql", json={"query": "DELETE FROM leaderboard"})
    assert answer.status_code == 400
    assert "SELECT" in answer.get_json()["detail"]


def test_queries_are_kept_and_deleted(client: FlaskClient, engine: Engine) -> None:
    reader, other = bearer(token_of(engine, "reader")), bearer(token_of(engine, "submitter"))
    body = {"name": "mine", "query": "SELECT model FROM leaderboard"}
    kept = client.post("/api/v1/queries", json=body, headers=reader)
    assert kept.status_code == 201
    slug = kept.get_json()["slug"]
    assert [item["slug"] for item in client.get("/api/v1/queries", headers=reader).get_json()["items"]] == [slug]
    assert client.get("/api/v1/queries", headers=other).get_json() == {"items": []}
    assert client.delete(f"/api/v1/queries/{slug}", headers=other).status_code == 404
    assert client.delete(f"/api/v1/queries/{slug}", headers=reader).status_code == 204
    assert client.delete(f"/api/v1/queries/{slug}", headers=reader).status_code == 404
    refused = client.post("/api/v1/queries", json=body | {"query": "DROP TABLE evaluation"}, headers=reader)
    assert refused.status_code == 400


def test_an_admin_keeps_accounts_and_tokens(client: FlaskClient, engine: Engine) -> None:
    admin = bearer(token_of(engine, "admin"))
    created = client.post("/api/v1/accounts", json={"name": "eve", "role": "reader"}, headers=admin)
    assert (created.status_code, created.get_json()["password"]) == (201, False)
    token = client.post(
        "/api/v1/accounts/eve/tokens", json={"name": "nightly", "scopes": ["read"], "days": 3}, headers=admin
    ).get_json()
    eve = bearer(token["token"])
    assert client.get("/api/v1/models", headers=eve).status_code == 200
    assert client.get("/api/v1/accounts", headers=eve).status_code == 403
    listed = client.get("/api/v1/accounts/eve/tokens", headers=admin).get_json()["items"]
    assert [(item["begins"], "token" in item) for item in listed] == [(token["token"][:8], False)]
    change = client.patch("/api/v1/accounts/eve", json={"role": "submitter"}, headers=admin)
    assert change.get_json()["role"] == "submitter"
    assert client.patch("/api/v1/accounts/eve", json={}, headers=admin).status_code == 422
    secret = client.patch("/api/v1/accounts/eve", json={"password": "too-short"}, headers=admin)
    assert secret.json["detail"] == "password: String should have at least 12 characters"
    assert client.patch("/api/v1/accounts/admin", json={"disabled": True}, headers=admin).status_code == 400
    assert client.delete(f"/api/v1/accounts/admin/tokens/{token['id']}", headers=admin).status_code == 404
    assert client.delete(f"/api/v1/accounts/eve/tokens/{token['id']}", headers=admin).status_code == 204
    assert client.get("/api/v1/models", headers=eve).status_code == 401
    events = client.get("/api/v1/audit?actor=admin&outcome=done", headers=admin).get_json()["items"]
    assert [event["action"] for event in events] == ["token.revoke", "account.change", "token.make", "account.make"]
    assert token["token"] not in client.get("/api/v1/audit", headers=admin).text
    assert ("eve", "request", "GET /api/v1/accounts") in refusals(engine)
