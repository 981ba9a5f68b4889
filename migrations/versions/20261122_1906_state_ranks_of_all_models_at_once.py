"""State ranks of all models at once.

Revision: 202611221906. Follows: 202611221653.
"""

import json

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221906"
down_revision = "202611221653"
branch_labels = None
depends_on = None

STANDING = """
UPDATE board_standing SET all_rank_low = :low, all_rank_high = :high, all_tier = :tier
WHERE board_snapshot_id = :snapshot AND column_name = :column AND model_revision_id = (
    SELECT model_revision.id
    FROM model_revision
    JOIN model ON model.id = model_revision.model_id
    WHERE model.name = :model AND model_revision.number = :revision
)
"""


def _fill(connection: sa.Connection) -> None:
    """Of every snapshot what its document says."""
    for snapshot in connection.scalars(sa.text("SELECT id FROM board_snapshot ORDER BY id")).all():
        found = connection.scalar(sa.text("SELECT document FROM board_snapshot WHERE id = :id"), {"id": snapshot})
        document = json.loads(found) if isinstance(found, str) else found
        standings = [
            {
                "snapshot": snapshot,
                "model": row["model"],
                "revision": row["revision"],
                "column": column,
                "low": (value.get("all_rank_interval") or (None, None))[0],
                "high": (value.get("all_rank_interval") or (None, None))[1],
                "tier": value.get("all_tier"),
            }
            for row in document["rows"]
            for column, value in row["values"].items()
            if value.get("all_rank_interval") or value.get("all_tier")
        ]
        if standings:
            connection.execute(sa.text(STANDING), standings)


def upgrade() -> None:
    frozen.drop(down_revision)
    op.add_column("board_standing", sa.Column("all_rank_low", sa.Integer(), nullable=True))
    op.add_column("board_standing", sa.Column("all_rank_high", sa.Integer(), nullable=True))
    op.add_column("board_standing", sa.Column("all_tier", sa.Integer(), nullable=True))
    _fill(op.get_bind())
    frozen.create(revision)
