"""Accounts, passwords, tokens, and their rights. Functions take the session first and never commit.

A **role** is a step of a ladder: reader, submitter, maintainer, admin. A **scope** is one right. A role includes the
scopes of its step and of all lower steps. A token has the scopes it was issued with, as long as its account's role
still includes them.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from registry.db import database_now, pick
from registry.errors import AuthenticationError, ForbiddenError, NotFoundError, UsageError
from registry.names import check_name
from registry.proposals import propose
from registry.schema.audiences import Audience
from registry.tables.accounts import Account, ApiToken, AuditEvent, BrowserSession

ROLES: Final = ("reader", "submitter", "maintainer", "admin")
"""Roles, from the fewest rights to the most."""

SCOPES: Final[dict[str, str]] = {
    "read": "Read what members may see.",
    "sql": "Run and save queries on the SQL page.",
    "submit": "Submit models for evaluation.",
    "maintain": "Decide on submissions, manage benchmarks, models, boards and evaluations, see hidden benchmarks.",
    "admin": "Manage accounts and all tokens; read the audit trail.",
}

_LOWEST_ROLE: Final = {
    "read": "reader",
    "sql": "reader",
    "submit": "submitter",
    "maintain": "maintainer",
    "admin": "admin",
}

MIN_PASSWORD: Final = 12
MAX_PASSWORD: Final = 1024
TOKEN_PREFIX: Final = "shb_"  # noqa: S105 - not a secret: what secrets begin with
TOKEN_BYTES: Final = 32
"""256 random bits, as many as the stored digest has."""
MAX_TOKEN_DAYS: Final = 3650
USED_AGAIN_SECONDS: Final = 60
"""`last_used_at` is updated at most this often, so that not every request with a token writes to the database."""

_TOKEN: Final = re.compile(re.escape(TOKEN_PREFIX) + r"[A-Za-z0-9_-]{43}")


def scopes_of(role: str) -> frozenset[str]:
    """Return the scopes that a role includes."""
    return frozenset(scope for scope, lowest in _LOWEST_ROLE.items() if ROLES.index(lowest) <= ROLES.index(role))


@dataclass(frozen=True)
class Viewer:
    """The person who makes a request, and their rights. account_id: None if they are not signed in."""

    name: str
    scopes: frozenset[str]
    account_id: int | None = None
    role: str | None = None
    token_id: int | None = None

    @property
    def audience(self) -> Audience:
        """Return the audience to which this viewer belongs; it decides which benchmarks are visible."""
        if self.account_id is None or "read" not in self.scopes:
            return "all" if self.role == "operator" else "public"
        return "all" if "maintain" in self.scopes else "members"

    @property
    def signed_in(self) -> bool:
        """Return whether the viewer is signed in to an account."""
        return self.account_id is not None

    def may(self, scope: str) -> bool:
        """Return whether the viewer has a scope."""
        return scope in self.scopes

    def require(self, scope: str) -> None:
        """Check that the viewer has a scope.

        Raises AuthenticationError if they lack it and are not signed in, ForbiddenError if they are.
        """
        if self.may(scope):
            return
        needed = f"this needs the scope {scope!r}, which {_LOWEST_ROLE[scope]!r} and higher roles have"
        if not self.signed_in:
            raise AuthenticationError(f"you are not signed in, and {needed}; sign in or send a token")
        if self.token_id is not None and self.role is not None and scope in scopes_of(self.role):
            raise ForbiddenError(f"the token of {self.name} does not have the scope {scope!r}; use one that does")
        raise ForbiddenError(f"{self.name} is {self.role}; {needed}")


OPERATOR: Final = Viewer("command line", frozenset(SCOPES), role="operator")
"""The operator at the command line, who may do everything."""


def anonymous(*, reading: bool, sql: bool) -> Viewer:
    """Return the viewer for visitors who are not signed in. reading, sql: whether they may read, and run queries."""
    return Viewer("anonymous", frozenset(["read"] * reading + ["sql"] * (reading and sql)))


# Accounts


@cache
def _hasher() -> PasswordHasher:
    # The library's own defaults are RFC 9106's for machines with little memory: Argon2id, 64 MiB, 3 passes.
    return PasswordHasher()


@cache
def _nobodys_hash() -> str:
    """Return a hash to verify passwords of unknown accounts against, so that their sign-in takes as long."""
    return _hasher().hash(secrets.token_urlsafe(16))


def check_password(password: str) -> str:
    """Return the password if it is acceptable. Raises UsageError, whose message never contains it."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise UsageError(
            f"a password of {len(password)} characters; use one of {MIN_PASSWORD} to {MAX_PASSWORD:,} characters"
        )
    if len(set(password)) < 4:
        raise UsageError("the password uses fewer than four different characters; choose another one")
    return password


def check_role(role: str) -> str:
    """Return the role if it exists. Raises UsageError if it does not."""
    if role not in ROLES:
        raise UsageError(f"role {role!r}: no such role; use one of {', '.join(ROLES)}")
    return role


