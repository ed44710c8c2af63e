"""Executions that others called.

Revision 0002, after 0001. Expands only: programs of the revision before go on working.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEX = "ix_execution_parent_id"
COLUMNS = ["parent_id", "execution_id"]
CALLED = sa.text("parent_id IS NOT NULL")


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        op.add_column("execution", sa.Column("parent_id", ID))
        op.create_index(INDEX, "execution", COLUMNS, sqlite_where=CALLED)
        return
    # What an upgrade that was interrupted left behind: the column, or an index that is not valid.
    op.add_column("execution", sa.Column("parent_id", ID), if_not_exists=True)
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "execution", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "execution", COLUMNS, postgresql_where=CALLED, postgresql_concurrently=True)


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
