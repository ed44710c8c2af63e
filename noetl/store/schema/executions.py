"""Executions: their rows, their events, their states in between, and the keys that mean one."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from noetl.store.schema.columns import Id, Instant, metadata, owner, partial
from noetl.store.schema.triggers import refuse_changes

execution = Table(
    "execution",
    metadata,
    Column("execution_id", Id, autoincrement=False, nullable=False),
    Column("path", Text, nullable=False),
    Column("playbook_version", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("head_version", Integer, nullable=False),
    Column("decided_version", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("next_wake_at", Instant),
    Column("halt", Text, nullable=False),
    #: Whose execution it is: a stack's (empty), or that of one process (`noetl run`).
    Column("shard", Text, nullable=False),
    Column("error", Text),
    #: The execution that called it.
    Column("parent_id", Id),
    Column("errors_passed_over", Integer, nullable=False, server_default=text("0")),
    Column("warnings_count", Integer, nullable=False, server_default=text("0")),
    #: The execution that it runs again (`retry`), or is a fork of (`fork`).
    Column("source_id", Id),
    Column("descent", Text),
    #: Of a specimen: when it came from another database.
    Column("imported_at", Instant),
    #: Its business key.
    Column("key", Text),
    #: The operation that began it, of many at once.
    Column("operation_id", Id),
    #: Who asked for it; of one that another called nobody.
    Column("principal", Text),
    #: What its tasks wait for, in a line.
    Column("waiting_for", Text),
    #: How many iterations were cancelled one by one: workers at its loops look which.
    Column("cancelled_parts", Integer, nullable=False, server_default=text("0")),
    #: How many approvals are open.
    Column("approvals", Integer, nullable=False, server_default=text("0")),
    #: Its labels, and its inputs as far as they can be asked for: JSON objects of texts.
    Column("labels", Text),
    Column("inputs", Text),
    PrimaryKeyConstraint("execution_id"),
    Index(None, "status", "execution_id"),
    Index(None, "path", "execution_id"),
    partial("ix_execution_owing", "shard", "execution_id", where="head_version > decided_version"),
    partial("ix_execution_parent_id", "parent_id", "execution_id", where="parent_id IS NOT NULL"),
    partial("ix_execution_source_id", "source_id", "execution_id", where="source_id IS NOT NULL"),
    partial("ix_execution_key", "key", "execution_id", where="key IS NOT NULL"),
    partial("ix_execution_operation_id", "operation_id", "execution_id", where="operation_id IS NOT NULL"),
    partial("ix_execution_asking", "execution_id", where="approvals > 0"),
    partial("ix_execution_next_wake_at", "shard", "next_wake_at", where="next_wake_at IS NOT NULL"),
)

#: No foreign key: `append` writes events only behind the head of an execution that it has just
#: moved, and a check for each row would cost more than the rows themselves.
event = Table(
    "event",
    metadata,
    Column("execution_id", Id, autoincrement=False, nullable=False),
    Column("version", Integer, autoincrement=False, nullable=False),
    Column("type", Text, nullable=False),
    Column("entity_type", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("parent_id", Text),
    Column("step", Text),
    Column("step_run_id", Text),
    Column("iteration", Integer),
    Column("attempt", Integer),
    Column("source", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("recorded_at", Instant, nullable=False),
    Column("duration_ms", Float(53)),
    Column("dedup_key", Text),
    Column("schema", Integer, nullable=False),
    #: The event of another execution that it is a copy of.
    Column("origin", Text),
    #: Who asked for it, and in which request, of what was asked for from outside.
    Column("principal", Text),
    Column("request_id", Text),
    PrimaryKeyConstraint("execution_id", "version"),
    partial("uq_event_dedup_key", "execution_id", "dedup_key", where="dedup_key IS NOT NULL", unique=True),
    partial(
        "ix_event_run",
        "execution_id",
        "step_run_id",
        "iteration",
        "version",
        where="step_run_id IS NOT NULL",
    ),
)
refuse_changes(event)

snapshot = Table(
    "snapshot",
    metadata,
    owner(),
    Column("version", Integer, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("execution_id"),
)

#: No foreign key: the key is claimed before its execution exists.
idempotency = Table(
    "idempotency",
    metadata,
    Column("key", Text, nullable=False),
    Column("request_sha256", Text, nullable=False),
    Column("execution_id", Id, nullable=False),
    Column("created_at", Instant, nullable=False),
    PrimaryKeyConstraint("key"),
)

#: Which execution a key means: no foreign key either, for the same reason.
business_key = Table(
    "business_key",
    metadata,
    Column("key", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("execution_id", Id, nullable=False),
    PrimaryKeyConstraint("key", "path"),
)
