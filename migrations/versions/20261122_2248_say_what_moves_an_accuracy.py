"""Say what moves an accuracy.

Revision: 202611222248. Follows: 202611221948.
"""

from migrations import frozen

revision = "202611222248"
down_revision = "202611221948"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    frozen.create(revision)
