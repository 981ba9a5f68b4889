"""Archive the predictions of sealed evaluations.

Revision: 202611222212. Follows: 202611221948.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611222212"
down_revision = "202611221948"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
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
    frozen.create(revision)
