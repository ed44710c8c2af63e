"""Brings a database to the tables of this version, and says how far it is from them.

Alembic is imported only where revisions have to be run or compared: a database that is at `HEAD`
costs one query, and an empty SQLite file gets its tables straight from `schema` (a test holds that
the revisions lead to the same ones).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, inspect, text

from noetl.errors import ConfigError, Unavailable
from noetl.store import version
from noetl.store.connections import Connections, connect
from noetl.store.engine import create_tables
from noetl.store.installation import Installation, lock_number
from noetl.store.provision import make_schema
from noetl.store.schema.database import HEAD, metadata
from noetl.store.schema.triggers import find_missing

if TYPE_CHECKING:
    from alembic.config import Config

#: Key of the advisory lock that upgrades queue on which may meet those of older versions.
LOCK: Final = 0x6E6F65746C

#: Seconds that an upgrade waits for another one.
PATIENCE: Final = 300.0


def upgrade(url: str, schema: str = "", *, is_asked_for: bool = False) -> bool:
    """Runs the revisions that are missing; says whether there were any. Safe to run from many
    processes. Where nobody asked for it, no tables are made among those of others: raises
    ConfigError."""
    with _connections(url, schema) as connections:
        if _read_revision(connections) == HEAD and not (is_asked_for and _has_to_adopt(connections)):
            return False
        if connections.dialect == "sqlite":
            return _upgrade_sqlite(connections)
        with _exclusively(connections):
            return _upgrade_postgresql(connections, is_asked_for)


def current(url: str, schema: str = "") -> str | None:
    """The revision on record; None for a database without NoETL's tables."""
    with _connections(url, schema) as connections:
        return _read_revision(connections)


def find_schema(url: str, schema: str = "") -> str:
    """The schema in which the tables are, or would be made; empty for SQLite, which has none."""
    with _connections(url, schema) as connections, connections.open("read"):
        return connections.installation.schema


def check(url: str, schema: str = "") -> list[str]:
    """What stands between the database and this version, one line each; empty when it is as it
    should be."""
    with _connections(url, schema) as connections:
        recorded = _read_revision(connections)
        if recorded != HEAD:
            return _pending(recorded)
        with connections.open("read") as connection:
            return _drift(connection)


def new_revision(url: str, message: str) -> None:
    """Writes the draft of a revision: what `schema` has beyond the database at `url`, which is at
    HEAD."""
    from alembic import command  # slow to import

    with _connections(url) as connections, connections.open("durable") as connection:
        command.revision(_config(connection), message=message, autogenerate=True)


@contextmanager
def _connections(url: str, schema: str = "") -> Iterator[Connections]:
    connections = connect(url, 1, schema)
    try:
        yield connections
    finally:
        connections.close()


def _read_revision(connections: Connections) -> str | None:
    with connections.open("read") as connection:
        return version.read_revision(connection, connections.installation)


def _has_to_adopt(connections: Connections) -> bool:
    with connections.open("read") as connection:
        return version.has_to_adopt(connection, connections.installation)


def _upgrade_sqlite(connections: Connections) -> bool:
    with connections.open("durable") as connection:  # holds the file's only write lock
        recorded = version.read_revision(connection, connections.installation)
        if recorded == HEAD:
            return False
        if recorded is None and not inspect(connection).get_table_names():
            create_tables(connection)
        else:
            _run_revisions(connection, recorded)
        return True


def _upgrade_postgresql(connections: Connections, is_asked_for: bool) -> bool:
    recorded = _prepare(connections, is_asked_for)
    if recorded == HEAD:
        return False
    with connections.translated(), connections.engine.connect() as connection:
        _run_revisions(connection, recorded)
        connection.commit()
    return True


def _prepare(connections: Connections, is_asked_for: bool) -> str | None:
    """Makes what the revisions write into; returns the one on record."""
    with connections.open("durable") as connection:
        installation = connections.installation
        recorded = version.read_revision(connection, installation)
        if recorded is None:
            make_schema(connection, installation.schema, is_asked_for=is_asked_for)
        elif version.has_to_adopt(connection, installation):
            version.adopt(connection)
        return recorded


def _run_revisions(connection: Connection, recorded: str | None) -> None:
    from alembic import command  # slow to import
    from alembic.util import CommandError

    try:
        command.upgrade(_config(connection), "head")
    except CommandError as error:
        raise ConfigError(
            f"The database is at revision {recorded}, which this version of NoETL does not know "
            f"({error}); upgrade NoETL."
        ) from error


@contextmanager
def _exclusively(connections: Connections) -> Iterator[None]:
    """Holds the advisory lock. It is polled for: a session that waits inside a statement would hold
    up the CREATE INDEX CONCURRENTLY of the one that it waits for."""
    with connections.translated(), connections.engine.connect() as pooled:
        connection = pooled.execution_options(isolation_level="AUTOCOMMIT")
        deadline = time.monotonic() + PATIENCE
        key = {"key": _find_key(connections.installation)}
        while not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), key).scalar():
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Another upgrade of {connections.place} runs for {PATIENCE:g} s; try again."
                )
            time.sleep(0.1)
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)


def _find_key(installation: Installation) -> int:
    return LOCK if installation.predates_schemas else lock_number(installation.qualify("noetl:upgrade"))


def _config(connection: Connection | None = None) -> Config:
    from alembic.config import Config  # slow to import

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(resources.files("noetl.migrations")).replace("%", "%%"))
    return config


def _pending(recorded: str | None) -> list[str]:
    from alembic.script import ScriptDirectory  # slow to import

    every = list(ScriptDirectory.from_config(_config()).walk_revisions())
    if recorded is not None and recorded not in {one.revision for one in every}:
        return [f"The database is at revision {recorded}, which this version does not know; upgrade NoETL."]
    newer = takewhile(lambda one: one.revision != recorded, every)
    return [f"Revision {one.revision} ({one.doc}) is pending." for one in reversed(list(newer))]


def _drift(connection: Connection) -> list[str]:
    from alembic.autogenerate import compare_metadata  # slow to import
    from alembic.migration import MigrationContext

    opts = {"compare_type": True, "include_object": _is_own}
    context = MigrationContext.configure(connection, opts=opts)
    missing = [f"trigger {name} of event is not there, or turned off" for name in find_missing(connection)]
    return [
        f"The tables differ from their definition: {one}."
        for one in (*map(_describe, compare_metadata(context, metadata)), *missing)
    ]


def _is_own(_item: Any, _name: str | None, kind: str, reflected: bool, defined: Any) -> bool:
    """Whether it is for NoETL to say what it is: tables of others may stand in the same schema."""
    return not (kind == "table" and reflected and defined is None)


def _describe(difference: Any) -> str:
    return "; ".join(map(str, difference)) if isinstance(difference, list) else str(difference)
