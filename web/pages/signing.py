"""Signing in and out, and what an account does for itself: its tokens and its password."""

from flask import Blueprint, g, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_login import current_user, login_user, logout_user  # type: ignore[import-untyped]
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.exceptions import TooManyRequests

from registry.db import database_now, read_session, write_session
from registry.errors import AuthenticationError, NotFoundError, UsageError
from registry.people import accounts
from registry.tables.accounts import Account, ApiToken
from web import links, parameters, throttle
from web.identity import SignedIn, engine, limited, record, settings_of, viewer

blueprint = Blueprint("signing", __name__)

PER_ADDRESS = "30 per minute"
"""Attempts to sign in from one address; `web.throttle` slows guesses at one name."""
PER_ACCOUNT = "10 per 5 minutes"
"""Changes of an account's password."""


@blueprint.route("/sign-in", methods=["GET", "POST"])
def sign_in() -> ResponseReturnValue:
    """The sign-in form and its handler. The response does not reveal whether the account exists."""
    after = links.safe_target(request.values.get("next"))
    if request.method == "GET":
        return render_template("sign_in.html", next=after, error=None, name="")
    name = request.form.get("name", "").strip()[:200]
    address = request.remote_addr
    with limited(PER_ADDRESS, "sign-in", throttle.network(address)):
        with read_session(engine()) as database:
            wait = throttle.wait_s(name, address, known=throttle.is_known(database, name, address))
        if wait:
            record("request", f"POST {request.path}", outcome="refused", reason=f"{name}: to wait for {wait} s")
            raise TooManyRequests(f"too many wrong passwords for this name; wait {wait} s", retry_after=wait)
        try:
            with write_session(engine()) as database:
                account = accounts.sign_in(database, name, request.form.get("password", ""))
                signed_in = SignedIn(account, accounts.begin_session(database, account, settings_of().session_hours))
        except AuthenticationError as error:
            throttle.count_wrong(name, address)
            record("sign-in", name or None, outcome="refused")
            return render_template("sign_in.html", next=after, error=str(error), name=name), 401
        throttle.forget_wrong(name, address)
    # A new session: nothing from the old cookie, such as its CSRF token, is kept.
    session.clear()
    session.permanent = True
    login_user(signed_in)
    g.viewer = signed_in.viewer
    record("sign-in")
    return redirect(after, 303)


@blueprint.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """Ends this browser's session, and every copy of its cookie with it."""
    record("sign-out")
    if current_user.is_authenticated:
        with write_session(engine()) as database:
            accounts.end_session(database, current_user.secret)
    return _signed_out()


def _signed_out() -> ResponseReturnValue:
    logout_user()
    session.clear()
    return redirect(url_for("pages.leaderboard"), 303)


@blueprint.post("/account/sign-out")
def sign_out_everywhere() -> ResponseReturnValue:
    """Ends the account's sessions in all browsers, this one included."""
    with write_session(engine()) as database:
        ended = accounts.end_sessions(own_account(database))
    record("sign-out-everywhere", viewer().name, browsers=ended)
    return _signed_out()


def own_account(database: Session) -> Account:
    """The account of a signed-in browser. Raises AuthenticationError without one, ForbiddenError for a token."""
    asking = viewer()
    asking.require("read")
    if asking.account_id is None or asking.token_id is not None:
        raise AuthenticationError("this page needs an account signed in with a password; sign in")
    return database.get_one(Account, asking.account_id)


@blueprint.get("/account")
def account() -> ResponseReturnValue:
    """The signed-in account: what it may do, its tokens, its password."""
    return _account_page()


def _account_page(secret: str | None = None, error: str | None = None, status: int = 200) -> ResponseReturnValue:
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
                scopes=_offered(own),
                secret=secret,
                error=error,
            ),
            status,
        )


def _offered(own: Account) -> dict[str, str]:
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
    """Creates a token and shows it; it cannot be shown again."""
    try:
        days = _days(request.form.get("days", "").strip())
        with write_session(engine()) as database:
            own = own_account(database)
            token, secret = accounts.issue_token(
                database, own, request.form.get("name", ""), request.form.getlist("scopes"), days
            )
            hint = token.hint
    except UsageError as error:
        return _account_page(error=str(error), status=400)
    record("token.make", hint, scopes=request.form.getlist("scopes"))
    return _account_page(secret=secret, status=201)


@blueprint.post("/account/tokens/<int:token_id>/revoke")
def revoke_token(token_id: int) -> ResponseReturnValue:
    """Revokes one of the account's own tokens."""
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
    """Changes the password, given the current one; every other browser is signed out."""
    try:
        with limited(PER_ACCOUNT, "password", viewer().name), write_session(engine()) as database:
            own = own_account(database)
            accounts.sign_in(database, own.name, request.form.get("old", ""))
            accounts.set_password(own, _new_password())
            renewed = SignedIn(own, accounts.begin_session(database, own, settings_of().session_hours))
    except UsageError as error:
        return _account_page(error=str(error), status=400)
    except AuthenticationError:
        record("password.change", viewer().name, outcome="refused")
        return _account_page(error="the current password is wrong; type it again", status=400)
    login_user(renewed)
    record("password.change", viewer().name)
    return redirect(url_for("signing.account"), 303)
