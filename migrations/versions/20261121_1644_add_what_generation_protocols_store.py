"""Add what generation protocols store.

Revision: 202611211644. Follows: 202611211331.
"""

import sqlalchemy as sa
from alembic import op

from migrations.frozen import create_triggers, create_views, drop_triggers, drop_views

revision = "202611211644"
down_revision = "202611211331"
branch_labels = None
depends_on = None


def upgrade() -> None:
    drop_triggers(down_revision)
    drop_views(down_revision)
    op.add_column("evaluation", sa.Column("seal_version", sa.SmallInteger(), server_default="1", nullable=False))
    op.add_column("generation", sa.Column("extracted", sa.Text(), nullable=True))
    op.add_column("generation", sa.Column("tokens", sa.Integer(), nullable=True))
    op.add_column("generation", sa.Column("finished", sa.Boolean(), nullable=True))
    op.add_column("shard", sa.Column("matching_s", sa.Double(), nullable=True))
    create_views(revision)
    create_triggers(revision)
