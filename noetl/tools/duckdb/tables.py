"""Rows that a playbook hands to DuckDB: temporary tables with types that follow the values, and
views of results."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import BadRequest, NotFound, ToolError
from noetl.facts.json import Json
from noetl.facts.reference import is_reference, plain
from noetl.tools.kit.references import rows_in, rows_of
from noetl.tools.sql.rows import quote, quote_text
from noetl.usecases.ports import Results

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Rows of one statement: keeps the JSON text of each below a few megabytes.
_BATCH = 5_000
#: Content type of an object → what reads it.
_READERS: Final[Mapping[str, str]] = {
    "application/vnd.apache.parquet": "read_parquet({})",
    "application/x-ndjson": "read_json({}, format = 'newline_delimited')",
    "text/csv": "read_csv({})",
}
_INT64 = 1 << 63
_INT128 = 1 << 127


@dataclass(frozen=True, slots=True)
class InputTables:
    """What `tables` names: rows, and files of results that DuckDB reads where they lie (SQL that
    does, and the path)."""

    rows: Mapping[str, tuple[Sequence[Mapping[str, Json]], Sequence[str]]]
    files: Mapping[str, tuple[str, Path]]

    @property
    def paths(self) -> list[Path]:
        return [path for _, path in self.files.values()]


@contextlib.contextmanager
def open_tables(tables: Mapping[str, Json], results: Results | None) -> Iterator[InputTables]:
    """The tables for as long as the block runs. Each is a list of mappings, `{rows, columns}` as
    SQL tools yield, or a reference to such a thing or to a file. Raises ToolError."""
    rows: dict[str, tuple[Sequence[Mapping[str, Json]], Sequence[str]]] = {}
    files: dict[str, tuple[str, Path]] = {}
    with contextlib.ExitStack() as stack:
        for name, given in tables.items():
            found = rows_in(given)
            reader = _READERS.get(_content_type(found))
            if reader is None or results is None:
                rows[name] = _rows(name, rows_of(given, results, f"Table '{name}'"), _columns(given))
            else:
                files[name] = (reader, _enter(stack, results.file(found), name))
        yield InputTables(rows, files)


def _content_type(found: Json) -> str:
    meta = found.get("meta") if isinstance(found, Mapping) and is_reference(found) else None
    named = meta.get("content_type") if isinstance(meta, Mapping) else None
    return str(named or "").partition(";")[0].strip().lower()


def _enter(stack: contextlib.ExitStack, file: AbstractContextManager[Path], name: str) -> Path:
    try:
        return stack.enter_context(file).resolve()
    except (BadRequest, NotFound) as error:
        raise ToolError(
            "client_error", f"Table '{name}' cannot be read: {error}", type="BadReference"
        ) from error


def _columns(given: Json) -> Sequence[str]:
    return (given.get("columns") or ()) if isinstance(given, Mapping) and not is_reference(given) else ()


def create_tables(connection: DuckDBPyConnection, tables: InputTables) -> None:
    """Makes a temporary table of rows, and a temporary view of a file.

    Integers become BIGINT, other numbers DOUBLE, texts VARCHAR, lists and mappings LIST and STRUCT,
    and what does not agree JSON. Rows that are no mappings make one column, `value`."""
    for name, (reader, path) in tables.files.items():
        source = reader.format(quote_text(path))
        connection.execute(f"CREATE TEMP VIEW {quote(name)} AS SELECT * FROM {source}")  # noqa: S608
    for name, (rows, columns) in tables.rows.items():
        shape = json.dumps([_row_shape(rows, columns)])
        source = "SELECT unnest(from_json($rows, $shape), max_depth := 2)"
        for start in range(0, max(len(rows), 1), _BATCH):
            text = json.dumps(rows[start : start + _BATCH])
            verb = f"INSERT INTO {quote(name)}" if start else f"CREATE TEMP TABLE {quote(name)} AS"
            connection.execute(f"{verb} {source}", {"rows": text, "shape": shape})


def _rows(
    name: str, rows: Json, columns: Sequence[str]
) -> tuple[Sequence[Mapping[str, Json]], Sequence[str]]:
    rows = [] if rows is None else plain(rows)
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
