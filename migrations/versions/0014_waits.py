"""What executions wait for, signals that nobody waits for, and how many iterations were cancelled.

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


INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEXES = (
    ("ix_kept_signal_open", ["name", "value", "received_at"], sa.text("taken_at IS NULL")),
    ("ix_kept_signal_expires_at", ["expires_at"], sa.text("expires_at IS NOT NULL")),
    ("ix_kept_signal_taken_at", ["taken_at"], sa.text("taken_at IS NOT NULL")),
)


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    # An upgrade that was interrupted may have left any of it behind.
    op.create_table(
        "correlated_wait",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", "value", "execution_id", "place", name="pk_correlated_wait"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_correlated_wait_execution_id", "correlated_wait", ["execution_id"], if_not_exists=True
    )
    op.create_table(
        "kept_signal",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text()),
        sa.Column("received_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.Column("everyone", sa.Boolean(), nullable=False),
        sa.Column("principal", sa.Text()),
        sa.Column("request_id", sa.Text()),
        sa.Column("taken_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name="pk_kept_signal"),
        if_not_exists=True,
    )
    for name, columns, where in INDEXES:
        op.create_index(
            name, "kept_signal", columns, sqlite_where=where, postgresql_where=where, if_not_exists=True
        )
    added = (
        sa.Column("waiting_for", sa.Text()),
        sa.Column("cancelled_parts", sa.Integer(), nullable=False, server_default=sa.text("0")),
    )
    for column in added:
        op.add_column("execution", column, **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
