"""Labels and inputs that executions can be asked for.

Revision 0017, after 0016. Expands only: programs of the revision before leave the columns empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # An upgrade that was interrupted may have left any of it behind.
    again = {} if op.get_context().dialect.name == "sqlite" else {"if_not_exists": True}
    for name in ("labels", "inputs"):
        op.add_column("execution", sa.Column(name, sa.Text()), **again)


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
