"""Executions that were called by others. Expands only: programs of revision 0001 go on working.

Revision 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
CALLED = sa.text("parent_id IS NOT NULL")


def upgrade() -> None:
    op.add_column("execution", sa.Column("parent_id", ID))
    op.create_index(
        "ix_execution_parent_id",
        "execution",
        ["parent_id", "execution_id"],
        postgresql_where=CALLED,
        sqlite_where=CALLED,
    )


def downgrade() -> None:
    op.drop_index("ix_execution_parent_id", "execution")
    op.drop_column("execution", "parent_id")
