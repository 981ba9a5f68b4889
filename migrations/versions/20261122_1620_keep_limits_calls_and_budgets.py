"""Keep limits calls and budgets.

Revision: 202611221620. Follows: 202611221520.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221620"
down_revision = "202611221520"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.create_table(
        "budget",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("spent", sa.Double(), nullable=False),
        sa.Column("held", sa.Double(), nullable=False),
        sa.CheckConstraint("kind IN ('evaluation', 'submission', 'account')", name=op.f("ck_budget_kind")),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_budget_amount")),
        sa.PrimaryKeyConstraint("kind", "subject", name=op.f("pk_budget")),
    )
    op.create_table(
        "rate_limit",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("requests_free_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("tokens_free_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_limit")),
    )
    op.create_table(
        "provider_call",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("cost_limit", sa.Double(), nullable=True),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("written_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("served_model", sa.Text(), nullable=True),
        sa.Column("system_fingerprint", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("(state = 'answered') = (text IS NOT NULL)", name=op.f("ck_provider_call_text")),
        sa.CheckConstraint(
            "outcome IN ('complete', 'cut-off', 'refused', 'filtered')", name=op.f("ck_provider_call_outcome")
        ),
        sa.CheckConstraint(
            "state IN ('begun', 'answered', 'failed', 'forgotten')", name=op.f("ck_provider_call_state")
        ),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_provider_call_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_call")),
    )
    op.create_index(
        "ix_provider_call_prompt", "provider_call", ["evaluation_id", "question_id", "variant"], unique=False
    )
    op.create_index(
        "uq_provider_call_answer",
        "provider_call",
        ["evaluation_id", "question_id", "variant"],
        unique=True,
        postgresql_where=sa.text("state = 'answered'"),
        sqlite_where=sa.text("state = 'answered'"),
    )
    frozen.create(revision)
