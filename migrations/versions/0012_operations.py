"""What is done to many executions at once.

Revision 0012, after 0011. Expands only: programs of the revision before leave the column empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
INDEX = "ix_execution_operation_id"
COLUMNS = ["operation_id", "execution_id"]
BEGUN = sa.text("operation_id IS NOT NULL")
OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    # An upgrade that was interrupted may have left any of it behind.
    op.create_table(
        "operation",
        sa.Column("operation_id", ID, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("chosen_by", sa.Text(), nullable=False),
        sa.Column("how", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("shard", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.PrimaryKeyConstraint("operation_id", name="pk_operation"),
        if_not_exists=True,
    )
    op.create_index(
        "ix_operation_open",
        "operation",
        ["shard", "operation_id"],
        sqlite_where=OPEN,
        postgresql_where=OPEN,
        if_not_exists=True,
    )
    op.create_table(
        "operation_item",
        sa.Column("operation_id", ID, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("begun_id", ID),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("operation_id", "position", name="pk_operation_item"),
        sa.ForeignKeyConstraint(
            ["operation_id"], ["operation.operation_id"], name="fk_operation_item_operation_id_operation"
        ),
        if_not_exists=True,
    )
    op.create_index(
        "ix_operation_item_operation_id_state_position",
        "operation_item",
        ["operation_id", "state", "position"],
        if_not_exists=True,
    )
    op.add_column("execution", sa.Column("operation_id", ID), **({} if sqlite else {"if_not_exists": True}))
    if sqlite:
        op.create_index(INDEX, "execution", COLUMNS, sqlite_where=BEGUN)
        return
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "execution", if_exists=True, postgresql_concurrently=True)
        op.create_index(INDEX, "execution", COLUMNS, postgresql_where=BEGUN, postgresql_concurrently=True)


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
