"""Which statements SQLite carries out."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import event

from noetl.store.sql import SqlStore


def listen(store: SqlStore) -> list[str]:
    """From now on the list has every statement that this store sends to SQLite. Of PostgreSQL it
    stays empty."""
    said: list[str] = []

    def trace(raw: Any, *_: object) -> None:
        if isinstance(raw, sqlite3.Connection):
            raw.set_trace_callback(said.append)

    connections = store._connections
    event.listen(connections.engine, "checkout", trace)
    for kept in filter(None, [getattr(connections, "_connection", None)]):
        trace(kept.connection.driver_connection)
    return said
