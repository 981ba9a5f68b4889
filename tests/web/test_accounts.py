"""Signing in, tokens and roles: permitted and refused actions, and their audit trail."""

import html
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from redis import Redis
from sqlalchemy import Engine, select, update

from registry.db import get_engine, read_session, write_session
from registry.errors import UsageError
from registry.people import accounts
from registry.settings import Settings
from registry.tables.accounts import Account, ApiToken, BrowserSession
from tests.support.services import RedisServer
from tests.web.accounts import (
    PASSWORD,
    add_account,
    add_one_of_each_role,
    bearer,
    csrf_of,
    refusals,
    signed_in,
    token_of,
)
from web import create_app
from web.who import throttle
from web.who.identity import client

pytestmark = pytest.mark.one_engine


@pytest.fixture
def engine(database: str) -> Engine:
    engine = get_engine(database)
    add_one_of_each_role(engine)
    return engine


@pytest.fixture
def app(engine: Engine, database: str) -> Flask:
    return create_app(database_url=database)


def test_an_account_signs_in_and_out(app: Flask, engine: Engine) -> None:
    client = signed_in(app, "reader")
    assert "Role: <strong>reader</strong>" in client.get("/account").text
    cookie = client.get_cookie("shuffleboard_session")
    assert cookie is not None
    assert cookie.http_only
    assert cookie.same_site == "Lax"
    client.post("/sign-out", data={"csrf_token": csrf_of(client, "/account")})
    assert client.get("/account").status_code == 401
    assert PASSWORD not in str(client.get("/account").text)


def test_a_copied_cookie_ends_with_the_session_it_was_copied_from(app: Flask, engine: Engine) -> None:
    def copy_of(client: FlaskClient) -> FlaskClient:
        thief = app.test_client()
        cookie = client.get_cookie("shuffleboard_session")
        assert cookie is not None
        thief.set_cookie("shuffleboard_session", cookie.value)
        assert thief.get("/account").status_code == 200
        return thief

    def post(client: FlaskClient, path: str, **form: str) -> int:
        return client.post(path, data={"csrf_token": csrf_of(client, "/account"), **form}).status_code

    one, other = signed_in(app, "reader"), signed_in(app, "reader")
    copy = copy_of(one)
    assert post(one, "/sign-out") == 303
    assert (copy.get("/account").status_code, other.get("/account").status_code) == (401, 200)
    copy = copy_of(other)
    new = "another long password"
    assert post(other, "/account/password", old=PASSWORD, new=new, again=new) == 303
    assert (copy.get("/account").status_code, other.get("/account").status_code) == (401, 200)
    with write_session(engine) as session:
        accounts.set_password(accounts.find_account(session, "reader"), PASSWORD)
    assert other.get("/account").status_code == 401
    one, other = signed_in(app, "reader"), signed_in(app, "reader")
    copy = copy_of(one)
    assert "signed in on 2 browsers" in other.get("/account").text
    assert post(other, "/account/sign-out") == 303
    assert [client.get("/account").status_code for client in (one, other, copy)] == [401] * 3


def test_a_session_ends_some_time_after_sign_in_despite_use(app: Flask, engine: Engine) -> None:
    client = signed_in(app, "reader")
    with write_session(engine) as session:
        begun = session.scalars(select(BrowserSession.created_at)).one()
        session.execute(update(BrowserSession).values(created_at=begun - timedelta(hours=167)))
    assert client.get("/account").status_code == 200
    with write_session(engine) as session:
        session.execute(update(BrowserSession).values(created_at=begun - timedelta(hours=169)))
    assert client.get("/account").status_code == 401
    signed_in(app, "submitter")
    with read_session(engine) as session:
        assert session.scalars(select(BrowserSession.account_id)).all() == [
            accounts.find_account(session, "submitter").id
        ]


@pytest.mark.parametrize(("name", "password"), [("reader", "wrong password!"), ("nobody", PASSWORD), ("reader", "")])
def test_a_wrong_name_or_password_is_refused_in_the_same_words(
    app: Flask, engine: Engine, name: str, password: str
) -> None:
    client = app.test_client()
    answer = client.post("/sign-in", data={"csrf_token": csrf_of(client), "name": name, "password": password})
    assert answer.status_code == 401
    assert "wrong name or password" in answer.text
    assert refusals(engine) == [("anonymous", "sign-in", name)]


