"""What is done to many executions at once."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table, Text

from noetl.store.schema.columns import Id, Instant, metadata, partial

#: What is done to many executions at once.
operation = Table(
    "operation",
    metadata,
    Column("operation_id", Id, autoincrement=False, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    #: The condition that chose its executions, as it was written.
    Column("chosen_by", Text, nullable=False),
    #: JSON: what is done to each of them.
    Column("how", Text, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("shard", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("principal", Text),
    Column("request_id", Text),
    PrimaryKeyConstraint("operation_id"),
    partial("ix_operation_open", "shard", "operation_id", where="ended_at IS NULL"),
)

operation_item = Table(
    "operation_item",
    metadata,
    Column("operation_id", Id, ForeignKey("operation.operation_id"), nullable=False),
    Column("position", Integer, autoincrement=False, nullable=False),
    Column("execution_id", Id, nullable=False),
    Column("state", Text, nullable=False),
    #: The execution that was begun for it.
    Column("begun_id", Id),
    Column("reason", Text, nullable=False),
    PrimaryKeyConstraint("operation_id", "position"),
    Index(None, "operation_id", "state", "position"),
)
