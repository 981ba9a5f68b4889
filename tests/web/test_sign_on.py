"""Single sign-on: accounts, roles, and every answer that the website must reject."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest
from flask.testing import FlaskClient
from joserfc.jwk import ECKey
from sqlalchemy import Engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.errors import UsageError
from registry.operations.doctor import Context
from registry.people import accounts, identities
from registry.people.identities import Identity
from registry.people.role_rules import load_role_rules
from registry.settings import Settings
from registry.tables.accounts import Account, AuditEvent
from tests.support.commands import shuffleboard
from tests.support.services import free_port
from tests.web.accounts import PASSWORD, add_one_of_each_role, bearer, token_of
from tests.web.openid_stand_in import CLIENT, ISSUER, SECRET, SITE, Adapter, StandIn, encode, key, signed
from web import create_app
from web.who import doctor, openid

pytestmark = pytest.mark.one_engine

CALLBACK = "/sign-in/provider/callback"
DISCOVERY = "/.well-known/openid-configuration"
RULES = """
[[rule]]
role = "reader"
claim = "groups"
values = ["staff"]

[[rule]]
role = "maintainer"
claim = "groups"
values = ["evaluation", "infrastructure"]

[[rule]]
role = "admin"
claim = ["realm_access", "roles"]
values = ["board-admin"]

[[rule]]
role = "submitter"
claim = "email"
values = ["ada@example.org"]
"""
ADA = {"sub": "248", "preferred_username": "ada", "groups": ["staff"]}


@dataclass
class Site:
    engine: Engine
    stand_in: StandIn
    settings: Settings
    client: FlaskClient
    person: dict[str, Any]
    """The provider's claims about people who sign in, unless a test changes them."""

    @property
    def provider(self) -> openid.Provider:
        return self.client.application.extensions["shuffleboard_provider"]

    def browser(self) -> FlaskClient:
        return self.client.application.test_client()


def site_of(url: str, folder: Path, **changes: Any) -> Site:
    (folder / "roles.toml").write_text(RULES)
    configuration = {
        "home": folder,
        "public_url": SITE,
        "oidc_issuer": ISSUER,
        "oidc_name": "Example ID",
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_roles": str(folder / "roles.toml"),
        "rate_limits": False,
    }
    settings = Settings(**configuration | changes)
    app = create_app(settings, database_url=url)
    return anew(Site(get_engine(url), StandIn(), settings, app.test_client(), {}), ADA)


def anew(site: Site, person: dict[str, Any]) -> Site:
    """Return the site with a new browser and provider."""
    app, stand_in = site.client.application, StandIn(claims=person)
    provider = openid.provider_of(site.settings)
    assert provider is not None
    provider.client.client_cls = partial(openid._Session, adapter=Adapter(stand_in))
    app.extensions["shuffleboard_provider"] = provider
    return Site(site.engine, stand_in, site.settings, app.test_client(), person)


@pytest.fixture
def site(database: str, tmp_path: Path) -> Site:
    """Return a site for one test."""
    add_one_of_each_role(get_engine(database))
    return site_of(database, tmp_path)


