"""${message}.

Revision: ${up_revision}. Follows: ${down_revision | comma,n}.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

from migrations.frozen import create_audiences, create_triggers, create_views, drop_audiences, drop_triggers, drop_views

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
% if down_revision:
    drop_audiences(down_revision)
    drop_triggers(down_revision)
    drop_views(down_revision)
% endif
    ${upgrades if upgrades else ""}
    create_views(revision)
    create_triggers(revision)
    create_audiences(revision)
