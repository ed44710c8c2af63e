"""How a process hears of what others commit: PostgreSQL notifies, SQLite counts."""

from __future__ import annotations

import selectors
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg2

from noetl.store.engine import Connections, translate_cause
from noetl.store.watching import Hear

CHANNEL: Final = "noetl_changed"
#: A payload must be shorter than 8,000 bytes. One that would be longer is left empty: everybody
#: looks.
MOST: Final = 7900
#: Seconds between two looks at SQLite's counter.
PACE_S: Final = 0.004


def make_notice(execution_ids: Iterable[str]) -> bytes:
    """The statement that tells of these executions."""
    payload = ",".join(sorted(execution_ids))
    return f"SELECT pg_notify('{CHANNEL}', '{payload if len(payload) <= MOST else ''}')".encode()


@contextmanager
def listen(connections: Connections) -> Iterator[Hear]:
    """Listens on a connection of its own. Raises NoetlError where there is none, or it is lost."""
    with connections.translated():
        raw: Any = connections.detached()
        try:
            yield _postgres(raw) if connections.dialect == "postgresql" else _sqlite(raw)
        except (psycopg2.Error, sqlite3.Error) as error:
            # What waits in the pool is most likely as dead as this one.
            connections.engine.dispose()
            raise translate_cause(error, connections.place) from error
        finally:
            raw.close()


def _postgres(raw: Any) -> Hear:
    raw.autocommit = True
    with raw.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")

    def hear(seconds: float) -> frozenset[str] | None:
        with selectors.DefaultSelector() as selector:
            selector.register(raw, selectors.EVENT_READ)
            selector.select(seconds)
        raw.poll()
        payloads = [one.payload for one in raw.notifies]
        raw.notifies.clear()
        return None if "" in payloads else frozenset(name for one in payloads for name in one.split(","))

    return hear


def _sqlite(raw: Any) -> Hear:
    def version() -> int:
        """Another one as soon as another connection, of any process, has committed."""
        (count,) = raw.execute("PRAGMA data_version").fetchone()
        return int(count)

    known = version()

    def hear(seconds: float) -> frozenset[str] | None:
        nonlocal known
        ends = time.monotonic() + seconds
        while True:
            # First, so that where others commit all the time a pause goes before each look.
            time.sleep(PACE_S)
            if (now := version()) != known:
                known = now
                return None  # a commit does not say whose it was
            if time.monotonic() >= ends:
                return frozenset()

    return hear