def create_account(session: Session, name: str, role: str, password: str | None = None) -> Account:
    """Create an account. Without a password it cannot sign in, only use tokens.

    Raises UsageError for an invalid name, role or password, or a name that is taken.
    """
    check_name("account", name)
    if has_account(session, name):
        raise UsageError(f"account {name!r} already exists; choose another name")
    account = Account(
        name=name, role=check_role(role), password_hash=password and _hasher().hash(check_password(password))
    )
    session.add(account)
    session.flush()
    return account


def has_account(session: Session, name: str) -> bool:
    """Return whether an account has this name."""
    return session.scalar(select(Account.id).filter_by(name=name)) is not None


def find_account(session: Session, name: str) -> Account:
    """Return the account with this name. Raises NotFoundError if there is none."""
    account = session.scalar(select(Account).filter_by(name=name))
    if account is None:
        raise NotFoundError(f"no account {name!r}; `{propose('accounts list')}` lists the existing ones")
    return account


def set_password(account: Account, password: str) -> None:
    """Change the password and sign the account's browsers out."""
    account.password_hash = _hasher().hash(check_password(password))
    account.sessions.clear()


def set_role(session: Session, account: Account, role: str) -> None:
    """Change the role. Raises UsageError if no admin who can sign in would be left."""
    check_role(role)
    if account.role == "admin" and role != "admin":
        _require_another_admin(session, account)
    account.role = role


def disable(session: Session, account: Account) -> None:
    """Stop the account's password and tokens from working."""
    if account.role == "admin":
        _require_another_admin(session, account)
    account.disabled_at = session.scalar(select(database_now()))
    account.sessions.clear()


def enable(account: Account) -> None:
    """Let a disabled account work again."""
    account.disabled_at = None


def _require_another_admin(session: Session, account: Account) -> None:
    other = select(Account.id).where(
        Account.role == "admin",
        Account.disabled_at.is_(None),
        Account.password_hash.is_not(None),
        Account.id != account.id,
    )
    if session.scalars(other.limit(1)).first() is None:
        raise UsageError(f"{account.name} is the only admin who can sign in; create another one first")


def sign_in(session: Session, name: str, password: str) -> Account:
    """Check a name and a password, and return the account.

    Raises AuthenticationError, with the same message and after the same time for every cause.
    """
    account = session.scalar(select(Account).filter_by(name=name))
    password_hash = account.password_hash if account is not None and account.disabled_at is None else None
    try:
        _hasher().verify(password_hash or _nobodys_hash(), password[:MAX_PASSWORD])
    except (VerificationError, InvalidHashError):
        password_hash = None
    if account is None or password_hash is None:
        raise AuthenticationError("wrong name or password; check both, or ask an admin to set a new password")
    if _hasher().check_needs_rehash(password_hash):
        account.password_hash = _hasher().hash(password)
    account.last_login_at = session.scalar(select(database_now()))
    return account


def signed_in_from(session: Session, name: str, days: int) -> set[str]:
    """Return the addresses from which an account signed in during the last `days` days."""
    query = (
        select(AuditEvent.address)
        .join(Account, Account.id == AuditEvent.account_id)
        .where(
            Account.name == name,
            AuditEvent.action == "sign-in",
            AuditEvent.outcome == "done",
            AuditEvent.at >= database_now(-86400 * days),
        )
    )
    return {address for address in session.scalars(query.distinct()) if address is not None}


def viewer_of_account(account: Account) -> Viewer:
    """Return the viewer for an account that is signed in."""
    return Viewer(account.name, scopes_of(account.role), account.id, account.role)


# Browsers that are signed in


def begin_session(session: Session, account: Account, hours: float) -> str:
    """Sign a browser in; return the secret for its cookie, of which only the SHA-256 is stored.

    hours: the lifetime of a session. Expired sessions of all accounts are removed.
    """
    session.execute(delete(BrowserSession).where(BrowserSession.created_at < database_now(-3600 * hours)))
    secret = secrets.token_urlsafe(TOKEN_BYTES)
    session.add(BrowserSession(digest=_digest(secret), account_id=account.id))
    return secret


def account_of_session(session: Session, secret: str, hours: float) -> Account | None:
    """Return the account of a session cookie; None if the session is unknown, has ended or is older than `hours`."""
    return session.scalar(
        select(Account)
        .join(BrowserSession, BrowserSession.account_id == Account.id)
        .where(
            BrowserSession.digest == _digest(secret),
            BrowserSession.created_at >= database_now(-3600 * hours),
            Account.disabled_at.is_(None),
        )
    )


def end_session(session: Session, secret: str) -> None:
    """End one browser's session, so that copies of its cookie stop working too."""
    session.execute(delete(BrowserSession).where(BrowserSession.digest == _digest(secret)))


def end_sessions(account: Account) -> int:
    """Sign the account out of every browser; return how many there were."""
    ended = len(account.sessions)
    account.sessions.clear()
    return ended


# Tokens


