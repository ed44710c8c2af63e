"""Results that others use: of equal calls, and large ones."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from noetl.store.schema.columns import Id, Instant, metadata


def _site() -> tuple[Column[Any], ...]:
    """The place of a call: the task of an execution's run, and of an iteration of it."""
    return (
        Column("execution_id", Id, nullable=False),
        Column("run_id", Text, nullable=False),
        Column("iteration", Integer),
        Column("task", Text, nullable=False),
    )


#: What calls of tasks with `cache` came to, and where each of them was made.
cached = Table(
    "cached",
    metadata,
    Column("key", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("kind", Text, nullable=False),
    *_site(),
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
    *_site(),
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
