"""Add seals of questions, the chain and withdrawals.

Revision: 202611212008. Follows: 202611211955.
"""

import sqlalchemy as sa
from alembic import op

from migrations.frozen import create_audiences, create_triggers, create_views, drop_audiences, drop_triggers, drop_views

revision = "202611212008"
down_revision = "202611211955"
branch_labels = None
depends_on = None


def upgrade() -> None:
    drop_audiences(down_revision)
    drop_triggers(down_revision)
    drop_views(down_revision)
    op.create_table(
        "chain_link",
        sa.Column(
            "position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.LargeBinary(32), nullable=False),
        sa.Column("labels", sa.LargeBinary(32), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("previous", sa.LargeBinary(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.CheckConstraint("kind IN ('seal', 'withdrawal', 'snapshot')", name=op.f("ck_chain_link_kind")),
        sa.CheckConstraint("position >= 1", name=op.f("ck_chain_link_position")),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_chain_link")),
        sa.UniqueConstraint("digest", name=op.f("uq_chain_link_digest")),
        sa.UniqueConstraint("previous", name=op.f("uq_chain_link_previous")),
    )
    op.create_index(op.f("ix_chain_link_subject"), "chain_link", ["subject"], unique=False)
    op.create_table(
        "evaluation_source",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seal", sa.LargeBinary(32), nullable=False),
        sa.Column("predictions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_evaluation_source_evaluation_id")),
        sa.PrimaryKeyConstraint("evaluation_id", "seal", name=op.f("pk_evaluation_source")),
    )
    op.create_index(op.f("ix_evaluation_source_seal"), "evaluation_source", ["seal"], unique=False)
    op.create_table(
        "question_seal",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("leaf", sa.LargeBinary(32), nullable=False),
        sa.Column("prompts", sa.LargeBinary(32), nullable=True),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_question_seal_evaluation_id")),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_question_seal_question_id")),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", name=op.f("pk_question_seal")),
    )
    op.create_table(
        "withdrawal",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.LargeBinary(32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint(
            "(kind = 'superseded') = (superseded_by IS NOT NULL)", name=op.f("ck_withdrawal_superseded_by")
        ),
        sa.CheckConstraint("kind IN ('withdrawn', 'superseded')", name=op.f("ck_withdrawal_kind")),
        sa.CheckConstraint("reason <> ''", name=op.f("ck_withdrawal_reason")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_withdrawal_evaluation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_withdrawal")),
    )
    op.create_index(op.f("ix_withdrawal_evaluation_id"), "withdrawal", ["evaluation_id"], unique=False)
    op.create_index("ix_evaluation_seal", "evaluation", ["seal"], unique=False)
    op.add_column("prediction", sa.Column("reused_from_seal", sa.LargeBinary(32), nullable=True))
    # Copies in evaluations that will be sealed by the new code: their seals name the source by its seal.
    op.execute(
        "UPDATE prediction SET reused_from_seal = "
        "(SELECT source.seal FROM evaluation AS source WHERE source.id = prediction.reused_from_evaluation_id) "
        "WHERE reused_from_evaluation_id IS NOT NULL "
        "AND evaluation_id IN (SELECT evaluation.id FROM evaluation WHERE evaluation.seal IS NULL)"
    )
    create_views(revision)
    create_triggers(revision)
    create_audiences(revision)
