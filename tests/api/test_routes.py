"""Every route of the website, with the right that it requires."""

import json
import re
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import Engine
from werkzeug.test import TestResponse

from registry.db import get_engine, write_session
from registry.people.accounts import ROLES, create_account, scopes_of
from registry.settings import Settings
from tests.support.surface import ROUTES, Route
from tests.web.accounts import bearer, csrf_of, token_of
from web import create_app
from web.api import OPERATIONS

VALUES = {"filename": "board.css", "kind": "csv", "digest": "0" * 64}
NAMED = ("name", "account", "model", "benchmark", "board", "suite", "slug")
REFUSALS = {401, 403, 404}


@pytest.fixture
def engine(sqlite_database: str) -> Engine:
    """Return an empty registry with an account of each role."""
    engine = get_engine(sqlite_database)
    with write_session(engine) as session:
        for role in ROLES:
            create_account(session, role, role)
    return engine


@pytest.fixture
def tokens(engine: Engine) -> dict[str, dict[str, str]]:
    """Return role → headers of a request with a token of an account in that role."""
    return {role: bearer(token_of(engine, role)) for role in ROLES}


@pytest.fixture
def app(engine: Engine, tmp_path: Path) -> Flask:
    settings = Settings(home=tmp_path, rate_limits=False, anonymous_sql=False)
    return create_app(settings, database_url=engine.url.render_as_string(hide_password=False))


@pytest.fixture
def closed(engine: Engine, tmp_path: Path) -> Flask:
    """Return a website without anonymous reading."""
    settings = Settings(home=tmp_path, rate_limits=False, anonymous_reading=False)
    return create_app(settings, database_url=engine.url.render_as_string(hide_password=False))


def address(rule: str) -> str:
    """Return the rule with a valid value for each parameter, mostly of an object that does not exist."""
    return re.sub(r"<(?:[^:>]*:)?(\w+)>", lambda found: VALUES.get(found[1], "x" if found[1] in NAMED else "1"), rule)


def ask(app: Flask, route: Route, headers: dict[str, str] | None) -> TestResponse:
    """Send a request without a body; an anonymous form has its CSRF token, so that only rights decide.

    An answer that redirects an anonymous visitor to the sign-in page is returned with the status 401.
    """
    client = app.test_client()
    form = None
    if headers is None and route.method == "POST" and "/api/" not in route.rule:
        form = {"csrf_token": csrf_of(client)}
    answer = client.open(address(route.rule), method=route.method, headers=headers, data=form)
    answer.close()
    if answer.status_code == 302 and answer.headers["Location"].startswith("/sign-in?next="):
        answer.status_code = 401
    return answer


def test_every_route_is_in_the_table_and_nothing_else(app: Flask) -> None:
    routes = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    table = {(route.method, route.rule) for route in ROUTES}
    assert sorted(routes - table) == [], "give these a line in tests/support/surface.py"
    assert sorted(table - routes) == [], "these are gone"


def test_every_tag_of_a_route_is_described(app: Flask) -> None:
    document = app.test_client().get("/api/v1/openapi.json").json
    assert {operation.tag for operation in OPERATIONS} == {tag["name"] for tag in document["tags"]}


@pytest.mark.parametrize("role", ["anonymous", *ROLES])
def test_who_may_not_is_refused_and_who_may_is_not(app: Flask, tokens: dict[str, dict[str, str]], role: str) -> None:
    scopes = {"open", "read"} if role == "anonymous" else {"open", *scopes_of(role)}
    wrong = []
    for route in ROUTES:
        allowed = route.right in scopes  # no scopes contain "account", since a token is never enough
        status = ask(app, route, tokens.get(role)).status_code
        if route.rule == "/sign-in" and status == 401:
            continue  # signing in without a name
        if status >= 500 or (status in {401, 403} if allowed else status not in REFUSALS):
            wrong.append((role, route, status))
    assert wrong == []


def test_without_anonymous_reading_only_what_is_open_answers_anonymous_visitors(closed: Flask, engine: Engine) -> None:
    protected = [route for route in ROUTES if (route.method, route.rule) != ("POST", "/sign-in")]
    statuses = {route: ask(closed, route, None).status_code for route in protected}
    assert [route for route, status in statuses.items() if route.right == "open" and status in {401, 403}] == []
    assert [route for route, status in statuses.items() if route.right != "open" and status not in REFUSALS] == []
    assert {statuses[route] for route in protected if "<" not in route.rule and route.right == "read"} == {401}
    token = bearer(token_of(engine, "reader", ["read"]))
    for rule in ("/api/v1/models", "/metrics"):
        assert closed.test_client().get(rule, headers=token).status_code == 200


def test_a_token_without_the_scope_is_refused_what_its_account_may(app: Flask, engine: Engine) -> None:
    narrow = bearer(token_of(engine, "admin", ["read"]))
    protected = [route for route in ROUTES if route.right not in ("open", "read")]
    assert [route for route in protected if ask(app, route, narrow).status_code not in REFUSALS] == []


def test_examples_of_bodies_are_taken_by_their_models() -> None:
    for operation in OPERATIONS:
        if operation.body is not None:
            (example,) = operation.body.model_json_schema()["examples"]
            operation.body.model_validate_json(json.dumps(example))
