"""Keep signatures of the chain.

Revision: 202611222203. Follows: 202611221948.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611222203"
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
    frozen.create(revision)