def test_guessing_is_slowed_down(app: Flask, engine: Engine) -> None:
    client = app.test_client()
    token = csrf_of(client)
    statuses = [
        client.post(
            "/sign-in", data={"csrf_token": token, "name": "admin", "password": f"guess number {number}"}
        ).status_code
        for number in range(11)
    ]
    assert statuses == [401] * 10 + [429]
    answer = client.post("/sign-in", data={"csrf_token": token, "name": "admin", "password": PASSWORD})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert refusals(engine)[-1][1] == "request"


def guess(app: Flask, address: str, password: str = "a wrong password", name: str = "reader") -> int:
    """Return the status of signing in from an address."""
    client = app.test_client()
    form = {"csrf_token": csrf_of(client), "name": name, "password": password}
    return client.post("/sign-in", data=form, environ_base={"REMOTE_ADDR": address}).status_code


def test_wrong_passwords_from_one_address_make_nobody_else_wait(app: Flask, engine: Engine) -> None:
    statuses = [guess(app, "203.0.113.9") for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    assert guess(app, "198.51.100.7", PASSWORD) == 303
    assert guess(app, "203.0.113.9", name="submitter") == 401


def test_each_further_wrong_password_doubles_the_wait(app: Flask) -> None:
    waits = []
    with app.test_request_context("/"):
        for _ in range(13):
            throttle.count_wrong("reader", "203.0.113.9")
            waits.append(throttle.wait_s("reader", "203.0.113.9", known=False))
            throttle._storage().clear("wrong-password:203.0.113.9:reader:wait")  # as if it had been waited for
    assert waits[:9] == [0] * 9
    assert [round(wait, -1) for wait in waits[9:]] == [30, 60, 120, 240]


def test_guesses_from_everywhere_do_not_lock_out_an_accounts_own_address(app: Flask, engine: Engine) -> None:
    assert guess(app, "198.51.100.7", PASSWORD) == 303
    with app.test_request_context("/"):
        for number in range(throttle.FREE_FROM_ANYWHERE):
            throttle.count_wrong("reader", f"203.0.113.{number}")
    assert guess(app, "192.0.2.1", PASSWORD) == 429
    assert guess(app, "198.51.100.7") == 401
    assert guess(app, "198.51.100.7", PASSWORD) == 303


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        # Proxies that add the connection's port write it like this.
        ("203.0.113.9:51234", "203.0.113.9"),
        ("[2001:db8:1:2:3:4:5:6]:51234", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3:4:5:7]", "2001:db8:1:2::/64"),
        # Tunnels: a holder of one IPv4 address has 65,536 such networks, and users of a translator share one.
        ("2002:cb00:7109:1:2:3:4:5", "203.0.113.9"),
        ("2001:0:4136:e378:8000:63bf:34ff:8ef6", "203.0.113.9"),
        ("64:ff9b::203.0.113.9", "203.0.113.9"),
        ("not an address", "not an address"),
        (None, ""),
    ],
)
def test_an_ipv6_subscriber_counts_as_one(address: str | None, counted: str) -> None:
    assert throttle.network(address) == counted


TARGETS = {
    "/queue": "/queue",
    "/?q=a%20b&page=2": "/?q=a%20b&page=2",
    "https://elsewhere.example/": "/",
    "//elsewhere.example/": "/",
    "///elsewhere.example/": "/",
    "/\\elsewhere.example": "/",
    "/\t/elsewhere.example": "/",
    "javascript:alert(1)": "/",
    "queue": "/",
    "/a\r\nSet-Cookie: x=1": "/",
}
"""Requested target of a redirection → its actual target."""


def test_signing_in_leads_on_to_a_page_of_this_site_only(app: Flask, engine: Engine) -> None:
    for target, wanted in TARGETS.items():
        client = app.test_client()
        answer = client.post(
            "/sign-in",
            data={"csrf_token": csrf_of(client), "name": "reader", "password": PASSWORD, "next": target},
        )
        assert (answer.status_code, answer.headers["Location"]) == (303, wanted)


def test_choosing_colours_is_remembered_and_leads_back_to_this_site_only(app: Flask) -> None:
    client = app.test_client()
    for target, wanted in TARGETS.items():
        answer = client.get("/theme", query_string={"theme": "dark", "next": target})
        assert (answer.status_code, answer.headers["Location"]) == (303, wanted)
    assert 'data-theme="system"' in app.test_client().get("/models").text
    assert 'data-theme="dark"' in client.get("/models").text, "not the page that is kept for others"
    assert client.get("/theme?theme=%22onload").status_code == 400
    client.get("/theme?theme=system")
    assert client.get_cookie("shuffleboard_theme") is None
    client.set_cookie("shuffleboard_theme", '"><script>')
    assert 'data-theme="system"' in client.get("/models").text


