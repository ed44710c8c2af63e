"""Runs the revisions on the connection that `noetl.store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from noetl.store.schema.database import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=True,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
