"""What executions wait for, and how many of their iterations were cancelled one by one.

Revision 0014, after 0013. Expands only: programs of the revision before leave the columns as they
are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    columns = (
        sa.Column("waiting_for", sa.Text()),
        sa.Column("cancelled_parts", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )
    for column in columns:
        op.add_column("execution", column, **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
