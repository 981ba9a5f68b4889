"""Keep what variants read from files.

Revision: 202611221941. Follows: 202611221906.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations import frozen

revision = "202611221941"
down_revision = "202611221906"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.add_column(
        "variant_set",
        sa.Column("content", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
    )
    frozen.create(revision)
