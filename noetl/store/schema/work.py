"""What workers do: commands, the indices of loops, what user code prints, who they are, and
messages that nobody could read."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, PrimaryKeyConstraint, Table, Text

from noetl.store.schema.columns import Id, Instant, metadata, owner, partial

command = Table(
    "command",
    metadata,
    Column("command_id", Text, nullable=False),
    owner(),
    Column("run_id", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("issue", Integer, nullable=False),
    Column("label", Text, nullable=False),
    Column("iteration", Integer),
    Column("generation", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("shard", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("due_at", Instant),
    Column("sent_at", Instant),
    Column("lease_until", Instant),
    Column("owner", Text),
    Column("chord_id", Text),
    Column("chord_index", Integer),
    Column("chord_size", Integer),
    Column("context", Text, nullable=False),
    PrimaryKeyConstraint("command_id"),
    partial("ix_command_open", "execution_id", "command_id", where="state <> 'closed'"),
    partial("ix_command_unsent", "execution_id", "command_id", where="state = 'open' AND sent_at IS NULL"),
    partial("ix_command_unclaimed", "sent_at", where="state = 'open' AND sent_at IS NOT NULL"),
    partial("ix_command_leased", "lease_until", where="state = 'claimed'"),
)

#: `next_index` may run past `size` (the number of indices to hand out): `take` is one blind update.
loop_run = Table(
    "loop_run",
    metadata,
    owner(),
    Column("run_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("next_index", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("open", Boolean, nullable=False),
    Column("indices", Text),
    Column("items", Text),
    PrimaryKeyConstraint("execution_id", "run_id"),
)

#: What user code prints. No foreign key, as with events. A row is a chunk, or (`ref`) the chunks of
#: one attempt from `seq` to `last_seq`.
log = Table(
    "log",
    metadata,
    Column("execution_id", Id, autoincrement=False, nullable=False),
    Column("seq", Integer, autoincrement=False, nullable=False),
    Column("last_seq", Integer, nullable=False),
    Column("step", Text, nullable=False),
    Column("step_run_id", Text, nullable=False),
    Column("iteration", Integer),
    Column("task", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("delivery", Integer, nullable=False),
    Column("stream", Text, nullable=False),
    #: Bytes of its stream before it.
    Column("offset", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("ref", Text),
    Column("recorded_at", Instant, nullable=False),
    PrimaryKeyConstraint("execution_id", "seq"),
    partial("ix_log_ref", "execution_id", "last_seq", where="ref IS NOT NULL"),
)

worker = Table(
    "worker",
    metadata,
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("queues", Text, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("skew_s", Float),
    PrimaryKeyConstraint("name"),
)

dead_letter = Table(
    "dead_letter",
    metadata,
    Column("id", Id, autoincrement=True, nullable=False),
    Column("source", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("recorded_at", Instant, nullable=False),
    PrimaryKeyConstraint("id"),
)
