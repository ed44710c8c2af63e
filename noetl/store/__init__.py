"""The log and its tables on SQLAlchemy: PostgreSQL, a SQLite file, or SQLite in memory.

An adapter of `noetl.usecases.ports.Store`: the only code that writes the `event` table.
"""

from __future__ import annotations

from pathlib import Path

from noetl.usecases.ports import Store

__all__ = ["exists", "open_store"]


def open_store(url: str, shard: str = "", watch_s: float = 0.0, schema: str = "") -> Store:
    """The store at `sqlite:///path`, `postgresql://…` or `memory://`. Raises ConfigError.

    `shard` is whose executions it creates, and for whom alone it finds what is owed, unsent or
    expired: the stack that shares the database (empty), or one process. `watch_s` is how often
    executions that are watched are looked at besides what the database tells, in seconds (0:
    never). `schema` is the one of PostgreSQL in which its tables are; empty: where
    they are found. They must be there (`noetl.store.migrate.upgrade`); a store in memory makes them
    itself, serves one transaction at a time and ends with the process.
    """
    from noetl.store.sql import SqlStore  # SQLAlchemy takes a while to import

    return SqlStore(url, shard, watch_s=watch_s, schema=schema)


def exists(url: str) -> bool:
    """Whether there may be a store at `url`: False where it is a file that does not exist. Raises
    ConfigError."""
    from noetl.store.engine import parse  # as above

    parsed = parse(url)
    if parsed.get_backend_name() != "sqlite":
        return True
    return parsed.database is not None and Path(parsed.database).exists()
