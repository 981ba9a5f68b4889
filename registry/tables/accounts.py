"""The tables of accounts and their requests: accounts, tokens, audit, submissions, saved queries.

No documented view reads them, and they are not part of any result: an evaluation stores its requester's name as text.
"""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    ForeignKey,
    Index,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from registry.db import Base, Digest, JsonDocument, RowId, UtcDateTime, database_now
from registry.tables.checks import one_of

SUBMISSION_STATES: Final = ("requested", "approved", "rejected", "withdrawn")
OUTCOMES: Final = ("done", "refused")


class Role(Base):
    """A role, which determines the rights of an account."""

    __tablename__ = "role"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    rank: Mapped[int] = mapped_column(SmallInteger, unique=True)
    """An account also has the rights of all lower ranks."""
    description: Mapped[str] = mapped_column(Text)


class Account(Base):
    """A person or a program that can sign in or use tokens."""

    __tablename__ = "account"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    role: Mapped[str] = mapped_column(ForeignKey("role.name"))
    password_hash: Mapped[str | None] = mapped_column(Text)
    """Argon2id in PHC form; NULL if the account uses single sign-on, or only tokens."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    last_login_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    disabled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Time from which neither password nor tokens work."""

    sessions: Mapped[list["BrowserSession"]] = relationship(back_populates="account", cascade="all, delete-orphan")
    identities: Mapped[list["AccountIdentity"]] = relationship(back_populates="account", cascade="all, delete-orphan")


class AccountIdentity(Base):
    """A person at an OpenID Connect provider who signs in as an account, identified only by issuer and subject."""

    __tablename__ = "account_identity"
    __table_args__ = (UniqueConstraint("issuer", "subject"), UniqueConstraint("account_id", "issuer"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    issuer: Mapped[str] = mapped_column(Text)
    """The issuer as written in the provider's tokens."""
    subject: Mapped[str] = mapped_column(Text)
    """The claim `sub`: the person's identifier at the issuer, which is never reassigned."""
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())

    account: Mapped[Account] = relationship(back_populates="identities")


class BrowserSession(Base):
    """A browser in which an account is signed in. A cookie works only while its row exists."""

    __tablename__ = "browser_session"

    digest: Mapped[str] = mapped_column(Digest, primary_key=True)
    """SHA-256 of the secret in the browser's cookie, which is not stored."""
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    """Time of signing in; the session ends a fixed time later."""

    account: Mapped[Account] = relationship(back_populates="sessions")


class ApiToken(Base):
    """A secret that grants an account's rights within `scopes`. Only its SHA-256 and its first letters are stored.

    It works until `expires_at` (NULL: never expires) or `revoked_at`.
    """

    __tablename__ = "api_token"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"), index=True)
    name: Mapped[str] = mapped_column(Text)
    hint: Mapped[str] = mapped_column(Text)
    """First letters of the secret, by which its owner can recognise it."""
    digest: Mapped[str] = mapped_column(Digest, unique=True)
    """SHA-256 of the secret, which is not stored."""
    scopes: Mapped[Any] = mapped_column(JsonDocument)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """NULL: never expires."""
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    account: Mapped[Account] = relationship()


class AuditEvent(Base):
    """An action of an account, or the refusal of one. Append-only."""

    __tablename__ = "audit_event"
    __table_args__ = (
        one_of("outcome", OUTCOMES),
        Index("ix_audit_event_at", "at"),
        Index("ix_audit_event_account_id", "account_id"),
        Index("ix_audit_event_actor", "actor", "id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    account_id: Mapped[int | None] = mapped_column(ForeignKey("account.id"))
    api_token_id: Mapped[int | None] = mapped_column(ForeignKey("api_token.id"))
    actor: Mapped[str] = mapped_column(Text)
    """Name of the account at the time, "anonymous", or "command line"."""
    action: Mapped[str] = mapped_column(Text)
    """A name such as "submission.approve"."""
    target: Mapped[str | None] = mapped_column(Text)
    """The object of the action, as text."""
    outcome: Mapped[str] = mapped_column(Text)
    address: Mapped[str | None] = mapped_column(Text)
    details: Mapped[Any | None] = mapped_column(JsonDocument)
    """Never contains a secret."""


class Submission(Base):
    """A request to evaluate a model on a suite, and a maintainer's decision.

    `model`: the arguments of `models add` (name, kind, location, revision, dtype …), checked on request; never a path
    on the server. `estimate`: the estimate that the deciding maintainer saw. `finished_at`: when the last of its
    evaluations ended, successfully or not. `anonymous`: whether its evaluations omit the submitter's name.
    `conflict_of_interest`: as in an evaluation.
    """

    __tablename__ = "submission"
    __table_args__ = (
        one_of("state", SUBMISSION_STATES),
        CheckConstraint("(state IN ('approved', 'rejected')) = (decided_at IS NOT NULL)", name="decided"),
        Index("ix_submission_state", "state"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"), index=True)
    suite: Mapped[str] = mapped_column(Text)
    model: Mapped[Any] = mapped_column(JsonDocument)
    note: Mapped[str | None] = mapped_column(Text)
    conflict_of_interest: Mapped[str | None] = mapped_column(Text)
    anonymous: Mapped[bool] = mapped_column(Boolean, default=False, server_default=text("false"))
    state: Mapped[str] = mapped_column(Text, default="requested")
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    decided_by: Mapped[int | None] = mapped_column(ForeignKey("account.id"))
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    reason: Mapped[str | None] = mapped_column(Text)
    estimate: Mapped[Any | None] = mapped_column(JsonDocument)
    model_revision_id: Mapped[int | None] = mapped_column(ForeignKey("model_revision.id"))
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    account: Mapped[Account] = relationship(foreign_keys=[account_id])
    decider: Mapped[Account | None] = relationship(foreign_keys=[decided_by])


class SubmissionEvaluation(Base):
    """An evaluation of an approved submission; several submissions may share one."""

    __tablename__ = "submission_evaluation"

    submission_id: Mapped[int] = mapped_column(ForeignKey("submission.id"), primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), primary_key=True, index=True)


class SavedQuery(Base):
    """A query on the SQL page with a permanent link. Its text never changes, but its owner may rename it.

    `public`: whether everyone who may use the SQL page may open it, or only its owner.
    """

    __tablename__ = "saved_query"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    slug: Mapped[str] = mapped_column(Text, unique=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"), index=True)
    name: Mapped[str] = mapped_column(Text)
    sql: Mapped[str] = mapped_column(Text)
    public: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    deleted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    account: Mapped[Account] = relationship()
