"""Columns in the words of DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from noetl.projection.tables import ColumnType, ProjectionTable

TYPES: Final[dict[ColumnType, str]] = {
    "id": "BIGINT",
    "integer": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "instant": "TIMESTAMPTZ",
    "json": "JSON",
}
#: For people: no function of DuckDB and no driver needs a time zone to be looked up.
PLAIN_TYPES: Final[dict[ColumnType, str]] = {**TYPES, "instant": "TIMESTAMP"}

#: DuckDB's own limit for one row of JSON.
_MOST_OF_A_ROW: Final = 16 * 1024 * 1024


def create(table: ProjectionTable) -> str:
    """The statement that makes an empty table."""
    columns = (
        f'"{one.name}" {PLAIN_TYPES[one.type]}{" NOT NULL" if one.required else ""}' for one in table.columns
    )
    return f'CREATE TABLE "{table.name}" ({", ".join(columns)})'


def read(table: ProjectionTable, path: Path, longest: int, types: dict[ColumnType, str]) -> str:
    """A table function over a file of JSON lines whose longest row has that many bytes."""
    columns = ", ".join(f"'{one.name}': '{types[one.type]}'" for one in table.columns)
    size = max(_MOST_OF_A_ROW, 2 * longest)
    return (
        f"read_json({quote(path)}, format='newline_delimited', columns={{{columns}}}, "
        f"maximum_object_size={size})"
    )


def quote(path: Path) -> str:
    """A path as a literal: COPY takes no parameters in older versions."""
    return "'" + str(path).replace("'", "''") + "'"
