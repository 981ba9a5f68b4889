"""People of an OpenID Connect provider, and the accounts that they sign in to. Functions never commit.

A person is identified by issuer and subject alone. A name or an e-mail address never leads to an account: people could
change theirs at the provider to reach another's account.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.errors import UsageError
from registry.names import check_name
from registry.people import accounts
from registry.people.role_rules import RoleRules
from registry.tables.accounts import Account, AccountIdentity

MAX_SUBJECT: Final = 255
"""The most characters that OpenID Connect allows in a subject."""

ANONYMOUS: Final = accounts.anonymous(reading=False, sql=False).name
"""The audit trail's name for visitors who are not signed in: no account may have it."""


@dataclass(frozen=True)
class Identity:
    """A person, as a provider identifies them."""

    issuer: str
    subject: str


@dataclass(frozen=True)
class Arrival:
    """The outcome of a sign-in through a provider.

    before: the account's role until now; None for a new account. refusal: why the person may not sign in; None if they
    may.
    """

    account: Account | None
    before: str | None = None
    refusal: str | None = None


def check_subject(subject: Any) -> str:
    """Return the subject if it is valid. Raises UsageError if it is not."""
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise UsageError(
            f"the subject is not a text of 1 to {MAX_SUBJECT} printable characters; take the provider's own"
        )
    return subject


def account_of(session: Session, identity: Identity) -> Account | None:
    """Return the account that is linked to a person; None if there is none."""
    return session.scalar(
        select(Account)
        .join(AccountIdentity, AccountIdentity.account_id == Account.id)
        .where(AccountIdentity.issuer == identity.issuer, AccountIdentity.subject == identity.subject)
    )


def arrive(session: Session, identity: Identity, claims: Mapping[str, Any], rules: RoleRules) -> Arrival:
    """Find or create the account of a person who signed in at a provider, and give it the role from the rules.

    Each sign-in sets the role again, even to a lower one. A person who no longer fits a rule is refused and signed out
    everywhere, and their account falls to the lowest role.
    """
    role = rules.role_of(claims)
    account = account_of(session, identity)
    if account is None:
        return _create_account(session, identity, claims, role, rules.name_claim)
    before = account.role
    if account.disabled_at is not None:
        return Arrival(account, before, f"the account {account.name} is disabled; ask an admin")
    # Not accounts.set_role: a role that was taken away at the provider must not stay because nobody else has it.
    if role is None:
        account.role = accounts.ROLES[0]
        accounts.end_sessions(account)
        return Arrival(account, before, _describe_missing_role())
    account.role = role
    account.last_login_at = session.scalar(select(database_now()))
    return Arrival(account, before)


def _create_account(
    session: Session, identity: Identity, claims: Mapping[str, Any], role: str | None, name_claim: str
) -> Arrival:
    if role is None:
        return Arrival(None, refusal=_describe_missing_role())
    claimed = claims.get(name_claim)
    try:
        name = check_name("account", claimed if isinstance(claimed, str) else "")
    except UsageError:
        shown = repr(claimed)[:60]
        return Arrival(
            None, refusal=f"the provider's claim {name_claim!r} cannot name an account: {shown}; ask an admin"
        )
    if name == ANONYMOUS or accounts.has_account(session, name):
        # Never signed in as that account: people may choose their names at the provider.
        remedy = "if it is yours, sign in with its password and link it on its page; else ask an admin"
        return Arrival(None, refusal=f"another account has the name {name!r}; {remedy}")
    account = accounts.create_account(session, name, role)
    link(session, account, identity)
    account.last_login_at = session.scalar(select(database_now()))
    return Arrival(account)


def _describe_missing_role() -> str:
    return "nothing that the provider says of you gives you a role here; ask an admin"


def link(session: Session, account: Account, identity: Identity) -> None:
    """Link a person to an account. Raises UsageError if either has another link already."""
    check_subject(identity.subject)
    owner = account_of(session, identity)
    if owner is not None:
        raise UsageError(f"this person at {identity.issuer} already signs in {owner.name}; unlink that account first")
    if any(one.issuer == identity.issuer for one in account.identities):
        raise UsageError(
            f"account {account.name!r} is already linked to a person at {identity.issuer}; unlink it first"
        )
    account.identities.append(AccountIdentity(issuer=identity.issuer, subject=identity.subject))
    session.flush()


def unlink(account: Account) -> list[Identity]:
    """Remove an account's links to people and sign its browsers out; return the removed identities.

    Raises UsageError if it has none.
    """
    removed = [Identity(one.issuer, one.subject) for one in account.identities]
    if not removed:
        raise UsageError(f"account {account.name!r} is not linked to a person at a provider; nothing to unlink")
    account.identities.clear()
    accounts.end_sessions(account)
    return removed
