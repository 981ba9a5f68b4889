"""Accounts for tests of the website, which are created in the database and signed in with the form."""

import re
from functools import cache

from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, select

from registry.db import read_session, write_session
from registry.people.accounts import ROLES, create_account, find_account, issue_token, scopes_of
from registry.tables.accounts import AuditEvent

PASSWORD = "correct horse battery"


@cache
def _hash() -> str:
    """Return the hash of the tests' password, computed once per process, since it takes long."""
    return PasswordHasher().hash(PASSWORD)


def add_account(engine: Engine, name: str, role: str) -> None:
    with write_session(engine) as session:
        create_account(session, name, role).password_hash = _hash()


def add_one_of_each_role(engine: Engine) -> None:
    """Create an account of each role, with the role's name."""
    for role in ROLES:
        add_account(engine, role, role)


def token_of(engine: Engine, name: str, scopes: list[str] | None = None, days: int | None = None) -> str:
    """Return a new token of an account, by default with all scopes of the account."""
    with write_session(engine) as session:
        account = find_account(session, name)
        return issue_token(session, account, "test", scopes or sorted(scopes_of(account.role)), days)[1]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def add_maintainer(engine: Engine) -> dict[str, str]:
    """Create a maintainer and return the headers for the account's requests."""
    add_account(engine, "maintainer", "maintainer")
    return bearer(token_of(engine, "maintainer"))


def csrf_of(client: FlaskClient, page: str = "/sign-in") -> str:
    """Return the CSRF token of a form on a page."""
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get(page).text)
    assert token is not None, page
    return token[1]


def signed_in(app: Flask, name: str) -> FlaskClient:
    """Return a browser in which an account is signed in."""
    client = app.test_client()
    answer = client.post("/sign-in", data={"csrf_token": csrf_of(client), "name": name, "password": PASSWORD})
    assert answer.status_code == 303, answer.text
    return client


def refusals(engine: Engine) -> list[tuple[str, str, str | None]]:
    """Return (account, action, object) of every refusal in the audit trail."""
    with read_session(engine) as session:
        events = session.scalars(select(AuditEvent).filter_by(outcome="refused").order_by(AuditEvent.id))
        return [(event.actor, event.action, event.target) for event in events]
