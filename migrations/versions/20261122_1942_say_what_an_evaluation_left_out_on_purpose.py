"""Say what an evaluation left out on purpose.

Revision: 202611221942. Follows: 202611221906.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221942"
down_revision = "202611221906"
branch_labels = None
depends_on = None


def upgrade() -> None:
    frozen.drop(down_revision)
    op.add_column("evaluation", sa.Column("sampled_for", sa.Text(), nullable=True))
    op.add_column("evaluation", sa.Column("stopped_for", sa.Text(), nullable=True))
    sqlite = op.get_bind().dialect.name == "sqlite"
    metric = (
        "json_extract(specification, '$.questions.precision.metric')"
        if sqlite
        else "specification #>> '{questions,precision,metric}'"
    )
    op.execute(f"UPDATE evaluation SET sampled_for = {metric} WHERE {metric} IS NOT NULL")  # noqa: S608
    frozen.create(revision)
