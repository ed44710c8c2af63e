"""Executions that were imported, to be looked at.

Revision 0009, after 0008. Expands only: programs of the revision before leave the column empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    # An upgrade that was interrupted may have left it behind.
    column = sa.Column("imported_at", INSTANT)
    op.add_column("execution", column, **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
