"""Every route of the website, with what it takes to be answered: a new page must be put into the table."""

import json
import re
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import Engine

from registry.db import get_engine, write_session
from registry.people.accounts import ROLES, create_account, scopes_of
from registry.settings import Settings
from tests.web.accounts import bearer, csrf_of, token_of
from web import create_app
from web.api import OPERATIONS

# "open": anyone, also where anonymous reading is off; "read": anyone who may read; "account": who signed in with a
# password, since a token must not make others; else a scope.
TABLE = {
    ("GET", "/"): "read",
    ("GET", "/boards/<name>/table.<any(csv, parquet, md, tex):form>"): "read",
    ("GET", "/evaluations/<evaluation_id>.bib"): "read",
    ("GET", "/leaderboard.<any(parquet, md, tex):form>"): "read",
    ("GET", "/snapshots/<digest>.bib"): "read",
    ("GET", "/snapshots/<digest>/table.<any(csv, parquet, md, tex):form>"): "read",
    ("GET", "/account"): "account",
    ("POST", "/account/password"): "account",
    ("POST", "/account/tokens"): "account",
    ("POST", "/account/tokens/<int:token_id>/revoke"): "account",
    ("GET", "/accounts"): "admin",
    ("POST", "/accounts"): "admin",
    ("GET", "/accounts/<name>"): "admin",
    ("POST", "/accounts/<name>"): "admin",
    ("POST", "/accounts/tokens/<int:token_id>/revoke"): "admin",
    ("GET", "/api"): "read",
    ("GET", "/api/v1/openapi.json"): "open",
    ("GET", "/audit"): "admin",
    ("GET", "/benchmarks"): "read",
    ("GET", "/benchmarks/<benchmark>"): "read",
    ("GET", "/benchmarks/<benchmark>/answer-moving"): "read",
    ("GET", "/boards"): "read",
    ("GET", "/boards/<name>"): "read",
    ("GET", "/boards/<name>/own"): "read",
    ("POST", "/boards/<name>/own"): "submit",
    ("GET", "/boards/<name>/pairs"): "read",
    ("GET", "/boards/<name>/trade-offs"): "read",
    ("GET", "/chain"): "read",
    ("GET", "/chain/key.pem"): "read",
    ("GET", "/chain/keys/<key>.pem"): "read",
    ("GET", "/compare"): "read",
    ("GET", "/evaluations/<evaluation_id>"): "read",
    ("GET", "/evaluations/<evaluation_id>/provenance"): "read",
    ("POST", "/evaluations/<evaluation_id>/replay"): "maintain",
    ("GET", "/evaluations/<evaluation_id>/questions/<question_id>"): "read",
    ("GET", "/feed.atom"): "read",
    ("GET", "/healthz"): "open",
    ("GET", "/leaderboard.csv"): "read",
    ("GET", "/metrics"): "read",
    ("GET", "/metrics-guide"): "read",
    ("GET", "/models"): "read",
    ("GET", "/models/<model>"): "read",
    ("GET", "/overview"): "read",
    ("GET", "/proof"): "read",
    ("GET", "/protocol"): "read",
    ("GET", "/questions/<question_id>"): "read",
    ("GET", "/queue"): "read",
    ("GET", "/readyz"): "open",
    ("GET", "/sign-in"): "open",
    ("POST", "/sign-in"): "open",
    ("POST", "/sign-out"): "read",
    ("POST", "/account/sign-out"): "account",
    ("GET", "/snapshots/<digest>"): "read",
    ("GET", "/sql"): "sql",
    ("POST", "/sql"): "sql",
    ("GET", "/sql.<any(csv, json, parquet):kind>"): "sql",
    ("POST", "/sql.<any(csv, json, parquet):kind>"): "sql",
    ("GET", "/sql/<slug>"): "sql",
    ("POST", "/sql/<slug>/delete"): "sql",
    ("POST", "/sql/saved"): "sql",
    ("GET", "/static/<path:filename>"): "open",
    ("GET", "/submissions"): "maintain",
    ("GET", "/submissions/<submission_id>"): "submit",
    ("POST", "/submissions/<submission_id>/decide"): "maintain",
    ("POST", "/submissions/<submission_id>/withdraw"): "submit",
    ("GET", "/submit"): "submit",
    ("POST", "/submit"): "submit",
    ("GET", "/theme"): "open",
    ("GET", "/withdrawn"): "read",
    **{(operation.method, f"/api/v1{operation.rule}"): operation.scope for operation in OPERATIONS},
}

