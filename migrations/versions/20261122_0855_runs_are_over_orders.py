"""Runs are over orders.

Revision: 202611220855. Follows: 202611220709.
"""

from migrations import frozen

revision = "202611220855"
down_revision = "202611220709"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    frozen.create(revision)
