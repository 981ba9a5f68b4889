"""Add accounts, submissions and audiences.

Revision: 202611211955. Follows: 202611211644.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.frozen import create_audiences, create_triggers, create_views, drop_triggers, drop_views

revision = "202611211955"
down_revision = "202611211644"
branch_labels = None
depends_on = None


def upgrade() -> None:
    drop_triggers(down_revision)
    drop_views(down_revision)
    op.create_table(
        "role",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rank", sa.SmallInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_role")),
        sa.UniqueConstraint("rank", name=op.f("uq_role_rank")),
    )
    op.bulk_insert(
        sa.table("role", sa.column("name"), sa.column("rank"), sa.column("description")),
        [
            {"name": "reader", "rank": 1, "description": "Reads what members may see, and asks the SQL page."},
            {"name": "submitter", "rank": 2, "description": "Asks for evaluations of a model."},
            {
                "name": "maintainer",
                "rank": 3,
                "description": "Decides what runs, keeps benchmarks and boards, sees all.",
            },
            {"name": "admin", "rank": 4, "description": "Keeps accounts, webhooks and the audit trail."},
        ],
    )
    op.create_table(
        "account",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("session_epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("last_login_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["role"], ["role.name"], name=op.f("fk_account_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
        sa.UniqueConstraint("name", name=op.f("uq_account_name")),
    )
    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("scopes", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_api_token_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_token_digest")),
    )
    op.create_index(op.f("ix_api_token_account_id"), "api_token", ["account_id"], unique=False)
    op.create_table(
        "saved_query",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sql", sa.Text(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_saved_query_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_query")),
        sa.UniqueConstraint("slug", name=op.f("uq_saved_query_slug")),
    )
    op.create_index(op.f("ix_saved_query_account_id"), "saved_query", ["account_id"], unique=False)
    op.create_table(
        "submission",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("model", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("decided_by", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("estimate", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint(
            "(state IN ('approved', 'rejected')) = (decided_at IS NOT NULL)", name=op.f("ck_submission_decided")
        ),
        sa.CheckConstraint(
            "state IN ('requested', 'approved', 'rejected', 'withdrawn')", name=op.f("ck_submission_state")
        ),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_submission_account_id")),
        sa.ForeignKeyConstraint(["decided_by"], ["account.id"], name=op.f("fk_submission_decided_by")),
        sa.ForeignKeyConstraint(
            ["model_revision_id"], ["model_revision.id"], name=op.f("fk_submission_model_revision_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submission")),
    )
    op.create_index(op.f("ix_submission_account_id"), "submission", ["account_id"], unique=False)
    op.create_index("ix_submission_state", "submission", ["state"], unique=False)
    op.create_table(
        "webhook",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("kinds", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_webhook_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook")),
    )
    op.create_index(op.f("ix_webhook_account_id"), "webhook", ["account_id"], unique=False)
    op.create_table(
        "audit_event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("api_token_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("details", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("outcome IN ('done', 'refused')", name=op.f("ck_audit_event_outcome")),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_audit_event_account_id")),
        sa.ForeignKeyConstraint(["api_token_id"], ["api_token.id"], name=op.f("fk_audit_event_api_token_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_event")),
    )
    op.create_index("ix_audit_event_account_id", "audit_event", ["account_id"], unique=False)
    op.create_index("ix_audit_event_at", "audit_event", ["at"], unique=False)
    op.create_table(
        "notice",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("submission_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("document", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_notice_evaluation_id")),
        sa.ForeignKeyConstraint(["submission_id"], ["submission.id"], name=op.f("fk_notice_submission_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
        sa.UniqueConstraint("kind", "key", name=op.f("uq_notice_kind_key")),
    )
    op.create_index("ix_notice_at", "notice", ["at"], unique=False)
    op.create_index(op.f("ix_notice_evaluation_id"), "notice", ["evaluation_id"], unique=False)
    op.create_index(op.f("ix_notice_submission_id"), "notice", ["submission_id"], unique=False)
    op.create_table(
        "submission_evaluation",
        sa.Column("submission_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation.id"], name=op.f("fk_submission_evaluation_evaluation_id")
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submission.id"], name=op.f("fk_submission_evaluation_submission_id")
        ),
        sa.PrimaryKeyConstraint("submission_id", "evaluation_id", name=op.f("pk_submission_evaluation")),
    )
    op.create_index(
        op.f("ix_submission_evaluation_evaluation_id"), "submission_evaluation", ["evaluation_id"], unique=False
    )
    op.create_table(
        "webhook_delivery",
        sa.Column("webhook_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("notice_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'failed')", name=op.f("ck_webhook_delivery_state")),
        sa.ForeignKeyConstraint(["notice_id"], ["notice.id"], name=op.f("fk_webhook_delivery_notice_id")),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhook.id"], name=op.f("fk_webhook_delivery_webhook_id")),
        sa.PrimaryKeyConstraint("webhook_id", "notice_id", name=op.f("pk_webhook_delivery")),
    )
    op.create_index("ix_webhook_delivery_state", "webhook_delivery", ["state", "not_before"], unique=False)
    create_views(revision)
    create_triggers(revision)
    create_audiences(revision)
