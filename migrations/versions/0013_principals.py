"""Tokens, who asked for what, and the audit.

Revision 0013, after 0012. Expands only: programs of the revision before leave the columns empty,
and write no audit.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
COLUMNS = {
    "execution": ["principal"],
    "event": ["principal", "request_id"],
    "operation": ["principal", "request_id"],
}


def upgrade() -> None:
    sqlite = op.get_context().dialect.name == "sqlite"
    # An upgrade that was interrupted may have left any of it behind.
    op.create_table(
        "token",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("grants", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("rate", sa.Text()),
        sa.Column("created_by", sa.Text()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.Column("revoked_at", INSTANT),
        sa.Column("used_at", INSTANT),
        sa.PrimaryKeyConstraint("token_id", name="pk_token"),
        if_not_exists=True,
    )
    op.create_table(
        "audit",
        sa.Column("audit_id", ID, autoincrement=True, nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer()),
        sa.Column("detail", sa.Text()),
        sa.PrimaryKeyConstraint("audit_id", name="pk_audit"),
        if_not_exists=True,
    )
    for columns in (["principal", "audit_id"], ["subject", "audit_id"], ["recorded_at"]):
        op.create_index(f"ix_audit_{'_'.join(columns)}", "audit", columns, if_not_exists=True)
    for table, names in COLUMNS.items():
        for name in names:
            op.add_column(table, sa.Column(name, sa.Text()), **({} if sqlite else {"if_not_exists": True}))


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")
