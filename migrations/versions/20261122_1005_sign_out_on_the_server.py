"""Sign out on the server.

Revision: 202611221005. Follows: 202611220855.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221005"
down_revision = "202611220855"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.create_table(
        "browser_session",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_browser_session_account_id")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_browser_session")),
    )
    op.create_index(op.f("ix_browser_session_account_id"), "browser_session", ["account_id"], unique=False)
    op.drop_column("account", "session_epoch")
    frozen.create(revision)
