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
    op.create_index(
        "ix_evaluation_comparable",
        "evaluation",
        ["benchmark_version_id", "protocol_id", "variant_set_id", "id"],
        postgresql_include=["model_revision_id", "questions"],
        postgresql_where=sa.text("seal IS NOT NULL"),
        sqlite_where=sa.text("seal IS NOT NULL"),
    )
    op.create_index(
        "ix_evaluation_replicated",
        "evaluation",
        ["specification_digest"],
        postgresql_where=sa.text("replicate > 0"),
        sqlite_where=sa.text("replicate > 0"),
    )
    op.create_index(
        "ix_evaluation_metric_metric",
        "evaluation_metric",
        ["metric", "evaluation_id"],
        postgresql_include=["definition_version", "value"],
        postgresql_where=sa.text("scope = 'all'"),
        sqlite_where=sa.text("scope = 'all'"),
    )
    create_views(revision)
    create_triggers(revision)
