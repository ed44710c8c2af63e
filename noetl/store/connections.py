"""Connections inside transactions, of the three kinds of databases."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from noetl.errors import NoetlError, Unavailable
from noetl.store.engine import PATIENCE, open_engine, translate, translate_cause
from noetl.store.installation import FILE, Installation
from noetl.store.search_path import Connector


class Connections:
    """Hands out connections inside a transaction, in one of three modes: `durable`, `relaxed`,
    `read`."""

    def __init__(self, engine: Engine, connector: Connector | None = None) -> None:
        self.engine = engine
        self._connector = connector
        self.dialect = engine.dialect.name
        self.place = engine.url.render_as_string(hide_password=True)
        if connector is not None and connector.setting:
            self.place += f" (schema {connector.setting})"
        reads: dict[str, Any] = {"noetl_mode": "read"}
        if self.dialect == "postgresql":
            reads |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._engines = {
            "durable": engine.execution_options(noetl_mode="durable"),
            "relaxed": engine.execution_options(noetl_mode="relaxed"),
            "read": engine.execution_options(**reads),
        }
        self._turn: threading.Lock | None = threading.Lock() if self.dialect == "sqlite" else None
        self._writer: int | None = None

    @property
    def installation(self) -> Installation:
        """Of PostgreSQL that of its connections, of which there must have been one."""
        return FILE if self._connector is None else self._connector.installation

    @contextmanager
    def open(self, mode: str) -> Iterator[Connection]:
        """Commits on a clean exit, rolls back otherwise. Failures of the database are
        NoetlErrors."""
        with self._queue(mode), self.translated(), self._engines[mode].begin() as connection:
            if mode == "relaxed" and self.dialect == "postgresql":
                connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
            yield connection

    @contextmanager
    def bare(self) -> Iterator[Connection]:
        """A connection of PostgreSQL that begins no transaction by itself."""
        with self.translated(), self.engine.connect() as connection:
            # Not SQLAlchemy's AUTOCOMMIT: resetting that asks the server each time.
            raw: Any = connection.connection.driver_connection
            raw.autocommit = True
            try:
                yield connection
            finally:
                if not raw.closed:
                    raw.autocommit = False

    def detached(self) -> Any:
        """A connection of the driver that no pool knows: who asked for it closes it."""
        proxy = self.engine.raw_connection()
        raw = proxy.driver_connection
        proxy.detach()
        return raw

    @contextmanager
    def _queue(self, mode: str) -> Iterator[None]:
        if self._turn is None or mode == "read":
            yield
            return
        if self._writer == threading.get_ident():
            raise NoetlError("A transaction was begun inside another one of the same thread; end that first.")
        if not self._turn.acquire(timeout=PATIENCE):
            raise Unavailable(
                f"The database {self.place} was held by another transaction for {PATIENCE:g} s; try again."
            )
        self._writer = threading.get_ident()
        try:
            yield
        finally:
            self._writer = None
            self._turn.release()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns what the driver raises into the errors of NoETL."""
        try:
            yield
        except SQLAlchemyError as error:
            raise translate(error, self.place) from error
        except sqlite3.OperationalError as error:
            # `BEGIN` is sent by a listener of ours, past SQLAlchemy.
            raise translate_cause(error, self.place) from error

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self.engine.dispose()

    def forget(self) -> None:
        """After a fork: the parent's connections are the parent's."""
        self.engine.dispose(close=False)
        if self._turn is not None:
            self._turn, self._writer = threading.Lock(), None


class MemoryConnections(Connections):
    """SQLite in memory: it is gone with its connection, so there is one, which transactions of any
    mode use one after the other."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.place = "memory://"
        self._connection = engine.connect()

    @contextmanager
    def open(self, mode: str) -> Iterator[Connection]:  # noqa: ARG002
        with self._queue("durable"), self.translated(), self._connection.begin():
            yield self._connection

    def close(self) -> None:
        self._connection.close()


def connect(url: str, pool_size: int = 10, schema: str = "") -> Connections:
    """Connections to the database at `url`; see `open_engine` and `Connector`."""
    connector = Connector(schema)
    engine = open_engine(url, pool_size, connector)
    if engine.dialect.name == "postgresql":
        return Connections(engine, connector)
    return Connections(engine) if engine.url.database else MemoryConnections(engine)
