"""The log and its tables on SQLAlchemy, and a twin in memory that passes the same contract suite.

An adapter of `noetl.usecases.ports.Store`: the only code that writes the `event` table.
"""

from __future__ import annotations

from pathlib import Path

from noetl.usecases.ports import Store

__all__ = ["exists", "open_store"]


def open_store(url: str, shard: str = "", watch_s: float = 0.0) -> Store:
    """The store at `sqlite:///path`, `postgresql://…` or `memory://`. Raises ConfigError.

    `shard` is whose executions it creates, and for whom alone it finds what is owed, unsent or
    expired: the stack that shares the database (empty), or one process. `watch_s` is how often
    executions that are watched are looked at besides what the database tells, in seconds (0:
    never). Its tables must be there (`noetl.store.migrate.upgrade`); a store in memory needs none.
    """
    if url.startswith("memory:"):
        from noetl.store.memory.store import MemoryStore

        return MemoryStore()
    from noetl.store.sql import SqlStore  # SQLAlchemy takes a while to import

    return SqlStore(url, shard, watch_s=watch_s)


def exists(url: str) -> bool:
    """Whether there may be a store at `url`: not where it is a file that nobody has made. Raises
    ConfigError."""
    if url.startswith("memory:"):
        return False
    from noetl.store.engine import parse  # as above

    parsed = parse(url)
    return parsed.get_backend_name() != "sqlite" or Path(str(parsed.database)).exists()
