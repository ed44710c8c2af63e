"""Versions of playbooks keep what the compiler warned of.

Revision 0004, after 0003. Expands only: versions that are there, or that programs of the revision
before register, have none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    column = sa.Column("warnings", sa.Text(), nullable=False, server_default=sa.text("'[]'"))
    # An upgrade that was interrupted may have left it behind.
    op.add_column("playbook", column, **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
