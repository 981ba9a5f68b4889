"""Keep batches of providers.

Revision: 202611221653. Follows: 202611221620.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221653"
down_revision = "202611221620"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.create_table(
        "provider_batch",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("shard_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("remote_id", sa.Text(), nullable=True),
        sa.Column("written_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("state <> 'submitted' OR remote_id IS NOT NULL", name=op.f("ck_provider_batch_remote_id")),
        sa.CheckConstraint("state IN ('written', 'sent', 'submitted', 'ended')", name=op.f("ck_provider_batch_state")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_provider_batch_evaluation_id")),
        sa.ForeignKeyConstraint(["shard_id"], ["shard.id"], name=op.f("fk_provider_batch_shard_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_batch")),
    )
    op.create_index(op.f("ix_provider_batch_evaluation_id"), "provider_batch", ["evaluation_id"], unique=False)
    op.create_index(
        "uq_provider_batch_open",
        "provider_batch",
        ["shard_id"],
        unique=True,
        postgresql_where=sa.text("state <> 'ended'"),
        sqlite_where=sa.text("state <> 'ended'"),
    )
    frozen.create(revision)
