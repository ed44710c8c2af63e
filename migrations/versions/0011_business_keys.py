"""Business keys, and which execution each of them means.

Revision 0011, after 0010. Expands only: programs of the revision before leave them empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


INDEX = "ix_execution_key"
COLUMNS = ["key", "execution_id"]
HAS_ONE = sa.text("key IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "business_key",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("key", "path", name="pk_business_key"),
        if_not_exists=True,
    )
    sqlite = op.get_context().dialect.name == "sqlite"
    # An upgrade that was interrupted may have left it behind.
    op.add_column("execution", sa.Column("key", sa.Text()), **({} if sqlite else {"if_not_exists": True}))
    if sqlite:
        op.create_index(INDEX, "execution", COLUMNS, sqlite_where=HAS_ONE)
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "execution", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "execution", COLUMNS, postgresql_where=HAS_ONE, postgresql_concurrently=True)


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
