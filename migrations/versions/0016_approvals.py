"""How many approvals of an execution are open.

Revision 0016, after 0015. Expands only: programs of the revision before leave the column as it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

OPEN = sa.text("approvals > 0")


def upgrade() -> None:
    # An upgrade that was interrupted may have left any of it behind.
    again = {} if op.get_context().dialect.name == "sqlite" else {"if_not_exists": True}
    column = sa.Column("approvals", sa.Integer(), nullable=False, server_default=sa.text("0"))
    op.add_column("execution", column, **again)
    op.create_index(
        "ix_execution_asking",
        "execution",
        ["execution_id"],
        sqlite_where=OPEN,
        postgresql_where=OPEN,
        if_not_exists=True,
    )


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
