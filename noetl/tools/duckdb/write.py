"""Rows into a DuckDB table, in pieces, within the transaction that is open."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from noetl.facts.json import Json
from noetl.tools.sql.rows import TableWrite, WritePlan, batches, decode_rows, plan

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Types that JSON is read into directly; all others are read as text and cast.
_DIRECT: Final = re.compile(
    r"JSON|BOOLEAN|U?(?:TINY|SMALL|BIG)?INT(?:EGER)?|FLOAT|DOUBLE|VARCHAR|STRUCT\(.*|MAP\(.*|.*\[\d*\]"
)


def write_rows(
    connection: DuckDBPyConnection, write: TableWrite, go_on: Callable[[], None]
) -> dict[str, Json]:
    """Writes the rows. `go_on` raises where the call must end between two pieces. Raises ToolError,
    and what DuckDB raises."""
    planned = plan(write, *describe_table(connection, write), fold=True)
    if "BLOB" in planned.types:
        # DuckDB does not say which row holds what is not base64.
        for _ in decode_rows(planned, ("BLOB",)):
            pass
    if write.mode == "replace":
        connection.execute(write.delete)
    text, shape = _insert(planned)
    for batch in batches(write):
        go_on()
        connection.execute(text, {"rows": batch, "shape": shape})
    return write.result()


def describe_table(connection: DuckDBPyConnection, write: TableWrite) -> tuple[dict[str, str], list[str]]:
    """Columns of the table and their types; where there is none, the tables that there are."""
    import duckdb  # see `DatabaseSetup`

    try:
        described = connection.execute(f"DESCRIBE {write.target}").fetchall()
    except duckdb.CatalogException:
        # The failed statement took the transaction with it, where there was one.
        with contextlib.suppress(duckdb.TransactionException):
            connection.execute("ROLLBACK")
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return {}, [str(row[0]) for row in tables]
    return {str(row[0]): str(row[1]) for row in described}, []


def _insert(planned: WritePlan) -> tuple[str, str]:
    """The statement, and the types that it reads JSON into."""
    kinds = {f"c{index}": kind for index, kind in enumerate(planned.types)}
    shape = {name: kind if _DIRECT.fullmatch(kind) else "VARCHAR" for name, kind in kinds.items()}
    values = ", ".join(_value(name, kind, shape[name]) for name, kind in kinds.items())
    source = "SELECT unnest(from_json_strict($rows, $shape), max_depth := 2)"
    text = f"INSERT INTO {planned.into} SELECT {values} FROM ({source}) AS r{planned.extra}"  # noqa: S608
    return text, json.dumps([shape])


def _value(name: str, kind: str, read_as: str) -> str:
    if kind == "BLOB":
        return f"from_base64(r.{name})"
    return f"r.{name}" if read_as == kind else f"CAST(r.{name} AS {kind})"