VALUES = {"filename": "board.css", "kind": "csv", "digest": "0" * 64}
NAMED = ("name", "account", "model", "benchmark", "board", "suite", "slug")
REFUSALS = {401, 403, 404}


@pytest.fixture
def engine(sqlite_database: str) -> Engine:
    """An empty registry with an account of each role."""
    engine = get_engine(sqlite_database)
    with write_session(engine) as session:
        for role in ROLES:
            create_account(session, role, role)
    return engine


@pytest.fixture
def tokens(engine: Engine) -> dict[str, dict[str, str]]:
    """Role to what its programs send."""
    return {role: bearer(token_of(engine, role)) for role in ROLES}


@pytest.fixture
def app(engine: Engine, tmp_path: Path) -> Flask:
    settings = Settings(home=tmp_path, rate_limits=False, anonymous_sql=False)
    return create_app(settings, database_url=engine.url.render_as_string(hide_password=False))


@pytest.fixture
def closed(engine: Engine, tmp_path: Path) -> Flask:
    """With anonymous reading switched off."""
    settings = Settings(home=tmp_path, rate_limits=False, anonymous_reading=False)
    return create_app(settings, database_url=engine.url.render_as_string(hide_password=False))


def address(rule: str) -> str:
    """The rule with something in each of its places that could be there, and mostly is not."""
    return re.sub(r"<(?:[^:>]*:)?(\w+)>", lambda found: VALUES.get(found[1], "x" if found[1] in NAMED else "1"), rule)


def ask(app: Flask, method: str, rule: str, headers: dict[str, str] | None) -> int:
    """The status of a request without a body; an anonymous form has its CSRF token, so that only rights decide."""
    client = app.test_client()
    form = {"csrf_token": csrf_of(client)} if headers is None and method == "POST" and "/api/" not in rule else None
    answer = client.open(address(rule), method=method, headers=headers, data=form)
    answer.close()
    if answer.status_code == 302 and answer.headers["Location"].startswith("/sign-in"):
        return 401
    return answer.status_code


def test_every_route_is_in_the_table_and_nothing_else(app: Flask) -> None:
    routes = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert sorted(routes - TABLE.keys()) == [], "classify these in TABLE"
    assert sorted(TABLE.keys() - routes) == [], "these are gone"


def test_every_tag_of_a_route_is_described(app: Flask) -> None:
    document = app.test_client().get("/api/v1/openapi.json").json
    assert {operation.tag for operation in OPERATIONS} == {tag["name"] for tag in document["tags"]}


@pytest.mark.parametrize("role", ["anonymous", *ROLES])
def test_who_may_not_is_refused_and_who_may_is_not(app: Flask, tokens: dict[str, dict[str, str]], role: str) -> None:
    scopes = {"open", "read"} if role == "anonymous" else {"open", *scopes_of(role)}
    wrong = []
    for (method, rule), needed in TABLE.items():
        allowed = needed in scopes  # "account" is in nobody's: a token is never enough
        status = ask(app, method, rule, tokens.get(role))
        if rule == "/sign-in" and status == 401:
            continue  # what signing in without a name answers
        if status >= 500 or (status in {401, 403} if allowed else status not in REFUSALS):
            wrong.append((role, method, rule, needed, status))
    assert wrong == []


def test_without_anonymous_reading_only_what_is_open_answers_anonymous_visitors(closed: Flask) -> None:
    statuses = {key: ask(closed, *key, None) for key in TABLE if key != ("POST", "/sign-in")}
    wrong = {
        key: status
        for key, status in statuses.items()
        if (TABLE[key] == "open") != (status not in REFUSALS) and key != ("GET", "/static/<path:filename>")
    }
    assert wrong == {}


def test_a_token_without_the_scope_is_refused_what_its_account_may(app: Flask, engine: Engine) -> None:
    narrow = bearer(token_of(engine, "admin", ["read"]))
    wrong = [
        (key, status)
        for key, needed in TABLE.items()
        if needed not in ("open", "read") and (status := ask(app, *key, narrow)) not in REFUSALS
    ]
    assert wrong == []


def test_examples_of_bodies_are_taken_by_their_models() -> None:
    for operation in OPERATIONS:
        if operation.body is not None:
            (example,) = operation.body.model_json_schema()["examples"]
            operation.body.model_validate_json(json.dumps(example))
