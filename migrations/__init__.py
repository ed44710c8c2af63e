"""Schema of the store: Alembic revisions. Installed as `noetl.migrations`."""
