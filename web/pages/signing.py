"""Signing in and out, and an account's own tokens and password."""

from flask import Blueprint, g, make_response, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_user, logout_user  # type: ignore[import-untyped]
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.exceptions import TooManyRequests

from registry.db import database_now, read_session, write_session
from registry.errors import AuthenticationError, ForbiddenError, NotFoundError, UsageError
from registry.people import accounts
from registry.tables.accounts import Account, ApiToken
from web.urls import links, parameters
from web.who import throttle
from web.who.identity import SignedIn, engine, limit_rate, record, settings_of, sign_on, viewer

blueprint = Blueprint("signing", __name__)

PER_ADDRESS = "30 per minute"
"""Limit of attempts to sign in from one address; `web.who.throttle` slows guesses for one name."""
PER_ACCOUNT = "10 per 5 minutes"
"""Limit of password changes of one account."""


BY_PROVIDER = "by_provider"
"""Key in the cookie: whether the session began at the provider of single sign-on."""


@blueprint.route("/sign-in", methods=["GET", "POST"])
def sign_in() -> ResponseReturnValue:
    """Show or handle the sign-in form. The response does not reveal whether the account exists."""
    if request.method == "GET":
        return form()
    _require_passwords()
    name = request.form.get("name", "").strip()[:200]
    address = request.remote_addr
    with limit_rate(PER_ADDRESS, "sign-in", throttle.network(address)):
        with read_session(engine()) as database:
            wait = throttle.wait_s(name, address, known=throttle.is_known(database, name, address))
        if wait:
            record("request", f"POST {request.path}", outcome="refused", reason=f"{name}: to wait for {wait} s")
            raise TooManyRequests(f"too many wrong passwords for this name; wait {wait} s", retry_after=wait)
        try:
            with write_session(engine()) as database:
                account = accounts.sign_in(database, name, request.form.get("password", ""))
                signed_in = begin(database, account)
        except AuthenticationError as error:
            throttle.count_wrong(name, address)
            record("sign-in", name or None, outcome="refused")
            return form(str(error), 401, name)
        throttle.forget_wrong(name, address)
    enter(signed_in)
    record("sign-in")
    return redirect(_next_page(), 303)


def _next_page() -> str:
    """Return the page of this site to return to."""
    return links.safe_target(request.values.get("next"))


def form(error: str | None = None, status: int = 200, name: str = "") -> ResponseReturnValue:
    """Return the sign-in page. error: why the last attempt failed."""
    return render_template("sign_in.html", next=_next_page(), error=error, name=name), status


def _require_passwords() -> None:
    if not settings_of().password_sign_in:
        raise ForbiddenError("passwords are switched off on this website; sign in through the provider")


def begin(database: Session, account: Account) -> SignedIn:
    """Begin a session of an account; the browser's previous session, of any account, ends."""
    if current_user.is_authenticated:
        accounts.end_session(database, current_user.secret)
    return SignedIn(account, accounts.begin_session(database, account, settings_of().session_hours))


def enter(signed_in: SignedIn) -> None:
    """Sign the browser in. Nothing from the old cookie, such as its CSRF token, is kept."""
    session.clear()
    session.permanent = True
    login_user(signed_in)
    g.viewer = signed_in.viewer


@blueprint.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """End this browser's session and every copy of its cookie; then sign out of the provider, if one was used."""
    record("sign-out")
    if current_user.is_authenticated:
        with write_session(engine()) as database:
            accounts.end_session(database, current_user.secret)
    provider = sign_on() if session.get(BY_PROVIDER) else None
    elsewhere = provider.sign_out_url() if provider is not None else None
    signed_out = _signed_out()
    return (
        signed_out
        if elsewhere is None
        else onward(elsewhere, "You are signed out here. Continue to {name} to sign out there, too.")
    )


def onward(url: str, text: str) -> ResponseReturnValue:
    """Return a page that links to the provider, since the form's policy forbids a redirect to another site."""
    provider = sign_on()
    assert provider is not None
    name = provider.configuration.name
    response = make_response(render_template("onward.html", url=url, text=text.format(name=name), name=name))
    response.headers["Refresh"] = f"0; url={url}"
    return response


