"""Connections: how each database is opened, how its transactions begin, what its failures mean.

SQLite: WAL with `synchronous=FULL` (a commit that was acknowledged survives a power loss; only
claims and heartbeats use NORMAL); writers begin IMMEDIATE and queue on a lock of the process first,
because SQLite itself only sleeps and polls. PostgreSQL: psycopg2, READ COMMITTED for writers, whose
row locks carry the guarantees, and REPEATABLE READ, READ ONLY for readers, so that a reader sees
one moment.
"""

from __future__ import annotations

import select
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import psycopg2
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool, QueuePool

from noetl.errors import BadRequest, ConfigError, Conflict, NoetlError, NotFound, Unavailable
from noetl.store.schema import create_tables

#: Seconds that a writer waits for another one (SQLite), and anyone for a connection.
PATIENCE: Final = 10.0

UNIQUE = frozenset({"23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"})
FOREIGN = frozenset({"23503", "SQLITE_CONSTRAINT_FOREIGNKEY"})
#: Serialization failure, deadlock.
RETRY = frozenset({"40001", "40P01"})
#: SQLite: what lies in the file is no database, or no longer one; or the file cannot be had.
DAMAGED = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_CORRUPT_VTAB", "SQLITE_CORRUPT_INDEX"})
CLOSED_FILE = frozenset({"SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY", "SQLITE_PERM"})
NO_TABLE = frozenset({"42P01", "42703"})


def parse(url: str) -> URL:
    """The URL with its driver named. Raises ConfigError for a database that is not supported."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            f"The database URL {url!r} cannot be read; use sqlite:///file or postgresql://…"
        ) from error
    match parsed.get_backend_name():
        case "postgresql" | "postgres":
            return parsed.set(drivername="postgresql+psycopg2")
        case "sqlite" if parsed.database and parsed.database != ":memory:":
            return parsed
        case "memory":
            return URL.create("sqlite")
        case "sqlite":
            raise ConfigError(f"The database URL {url!r} names no file; for a store in memory use memory://.")
        case other:
            raise ConfigError(
                f"The database {other!r} is not supported; use sqlite:///file or postgresql://…"
            )


#: All that the store asks is a lookup in an index. A connection keeps the plan it made when a table
#: was nearly empty, and then a scan of all of it looks best.
SETTINGS = ("timezone=UTC", "enable_seqscan=off", "enable_hashjoin=off", "enable_mergejoin=off")


def open_engine(url: str, pool_size: int = 10) -> Engine:
    """An engine that connects when it is first used; the directory of a SQLite file is made."""
    parsed = parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, pool_size) if parsed.database else _open_memory()
    engine = create_engine(
        parsed,
        pool_size=pool_size,
        max_overflow=2 * pool_size,
        pool_timeout=PATIENCE,
        pool_use_lifo=True,
        connect_args={
            "options": " ".join(f"-c {setting}" for setting in SETTINGS),
            "connect_timeout": int(PATIENCE),
            "application_name": "noetl",
            # Who only listens must notice by himself that nobody is there any more.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        },
    )
    event.listen(engine, "checkout", partial(_replace_if_lost, engine))
    return engine


def _replace_if_lost(engine: Engine, raw: Any, *_: object) -> None:
    """Who comes first after a restart of PostgreSQL is not told of it: what nobody asked for can be
    read of a connection only where the server has closed it, or says something. To ask each time
    would cost a round trip."""
    if not raw.closed and not _is_readable(raw.fileno()):
        return
    try:
        engine.dialect.do_ping(raw)
    except psycopg2.Error as error:
        raise InvalidatePoolError(f"The connection was lost while nobody used it: {error}") from error


def _is_readable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))


SQLITE_ARGS: Final = {"timeout": PATIENCE, "check_same_thread": False, "isolation_level": None}


@cache
def _open_memory() -> Engine:
    """Each of its connections is a database, with tables. It is the same engine for all of them, as
    an engine compiles each statement once."""
    engine = create_engine("sqlite://", poolclass=NullPool, connect_args=SQLITE_ARGS)
    event.listen(engine, "connect", _fill_memory)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _fill_memory(connection: sqlite3.Connection, _: Any) -> None:
    connection.deserialize(_make_empty_database())
    connection.execute("PRAGMA foreign_keys=ON")


@cache
def _make_empty_database() -> bytes:
    with create_engine("sqlite://").begin() as connection:
        create_tables(connection)
        connection.commit()
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        return raw.serialize()


def _open_sqlite(url: URL, pool_size: int) -> Engine:
    path = Path(str(url.database))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"The directory of the database {path} cannot be made: {error}.") from error
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=-1,
        connect_args=SQLITE_ARGS,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    match connection.get_execution_options().get("noetl_mode"):
        case "read":
            raw.execute("BEGIN")
        case "relaxed":
            raw.execute("PRAGMA synchronous=NORMAL")
            raw.execute("BEGIN IMMEDIATE")
        case _:
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute("BEGIN IMMEDIATE")


class Connections:
    """Hands out connections inside a transaction, in one of three modes: `durable`, `relaxed`,
    `read`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dialect = engine.dialect.name
        self.place = engine.url.render_as_string(hide_password=True)
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
            if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise Unavailable(
                    f"The database {self.place} was held by another process for {PATIENCE:g} s; try again."
                ) from error
            raise Unavailable(f"The database {self.place} does not answer: {error}.") from error

    def close(self) -> None:
        """Closes the connections that nobody uses."""
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


