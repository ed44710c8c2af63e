"""Playbooks, and the nets that they are compiled to."""

from __future__ import annotations

from sqlalchemy import Column, Integer, PrimaryKeyConstraint, Table, Text, text

from noetl.store.schema.columns import Instant, metadata

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

net = Table(
    "net",
    metadata,
    Column("digest", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("digest"),
)
