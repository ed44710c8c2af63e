"""Credentials that are kept for some playbooks, or for one execution.

Revision 0003, after 0002. Expands only: programs of the revision before know the global ones, as
they always did.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = {"scope": "'global'", "place": "''", "label": "''"}
INDEXES = {
    "ix_credential_label": ("label", sa.text("label <> ''")),
    "ix_credential_place": ("place", sa.text("scope = 'execution'")),
}


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    for name, default in COLUMNS.items():
        column = sa.Column(name, sa.Text(), nullable=False, server_default=sa.text(default))
        # An upgrade that was interrupted may have left it behind.
        op.add_column("credential", column, **({} if sqlite else {"if_not_exists": True}))
    for index, (name, where) in INDEXES.items():
        # The table is small: nobody waits long for its indexes.
        op.create_index(
            index, "credential", [name], sqlite_where=where, postgresql_where=where, if_not_exists=True
        )


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
