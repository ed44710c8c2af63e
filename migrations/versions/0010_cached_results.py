"""What calls of tasks with `cache` came to, for others that are equal.

Revision 0010, after 0009. Expands only: programs of the revision before do not know the tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    # An upgrade that was interrupted may have left some of it behind.
    op.create_table(
        "cached",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("iteration", sa.Integer),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_cached"),
        if_not_exists=True,
    )
    op.create_index("ix_cached_execution_id", "cached", ["execution_id"], if_not_exists=True)
    op.create_index("ix_cached_expires_at", "cached", ["expires_at"], if_not_exists=True)
    op.create_table(
        "cache_lock",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("iteration", sa.Integer),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("taken_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_cache_lock"),
        if_not_exists=True,
    )
    op.create_table(
        "result_use",
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "user_id", name="pk_result_use"),
        if_not_exists=True,
    )


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
