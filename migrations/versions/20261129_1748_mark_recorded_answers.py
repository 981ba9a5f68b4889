"""Mark recorded answers.

Revision: 202611291748. Follows: 202611291245.
"""

import sqlalchemy as sa
from alembic import op

revision = "202611291748"
down_revision = "202611291245"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluation", sa.Column("recorded", sa.Boolean(), server_default=sa.text("(false)"), nullable=False))
