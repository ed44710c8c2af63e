"""How many errors an execution went on after, and how many warnings it has.

Revision 0005, after 0004. Expands only: programs of the revision before leave both at zero.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = ("errors_passed_over", "warnings_count")


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    for name in COLUMNS:
        column = sa.Column(name, sa.Integer(), nullable=False, server_default=sa.text("0"))
        # An upgrade that was interrupted may have left it behind.
        op.add_column("execution", column, **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
