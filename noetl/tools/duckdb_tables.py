"""Rows that a playbook hands to DuckDB: temporary tables with types that follow the values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noetl.errors import ToolError
from noetl.facts.json import Json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Rows of one statement: keeps the JSON text of each below a few megabytes.
_BATCH = 5_000
_INT64 = 1 << 63
_INT128 = 1 << 127


def create_tables(connection: DuckDBPyConnection, tables: Mapping[str, Json]) -> None:
    """Makes a temporary table of each entry: a list of mappings, or `{rows, columns}` as SQL tools yield.

    Integers become BIGINT, other numbers DOUBLE, texts VARCHAR, lists and mappings LIST and STRUCT, and
    what does not agree JSON. Rows that are no mappings make one column, `value`. Raises ToolError(sql).
    """
    for name, given in tables.items():
        rows, columns = _rows(name, given)
        shape = json.dumps([_row_shape(rows, columns)])
        target = '"' + name.replace('"', '""') + '"'
        source = "SELECT unnest(from_json($rows, $shape), max_depth := 2)"
        for start in range(0, max(len(rows), 1), _BATCH):
            text = json.dumps(rows[start : start + _BATCH])
            verb = f"INSERT INTO {target}" if start else f"CREATE TEMP TABLE {target} AS"
            connection.execute(f"{verb} {source}", {"rows": text, "shape": shape})


def _rows(name: str, given: Json) -> tuple[list[Mapping[str, Json]], Sequence[str]]:
    columns: Sequence[str] = ()
    rows = given
    if isinstance(given, Mapping):
        rows, columns = given.get("rows"), given.get("columns") or ()
    if rows is None:
        rows = []
    if not isinstance(rows, list):
        raise ToolError(
            "sql", f"Table '{name}' must be a list of rows, or a mapping with `rows`.", type="BadTable"
        )
    if all(isinstance(row, Mapping) for row in rows):
        return rows, [str(column) for column in columns] or ([] if any(rows) else ["value"])
    return [{"value": row} for row in rows], ["value"]


def _row_shape(rows: Sequence[Mapping[str, Json]], columns: Sequence[str]) -> dict[str, Json]:
    names = dict.fromkeys([*columns, *(key for row in rows for key in row)])
    return {name: _shape(row.get(name) for row in rows) for name in names}


def _shape(values: Iterable[Json]) -> Json:
    """The type that all `values` fit, in the notation of `from_json`."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if not kinds:
        return "VARCHAR"
    if kinds == {dict} and all(present):
        return _row_shape(present, ())
    if kinds == {list}:
        return [_shape(item for value in present for item in value)]
    return _scalar_shape(kinds, present)


def _scalar_shape(kinds: set[type], present: Sequence[Any]) -> str:
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {str}:
        return "VARCHAR"
    if kinds == {int} and all(-_INT64 <= value < _INT64 for value in present):
        return "BIGINT"
    if kinds == {int} and all(-_INT128 < value < _INT128 for value in present):
        return "HUGEINT"
    return "DOUBLE" if kinds <= {int, float} else "JSON"
