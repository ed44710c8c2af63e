"""Who has a slot of what, who waits for one, and what is paused.

Revision 0015, after 0014. Expands only: programs of the revision before know nothing of it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INDEXES = (
    ("ix_slot_key", ["key"], None),
    ("ix_slot_waiting", ["key", "requested_at"], sa.text("granted_at IS NULL")),
    ("ix_slot_expires_at", ["expires_at"], sa.text("expires_at IS NOT NULL")),
)


def upgrade() -> None:
    # An upgrade that was interrupted may have left any of it behind.
    op.create_table(
        "slot",
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.Column("requested_at", INSTANT, nullable=False),
        sa.Column("on_full", sa.Text(), nullable=False),
        sa.Column("per_s", sa.Float()),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("granted_at", INSTANT),
        sa.Column("offered_at", INSTANT),
        sa.Column("expires_at", INSTANT),
        sa.Column("within", sa.Text(), nullable=False),
        sa.Column("under", sa.Text()),
        sa.PrimaryKeyConstraint("execution_id", "run_id", "part", "key", name="pk_slot"),
        if_not_exists=True,
    )
    for name, columns, where in INDEXES:
        op.create_index(name, "slot", columns, sqlite_where=where, postgresql_where=where, if_not_exists=True)
    op.create_table(
        "paused",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("principal", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_paused"),
        if_not_exists=True,
    )


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
