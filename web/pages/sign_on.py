"""Signing in with the OpenID Connect provider in the settings, and linking an account with a person there."""

import hmac
import time
from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, current_app, redirect, request, session, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import IntegrityError

from registry.db import write_session
from registry.errors import AuthenticationError, UsageError
from registry.people import accounts, identities
from registry.people.identities import Arrival, Identity
from registry.tables.accounts import Account
from web.pages import signing
from web.urls import links
from web.who import throttle
from web.who.identity import SignedIn, engine, limit_rate, provider, record, settings_of, viewer
from web.who.openid import CALLBACK, FLOW_S, ProviderUnavailableError

blueprint = Blueprint("sign_on", __name__)

_FLOW: Final = "sign_on"
MAX_NEXT: Final = 1000
"""Longest address to return to, in characters: it is stored in a cookie, which must be short."""


@blueprint.get("/sign-in/provider")
def start() -> ResponseReturnValue:
    """Send the browser to the provider."""
    after = links.safe_target(request.args.get("next"))
    with _limit():
        return _begin(after if len(after) <= MAX_NEXT else links.safe_target(None))


def _limit() -> Any:
    return limit_rate(signing.PER_ADDRESS, "sign-in", throttle.network(request.remote_addr))


def _begin(after: str, account_id: int | None = None) -> ResponseReturnValue:
    """Begin a sign-in. account_id: the account to link, if that is the purpose."""
    try:
        url, state = provider().begin()
    except ProviderUnavailableError as error:
        return _unavailable(error)
    session[_FLOW] = {"state": state, "begun": time.time(), "next": after, "link": account_id}
    return redirect(url) if account_id is None else signing.onward(url, "Continue to {name} to link your account.")


@blueprint.get(CALLBACK)
def callback() -> ResponseReturnValue:
    """Finish a sign-in when the provider sends the browser back with a code."""
    kept = session.pop(_FLOW, None) or {}
    with _limit():
        try:
            _check_flow(kept)
            identity, claims = provider().read_person(request.args)
        except AuthenticationError as error:
            return _refuse(str(error), HTTPStatus.BAD_REQUEST)
        except ProviderUnavailableError as error:
            return _unavailable(error)
    if kept["link"] is not None:
        return _link(identity, kept["link"])
    try:
        came = _arrive(identity, claims)
    except IntegrityError:
        # Another browser has already created the account, for this person or with this name.
        came = _arrive(identity, claims)
    return _finish_sign_in(identity, *came, kept["next"])


def _check_flow(kept: Mapping[str, Any]) -> None:
    """Raise AuthenticationError for an answer that belongs to another browser or is late."""
    name = provider().configuration.name
    if not hmac.compare_digest(request.args.get("state", "").encode(), kept.get("state", "\0").encode()):
        raise AuthenticationError(f"{name}: its answer does not belong to a sign-in that this browser began (state)")
    if not 0 <= time.time() - kept["begun"] <= FLOW_S:
        raise AuthenticationError(f"{name}: it took longer than {FLOW_S // 60} minutes; start again")


def _arrive(identity: Identity, claims: Mapping[str, Any]) -> tuple[Arrival, str | None, str | None, SignedIn | None]:
    """Return the arrival, the account's name and role, and the new session, as far as there are any."""
    with write_session(engine()) as database:
        arrival = identities.arrive(database, identity, claims, provider().rules)
        account = arrival.account
        name, role = (None, None) if account is None else (account.name, account.role)
        signed_in = None if account is None or arrival.refusal is not None else signing.begin(database, account)
        return arrival, name, role, signed_in


def _finish_sign_in(
    identity: Identity, arrival: Arrival, name: str | None, role: str | None, signed_in: SignedIn | None, after: str
) -> ResponseReturnValue:
    """Log the outcome of a sign-in, and answer."""
    if signed_in is not None:
        signing.enter(signed_in)
        session[signing.BY_PROVIDER] = True
    if signed_in is not None and arrival.before is None:
        record("account.make", name, role=role, **asdict(identity))
    elif arrival.before is not None and arrival.before != role:
        record("account.role", name, role=role, before=arrival.before, **asdict(identity))
    if signed_in is None:
        assert arrival.refusal is not None
        return _refuse(arrival.refusal, HTTPStatus.FORBIDDEN, name, **asdict(identity))
    record("sign-in", **asdict(identity))
    return redirect(after, 303)


def _refuse(reason: str, status: HTTPStatus, name: str | None = None, **details: Any) -> ResponseReturnValue:
    record("sign-in", name, outcome="refused", reason=reason, **details)
    return signing.form(error=reason, status=status)


def _unavailable(error: ProviderUnavailableError) -> ResponseReturnValue:
    """Answer 503. The provider's error is only logged, since it is for the operator."""
    current_app.logger.error("single sign-on: %s", error)
    name = provider().configuration.name
    alternative = ", or sign in with your password" if settings_of().password_sign_in else ""
    return signing.form(f"{name} does not answer as it should; try again in a moment{alternative}.", 503)


@blueprint.post("/account/identity")
def link() -> ResponseReturnValue:
    """Begin to link the account with a person at the provider, given the account's password."""
    try:
        with limit_rate(signing.PER_ACCOUNT, "password", viewer().name), write_session(engine()) as database:
            own = signing.own_account(database)
            accounts.sign_in(database, own.name, request.form.get("password", ""))
            account_id = own.id
    except AuthenticationError:
        viewer().require("read")
        record("account.link", viewer().name, outcome="refused", reason="wrong password")
        return signing.account_page(error="the password is wrong; type it again", status=400)
    return _begin(url_for("signing.account"), account_id)


def _link(identity: Identity, account_id: int) -> ResponseReturnValue:
    """Link the account that requested it, if it is still signed in."""
    asking = viewer()
    if asking.account_id != account_id:
        reason = "another account was signed in when the link was asked for; start again"
        record("account.link", asking.name, outcome="refused", reason=reason, **asdict(identity))
        return signing.form(reason, HTTPStatus.BAD_REQUEST)
    try:
        with write_session(engine()) as database:
            identities.link(database, database.get_one(Account, account_id), identity)
    except UsageError as error:
        record("account.link", asking.name, outcome="refused", reason=str(error), **asdict(identity))
        return signing.account_page(error=str(error), status=HTTPStatus.BAD_REQUEST)
    record("account.link", asking.name, **asdict(identity))
    return redirect(url_for("signing.account"), HTTPStatus.SEE_OTHER)
