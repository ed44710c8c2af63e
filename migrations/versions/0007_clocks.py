"""How far the clocks of workers are off.

Revision 0007, after 0006. Expands only: programs of the revision before leave the column empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    # An upgrade that was interrupted may have left it behind.
    op.add_column("worker", sa.Column("skew_s", sa.Float()), **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
