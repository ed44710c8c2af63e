"""What executions descend from, and which events are copies.

Revision 0008, after 0007. Expands only: programs of the revision before leave the columns empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ADDED = {
    "execution": (("source_id", ID), ("descent", sa.Text())),
    "event": (("origin", sa.Text()),),
}
INDEX = "ix_execution_source_id"
COLUMNS = ["source_id", "execution_id"]
DESCENDS = sa.text("source_id IS NOT NULL")


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    for table, columns in ADDED.items():
        for name, kind in columns:
            # An upgrade that was interrupted may have left it behind.
            op.add_column(table, sa.Column(name, kind), **({} if sqlite else {"if_not_exists": True}))
    if sqlite:
        op.create_index(INDEX, "execution", COLUMNS, sqlite_where=DESCENDS)
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "execution", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "execution", COLUMNS, postgresql_where=DESCENDS, postgresql_concurrently=True)


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