@pytest.fixture(scope="module")
def lasting_site(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    url = lasting_sqlite()
    add_one_of_each_role(get_engine(url))
    return site_of(url, tmp_path_factory.mktemp("sign-on"))


PEOPLE = count()


@pytest.fixture
def shared(lasting_site: Site) -> Site:
    """Return a site that several tests share; each person who signs in is new to it."""
    number = next(PEOPLE)
    return anew(lasting_site, ADA | {"sub": f"person {number}", "preferred_username": f"ada-{number}"})


def set_out(site: Site, client: FlaskClient | None = None, after: str = "/account") -> dict[str, str]:
    """Begin a sign-in; return the parameters with which the provider redirects back."""
    answer = (client or site.client).get("/sign-in/provider", query_string={"next": after}, base_url=SITE)
    assert answer.status_code == 302, answer.text
    return site.stand_in.authorize(answer.headers["Location"])


def come_back(site: Site, asked: Any, client: FlaskClient | None = None) -> Any:
    return (client or site.client).get(CALLBACK, query_string=asked, base_url=SITE)


def sign_in(site: Site, client: FlaskClient | None = None, **claims: Any) -> Any:
    site.stand_in.claims = site.person | claims
    return come_back(site, set_out(site, client), client)


def page(site: Site, client: FlaskClient | None = None, path: str = "/account") -> Any:
    return (client or site.client).get(path, base_url=SITE)


def post(site: Site, path: str, client: FlaskClient | None = None, **form: str) -> Any:
    client = client or site.client
    token = csrf_of_site(client)
    return client.post(path, data={"csrf_token": token, **form}, base_url=SITE, headers={"Referer": f"{SITE}/"})


def csrf_of_site(client: FlaskClient) -> str:
    text = client.get("/account", base_url=SITE).text
    if 'name="csrf_token"' not in text:
        text = client.get("/sign-in", base_url=SITE).text
    return text.partition('name="csrf_token" value="')[2].partition('"')[0]


def sign_in_by_password(site: Site, name: str) -> FlaskClient:
    client = site.browser()
    assert post(site, "/sign-in", client, name=name, password=PASSWORD).status_code == 303
    return client


def role_of(site: Site, name: str) -> str | None:
    with read_session(site.engine) as session:
        return session.scalar(select(Account.role).filter_by(name=name))


def trail(site: Site) -> list[tuple[str, str, str | None, str, dict[str, Any]]]:
    """Return (account, action, object, outcome, details), oldest first."""
    with read_session(site.engine) as session:
        events = session.scalars(select(AuditEvent).order_by(AuditEvent.id))
        return [(event.actor, event.action, event.target, event.outcome, event.details or {}) for event in events]


# Admission and roles


def test_a_person_signs_in_with_the_rules_role_and_returns(site: Site) -> None:
    assert "Sign in with Example ID" in page(site, path="/sign-in").text
    answer = come_back(site, set_out(site, after="/queue?state=done"))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/queue?state=done")
    text = page(site).text
    assert "Role: <strong>reader</strong>" in text
    assert "linked with Example ID as <code>248</code>" in text
    assert "Current password" not in text
    who = {"issuer": ISSUER, "subject": "248"}
    assert trail(site) == [
        ("ada", "account.make", "ada", "done", {"role": "reader", **who}),
        ("ada", "sign-in", None, "done", who),
    ]
    cookie = site.client.get_cookie("shuffleboard_session", domain="board.example.org")
    assert cookie is not None
    assert (cookie.http_only, cookie.secure, cookie.same_site) == (True, True, "Lax")


def test_no_token_code_or_secret_is_kept_or_logged(shared: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        request = set_out(shared)
        come_back(shared, request)
        with shared.client.session_transaction(base_url=SITE) as cookie:
            kept = json.dumps(dict(cookie))
        shared.stand_in.forge = wrong(aud="another")
        sign_in(shared)
    kept += caplog.text + json.dumps([event[4] for event in trail(shared)])
    assert ISSUER in kept
    assert [secret for secret in (request["code"], SECRET, "eyJ", "opaque") if secret in kept] == []


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": ["staff", "evaluation"]}, "maintainer"),
        ({"groups": "staff"}, "reader"),
        ({"groups": [], "realm_access": {"roles": ["board-admin"]}}, "admin"),
        ({"groups": [], "email": "ada@example.org", "email_verified": True}, "submitter"),
        # Claims that a person might forge.
        ({"role": "admin", "roles": ["admin"], "admin": True}, "reader"),
        ({"groups": ["staff", "admin", "board-admin"]}, "reader"),
        ({"realm_access.roles": ["board-admin"], "realm_access": ["board-admin"]}, "reader"),
        (
            {"groups": ["staff", "staff evaluation", "evaluation,", " evaluation", "EVALUATION", ["evaluation"]]},
            "reader",
        ),
        ({"groups": {"staff": True}}, None),
        ({"groups": ["staffing"]}, None),
        ({"groups": None}, None),
        ({"groups": [], "email": "ada@example.org"}, None),
        ({"groups": [], "email": "ada@example.org", "email_verified": "true"}, None),
        ({"groups": [], "email": "ada@example.org", "email_verified": False}, None),
    ],
)
def test_a_role_comes_from_the_rules_alone(shared: Site, claims: dict[str, Any], role: str | None) -> None:
    answer = sign_in(shared, **claims)
    assert answer.status_code == (403 if role is None else 303), answer.text
    assert role_of(shared, shared.person["preferred_username"]) == role


def test_the_role_is_read_again_at_each_sign_in_and_taken_away(site: Site) -> None:
    sign_in(site, groups=["evaluation"])
    token = token_of(site.engine, "ada")
    second_browser = site.browser()
    sign_in(site, second_browser, groups=["staff"])
    assert role_of(site, "ada") == "reader"
    with read_session(site.engine) as session:
        assert accounts.viewer_of_token(session, token).scopes == {"read", "sql"}
    sign_in(site, second_browser, groups=["infrastructure"])
    assert role_of(site, "ada") == "maintainer"
    answer = sign_in(site, second_browser, groups=["nothing"])
    assert answer.status_code == 403
    assert "gives you a role here" in answer.text
    assert role_of(site, "ada") == "reader"
    # Refusal also ends sessions that were signed in before.
    assert [page(site, client).status_code for client in (site.client, second_browser)] == [401, 401]
    changes = [event[4]["role"] for event in trail(site) if event[1] == "account.role"]
    assert changes == ["reader", "maintainer", "reader"]


