"""Where a database says which revision it has.

Others who use Alembic have a table `alembic_version`, so NoETL has a name of its own. What older
versions made in PostgreSQL keeps the table of before as well: their processes may still run, and
read it.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, inspect, text

from noetl.store.installation import Installation

TABLE: Final = "noetl_version"
#: That of SQLite files, and of what older versions made in PostgreSQL.
FILE_TABLE: Final = "alembic_version"
#: The newest revision that a version knows which reads that one in PostgreSQL.
_LAST_SHARED: Final = "0018"

_ADOPT: Final = (
    f"CREATE TABLE {TABLE} (version_num VARCHAR(32) NOT NULL, adopted_from TEXT NOT NULL "
    f"DEFAULT '{FILE_TABLE}', CONSTRAINT {TABLE}_pkc PRIMARY KEY (version_num))",
    f"INSERT INTO {TABLE} (version_num) SELECT version_num FROM {FILE_TABLE}",  # noqa: S608
)
_FOLLOW: Final = text(f"UPDATE {FILE_TABLE} SET version_num = :revision")  # noqa: S608


def table_of(dialect: str) -> str:
    """The table that revisions write."""
    return FILE_TABLE if dialect == "sqlite" else TABLE


def read_revision(connection: Connection, installation: Installation) -> str | None:
    """None for a database without NoETL's tables."""
    names = (TABLE, FILE_TABLE) if installation.predates_schemas else (TABLE,)
    table = next((name for name in names if inspect(connection).has_table(name)), None)
    if table is None:
        return None
    revision = connection.execute(text(f"SELECT version_num FROM {table}")).scalar()  # noqa: S608
    return None if revision is None else str(revision)


def has_to_adopt(connection: Connection, installation: Installation) -> bool:
    """Whether an older version made the tables, and none of the newer ones upgraded them yet."""
    is_old = connection.dialect.name == "postgresql" and installation.predates_schemas
    return is_old and not inspect(connection).has_table(TABLE)


def adopt(connection: Connection) -> None:
    """Goes on where the table of before stands, which stays."""
    for statement in _ADOPT:
        connection.execute(text(statement))


def follow(ctx: Any, step: Any, **_: Any) -> None:
    """Called by Alembic in the transaction of a revision: processes of older versions see those
    that they know, lest they run them again, and no newer ones, which they would refuse."""
    if step.up_revision_id <= _LAST_SHARED and _is_adopted(ctx.connection):
        ctx.connection.execute(_FOLLOW, {"revision": step.up_revision_id})


def _is_adopted(connection: Connection) -> bool:
    columns = inspect(connection).get_columns(table_of(connection.dialect.name))
    return any(column["name"] == "adopted_from" for column in columns)