def _signed_out() -> ResponseReturnValue:
    logout_user()
    session.clear()
    g.pop("viewer", None)
    return redirect(url_for("pages.leaderboard"), 303)


@blueprint.post("/account/sign-out")
def sign_out_everywhere() -> ResponseReturnValue:
    """End the account's sessions in all browsers, this one included."""
    with write_session(engine()) as database:
        ended = accounts.end_sessions(own_account(database))
    record("sign-out-everywhere", viewer().name, browsers=ended)
    return _signed_out()


def own_account(database: Session) -> Account:
    """Return the account of a signed-in browser. Raises AuthenticationError without one, ForbiddenError for a token."""
    asking = viewer()
    asking.require("read")
    if asking.account_id is None or asking.token_id is not None:
        raise AuthenticationError("this page needs a browser that is signed in; a token is not enough")
    return database.get_one(Account, asking.account_id)


@blueprint.get("/account")
def account() -> ResponseReturnValue:
    """Show the signed-in account: its permissions, its tokens, its password."""
    return account_page()


def account_page(secret: str | None = None, error: str | None = None, status: int = 200) -> ResponseReturnValue:
    """Return the account's own page. secret: secret of a new token. error: why an action failed."""
    with read_session(engine()) as database:
        own = own_account(database)
        tokens = database.scalars(select(ApiToken).filter_by(account_id=own.id).order_by(ApiToken.id.desc())).all()
        now = database.scalar(select(database_now()))
        return (
            render_template(
                "account.html",
                account=own,
                browsers=len(own.sessions),
                tokens=tokens,
                now=now,
                scopes=_list_offered_scopes(own),
                secret=secret,
                error=error,
            ),
            status,
        )


def _list_offered_scopes(own: Account) -> dict[str, str]:
    return {scope: text for scope, text in accounts.SCOPES.items() if scope in accounts.scopes_of(own.role)}


def _days(written: str) -> int | None:
    if written and not (written.isdecimal() and len(written) < 6):
        raise UsageError(f"days={parameters.shorten(written)}: give a number of days, or leave it blank for no expiry")
    return int(written) if written else None


def _new_password() -> str:
    if request.form.get("new") != request.form.get("again"):
        raise UsageError("the two new passwords differ; type the same one twice")
    return request.form.get("new", "")


@blueprint.post("/account/tokens")
def make_token() -> ResponseReturnValue:
    """Create a token and show it; it cannot be shown again."""
    try:
        days = _days(request.form.get("days", "").strip())
        with write_session(engine()) as database:
            own = own_account(database)
            token, secret = accounts.issue_token(
                database, own, request.form.get("name", ""), request.form.getlist("scopes"), days
            )
            hint = token.hint
    except UsageError as error:
        return account_page(error=str(error), status=400)
    record("token.make", hint, scopes=request.form.getlist("scopes"))
    return account_page(secret=secret, status=201)


@blueprint.post("/account/tokens/<int:token_id>/revoke")
def revoke_token(token_id: int) -> ResponseReturnValue:
    """Revoke one of the account's own tokens."""
    with write_session(engine()) as database:
        own = own_account(database)
        token = database.get(ApiToken, token_id)
        if token is None or token.account_id != own.id:
            raise NotFoundError(f"no token {token_id} of {own.name}; the account's page lists them")
        accounts.revoke_token(database, token)
        hint = token.hint
    record("token.revoke", hint)
    return redirect(url_for("signing.account"), 303)


@blueprint.post("/account/password")
def change_password() -> ResponseReturnValue:
    """Change the password, given the current one; every other browser is signed out."""
    _require_passwords()
    try:
        with limit_rate(PER_ACCOUNT, "password", viewer().name), write_session(engine()) as database:
            own = own_account(database)
            accounts.sign_in(database, own.name, request.form.get("old", ""))
            accounts.set_password(own, _new_password())
            renewed = begin(database, own)
    except UsageError as error:
        return account_page(error=str(error), status=400)
    except AuthenticationError:
        record("password.change", viewer().name, outcome="refused")
        return account_page(error="the current password is wrong; type it again", status=400)
    login_user(renewed)
    record("password.change", viewer().name)
    return redirect(url_for("signing.account"), 303)
