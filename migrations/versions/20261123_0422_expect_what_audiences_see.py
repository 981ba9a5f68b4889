"""Expect what audiences see.

Revision: 202611230422. Follows: 202611222306.
"""

from migrations import frozen

revision = "202611230422"
down_revision = "202611222306"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    frozen.create(revision)
