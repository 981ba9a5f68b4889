"""${message}.

Revision: ${up_revision}. Follows: ${down_revision or "nothing" | comma,n}.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

from migrations import frozen

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
% if down_revision:
    frozen.drop(down_revision)
% endif
    ${upgrades if upgrades else ""}
    frozen.create(revision)
