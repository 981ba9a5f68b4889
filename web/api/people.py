"""The SQL page, accounts, tokens and the audit trail over the API."""

import json
from typing import Annotated, Any, Final

from flask import Response
from pydantic import Field
from sqlalchemy import func, select

from registry.db import pick, read_session, utc_text, write_session
from registry.errors import NotFoundError
from registry.fields import OneOf
from registry.people import accounts
from registry.sql import as_json
from registry.tables.accounts import OUTCOMES, Account, ApiToken, AuditEvent, SavedQuery
from web.api import answers, bodies
from web.api.operations import answer, change, get, nothing, page
from web.api.paths import AccountName, Slug, TokenId
from web.api.writing import audit_change
from web.pages import sql
from web.urls.parameters import Paged, Text
from web.who.identity import engine

# The SQL page


@change("POST", "/sql", answers.QueryAnswer, tag="sql", scope="sql", statuses={200: "The rows."})
def query(body: bodies.QueryBody) -> Response:
    """Run one SELECT over the documented views, as the viewer's audience, within the limits of the SQL page."""
    # Its writer handles values that JSON cannot represent.
    executed = sql.run(body.query)
    return answer(json.loads(as_json(executed.result)) | {"as_of": utc_text(executed.listed.as_of)})  # noqa: TID251 - our own


@get("/queries", answers.SavedQueryList, tag="sql", scope="sql")
def queries() -> Response:
    """Return the saved queries that the viewer may open: their own, and public ones."""
    with read_session(engine()) as database:
        items = [_describe_saved(saved_query, owner) for saved_query, owner in sql.readable(database)]
    return answer({"items": items})


SAVED: Final = ("slug", "name", "public", "created_at")


def _describe_saved(found: SavedQuery, owner: str) -> dict[str, Any]:
    return pick(found, SAVED) | {"query": found.sql, "owner": owner}


@change("POST", "/queries", answers.SavedQuery, tag="sql", scope="sql", statuses={201: "Kept."})
def save_query(body: bodies.SavedQueryBody) -> Response:
    """Save a query under a permanent URL, if the SQL page allows it."""
    slug = sql.save(body.name, body.query, public=body.public)
    with read_session(engine()) as database:
        saved_query = sql.find_saved(database, slug)
        return answer(_describe_saved(saved_query, saved_query.account.name), status=201)


@change("DELETE", "/queries/<slug>", None, tag="sql", scope="sql", statuses={204: "Deleted."})
def delete_query(slug: Slug) -> Response:
    """Delete one of the viewer's own saved queries; an admin may delete any public one."""
    sql.delete(slug)
    return nothing()


# Accounts


@get("/accounts", answers.AccountList, tag="accounts", scope="admin")
def list_accounts() -> Response:
    """List every account."""
    with read_session(engine()) as database:
        items = [accounts.account_row(row) for row in database.scalars(select(Account).order_by(Account.name))]
    return answer({"items": items})


@change("POST", "/accounts", answers.Account, tag="accounts", scope="admin", statuses={201: "Made."})
def add_account(body: bodies.AccountBody) -> Response:
    """Create an account."""
    with write_session(engine()) as database:
        created = accounts.create_account(database, body.name, body.role, body.password)
        audit_change(database, "account.make", body.name, role=body.role)
        return answer(accounts.account_row(created), status=201)


@change("PATCH", "/accounts/<account>", answers.Account, tag="accounts", scope="admin", statuses={200: "Changed."})
def alter_account(account: AccountName, body: bodies.AccountChangeBody) -> Response:
    """Change an account's role or password, or enable or disable it. A new password ends its browsers' sessions."""
    with write_session(engine()) as database:
        row = accounts.find_account(database, account)
        if body.role is not None:
            accounts.set_role(database, row, body.role)
        if body.password is not None:
            accounts.set_password(row, body.password)
        if body.disabled is True:
            accounts.disable(database, row)
        elif body.disabled is False:
            accounts.enable(row)
        changed = [key for key in ("role", "password", "disabled") if getattr(body, key) is not None]
        audit_change(database, "account.change", account, changed=changed)
        database.flush()
        return answer(accounts.account_row(row))


@get("/accounts/<account>/tokens", answers.TokenList, tag="accounts", scope="admin")
def tokens(account: AccountName) -> Response:
    """List an account's tokens, without their secrets."""
    with read_session(engine()) as database:
        owner = accounts.find_account(database, account)
        issued = database.scalars(select(ApiToken).filter_by(account_id=owner.id).order_by(ApiToken.id.desc()))
        return answer({"items": [accounts.token_row(token, account) for token in issued]})


@change(
    "POST",
    "/accounts/<account>/tokens",
    answers.NewToken,
    tag="accounts",
    scope="admin",
    statuses={201: "Made; its secret is in this answer and nowhere else."},
)
def add_token(account: AccountName, body: bodies.TokenBody) -> Response:
    """Create a token for an account."""
    with write_session(engine()) as database:
        owner = accounts.find_account(database, account)
        token, secret = accounts.issue_token(database, owner, body.name, body.scopes, body.days)
        audit_change(database, "token.make", f"{account} {token.hint}", scopes=token.scopes)
        return answer(accounts.token_row(token, account) | {"token": secret}, status=201)


@change(
    "DELETE",
    "/accounts/<account>/tokens/<token_id>",
    None,
    tag="accounts",
    scope="admin",
    statuses={204: "It does not work any more."},
)
def delete_token(account: AccountName, token_id: TokenId) -> Response:
    """Revoke a token."""
    with write_session(engine()) as database:
        owner = accounts.find_account(database, account)
        row = database.get(ApiToken, token_id)
        if row is None or row.account_id != owner.id:
            raise NotFoundError(f"{account} has no token {token_id}; /api/v1/accounts/{account}/tokens lists them")
        accounts.revoke_token(database, row)
        audit_change(database, "token.revoke", f"{account} {row.hint}")
    return nothing()


class AuditQuery(Paged):
    """Filters for the audit trail."""

    outcome: Annotated[str, OneOf(OUTCOMES)] | None = Field(
        None, description="Only what was done, or only what was refused."
    )
    actor: Text | None = Field(None, description="Only what this account did.")


@get("/audit", answers.AuditList, tag="accounts", scope="admin")
def audit(query: AuditQuery) -> Response:
    """List the audit trail, newest first."""
    wanted = {AuditEvent.outcome: query.outcome, AuditEvent.actor: query.actor}
    conditions = [column == value for column, value in wanted.items() if value is not None]
    with read_session(engine()) as database:
        total = database.scalar(select(func.count()).select_from(AuditEvent).where(*conditions)) or 0
        statement = select(AuditEvent).where(*conditions).order_by(AuditEvent.id.desc())
        events = database.scalars(statement.limit(query.per_page).offset(query.offset))
        return page([accounts.audit_row(event) for event in events], total, query)