def test_the_last_admin_of_the_provider_loses_the_role_with_the_claim(site: Site) -> None:
    sign_in(site, realm_access={"roles": ["board-admin"]})
    with write_session(site.engine) as session:
        accounts.find_account(session, "admin").role = "reader"
    sign_in(site)
    assert role_of(site, "ada") == "reader"


def test_otherwise_gives_a_role_to_those_whom_no_rule_fits(site: Site, tmp_path: Path) -> None:
    (tmp_path / "roles.toml").write_text('otherwise = "submitter"\n' + RULES)
    rules = load_role_rules(str(tmp_path / "roles.toml"))
    assert (rules.role_of({}), rules.role_of({"groups": ["staff"]})) == ("submitter", "reader")


# Which account


def test_a_name_or_an_address_never_leads_to_an_account(site: Site) -> None:
    answer = sign_in(site, sub="evil", preferred_username="admin", email="admin@example.org", email_verified=True)
    assert answer.status_code == 403
    assert "another account has the name &#39;admin&#39;" in answer.text
    assert page(site).status_code == 401
    sign_in(site, sub="248", preferred_username="ada")
    answer = sign_in(site, sub="another person")  # who has taken the name over
    assert answer.status_code == 403
    refused = [event for event in trail(site) if event[1] == "sign-in" and event[3] == "refused"]
    assert [event[4]["subject"] for event in refused] == ["evil", "another person"]


