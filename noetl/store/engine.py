"""Engines: how each database is opened, how its transactions begin, what its failures mean.

SQLite: WAL with `synchronous=FULL` (a commit that was acknowledged survives a power loss; only
claims and heartbeats use NORMAL); writers begin IMMEDIATE and queue on a lock of the process first,
because SQLite itself only sleeps and polls. PostgreSQL: psycopg2, READ COMMITTED for writers, whose
row locks carry the guarantees, and REPEATABLE READ, READ ONLY for readers, so that a reader sees
one moment.
"""

from __future__ import annotations

import select
import sqlite3
from collections.abc import Container, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool, QueuePool

from noetl.errors import BadRequest, ConfigError, Conflict, NoetlError, NotFound, Unavailable
from noetl.store.schema.database import HEAD, metadata
from noetl.store.search_path import Connector, quote, read_pinned
from noetl.store.version import FILE_TABLE

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
FULL = frozenset({"53100", "SQLITE_FULL"})
#: PostgreSQL: the role lacks a privilege.
NO_RIGHT: Final = "42501"
#: SQLite: another process writes.
HELD = frozenset({"SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_TIMEOUT"})


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
OPTIONS: Final = tuple(
    f"-c {setting}"
    for setting in ("timezone=UTC", "enable_seqscan=off", "enable_hashjoin=off", "enable_mergejoin=off")
)

#: What a connection has unless the URL says otherwise.
DEFAULTS: Final = {
    "connect_timeout": int(PATIENCE),
    "application_name": "noetl",
    # A listener sends nothing, so only keepalives notice that the server is gone.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


def open_engine(url: str, pool_size: int = 10, connector: Connector | None = None) -> Engine:
    """An engine that connects when it is first used; the directory of a SQLite file is made."""
    parsed = parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, pool_size) if parsed.database else _open_memory()
    return _open_postgresql(parsed, pool_size, connector or Connector())


def _open_postgresql(url: URL, pool_size: int, connector: Connector) -> Engine:
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=2 * pool_size,
        pool_timeout=PATIENCE,
        pool_use_lifo=True,
        connect_args={
            "options": " ".join((*url.normalized_query.get("options", ()), *OPTIONS)),
            **{name: value for name, value in DEFAULTS.items() if name not in url.query},
        },
    )
    event.listen(engine, "do_connect", connector.connect)
    event.listen(engine, "checkout", partial(_replace_if_lost, engine))
    return engine


def _replace_if_lost(engine: Engine, raw: Any, *_: object) -> None:
    """Pings connections that may have been lost. An idle connection is readable only where the
    server has closed it or sent a notice; to ping each time would cost a round trip."""
    if not raw.closed and not _is_readable(raw.fileno()):
        return
    try:
        engine.dialect.do_ping(raw)
    except engine.dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError(f"The connection was lost while it was idle: {error}") from error


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


def create_tables(connection: Connection) -> None:
    """All tables at once, as the newest revision has them, in an empty database."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(
        text(
            f"CREATE TABLE {FILE_TABLE} (version_num VARCHAR(32) NOT NULL, "
            f"CONSTRAINT {FILE_TABLE}_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text(f"INSERT INTO {FILE_TABLE} VALUES (:head)"), {"head": HEAD})  # noqa: S608


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
    if code == NO_RIGHT:
        return _explain_missing_right(cause, said, place)
    kinds = {cls.__name__ for cls in type(cause).__mro__}
    return _by_code(code, said, place) or _by_kind(kinds, said, place, lost=lost)


#: What these codes mean, and the next move. `said` are the words of the database.
_MEANINGS: Final[Sequence[tuple[Container[str], type[NoetlError], str]]] = (
    (UNIQUE, Conflict, "It is already recorded: another transaction came first."),
    (FOREIGN, NotFound, "The execution that this belongs to does not exist."),
    (RETRY, Conflict, "Another transaction came first; try again."),
    (HELD, Unavailable, "The database {place} was held by another process for {patience:g} s; try again."),
    (FULL, Unavailable, "The database {place} has no room left on its disk ({said}); make room there."),
    (NO_TABLE, Unavailable, "The database {place} lacks NoETL's tables ({said}); run `noetl db upgrade`."),
    (
        DAMAGED,
        Unavailable,
        "The database {place} is damaged ({said}); restore it, or move the file away to begin anew.",
    ),
    (
        CLOSED_FILE,
        Unavailable,
        "The database {place} cannot be opened ({said}); is its directory writable?",
    ),
)


def _explain_missing_right(cause: Any, said: str, place: str) -> Unavailable:
    """What has a role may be given while processes run, which go on then. An upgrade changes what
    its role owns."""
    cursor = getattr(cause, "cursor", None)
    if cursor is None or said.startswith("must be owner"):
        return Unavailable(f"The database {place} refuses its role a right ({said}); use the tables' owner.")
    session = cursor.connection.info
    role, schema = quote(session.user), read_pinned(session.options)
    return Unavailable(
        f"The role {role} lacks a right in the database {place} ({said}); have the owner of the tables run "
        f"`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}; "
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}`."
    )


def _by_code(code: str, said: str, place: str) -> NoetlError | None:
    if said.startswith(("no such table", "no such column")):
        code = "42P01"
    for codes, kind, meaning in _MEANINGS:
        if code in codes:
            return kind(meaning.format(place=place, said=said, patience=PATIENCE))
    return None


def _by_kind(kinds: set[str], said: str, place: str, *, lost: bool) -> NoetlError:
    if lost or kinds & {"OperationalError", "InterfaceError"}:
        return Unavailable(f"The database {place} does not answer: {said}.")
    if kinds & {"DataError", "IntegrityError"}:
        return BadRequest(f"The database {place} refused a value: {said}.")
    return NoetlError(f"The database {place} failed: {said}.")
