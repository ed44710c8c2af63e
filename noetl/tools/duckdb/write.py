"""Rows into a DuckDB table, in pieces, within the transaction that is open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from noetl.facts.json import Json
from noetl.tools.sql.rows import Plan, Write, batches, decoded, plan, tuples

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Types that JSON is read into directly; all others are read as text and cast.
_DIRECT = re.compile(
    r"JSON|BOOLEAN|U?(?:TINY|SMALL|BIG)?INT(?:EGER)?|FLOAT|DOUBLE|VARCHAR|STRUCT\(.*|MAP\(.*|.*\[\d*\]"
)


def written(connection: DuckDBPyConnection, write: Write, go_on: Callable[[], None]) -> dict[str, Json]:
    """Writes the rows. `go_on` raises where the call must end between two pieces. Raises ToolError."""
    planned = _planned(connection, write)
    _check_bytes(planned)
    if write.mode == "replace":
        connection.execute(f"DELETE FROM {write.target}")  # noqa: S608 - quoted
    text, shape = _insert(planned)
    for batch in batches(write):
        go_on()
        connection.execute(text, {"rows": batch, "shape": shape})
    return write.result()


def _planned(connection: DuckDBPyConnection, write: Write) -> Plan:
    import duckdb  # see `duckdb_open`

    try:
        described = connection.execute(f"DESCRIBE {write.target}").fetchall()
    except duckdb.CatalogException:
        # The failed statement took the transaction with it.
        connection.execute("ROLLBACK")
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return plan(write, {}, fold=True, others=[str(row[0]) for row in tables])
    return plan(write, {str(row[0]): str(row[1]) for row in described}, fold=True)


def _insert(planned: Plan) -> tuple[str, str]:
    """The statement, and the types that it reads JSON into."""
    kinds = {f"c{index}": kind for index, kind in enumerate(planned.types)}
    shape = {name: kind if _DIRECT.fullmatch(kind) else "VARCHAR" for name, kind in kinds.items()}
    values = ", ".join(_value(name, kind, shape[name]) for name, kind in kinds.items())
    source = "SELECT unnest(from_json_strict($rows, $shape), max_depth := 2)"
    text = (
        f"INSERT INTO {planned.write.target} ({planned.column_list}) "  # noqa: S608 - quoted
        f"SELECT {values} FROM ({source}) AS r{planned.extra}"
    )
    return text, json.dumps([shape])


def _value(name: str, kind: str, read_as: str) -> str:
    if kind == "BLOB":
        return f"from_base64(r.{name})"
    return f"r.{name}" if read_as == kind else f"CAST(r.{name} AS {kind})"


def _check_bytes(planned: Plan) -> None:
    """DuckDB does not say which row holds what is no base64."""
    blobs = {name for name, kind in zip(planned.write.columns, planned.types, strict=True) if kind == "BLOB"}
    if not blobs:
        return

    def checked(index: int, name: str, value: Json) -> object:
        return decoded(value, index, name) if name in blobs else None

    for _ in tuples(planned.write, checked):
        pass