def test_whoever_is_not_signed_in_is_led_to_sign_in_and_back(app: Flask, engine: Engine) -> None:
    for path in ("/account", "/submit", "/models/nobody", "/nowhere"):
        client = app.test_client()
        page = client.get(path)
        assert page.status_code in (401, 404)
        (link,) = set(re.findall(r'href="(/sign-in\?next=[^"]*)"', page.text.partition("<footer")[0]))
        form = client.get(html.unescape(link)).text
        form = form.partition("<main")[2]
        target = html.unescape(re.search(r'name="next" value="([^"]*)"', form)[1])
        token = re.search(r'name="csrf_token" value="([^"]*)"', form)[1]
        data = {"csrf_token": token, "name": "submitter", "password": PASSWORD, "next": target}
        answer = client.post("/sign-in", data=data, follow_redirects=True)
        assert unquote(answer.request.full_path.rstrip("?")) == unquote(path)
        assert ">submitter</a>" in answer.text, "the page of an error knows who looks at it, too"


def test_a_session_that_began_before_signing_in_does_not_go_on(app: Flask, engine: Engine) -> None:
    client = app.test_client()
    before = csrf_of(client)
    client.post("/sign-in", data={"csrf_token": before, "name": "reader", "password": PASSWORD})
    answer = client.post("/sign-out", data={"csrf_token": before})
    assert answer.status_code == 400


def test_a_form_without_its_token_is_refused_and_changes_nothing(app: Flask, engine: Engine) -> None:
    client = signed_in(app, "admin")
    for data in ({}, {"csrf_token": "forged"}, {"csrf_token": csrf_of(app.test_client())}):
        answer = client.post("/accounts", data={"name": "mallory", "role": "admin", **data})
        assert answer.status_code == 400
    with read_session(engine) as session:
        assert session.scalar(select(Account).filter_by(name="mallory")) is None
    assert [(who, what) for who, what, _ in refusals(engine)] == [("admin", "request")] * 3


def test_an_account_makes_uses_and_revokes_a_token(app: Flask, engine: Engine) -> None:
    client = signed_in(app, "submitter")
    form = {"csrf_token": csrf_of(client, "/account"), "name": "nightly", "scopes": ["read", "submit"], "days": "7"}
    answer = client.post("/account/tokens", data=form)
    assert answer.status_code == 201
    secret = answer.text.split('id="secret">')[1].split("<")[0]
    assert secret not in client.get("/account").text
    with read_session(engine) as session:
        token = session.scalars(select(ApiToken)).one()
        assert token.scopes == ["read", "submit"]
        assert secret not in {str(value) for value in vars(token).values()}
    api = app.test_client()
    assert api.get("/api/v1/evaluations", headers=bearer(secret)).status_code == 200
    client.post(f"/account/tokens/{token.id}/revoke", data={"csrf_token": csrf_of(client, "/account")})
    answer = api.get("/api/v1/evaluations", headers=bearer(secret))
    assert answer.status_code == 401
    assert "was revoked" in answer.get_json()["detail"]
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_when_a_token_was_used_is_written_once_a_minute(app: Flask, engine: Engine) -> None:
    token = token_of(engine, "reader")

    def read_used() -> datetime | None:
        with read_session(engine) as session:
            return session.scalars(select(ApiToken.last_used_at)).one()

    assert read_used() is None
    app.test_client().get("/api/v1/models", headers=bearer(token))
    first = read_used()
    assert first is not None
    app.test_client().get("/api/v1/models", headers=bearer(token))
    assert read_used() == first
    with write_session(engine) as session:
        session.execute(update(ApiToken).values(last_used_at=first - timedelta(seconds=61)))
    app.test_client().get("/api/v1/models", headers=bearer(token))
    again = read_used()
    assert again is not None
    assert again >= first


def test_a_token_cannot_have_what_its_account_has_not(app: Flask, engine: Engine) -> None:
    client = signed_in(app, "reader")
    form = {"csrf_token": csrf_of(client, "/account"), "name": "more", "scopes": ["read", "admin"]}
    answer = client.post("/account/tokens", data=form)
    assert answer.status_code == 400
    assert "reader is reader and may not admin" in answer.text


def test_a_token_loses_what_its_account_loses(app: Flask, engine: Engine) -> None:
    token = token_of(engine, "maintainer")
    with write_session(engine) as session:
        assert accounts.viewer_of_token(session, token).audience == "all"
        accounts.set_role(session, accounts.find_account(session, "maintainer"), "reader")
        viewer = accounts.viewer_of_token(session, token)
        assert viewer.scopes == {"read", "sql"}
        assert viewer.audience == "members"
        accounts.disable(session, accounts.find_account(session, "maintainer"))
    assert "disabled" in app.test_client().get("/api/v1/models", headers=bearer(token)).get_json()["detail"]


