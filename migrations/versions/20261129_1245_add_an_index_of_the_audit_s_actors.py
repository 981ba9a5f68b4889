"""Add an index of the audit's actors.

Revision: 202611291245. Follows: 202611290815.
"""

from alembic import op

revision = "202611291245"
down_revision = "202611290815"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_audit_event_actor", "audit_event", ["actor", "id"], unique=False)
