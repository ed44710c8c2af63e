"""Runs the revisions on the connection that `noetl.store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from noetl.store import version
from noetl.store.schema.database import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=version.table_of(connection.dialect.name),
    on_version_apply=version.follow,
    transaction_per_migration=True,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