def test_two_browsers_of_a_person_who_is_new_sign_in_one_account(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive = identities.arrive

    def second(session: Session, *who: Any) -> None:
        """Create the other browser's account between this one's lookup and its insert."""
        monkeypatch.undo()
        session.rollback()
        with write_session(shared.engine) as second_session:
            arrive(second_session, *who)
        raise IntegrityError("INSERT INTO account", {}, Exception("not unique"))

    monkeypatch.setattr(identities, "arrive", second)
    assert sign_in(shared).status_code == 303
    assert shared.person["preferred_username"] in page(shared).text


def test_a_person_who_changes_the_name_stays_the_same_account(site: Site) -> None:
    sign_in(site)
    assert sign_in(site, preferred_username="countess").status_code == 303
    assert (role_of(site, "ada"), role_of(site, "countess")) == ("reader", None)


@pytest.mark.parametrize("name", [None, 7, "", "../x", "a b", "x" * 201, "<script>", "a\x00b", "anonymous"])
def test_a_name_that_no_account_may_have_is_refused(shared: Site, name: Any) -> None:
    answer = sign_in(shared, preferred_username=name)
    assert answer.status_code in (400, 403)
    assert "<script>" not in answer.text.partition("<main")[2].partition("</main")[0]
    assert page(shared).status_code == 401


def test_a_disabled_account_does_not_sign_in(site: Site) -> None:
    sign_in(site)
    with write_session(site.engine) as session:
        accounts.disable(session, accounts.find_account(session, "ada"))
    assert page(site).status_code == 401
    answer = sign_in(site, groups=["evaluation"])
    assert answer.status_code == 403
    assert "ada is disabled" in answer.text
    assert role_of(site, "ada") == "reader"


def test_an_owner_links_an_account_by_password_and_gets_the_role(site: Site) -> None:
    client = sign_in_by_password(site, "maintainer")
    assert post(site, "/account/identity", client, password="wrong").status_code == 400
    answer = post(site, "/account/identity", client, password=PASSWORD)
    assert answer.status_code == 200
    url = answer.headers["Refresh"].removeprefix("0; url=")
    answer = come_back(site, site.stand_in.authorize(url), client)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account")
    assert role_of(site, "maintainer") == "maintainer"
    second_browser = site.browser()
    sign_in(site, second_browser)
    assert "<h1>maintainer</h1>" in page(site, second_browser).text
    assert role_of(site, "maintainer") == "reader"
    assert role_of(site, "ada") is None


def test_a_link_belongs_to_the_account_and_browser_that_asked_for_it(site: Site) -> None:
    """Check this, since otherwise an account could be linked with another person."""
    client, victim = sign_in_by_password(site, "maintainer"), sign_in_by_password(site, "submitter")
    url = post(site, "/account/identity", client, password=PASSWORD).headers["Refresh"].removeprefix("0; url=")
    answer = site.stand_in.authorize(url)
    assert come_back(site, answer, victim).status_code == 400
    assert post(site, "/sign-in", client, name="reader", password=PASSWORD).status_code == 303
    assert come_back(site, answer, client).status_code == 400
    assert client.post("/account/identity", data={"password": PASSWORD}, base_url=SITE).status_code == 400
    assert site.browser().post("/account/identity", base_url=SITE).status_code == 400
    assert client.post("/account/identity", headers=bearer(token_of(site.engine, "admin"))).status_code in (400, 401)
    assert sign_in(site).status_code == 303  # a new account: nothing was linked
    assert role_of(site, "ada") == "reader"


def test_a_person_signs_in_one_account_and_an_account_has_one_person(site: Site) -> None:
    sign_in(site)
    with write_session(site.engine) as session:
        reader = accounts.find_account(session, "reader")
        with pytest.raises(UsageError, match="already signs in ada"):
            identities.link(session, reader, Identity(ISSUER, "248"))
        identities.link(session, reader, Identity(ISSUER, "other"))
        with pytest.raises(UsageError, match="'reader' is already linked"):
            identities.link(session, reader, Identity(ISSUER, "third"))


def test_an_admin_links_and_unlinks(site: Site) -> None:
    admin = sign_in_by_password(site, "admin")
    assert post(site, "/accounts/reader", admin, change="link", subject="248").status_code == 303
    sign_in(site)
    assert "<h1>reader</h1>" in page(site).text
    assert "or by single sign-on" in page(site, admin, "/accounts").text
    assert "<code>248</code> at https://id.example.org" in page(site, admin, "/accounts/reader").text
    assert post(site, "/accounts/reader", admin, change="unlink").status_code == 303
    assert page(site).status_code == 401
    assert post(site, "/accounts/reader", admin, change="unlink").status_code == 400
    assert post(site, "/accounts/reader", admin, change="link", subject="\x00").status_code == 400
    links = [(event[0], event[2], event[4]) for event in trail(site) if event[1] == "account.link"]
    assert links == [("admin", "reader", {"subject": "248"})]


def test_the_command_line_links_and_unlinks(site: Site) -> None:
    settings = {"database_url": site.engine.url, "oidc_issuer": ISSUER}
    assert "linked with 248 at" in shuffleboard("accounts", "link", "reader", "248", **settings).stdout
    sign_in(site)
    assert "<h1>reader</h1>" in page(site).text
    assert "already signs in reader" in shuffleboard("accounts", "link", "admin", "248", status=2, **settings).stderr
    assert "with nobody" in shuffleboard("accounts", "unlink", "reader", **settings).stdout
    assert page(site).status_code == 401
    assert "nothing to unlink" in shuffleboard("accounts", "unlink", "reader", status=2, **settings).stderr
    unset = shuffleboard("accounts", "link", "reader", "248", status=2, database_url=site.engine.url)
    assert "SHUFFLEBOARD_OIDC_ISSUER is not set" in unset.stderr
    links = [(event[0], event[1], event[2], event[4]) for event in trail(site) if event[1].endswith("link")]
    who = {"issuer": ISSUER, "subject": "248"}
    assert links == [("command line", f"account.{what}", "reader", who) for what in ("link", "unlink")]


# Rejected answers


def wrong(**changes: Any) -> Callable[[dict[str, Any], StandIn], str]:
    """Return a function that makes an ID token with some claims changed; None removes a claim."""
    return lambda claims, _: signed({name: value for name, value in (claims | changes).items() if value is not None})


def unsigned(claims: dict[str, Any], _: StandIn) -> str:
    return f"{encode({'alg': 'none'})}.{encode(claims)}."


def by_public_key(claims: dict[str, Any], _: StandIn) -> str:
    """Sign with the public key, as if the website would use it as a shared secret."""
    text = f"{encode({'alg': 'HS256', 'kid': 'one'})}.{encode(claims)}"
    return f"{text}.{encode(hmac.digest(key('one').as_pem(private=False), text.encode(), hashlib.sha256))}"


def by_own_key(claims: dict[str, Any], _: StandIn) -> str:
    """Sign with a key that is included in the token."""
    own = ECKey.generate_key("P-256", {"kid": "one"})
    from joserfc import jwt

    return jwt.encode({"alg": "ES256", "kid": "one", "jwk": own.as_dict(private=False)}, claims, own)


def change_after_signing(claims: dict[str, Any], _: StandIn) -> str:
    head, _, tail = signed(claims).split(".")
    return f"{head}.{encode(claims | {'groups': ['evaluation']})}.{tail}"


NOW = time.time()
FORGERIES: dict[str, Callable[[dict[str, Any], StandIn], Any]] = {
    "forged nonce": wrong(nonce="another"),
    "no nonce": wrong(nonce=None),
    "another audience": wrong(aud="another-client"),
    "no audience": wrong(aud=None),
    "several audiences and no authorised party": wrong(aud=[CLIENT, "another"]),
    "another authorised party": wrong(aud=[CLIENT, "another"], azp="another"),
    "another issuer": wrong(iss="https://id.example.com"),
    "an issuer with a slash more": wrong(iss=f"{ISSUER}/"),
    "no issuer": wrong(iss=None),
    "expired": wrong(exp=int(NOW) - 3600),
    "never expires": wrong(exp=None),
    "expires at no number": wrong(exp="tomorrow"),
    "not yet valid": wrong(nbf=int(NOW) + 36000),
    "issued in the future": wrong(iat=int(NOW) + 36000),
    "no subject": wrong(sub=None),
    "an empty subject": wrong(sub=""),
    "a subject that is a number": wrong(sub=7),
    "a subject with a line end": wrong(sub="a\nb"),
    "an over-long subject": wrong(sub="x" * 256),
    "claims in 1,000 brackets": wrong(deep=json.loads("[" * 500 + "]" * 500)),
    "a NUL among the claims": wrong(note="a\x00b"),
    "the hash of another access token": wrong(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "alg none": unsigned,
    "HMAC with the public key": by_public_key,
    "a key that comes along": by_own_key,
    "claims changed after signing": change_after_signing,
    "an unknown key": lambda claims, _: signed(claims, "elsewhere"),
    "a header that must be understood": lambda claims, _: (
        f"{encode({'alg': 'ES256', 'kid': 'one', 'crit': ['b64'], 'b64': False})}.{signed(claims).partition('.')[2]}"
    ),
    "no token": lambda *_: None,
    "a token that is none": lambda *_: "a.b.c",
    "a token with letters of no alphabet": lambda *_: "ä.ö.ü",
    "a token that is a list": lambda *_: ["x"],
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_id_token_that_is_not_right_signs_nobody_in(shared: Site, forgery: str) -> None:
    shared.stand_in.forge = FORGERIES[forgery]
    answer = come_back(shared, set_out(shared))
    assert answer.status_code == 400, answer.text
    assert 'role="alert"' in answer.text
    nobody_is_in(shared, answer)


def nobody_is_in(site: Site, answer: Any) -> None:
    """Check that nobody is signed in, no account was created, and the refusal is logged with its reason."""
    assert page(site).status_code == 401
    assert role_of(site, site.person["preferred_username"]) is None
    refused = [event for event in trail(site) if event[1] == "sign-in"][-1]
    assert (refused[0], refused[3]) == ("anonymous", "refused")
    assert refused[4]["reason"] in answer.text.replace("&#39;", "'")


ANSWERS: dict[str, Callable[[dict[str, str]], Any]] = {
    "forged state": lambda asked: asked | {"state": "forged"},
    "no state": lambda asked: {"code": asked["code"], "iss": ISSUER},
    "an empty state": lambda asked: asked | {"state": ""},
    "a state of no alphabet": lambda asked: asked | {"state": "ä" * 43},
    "a state twice": lambda asked: [*asked.items(), ("state", asked["state"])],
    "a code twice": lambda asked: [*asked.items(), ("code", "other")],
    "another issuer": lambda asked: asked | {"iss": "https://id.example.com"},
    "no issuer where it says it sends one": lambda asked: {"code": asked["code"], "state": asked["state"]},
    "no code": lambda asked: {"state": asked["state"], "iss": ISSUER},
    "another code": lambda asked: asked | {"code": "guessed"},
    "an error": lambda asked: {"state": asked["state"], "iss": ISSUER, "error": "access_denied"},
    "an error that is a page": lambda asked: asked | {"error": "<script>alert(1)</script>"},
    "nothing": lambda _: {},
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_not_meant_for_this_browser_signs_nobody_in(shared: Site, kind: str) -> None:
    answer = come_back(shared, ANSWERS[kind](set_out(shared)))
    assert answer.status_code == 400, answer.text
    assert "<script>alert" not in answer.text
    nobody_is_in(shared, answer)


def test_an_answer_to_one_browser_signs_no_other_in(shared: Site) -> None:
    """Check an answer that another site forges, which would sign a person in to the attacker's account."""
    request = set_out(shared)
    victim = shared.browser()
    assert come_back(shared, request, victim).status_code == 400
    set_out(shared, victim)
    assert come_back(shared, request, victim).status_code == 400
    assert page(shared, victim).status_code == 401


def test_an_answer_signs_in_once(shared: Site) -> None:
    request = set_out(shared)
    cookie = shared.client.get_cookie("shuffleboard_session", domain="board.example.org")
    assert cookie is not None
    assert come_back(shared, request).status_code == 303
    thief = shared.browser()
    assert come_back(shared, request).status_code == 400
    # Even with a copy of the cookie from before: the code is used.
    thief.set_cookie("shuffleboard_session", cookie.value, domain="board.example.org", secure=True)
    answer = come_back(shared, request, thief)
    assert answer.status_code == 400
    assert "does not accept the sign-in (invalid_grant)" in answer.text
    assert page(shared, thief).status_code == 401


def test_a_sign_in_that_took_too_long_is_begun_again(shared: Site) -> None:
    request = set_out(shared)
    with shared.client.session_transaction(base_url=SITE) as cookie:
        cookie["sign_on"] = {**cookie["sign_on"], "begun": time.time() - 3600}
    assert "longer than 10 minutes" in come_back(shared, request).text


@pytest.mark.parametrize(
    "target",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:x", "/" * 1500],
)
def test_the_way_back_leads_to_this_site_alone(shared: Site, target: str) -> None:
    assert come_back(shared, set_out(shared, after=target)).headers["Location"] == "/"
    assert "evil" not in page(shared, path=f"/sign-in?next={target}").text.partition("<main")[2]


def test_signing_in_renews_the_session_and_ends_the_one_before(site: Site) -> None:
    client = sign_in_by_password(site, "submitter")
    copy = site.browser()
    before = client.get_cookie("shuffleboard_session", domain="board.example.org")
    assert before is not None
    copy.set_cookie("shuffleboard_session", before.value, domain="board.example.org", secure=True)
    assert page(site, copy).status_code == 200
    token = csrf_of_site(client)
    assert sign_in(site, client).status_code == 303
    assert "<h1>ada</h1>" in page(site, client).text
    assert page(site, copy).status_code == 401
    assert token != csrf_of_site(client)


# Signing out


def test_signing_out_ends_the_session_here_and_leads_on_to_the_provider(shared: Site) -> None:
    sign_in(shared)
    assert shared.client.get("/sign-out", base_url=SITE).status_code == 405
    assert shared.client.post("/sign-out", base_url=SITE).status_code == 400  # another site's form
    assert page(shared).status_code == 200
    answer = post(shared, "/sign-out")
    wanted = f"{ISSUER}/leave?client_id=board&post_logout_redirect_uri=https%3A%2F%2Fboard.example.org%2F"
    assert (answer.status_code, answer.headers["Refresh"]) == (200, f"0; url={wanted}")
    assert page(shared).status_code == 401
    assert "Sign out<" not in answer.text


@pytest.mark.parametrize("endpoint", [None, "javascript:alert(1)", "http://id.example.org/leave", 7])
def test_without_the_providers_sign_out_address_it_is_done_here(shared: Site, endpoint: Any) -> None:
    shared.stand_in.more["end_session_endpoint"] = endpoint
    sign_in(shared)
    answer = post(shared, "/sign-out")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert page(shared).status_code == 401


# The provider


def test_keys_are_cached_for_an_hour_unless_a_new_one_appears(shared: Site) -> None:
    for _ in range(3):
        assert sign_in(shared).status_code == 303
    assert [shared.stand_in.asked.count(path) for path in (DISCOVERY, "/keys")] == [1, 1]
    shared.stand_in.kids = ["two"]
    shared.stand_in.forge = lambda claims, _: signed(claims, "two")
    assert sign_in(shared).status_code == 303
    shared.stand_in.forge = lambda claims, _: signed(claims, "three")
    assert sign_in(shared).status_code == 400
    shared.stand_in.forge = lambda claims, _: signed(claims, "two")
    shared.stand_in.kids = ["four"]  # two is withdrawn
    shared.provider.client.server_metadata["_loaded_at"] -= openid.KEPT_S + 1
    assert sign_in(shared).status_code == 400


def refuse_to_answer() -> httpx2.Response:
    raise httpx2.ConnectError("refused")


BROKEN: dict[str, tuple[str, Callable[[], httpx2.Response]]] = {
    "does not answer": (DISCOVERY, refuse_to_answer),
    "answers with an error": (DISCOVERY, lambda: httpx2.Response(500)),
    "answers with a page": (DISCOVERY, lambda: httpx2.Response(200, text="<html>")),
    "answers with a list": (DISCOVERY, lambda: httpx2.Response(200, json=[])),
    "leads elsewhere": (DISCOVERY, lambda: httpx2.Response(302, headers={"Location": "http://169.254.169.254/"})),
    "is another": (DISCOVERY, lambda: httpx2.Response(200, json={"issuer": "https://id.example.com"})),
    "has no addresses": (DISCOVERY, lambda: httpx2.Response(200, json={"issuer": ISSUER})),
    "has no keys": ("/keys", lambda: httpx2.Response(200, json={"keys": "none"})),
    "has keys without end": ("/keys", lambda: httpx2.Response(200, content=b"[" * 100_000)),
    "fails at the code": ("/token", lambda: httpx2.Response(502, text="bad gateway")),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_provider_that_fails_is_said_to_fail(shared: Site, kind: str) -> None:
    path, answer = BROKEN[kind]
    shared.stand_in.answers[path] = answer
    shown = shared.client.get("/sign-in/provider", base_url=SITE)
    if path != DISCOVERY:
        shown = come_back(shared, shared.stand_in.authorize(shown.headers["Location"]))
    assert shown.status_code == 503
    assert "Example ID does not answer as it should" in shown.text
    assert ISSUER not in shown.text


def test_a_page_in_place_of_a_token_signs_nobody_in(shared: Site) -> None:
    shared.stand_in.answers["/token"] = lambda: httpx2.Response(200, text="<html>")
    answer = come_back(shared, set_out(shared))
    assert answer.status_code == 400
    nobody_is_in(shared, answer)


def test_passwords_go_on_while_the_provider_does_not_answer(shared: Site) -> None:
    shared.stand_in.answers[DISCOVERY] = refuse_to_answer
    assert shared.client.get("/sign-in/provider", base_url=SITE).status_code == 503
    assert page(shared, sign_in_by_password(shared, "reader")).status_code == 200
    shared.stand_in.answers.clear()
    assert sign_in(shared).status_code == 303


@pytest.mark.parametrize(
    "listed",
    [
        {"kty": "oct", "kid": "one", "k": "c2VjcmV0"},
        {"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"},
        key("one").as_dict(private=False) | {"use": "enc"},
        {"kty": "unheard-of", "kid": "one"},
        "a text",
    ],
)
def test_a_key_that_must_not_verify_is_passed_over(shared: Site, listed: Any) -> None:
    shared.stand_in.answers["/keys"] = lambda: httpx2.Response(200, json={"keys": [listed]})
    answer = come_back(shared, set_out(shared))
    assert answer.status_code == 400
    nobody_is_in(shared, answer)


# Settings


def test_passwords_can_be_switched_off(database: str, tmp_path: Path) -> None:
    add_one_of_each_role(get_engine(database))
    site = site_of(database, tmp_path, password_sign_in=False, anonymous_reading=False)
    assert 'type="password"' not in page(site, path="/sign-in").text
    sign_in(site)  # also if anonymous visitors may read nothing
    form = {"name": "admin", "password": PASSWORD, "old": PASSWORD, "new": PASSWORD, "again": PASSWORD}
    for path in ("/sign-in", "/account/password"):
        answer = post(site, path, **form)
        assert answer.status_code == 403
        assert "passwords are switched off" in answer.text
    assert site.browser().get("/api/v1/models", headers=bearer(token_of(site.engine, "reader"))).status_code == 200


def test_without_a_provider_its_addresses_do_not_exist(database: str) -> None:
    client = create_app(database_url=database).test_client()
    assert [client.get(path).status_code for path in ("/sign-in/provider", CALLBACK)] == [404, 404]
    assert "Sign in with" not in client.get("/sign-in").text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"oidc_issuer": ""}, "also needs SHUFFLEBOARD_OIDC_ISSUER;"),
        ({"oidc_client_id": "", "oidc_roles": ""}, "SHUFFLEBOARD_OIDC_CLIENT_ID, SHUFFLEBOARD_OIDC_ROLES;"),
        ({"public_url": ""}, "also needs SHUFFLEBOARD_PUBLIC_URL;"),
        (
            {"public_url": "http://board.example.org"},
            "SHUFFLEBOARD_PUBLIC_URL='http://board.example.org': not an https",
        ),
        (
            {"oidc_issuer": "http://id.example.org"},
            "SHUFFLEBOARD_OIDC_ISSUER='http://id.example.org': not an https URL",
        ),
        ({"oidc_issuer": "https://a@id.example.org"}, "not an https URL"),
        ({"oidc_issuer": "https://id.example.org?x=1"}, "not an https URL"),
        ({"oidc_issuer": "id.example.org"}, "not an https URL"),
        ({"oidc_scopes": "profile"}, "SHUFFLEBOARD_OIDC_SCOPES='profile': openid is not among them"),
        ({"oidc_roles": "/no/such/file"}, "SHUFFLEBOARD_OIDC_ROLES=/no/such/file: .*cannot be read"),
        (
            {"oidc_issuer": "", "oidc_client_id": "", "oidc_roles": "", "password_sign_in": False},
            "SHUFFLEBOARD_PASSWORD_SIGN_IN=false: nobody could sign in",
        ),
        ({"oidc_issuer": "", "oidc_client_id": "", "oidc_roles": ""}, "CLIENT_SECRET is set without"),
    ],
)
def test_a_setting_that_is_missing_or_wrong_is_named_before_anything_starts(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        site_of("sqlite://", tmp_path, **changes)


def test_the_website_does_not_start_with_a_wrong_setting(tmp_path: Path) -> None:
    message = shuffleboard("serve", status=2, home=tmp_path, oidc_issuer=ISSUER).stderr
    assert "single sign-on also needs SHUFFLEBOARD_OIDC_CLIENT_ID, SHUFFLEBOARD_OIDC_ROLES" in message
    assert list(tmp_path.iterdir()) == []


# The doctor's report


@pytest.mark.parametrize(
    ("planted", "status", "said"),
    [
        ({}, "ok", f"{ISSUER} answers, with its keys"),
        ({"issuer": "https://id.example.org"}, "problem", f"another issuer than {ISSUER}; correct the setting"),
        ({"token_endpoint": "http://id.example.org/token"}, "problem", "no https address as its token_endpoint"),
        ({"id_token_signing_alg_values_supported": ["HS256"]}, "problem", "signs ID tokens in none of the accepted"),
        ({"code_challenge_methods_supported": ["plain"]}, "problem", "does not take the code challenge S256"),
        ({"keys": []}, "problem", "publishes no key"),
    ],
)
def test_the_doctor_asks_the_provider_before_anybody_signs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: dict[str, Any], status: str, said: str
) -> None:
    site = site_of("sqlite://", tmp_path)
    if "keys" in planted:
        site.stand_in.kids = planted["keys"]
    else:
        site.stand_in.more = planted
    monkeypatch.setattr(doctor, "provider_of", lambda _settings: site.provider)
    check = doctor.single_sign_on(Context(site.settings, site.engine, "0"))
    assert (check.status, said in check.found, bool(check.remedy)) == (status, True, status != "ok")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"oidc_issuer": f"http://127.0.0.1:{free_port()}"},
            "no answer (ConnectionError); nobody can sign in through it",
        ),
        ({"oidc_scopes": "profile"}, "openid is not among them"),
    ],
)
def test_the_doctor_says_what_of_single_sign_on_cannot_work(
    tmp_path: Path, sqlite_database: str, changes: dict[str, Any], said: str
) -> None:
    (tmp_path / "roles.toml").write_text(RULES)
    settings = {"public_url": SITE, "oidc_issuer": ISSUER, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET}
    settings |= {"oidc_roles": str(tmp_path / "roles.toml"), "database_url": sqlite_database} | changes
    output = shuffleboard("doctor", "--json", status=1, home=tmp_path, **settings).stdout
    check = next(finding for finding in json.loads(output)["checks"] if finding["name"] == "single sign-on")
    assert check["status"] == "problem"
    assert said in check["found"]


