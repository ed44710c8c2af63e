"""The tables.

Revision 0001.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def where(condition: str) -> dict[str, Any]:
    """What makes an index partial, on both databases."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def upgrade() -> None:
    create_execution()
    create_event()
    create_command()
    create_loop_run()
    create_snapshot()
    create_net()
    create_playbook()
    create_credential()
    create_idempotency()
    create_dead_letter()
    create_worker()


def downgrade() -> None:
    raise NotImplementedError("The log only moves forward: restore a backup instead.")


def create_execution() -> None:
    op.create_table(
        "execution",
        sa.Column("execution_id", ID, autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("playbook_version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("head_version", sa.Integer(), nullable=False),
        sa.Column("decided_version", sa.Integer(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.Column("next_wake_at", INSTANT, nullable=True),
        sa.Column("halt", sa.Text(), nullable=False),
        sa.Column("shard", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("execution_id", name="pk_execution"),
    )
    op.create_index(
        "ix_execution_next_wake_at",
        "execution",
        ["shard", "next_wake_at"],
        **where("next_wake_at IS NOT NULL"),
    )
    op.create_index(
        "ix_execution_owing",
        "execution",
        ["shard", "execution_id"],
        **where("head_version > decided_version"),
    )
    op.create_index("ix_execution_path_execution_id", "execution", ["path", "execution_id"])
    op.create_index("ix_execution_status_execution_id", "execution", ["status", "execution_id"])


def create_event() -> None:
    op.create_table(
        "event",
        sa.Column("execution_id", ID, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("entity_type", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("step_run_id", sa.Text(), nullable=True),
        sa.Column("iteration", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.Column("duration_ms", sa.Float(precision=53), nullable=True),
        sa.Column("dedup_key", sa.Text(), nullable=True),
        sa.Column("schema", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "version", name="pk_event"),
    )
    op.create_index(
        "ix_event_run",
        "event",
        ["execution_id", "step_run_id", "iteration", "version"],
        **where("step_run_id IS NOT NULL"),
    )
    op.create_index(
        "uq_event_dedup_key",
        "event",
        ["execution_id", "dedup_key"],
        unique=True,
        **where("dedup_key IS NOT NULL"),
    )


def create_command() -> None:
    op.create_table(
        "command",
        sa.Column("command_id", sa.Text(), nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("issue", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("iteration", sa.Integer(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("shard", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("due_at", INSTANT, nullable=True),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("lease_until", INSTANT, nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("chord_id", sa.Text(), nullable=True),
        sa.Column("chord_index", sa.Integer(), nullable=True),
        sa.Column("chord_size", sa.Integer(), nullable=True),
        sa.Column("context", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.execution_id"], name="fk_command_execution_id_execution"
        ),
        sa.PrimaryKeyConstraint("command_id", name="pk_command"),
    )
    op.create_index("ix_command_leased", "command", ["lease_until"], **where("state = 'claimed'"))
    op.create_index(
        "ix_command_open", "command", ["execution_id", "command_id"], **where("state <> 'closed'")
    )
    op.create_index(
        "ix_command_unclaimed", "command", ["sent_at"], **where("state = 'open' AND sent_at IS NOT NULL")
    )
    op.create_index(
        "ix_command_unsent",
        "command",
        ["execution_id", "command_id"],
        **where("state = 'open' AND sent_at IS NULL"),
    )


def create_loop_run() -> None:
    op.create_table(
        "loop_run",
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("next_index", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("indices", sa.Text(), nullable=True),
        sa.Column("items", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.execution_id"], name="fk_loop_run_execution_id_execution"
        ),
        sa.PrimaryKeyConstraint("execution_id", "run_id", name="pk_loop_run"),
    )


def create_snapshot() -> None:
    op.create_table(
        "snapshot",
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("schema", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["execution.execution_id"], name="fk_snapshot_execution_id_execution"
        ),
        sa.PrimaryKeyConstraint("execution_id", name="pk_snapshot"),
    )


def create_net() -> None:
    op.create_table(
        "net",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_net"),
    )


def create_playbook() -> None:
    op.create_table(
        "playbook",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("path", "version", name="pk_playbook"),
    )


def create_credential() -> None:
    op.create_table(
        "credential",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_credential"),
    )


def create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.Text(), nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency"),
    )


def create_dead_letter() -> None:
    op.create_table(
        "dead_letter",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_dead_letter"),
    )


def create_worker() -> None:
    op.create_table(
        "worker",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_worker"),
    )