def test_tokens_that_do_not_hold_are_refused_whatever_else_the_request_has(app: Flask, engine: Engine) -> None:
    browser = signed_in(app, "admin")
    expired = token_of(engine, "reader", days=1)
    with write_session(engine) as session:
        session.execute(update(ApiToken).values(expires_at=datetime(2020, 1, 1, tzinfo=UTC)))
    foreign = accounts.TOKEN_PREFIX + "A" * 43
    cases = {expired: "expired on 2020-01-01", foreign: "unknown token", "shb_short": "not a token", "": "not a token"}
    for token, reason in cases.items():
        answer = browser.get("/api/v1/models", headers=bearer(token))
        assert answer.status_code == 401, token
        assert reason in answer.get_json()["detail"]
    assert browser.get("/api/v1/models", headers={"Authorization": "Basic YTpi"}).status_code == 401
    assert len(refusals(engine)) == len(cases) + 1


@pytest.mark.parametrize("days", [0, accounts.MAX_TOKEN_DAYS + 1])
def test_a_token_is_valid_for_a_day_to_ten_years(engine: Engine, days: int) -> None:
    with pytest.raises(UsageError, match=f"^{days} days: a token may be valid for 1 to 3,650 days"):
        token_of(engine, "reader", days=days)


def test_changing_the_password_signs_other_browsers_out(app: Flask, engine: Engine) -> None:
    one, other = signed_in(app, "reader"), signed_in(app, "reader")
    form = {"old": PASSWORD, "new": "another long password", "again": "another long password"}
    wrong = one.post("/account/password", data=form | {"old": "x", "csrf_token": csrf_of(one, "/account")})
    assert (wrong.status_code, other.get("/account").status_code) == (400, 200)
    differing = one.post("/account/password", data=form | {"again": "y", "csrf_token": csrf_of(one, "/account")})
    assert "passwords differ" in differing.text
    right = one.post("/account/password", data=form | {"csrf_token": csrf_of(one, "/account")})
    assert (right.status_code, one.get("/account").status_code, other.get("/account").status_code) == (303, 200, 401)


@pytest.mark.parametrize("page", ["/accounts", "/accounts/reader", "/audit"])
def test_only_an_admin_keeps_accounts(app: Flask, engine: Engine, page: str) -> None:
    assert app.test_client().get(page).status_code == 401
    for role in ("reader", "submitter", "maintainer"):
        answer = signed_in(app, role).get(page)
        assert answer.status_code == 403
        assert f"{role} is {role}" in answer.text
    assert signed_in(app, "admin").get(page).status_code == 200


def test_an_admin_makes_changes_and_disables_an_account(app: Flask, engine: Engine) -> None:
    admin = signed_in(app, "admin")

    def post(path: str, **form: str) -> int:
        return admin.post(path, data={"csrf_token": csrf_of(admin, "/accounts"), **form}).status_code

    assert post("/accounts", name="eve", role="reader", password=PASSWORD) == 303
    assert post("/accounts", name="eve", role="reader", password=PASSWORD) == 400
    assert post("/accounts", name="../eve", role="reader") == 400
    assert post("/accounts", name="short", role="reader", password="short") == 400
    assert post("/accounts", name="odd", role="emperor") == 400
    eve = signed_in(app, "eve")
    assert post("/accounts/eve", change="role", role="maintainer") == 303
    assert "maintainer" in eve.get("/account").text
    assert post("/accounts/eve", change="disable") == 303
    assert eve.get("/account").status_code == 401
    assert post("/accounts/admin", change="disable") == 400  # the only admin there is
    assert post("/accounts/nobody", change="disable") == 404
    assert post("/accounts/eve", change="nonsense") == 400
    page = admin.get("/audit").text
    for action in ("account.make", "account.role", "account.disable"):
        assert action in page


def test_the_last_admin_who_can_sign_in_stays(engine: Engine) -> None:
    with write_session(engine) as session:
        admin = accounts.find_account(session, "admin")
        with pytest.raises(UsageError, match="only admin who can sign in"):
            accounts.set_role(session, admin, "reader")
        accounts.create_account(session, "robot", "admin")
        with pytest.raises(UsageError, match="only admin who can sign in"):
            accounts.disable(session, admin)