def test_without_single_sign_on_the_doctor_has_nothing_to_say_of_it(tmp_path: Path) -> None:
    check = doctor.single_sign_on(Context(Settings(home=tmp_path), get_engine("sqlite://"), "0"))
    assert (check.status, check.found) == ("ok", "none: these settings name no provider")


RULE = '[[rule]]\nrole = "reader"\nclaim = "groups"\nvalues = ["staff"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "gives no role to anyone"),
        ("rule = 7", "rule: Input should be"),
        ("[[rule", "not valid TOML"),
        (RULE.replace("reader", "emperor"), "rule 1, role: no role 'emperor'; use one of reader"),
        (RULE + RULE, "rule 2: groups = 'staff' already gives reader"),
        (RULE + RULE.replace("reader", "admin"), "rule 2: groups = 'staff' already gives reader"),
        (RULE.replace('["staff"]', '["staff", "staff"]'), "rule 1: groups = 'staff' already"),
        (RULE.replace('["staff"]', '"staff"'), "rule 1, values: Input should be"),
        (RULE.replace('["staff"]', "[7]"), "rule 1, values: Input should be a valid string"),
        (RULE.replace('["staff"]', "[]"), "rule 1, values: "),
        (RULE.replace('["staff"]', '[" "]'), "rule 1, values: a value is blank"),
        (RULE.replace('"groups"', "[]"), "rule 1, claim: names no claim"),
        (RULE.replace('"groups"', "true"), "rule 1, claim: "),
        (RULE + 'default = "admin"', "rule 1, default: Extra inputs"),
        ('default = "reader"\n' + RULE, "default: Extra inputs"),
        ('otherwise = "admin"\n' + RULE, "otherwise: everyone at the provider would be an admin"),
        ('otherwise = "king"\n' + RULE, "otherwise: no role 'king'"),
        ("name_claim = 7\n" + RULE, "name_claim: Input should be a valid string"),
        (RULE.replace("values", "value"), "rule 1, values: Field required"),
    ],
)
def test_a_mapping_file_that_is_wrong_is_named_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_role_rules(str(path))
    assert str(caught.value).startswith(f"SHUFFLEBOARD_OIDC_ROLES={path}: ")
    assert said in str(caught.value)
