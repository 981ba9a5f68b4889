"""Accounts and the audit trail, for admins. The command line has the same."""

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from registry.db import read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.people import accounts, identities
from registry.people.identities import Identity
from registry.tables.accounts import OUTCOMES, Account, ApiToken, AuditEvent, Role
from web.urls import parameters
from web.urls.paging import find_page
from web.who.identity import engine, record, sign_on, viewer

blueprint = Blueprint("administration", __name__)

EVENTS_PER_PAGE = 100
_SAYS = {"role": "role", "link": "subject"}
"""Change of an account → the form field that the audit trail records."""


@blueprint.get("/accounts")
def accounts_page() -> ResponseReturnValue:
    """Show every account with its role, and a form for a new one."""
    viewer().require("admin")
    return _accounts_page()


def _accounts_page(error: str | None = None, status: int = 200) -> ResponseReturnValue:
    used = (
        select(ApiToken.account_id, func.count().label("tokens"))
        .where(ApiToken.revoked_at.is_(None))
        .group_by(ApiToken.account_id)
        .subquery()
    )
    with read_session(engine()) as database:
        rows = database.execute(
            select(Account, func.coalesce(used.c.tokens, 0))
            .outerjoin(used, used.c.account_id == Account.id)
            .order_by(Account.name)
            .options(selectinload(Account.identities))
        ).all()
        roles = database.scalars(select(Role).order_by(Role.rank)).all()
        return render_template("accounts.html", rows=rows, roles=roles, error=error), status


@blueprint.post("/accounts")
def make_account() -> ResponseReturnValue:
    """Create an account; without a password it can only use tokens."""
    viewer().require("admin")
    name, role = request.form.get("name", "").strip(), request.form.get("role", "")
    try:
        with write_session(engine()) as database:
            accounts.create_account(database, name, role, request.form.get("password") or None)
    except UsageError as error:
        return _accounts_page(str(error), 400)
    record("account.make", name, role=role)
    return redirect(url_for("administration.accounts_page"), 303)


@blueprint.post("/accounts/<name>")
def change_account(name: str) -> ResponseReturnValue:
    """Change an account's role or password, disable or enable it, or end its browsers' sessions."""
    viewer().require("admin")
    change = request.form.get("change", "")
    try:
        with write_session(engine()) as database:
            _change(database, accounts.find_account(database, parameters.name("account", name)), change)
    except UsageError as error:
        return _accounts_page(str(error), 400)
    details = {key: request.form[key] for key in ("role", "subject") if _SAYS.get(change) == key}
    record(f"account.{change}", name, **details)
    return redirect(url_for("administration.accounts_page"), 303)


def _change(database: Session, account: Account, change: str) -> None:
    match change:
        case "role":
            accounts.set_role(database, account, request.form.get("role", ""))
        case "password":
            accounts.set_password(account, request.form.get("password", ""))
        case "disable":
            accounts.disable(database, account)
        case "enable":
            accounts.enable(account)
        case "sign-out":
            accounts.end_sessions(account)
        case "link":
            provider = sign_on()
            if provider is None:
                raise UsageError("no provider is set up to link the account with; set SHUFFLEBOARD_OIDC_ISSUER")
            subject = identities.check_subject(request.form.get("subject", "").strip())
            identities.link(database, account, Identity(provider.configuration.issuer, subject))
        case "unlink":
            identities.unlink(account)
        case _:
            changes = "role, password, sign-out, link, unlink, disable, enable"
            raise UsageError(f"change={parameters.shorten(change)}: use one of {changes}")


@blueprint.post("/accounts/tokens/<int:token_id>/revoke")
def revoke_any_token(token_id: int) -> ResponseReturnValue:
    """Revoke anyone's token."""
    viewer().require("admin")
    with write_session(engine()) as database:
        token = database.get(ApiToken, token_id)
        if token is None:
            raise NotFoundError(f"no token {token_id}; an account's tokens are listed on its page")
        accounts.revoke_token(database, token)
        hint, owner = token.hint, token.account.name
    record("token.revoke", f"{owner} {hint}")
    return redirect(url_for("administration.account_page", name=owner), 303)


@blueprint.get("/accounts/<name>")
def account_page(name: str) -> ResponseReturnValue:
    """Show an account to an admin: its tokens and recent activity."""
    viewer().require("admin")
    with read_session(engine()) as database:
        shown = accounts.find_account(database, parameters.name("account", name))
        tokens = database.scalars(select(ApiToken).filter_by(account_id=shown.id).order_by(ApiToken.id.desc())).all()
        events = database.scalars(
            select(AuditEvent).filter_by(account_id=shown.id).order_by(AuditEvent.id.desc()).limit(50)
        ).all()
        roles = database.scalars(select(Role).order_by(Role.rank)).all()
        return render_template("account_of.html", account=shown, tokens=tokens, events=events, roles=roles)


@blueprint.get("/audit")
def audit() -> ResponseReturnValue:
    """Show the audit log: every action, done or refused, newest first."""
    viewer().require("admin")
    outcome = parameters.choice(request.args, "outcome", ("", *OUTCOMES), "")
    actor = parameters.text(request.args, "actor")
    conditions = [AuditEvent.outcome == outcome] if outcome else []
    if actor:
        conditions.append(AuditEvent.actor == actor)
    with read_session(engine()) as database:
        total = database.scalar(select(func.count()).select_from(AuditEvent).where(*conditions)) or 0
        paging = find_page(total, EVENTS_PER_PAGE)
        query = select(AuditEvent).where(*conditions).order_by(AuditEvent.id.desc())
        events = database.scalars(query.limit(paging.per_page).offset(paging.offset)).all()
        return render_template("audit.html", events=events, paging=paging, outcome=outcome, actor=actor or "")
