"""Who waits: for signals, for slots, and until something goes on."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, PrimaryKeyConstraint, Table, Text

from noetl.store.schema.columns import Id, Instant, metadata, partial

#: Who waits for a signal about a value.
correlated_wait = Table(
    "correlated_wait",
    metadata,
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("execution_id", Id, nullable=False),
    Column("place", Text, nullable=False),
    PrimaryKeyConstraint("name", "value", "execution_id", "place"),
    Index(None, "execution_id"),
)

#: Signals about a value that nobody has taken yet.
kept_signal = Table(
    "kept_signal",
    metadata,
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("payload", Text),
    Column("received_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("everyone", Boolean, nullable=False),
    Column("principal", Text),
    Column("request_id", Text),
    #: Whoever sends it again is told that it was sent.
    Column("taken_at", Instant),
    PrimaryKeyConstraint("id"),
    partial("ix_kept_signal_open", "name", "value", "received_at", where="taken_at IS NULL"),
    partial("ix_kept_signal_expires_at", "expires_at", where="expires_at IS NOT NULL"),
    partial("ix_kept_signal_taken_at", "taken_at", where="taken_at IS NOT NULL"),
)

#: Who has a slot of a key, and who waits for one.
slot = Table(
    "slot",
    metadata,
    Column("execution_id", Id, nullable=False),
    #: Empty: the execution itself.
    Column("run_id", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("limit", Integer, nullable=False),
    Column("requested_at", Instant, nullable=False),
    Column("on_full", Text, nullable=False),
    #: Of a rate: the window, in seconds.
    Column("per_s", Float),
    Column("priority", Integer, nullable=False),
    Column("granted_at", Instant),
    Column("offered_at", Instant),
    Column("expires_at", Instant),
    #: JSON: the holders that go on only when this one does.
    Column("within", Text, nullable=False),
    #: The holder whose slot this one shares.
    Column("under", Text),
    PrimaryKeyConstraint("execution_id", "run_id", "part", "key"),
    Index(None, "key"),
    partial("ix_slot_waiting", "key", "requested_at", where="granted_at IS NULL"),
    partial("ix_slot_expires_at", "expires_at", where="expires_at IS NOT NULL"),
)

#: Queues, keys, and steps of executions, of which nothing begins.
paused = Table(
    "paused",
    metadata,
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("since", Instant, nullable=False),
    Column("principal", Text),
    Column("reason", Text, nullable=False),
    PrimaryKeyConstraint("kind", "name"),
)
