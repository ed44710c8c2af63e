"""Who may ask for what, what they asked for, and the credentials of tasks."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text, text

from noetl.store.schema.columns import Id, Instant, metadata, partial

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
