"""What user code prints.

Revision 0006. Expands only: programs of the revision before neither write nor read the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    op.create_table(
        "log",
        sa.Column("execution_id", ID, autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("step_run_id", sa.Text(), nullable=False),
        sa.Column("iteration", sa.Integer()),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("delivery", sa.Integer(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text()),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "seq", name="pk_log"),
        if_not_exists=True,
    )
    where = sa.text("ref IS NOT NULL")
    # The table is new and empty: nobody waits for its index.
    op.create_index(
        "ix_log_ref",
        "log",
        ["execution_id", "last_seq"],
        sqlite_where=where,
        postgresql_where=where,
        if_not_exists=True,
    )


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
