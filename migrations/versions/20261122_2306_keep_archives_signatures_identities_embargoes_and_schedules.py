"""Keep archives signatures identities embargoes and schedules.

Revision: 202611222306. Follows: 202611221948.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611222306"
down_revision = "202611221948"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.create_table(
        "chain_signature",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("head", sa.LargeBinary(32), nullable=False),
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.Text(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_signature")),
    )
    op.create_index("ix_chain_signature_position", "chain_signature", ["position"], unique=False)
    op.create_table(
        "account_identity",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_account_identity_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_identity")),
        sa.UniqueConstraint("account_id", "issuer", name=op.f("uq_account_identity_account_id_issuer")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_account_identity_issuer_subject")),
    )
    op.create_table(
        "board_deprecation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("board_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("successor", sa.Text(), nullable=True),
        sa.Column("deprecated_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("retracted_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["board_id"], ["board.id"], name=op.f("fk_board_deprecation_board_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_board_deprecation")),
    )
    op.create_index(op.f("ix_board_deprecation_board_id"), "board_deprecation", ["board_id"], unique=False)
    op.create_table(
        "archive",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("predictions", sa.Integer(), nullable=False),
        sa.Column("texts", sa.Integer(), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint("state IN ('archiving', 'archived', 'restoring')", name=op.f("ck_archive_state")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_archive_evaluation_id")),
        sa.PrimaryKeyConstraint("evaluation_id", name=op.f("pk_archive")),
    )
    op.create_table(
        "embargo",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("until", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint("(evaluation_id IS NULL) <> (model_revision_id IS NULL)", name=op.f("ck_embargo_subject")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_embargo_evaluation_id")),
        sa.ForeignKeyConstraint(
            ["model_revision_id"], ["model_revision.id"], name=op.f("fk_embargo_model_revision_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_embargo")),
        sa.UniqueConstraint("evaluation_id", name=op.f("uq_embargo_evaluation_id")),
        sa.UniqueConstraint("model_revision_id", name=op.f("uq_embargo_model_revision_id")),
    )
    op.create_index("ix_embargo_until", "embargo", ["until"], unique=False)
    op.create_table(
        "schedule",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("every_days", sa.Integer(), nullable=False),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("budget", sa.Double(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("every_days >= 1 AND questions >= 1", name=op.f("ck_schedule_positive")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_schedule_evaluation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule")),
    )
    op.create_index(op.f("ix_schedule_evaluation_id"), "schedule", ["evaluation_id"], unique=False)
    op.create_table(
        "schedule_run",
        sa.Column("schedule_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("begun_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("compared_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("questions", sa.Integer(), nullable=True),
        sa.Column("better", sa.Integer(), nullable=True),
        sa.Column("worse", sa.Integer(), nullable=True),
        sa.Column("flipped", sa.Integer(), nullable=True),
        sa.Column("p_value", sa.Double(), nullable=True),
        sa.Column("level", sa.Double(), nullable=True),
        sa.Column("moved", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_schedule_run_evaluation_id")),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedule.id"], name=op.f("fk_schedule_run_schedule_id")),
        sa.PrimaryKeyConstraint("schedule_id", "period", name=op.f("pk_schedule_run")),
    )
    op.create_index(op.f("ix_schedule_run_evaluation_id"), "schedule_run", ["evaluation_id"], unique=False)
    op.add_column("evaluation", sa.Column("conflict_of_interest", sa.Text(), nullable=True))
    op.add_column("submission", sa.Column("conflict_of_interest", sa.Text(), nullable=True))
    op.add_column(
        "submission",
        sa.Column("embargo_until", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
    )
    op.add_column("submission", sa.Column("anonymous", sa.Boolean(), server_default=sa.text("(false)"), nullable=False))
    frozen.create(revision)
