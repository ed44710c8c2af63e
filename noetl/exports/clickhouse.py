"""The tables in the words of ClickHouse, and how files come into them.

Every table is a ReplacingMergeTree: of rows with one key the newest `as_of` stays, and a file that
is loaded twice does no harm (`SELECT ... FINAL` sees it at once). The key is what a row is sorted
by. Rows that replace each other must lie in one partition: that is the month in which their
execution was made, which its id tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from noetl.facts.ids import EPOCH_MS
from noetl.projection.rows import ColumnType, ProjectionColumn, ProjectionTable
from noetl.projection.tables import TABLES

TYPES: Final[dict[ColumnType, str]] = {
    "id": "Int64",
    "integer": "Int64",
    "double": "Float64",
    "boolean": "Bool",
    "text": "String",
    "instant": "DateTime64(6, 'UTC')",
    "json": "String",
}
_MONTH: Final = (
    f"toYYYYMM(fromUnixTimestamp64Milli(toInt64(bitShiftRight(execution_id, 22) + {EPOCH_MS}), 'UTC'))"
)


def schema(tables: Collection[str]) -> str:
    """One CREATE TABLE for each of `tables`, that may be run again."""
    return "\n".join(_create(table) for name, table in TABLES.items() if name in tables)


def load(files: Iterable[tuple[str, str]]) -> str:
    """One INSERT for each (table, file), for `clickhouse-client` in the directory of the export."""
    return "".join(f"INSERT INTO {table} FROM INFILE '{file}' FORMAT Parquet;\n" for table, file in files)


def _create(table: ProjectionTable) -> str:
    columns = ",\n".join(f"    `{one.name}` {_type(one)}" for one in table.columns)
    # Keys of ClickHouse are never null.
    keys = [one for one in table.columns if one.name in table.key]
    order = ", ".join(one.name if one.required else f"ifNull({one.name}, -1)" for one in keys)
    partition = f"PARTITION BY {_MONTH}\n" if "execution_id" in table.key else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {table.name}\n(\n{columns}\n)\n"
        f"ENGINE = ReplacingMergeTree{'(as_of)' if table.revised else ''}\n{partition}ORDER BY ({order});\n"
    )


def _type(column: ProjectionColumn) -> str:
    return TYPES[column.type] if column.required else f"Nullable({TYPES[column.type]})"