def connect(url: str, pool_size: int = 10) -> Connections:
    """Connections to the database at `url`; see `open_engine`."""
    engine = open_engine(url, pool_size)
    return Connections(engine) if engine.url.database else MemoryConnections(engine)


def translate(error: SQLAlchemyError, place: str) -> NoetlError:
    """What a failure of the database at `place` means to a caller."""
    if isinstance(error, PoolTimeout):
        return Unavailable(f"No connection to {place} became free within {PATIENCE:g} s; try again.")
    if not isinstance(error, DBAPIError):
        return BadRequest(f"The database {place} cannot take this: {error}.")
    return translate_cause(error.orig, place, lost=error.connection_invalidated)


def translate_cause(cause: BaseException | None, place: str, *, lost: bool = False) -> NoetlError:
    """The same for what the driver itself raised; `lost`: the connection is gone."""
    code = getattr(cause, "pgcode", None) or getattr(cause, "sqlite_errorname", None) or ""
    said = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    kinds = {cls.__name__ for cls in type(cause).__mro__}
    return _by_code(code, said, place) or _by_kind(kinds, said, place, lost=lost)


def _by_code(code: str, said: str, place: str) -> NoetlError | None:
    if code in UNIQUE:
        return Conflict(f"It is already recorded: {said}.")
    if code in FOREIGN:
        return NotFound(f"The execution that this belongs to does not exist: {said}.")
    if code in RETRY:
        return Conflict(f"Another transaction came first ({said}); try again.")
    if code in NO_TABLE or said.startswith(("no such table", "no such column")):
        return Unavailable(f"The database {place} lacks NoETL's tables ({said}); run `noetl db upgrade`.")
    if code in DAMAGED:
        return Unavailable(
            f"The database {place} is damaged ({said}); restore it, or move the file away to begin anew."
        )
    if code in CLOSED_FILE:
        return Unavailable(f"The database {place} cannot be opened ({said}); is its directory writable?")
    return None


def _by_kind(kinds: set[str], said: str, place: str, *, lost: bool) -> NoetlError:
    if lost or kinds & {"OperationalError", "InterfaceError"}:
        return Unavailable(f"The database {place} does not answer: {said}.")
    if kinds & {"DataError", "IntegrityError"}:
        return BadRequest(f"The database {place} refused a value: {said}.")
    return NoetlError(f"The database {place} failed: {said}.")
