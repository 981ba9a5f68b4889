"""Say how an adapter was applied.

Revision: 202611221520. Follows: 202611221005.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221520"
down_revision = "202611221005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.add_column("model_revision", sa.Column("adapter_commit", sa.Text(), nullable=True))
    op.add_column("model_revision", sa.Column("adapter_merged", sa.Boolean(), nullable=True))
    op.add_column("model_revision", sa.Column("base_digest", sa.LargeBinary(32), nullable=True))
    op.add_column("model_revision", sa.Column("adapter_digest", sa.LargeBinary(32), nullable=True))
    frozen.create(revision)
