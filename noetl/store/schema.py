"""The tables. Every constraint has a name; every index serves one query of the port.

Executions' ids are numbers here and decimal strings in Python. JSON is kept as TEXT: `jsonb`
refuses NUL characters that are legal in JSON, costs a parse for each insert, and no query of ours
looks inside. Instants are `timestamptz` on PostgreSQL and ISO 8601 text of one width, in UTC, on
SQLite, so that they sort as they compare.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = MetaData(naming_convention=NAMES)

#: The newest revision in `noetl.migrations`.
HEAD: Final = "0016"


class IsoInstant(TypeDecorator[datetime]):
    """An aware instant as text of one width: `2026-01-31T12:00:00.000000+00:00`."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> str | None:
        """Raises ValueError for an instant without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"The instant {value.isoformat()} has no time zone; instants are aware, in UTC.")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, _: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


Instant = DateTime(timezone=True).with_variant(IsoInstant(), "sqlite")
#: 64 bits. SQLite calls them INTEGER, and such a primary key is the row's own address there.
Id = BigInteger().with_variant(Integer(), "sqlite")


def partial(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    """An index over the rows that `where` selects, on both databases."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


def owner() -> Column[int]:
    """`execution_id` of a table whose rows belong to an execution that exists."""
    return Column("execution_id", Id, ForeignKey("execution.execution_id"), nullable=False)


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

net = Table(
    "net",
    metadata,
    Column("digest", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("digest"),
)

playbook = Table(
    "playbook",
    metadata,
    Column("path", Text, nullable=False),
    Column("version", Integer, autoincrement=False, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("content_sha256", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    #: JSON: what the compiler warned of.
    Column("warnings", Text, nullable=False, server_default=text("'[]'")),
    PrimaryKeyConstraint("path", "version"),
)

snapshot = Table(
    "snapshot",
    metadata,
    owner(),
    Column("version", Integer, nullable=False),
    Column("schema", Integer, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("execution_id"),
)

credential = Table(
    "credential",
    metadata,
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("scope", Text, nullable=False, server_default=text("'global'")),
    #: The path, or the execution, that it is kept for.
    Column("place", Text, nullable=False, server_default=text("''")),
    #: What people call it. `name` is unique: for the scopes `path` and `execution` it includes the
    #: place.
    Column("label", Text, nullable=False, server_default=text("''")),
    PrimaryKeyConstraint("name"),
    partial("ix_credential_label", "label", where="label <> ''"),
    partial("ix_credential_place", "place", where="scope = 'execution'"),
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

#: What calls of tasks with `cache` came to. The execution, the run and the iteration are those that
#: made the call.
cached = Table(
    "cached",
    metadata,
    Column("key", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("execution_id", Id, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("iteration", Integer),
    Column("task", Text, nullable=False),
    #: JSON: the result, and the tool's own section beside it.
    Column("outcome", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    PrimaryKeyConstraint("key"),
    Index(None, "execution_id"),
    Index(None, "expires_at"),
)

#: Calls that are being made, and that others wait for (`cache.lock`).
cache_lock = Table(
    "cache_lock",
    metadata,
    Column("key", Text, nullable=False),
    Column("execution_id", Id, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("iteration", Integer),
    Column("task", Text, nullable=False),
    Column("taken_at", Instant, nullable=False),
    PrimaryKeyConstraint("key"),
)

#: Executions (`user_id`) whose logs name large results of others that they are no family of.
result_use = Table(
    "result_use",
    metadata,
    Column("execution_id", Id, nullable=False),
    Column("user_id", Id, nullable=False),
    PrimaryKeyConstraint("execution_id", "user_id"),
)

#: Who may ask for what. Of the secret of a token there is only a hash.
token = Table(
    "token",
    metadata,
    Column("token_id", Text, nullable=False),
    Column("principal", Text, nullable=False),
    #: JSON: lists of texts.
    Column("groups", Text, nullable=False),
    Column("grants", Text, nullable=False),
    Column("secret_sha256", Text, nullable=False),
    #: How many requests in which time, like `100/minute`.
    Column("rate", Text),
    Column("created_by", Text),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("used_at", Instant),
    PrimaryKeyConstraint("token_id"),
)

#: What was asked for from outside, and done: an event of an execution, or a change of something
#: else.
audit = Table(
    "audit",
    metadata,
    Column("audit_id", Id, autoincrement=True, nullable=False),
    Column("recorded_at", Instant, nullable=False),
    Column("principal", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    #: Of an event, in the log of its execution.
    Column("version", Integer),
    #: JSON: what else there is to be said.
    Column("detail", Text),
    PrimaryKeyConstraint("audit_id"),
    Index(None, "principal", "audit_id"),
    Index(None, "subject", "audit_id"),
    Index(None, "recorded_at"),
)

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
