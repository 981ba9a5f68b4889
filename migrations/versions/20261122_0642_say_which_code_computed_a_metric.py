"""Say which code computed a metric.

Revision: 202611220642. Follows: 202611220601.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611220642"
down_revision = "202611220601"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.add_column("evaluation_metric", sa.Column("code_version", sa.Text(), nullable=True))
    frozen.create(revision)