def issue_token(
    session: Session, account: Account, name: str, scopes: Iterable[str], days: int | None = None
) -> tuple[ApiToken, str]:
    """Issue a token; return it with its secret, of which only the SHA-256 is stored.

    days: days until it expires; None: never.
    Raises UsageError for unknown scopes, or scopes that the account's role does not have.
    """
    requested = sorted(set(scopes), key=[*SCOPES, *sorted(set(scopes))].index)
    unknown = [scope for scope in requested if scope not in SCOPES]
    if unknown or not requested:
        raise UsageError(f"scopes {', '.join(unknown) or '(none)'}: use some of {', '.join(SCOPES)}")
    missing = [scope for scope in requested if scope not in scopes_of(account.role)]
    if missing:
        raise UsageError(f"{account.name} is {account.role} and may not {', '.join(missing)}; leave out that scope")
    if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
        raise UsageError(f"{days} days: a token may be valid for 1 to {MAX_TOKEN_DAYS:,} days")
    label = name.strip()
    if not label or len(label) > 100 or not label.isprintable():
        raise UsageError("a token needs a name of 1 to 100 printable characters that says where it will be used")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    token = ApiToken(account_id=account.id, name=label, hint=secret[:8], digest=_digest(secret), scopes=requested)
    if days is not None:
        now = session.scalar(select(database_now()))
        assert now is not None
        token.expires_at = now + timedelta(days=days)
    session.add(token)
    session.flush()
    return token, secret


def _digest(secret: str) -> str:
    # A plain digest is enough: there is nothing to guess among 2^256.
    return hashlib.sha256(secret.encode()).hexdigest()


def viewer_of_token(session: Session, secret: str) -> Viewer:
    """Return the viewer for a token's secret.

    Raises AuthenticationError if the token is malformed, unknown, expired, revoked, or of a disabled account.
    """
    if not _TOKEN.fullmatch(secret):
        raise AuthenticationError(f"this is not a token of this registry: they begin with {TOKEN_PREFIX}")
    row = session.execute(
        select(ApiToken, Account)
        .join(Account, Account.id == ApiToken.account_id)
        .where(ApiToken.digest == _digest(secret))
    ).one_or_none()
    if row is None:
        raise AuthenticationError("unknown token; it may belong to another registry")
    token, account = row
    now = session.scalar(select(database_now()))
    assert now is not None
    if token.revoked_at is not None:
        raise AuthenticationError(f"token {token.hint}… was revoked; create a new one")
    if token.expires_at is not None and token.expires_at <= now:
        raise AuthenticationError(f"token {token.hint}… expired on {token.expires_at:%Y-%m-%d}; create a new one")
    if account.disabled_at is not None:
        raise AuthenticationError(f"the account of token {token.hint}… is disabled; ask an admin")
    scopes = scopes_of(account.role) & frozenset(token.scopes)
    return Viewer(account.name, scopes, account.id, account.role, token.id)


def was_used_lately(session: Session, token_id: int) -> bool:
    """Return whether a token's use was recorded within the last minute."""
    used = session.get_one(ApiToken, token_id).last_used_at
    now = session.scalar(select(database_now()))
    assert now is not None
    return used is not None and now - used <= timedelta(seconds=USED_AGAIN_SECONDS)


def note_use(session: Session, token_id: int) -> None:
    """Record that a token was used just now."""
    session.get_one(ApiToken, token_id).last_used_at = session.scalar(select(database_now()))


def revoke_token(session: Session, token: ApiToken) -> datetime | None:
    """Revoke a token permanently."""
    if token.revoked_at is None:
        token.revoked_at = session.scalar(select(database_now()))
    return token.revoked_at


# The audit trail


def record(
    session: Session,
    viewer: Viewer,
    action: str,
    target: str | None = None,
    *,
    outcome: str = "done",
    address: str | None = None,
    details: dict[str, Any] | None = None,
) -> None:
    """Add an event to the audit trail. `details` must not contain a secret."""
    session.add(
        AuditEvent(
            account_id=viewer.account_id,
            api_token_id=viewer.token_id,
            actor=viewer.name,
            action=action,
            target=None if target is None else _storable(target)[:500],
            outcome=outcome,
            address=_storable(address),
            details=None if details is None else {key: _storable(value) for key, value in details.items()},
        )
    )


def _storable(value: Any) -> Any:
    """Replace texts that PostgreSQL cannot store: a refused request may contain anything."""
    if isinstance(value, str):
        return value.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    return value


# Documents


ACCOUNT: Final = ("role", "created_at", "last_login_at")
TOKEN: Final = ("id", "name", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at")
AUDIT: Final = ("id", "at", "actor", "action", "target", "outcome", "address", "details")


def account_row(account: Account) -> dict[str, Any]:
    """Return the public fields of an account."""
    return pick(account, ACCOUNT) | {
        "account": account.name,
        "password": account.password_hash is not None,
        "disabled": account.disabled_at is not None,
    }


def token_row(token: ApiToken, account: str) -> dict[str, Any]:
    """Return the public fields of a token."""
    return pick(token, TOKEN) | {"account": account, "begins": token.hint}


def audit_row(event: AuditEvent) -> dict[str, Any]:
    """Return the public fields of an event."""
    return pick(event, AUDIT)