def test_names_and_passwords_of_users_are_escaped_wherever_they_are_shown(app: Flask, engine: Engine) -> None:
    admin = signed_in(app, "admin")
    hostile = "<script>alert(1)</script>"
    answer = admin.post(
        "/accounts", data={"csrf_token": csrf_of(admin, "/accounts"), "name": hostile, "role": "reader"}
    )
    assert answer.status_code == 400
    assert hostile not in answer.text
    client = app.test_client()
    answer = client.post("/sign-in", data={"csrf_token": csrf_of(client), "name": hostile, "password": "x"})
    assert hostile not in answer.text
    assert hostile not in admin.get("/audit").text
    assert "&lt;script&gt;" in admin.get("/audit").text
    form = {"csrf_token": csrf_of(admin, "/account"), "name": hostile, "scopes": ["read"]}
    assert hostile not in admin.post("/account/tokens", data=form).text


# Caches


def test_what_a_member_sees_is_kept_by_no_cache_in_between(app: Flask, engine: Engine) -> None:
    answer = app.test_client().get("/api/v1/models", headers=bearer(token_of(engine, "reader")))
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert {"Authorization", "Cookie"} <= set(answer.vary)


# The key that signs cookies


def test_the_key_is_made_once_and_for_its_owner_alone(database: str, tmp_path) -> None:
    keys = {create_app(Settings(home=tmp_path), database_url=database).secret_key for _ in range(3)}
    assert len(keys) == 1
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if "key" in path.name) == ["secret.key"]


def test_a_key_that_is_missing_or_short_is_named(database: str, tmp_path) -> None:
    with pytest.raises(UsageError, match="no-such-file: the key that signs cookies cannot be read"):
        create_app(Settings(secret_key_file=tmp_path / "no-such-file"), database_url=database)
    (tmp_path / "short").write_text("abc")
    with pytest.raises(UsageError, match="3 bytes are too few for a key"):
        create_app(Settings(secret_key_file=tmp_path / "short"), database_url=database)


def test_behind_https_cookies_are_sent_over_https_alone(database: str, engine: Engine) -> None:
    app = create_app(Settings(public_url="https://board.example.org"), database_url=database)
    client = app.test_client()
    answer = client.get("/sign-in", base_url="https://board.example.org")
    assert "Secure" in answer.headers["Set-Cookie"]
    assert "max-age" in answer.headers["Strict-Transport-Security"]


def test_forwarded_addresses_hold_only_behind_a_trusted_proxy(database: str, engine: Engine) -> None:
    add_account(engine, "someone", "reader")
    for proxies, wanted in ((0, "127.0.0.1"), (1, "192.0.2.7")):
        client = create_app(Settings(trusted_proxies=proxies), database_url=database).test_client()
        client.post(
            "/sign-in",
            data={"csrf_token": csrf_of(client), "name": "someone", "password": "wrong password"},
            headers={"X-Forwarded-For": "192.0.2.7"},
        )
        with read_session(engine) as session:
            from registry.tables.accounts import AuditEvent

            newest = session.scalars(select(AuditEvent).order_by(AuditEvent.id.desc()).limit(1)).one()
            assert newest.address == wanted


def test_every_answer_names_its_request_as_the_log_does(app: Flask) -> None:
    client = app.test_client()
    assert client.get("/", headers={"X-Request-Id": "from-the-proxy.1"}).headers["X-Request-Id"] == "from-the-proxy.1"
    made_up = client.get("/nowhere", headers={"X-Request-Id": "two\twords"}).headers["X-Request-Id"]
    assert len(made_up) == 32
    assert client.get("/").headers["X-Request-Id"] != made_up


def test_addresses_of_one_ipv6_network_are_one_client(app: Flask) -> None:
    def count(address: str) -> str:
        with app.test_request_context("/", environ_base={"REMOTE_ADDR": address}):
            return client()

    assert count("2001:db8:1:2::1") == count("2001:db8:1:2:ffff::9") != count("2001:db8:1:3::1")
    assert count("203.0.113.9") != count("203.0.113.10")


@pytest.mark.parametrize("command", ["REPLICAOF 127.0.0.1 1", "CONFIG SET maxmemory 1", "CLIENT PAUSE 60000 ALL"])
def test_people_sign_in_while_redis_refuses_to_count(
    engine: Engine, database: str, private_redis_server: RedisServer, command: str
) -> None:
    app = create_app(Settings(database_url=database, broker_url=private_redis_server.url))
    assert signed_in(app, "reader").get("/account").status_code == 200
    with Redis.from_url(private_redis_server.url) as client:
        client.execute_command(*command.split())
    assert signed_in(app, "reader").get("/account").status_code == 200
    assert guess(app, "203.0.113.9") == 401
