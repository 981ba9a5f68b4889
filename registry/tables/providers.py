"""The tables of models that providers serve for money: rate limits of keys, calls, batches, budgets.

A call is stored before it is made, so that it is known even if its worker dies, and no answered prompt is requested
again.
"""

from datetime import datetime
from typing import Final

from sqlalchemy import (
    CheckConstraint,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from registry.db import Base, RowId, UtcDateTime, database_now
from registry.tables.checks import one_of

CALL_STATES: Final = ("begun", "answered", "failed", "forgotten")
CALL_OUTCOMES: Final = ("complete", "cut-off", "refused", "filtered")
BATCH_STATES: Final = ("written", "sent", "submitted", "ended")
BUDGET_KINDS: Final = ("evaluation", "submission", "account")


class RateLimit(Base):
    """The times from which the next request with a key may begin, for all workers, by the database's clock."""

    __tablename__ = "rate_limit"

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    """Where the key is found, such as `env:EXAMPLE_API_KEY`; never the key itself."""
    requests_free_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """Time until which earlier requests use up the limit of requests."""
    tokens_free_at: Mapped[datetime] = mapped_column(UtcDateTime)
    """Time until which earlier requests use up the limit of tokens."""
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """End of a wait that the provider required."""


class ProviderCall(Base):
    """One request for the answer to one prompt. Money is in the currency of the price list.

    `begun`: its outcome is not known, because it is in progress, alone or in a batch, or because its worker died.
    """

    __tablename__ = "provider_call"
    __table_args__ = (
        ForeignKeyConstraint(
            ["evaluation_id", "question_id"], ["evaluation_question.evaluation_id", "evaluation_question.question_id"]
        ),
        one_of("state", CALL_STATES),
        one_of("outcome", CALL_OUTCOMES),
        CheckConstraint("(state = 'answered') = (text IS NOT NULL)", name="text"),
        Index("ix_provider_call_prompt", "evaluation_id", "question_id", "variant"),
        # Each prompt has at most one answer.
        Index(
            "uq_provider_call_answer",
            "evaluation_id",
            "question_id",
            "variant",
            unique=True,
            postgresql_where=text("state = 'answered'"),
            sqlite_where=text("state = 'answered'"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(RowId)
    question_id: Mapped[int] = mapped_column(RowId)
    variant: Mapped[int] = mapped_column(SmallInteger)
    state: Mapped[str] = mapped_column(Text, default="begun")
    begun_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    cost_limit: Mapped[float | None] = mapped_column(Double)
    """Maximum cost; NULL if the price list does not contain the model."""
    cost: Mapped[float | None] = mapped_column(Double)
    """NULL: not known."""
    prompt_tokens: Mapped[int | None] = mapped_column(Integer)
    cached_tokens: Mapped[int | None] = mapped_column(Integer)
    """Number of tokens of the prompt that were in the provider's cache."""
    written_tokens: Mapped[int | None] = mapped_column(Integer)
    """Number of tokens of the answer, including hidden reasoning."""
    reasoning_tokens: Mapped[int | None] = mapped_column(Integer)
    """Number of written tokens that are not shown."""
    outcome: Mapped[str | None] = mapped_column(Text)
    stop_reason: Mapped[str | None] = mapped_column(Text)
    """The provider's own word for it."""
    served_model: Mapped[str | None] = mapped_column(Text)
    """Name of the model that answered, according to the provider."""
    system_fingerprint: Mapped[str | None] = mapped_column(Text)
    text: Mapped[str | None] = mapped_column(Text)
    reasoning: Mapped[str | None] = mapped_column(Text)
    """The thought that the provider returns separately from the text, complete or as a summary."""
    error: Mapped[str | None] = mapped_column(Text)


class ProviderBatch(Base):
    """Calls of one shard that are sent to a provider together; they are `begun` until the batch has ended.

    `written`: nothing was sent yet. `sent`: the request that creates the batch is in progress, or its response was
    lost. `submitted`: the provider has the batch. `ended`: the results of its calls are stored.
    """

    __tablename__ = "provider_batch"
    __table_args__ = (
        one_of("state", BATCH_STATES),
        CheckConstraint("state <> 'submitted' OR remote_id IS NOT NULL", name="remote_id"),
        # A shard has at most one batch in progress.
        Index(
            "uq_provider_batch_open",
            "shard_id",
            unique=True,
            postgresql_where=text("state <> 'ended'"),
            sqlite_where=text("state <> 'ended'"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), index=True)
    shard_id: Mapped[int] = mapped_column(ForeignKey("shard.id"))
    tag: Mapped[str] = mapped_column(Text)
    """Prefix of the names of its requests, by which a batch with a lost id can be found at the provider."""
    requests: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(Text, default="written")
    remote_id: Mapped[str | None] = mapped_column(Text)
    """The provider's id of the batch."""
    written_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Budget(Base):
    """Maximum cost of an evaluation, a submission or an account's evaluations, in the price list's currency."""

    __tablename__ = "budget"
    __table_args__ = (one_of("kind", BUDGET_KINDS), CheckConstraint("amount >= 0", name="amount"))

    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    subject: Mapped[str] = mapped_column(Text, primary_key=True)
    """Number of the evaluation or submission, or name of the account."""
    amount: Mapped[float] = mapped_column(Double)
    spent: Mapped[float] = mapped_column(Double, default=0.0)
    """Cost of calls that have ended; a call of unknown cost counts with its maximum."""
    held: Mapped[float] = mapped_column(Double, default=0.0)
    """Maximum cost of calls in progress."""
    refused: Mapped[float | None] = mapped_column(Double)
    """Maximum cost of the last call that was refused; NULL if none was."""
