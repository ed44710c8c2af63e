"""Rows into DuckDB: temporary tables and views of what a playbook passes, and rows written to a
table."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import BadRequest, NotFound, ToolError
from noetl.facts.json import Json
from noetl.facts.reference import is_reference, plain
from noetl.tools.kit.references import rows_in, rows_of
from noetl.tools.sql.plan import TableColumn, WritePlan, check_bytes, plan
from noetl.tools.sql.rows import TableWrite, batches, quote, quote_text
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
#: Types that JSON is read into directly; all others are read as text and cast.
_DIRECT: Final = re.compile(
    r"JSON|BOOLEAN|U?(?:TINY|SMALL|BIG)?INT(?:EGER)?|FLOAT|DOUBLE|VARCHAR|STRUCT\(.*|MAP\(.*|.*\[\d*\]"
)


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
                rows[name] = _rows(name, rows_of(given, results, f"Table '{name}'"), given)
            else:
                try:
                    path = stack.enter_context(results.file(found)).resolve()
                except (BadRequest, NotFound) as error:
                    raise ToolError(
                        "client_error", f"Table '{name}' cannot be read: {error}", type="BadReference"
                    ) from error
                files[name] = (reader, path)
        yield InputTables(rows, files)


def _content_type(found: Json) -> str:
    meta = found.get("meta") if isinstance(found, Mapping) and is_reference(found) else None
    named = meta.get("content_type") if isinstance(meta, Mapping) else None
    return str(named or "").partition(";")[0].strip().lower()


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


def _rows(name: str, rows: Json, given: Json) -> tuple[Sequence[Mapping[str, Json]], Sequence[str]]:
    rows = [] if rows is None else plain(rows)
    if not isinstance(rows, list):
        raise ToolError(
            "sql", f"Table '{name}' must be a list of rows, or a mapping with `rows`.", type="BadTable"
        )
    if all(isinstance(row, Mapping) for row in rows):
        columns = given.get("columns") if isinstance(given, Mapping) and not is_reference(given) else None
        return rows, [str(column) for column in columns or ()] or ([] if any(rows) else ["value"])
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


def write_rows(
    connection: DuckDBPyConnection, write: TableWrite, go_on: Callable[[], None]
) -> dict[str, Json]:
    """Writes the rows. `go_on` raises where the call must end between two pieces. Raises ToolError,
    and what DuckDB raises."""
    planned = plan(write, *describe_table(connection, write), fold=True)
    # DuckDB does not say which row holds what is not base64.
    check_bytes(planned, ("BLOB",))
    if write.mode == "replace":
        connection.execute(write.delete)
    for part in planned.parts():
        text, shape = _insert(part)
        for batch in batches(part.rows, part.columns):
            go_on()
            connection.execute(text, {"rows": batch, "shape": shape})
    return write.result()


def describe_table(
    connection: DuckDBPyConnection, write: TableWrite
) -> tuple[dict[str, TableColumn], list[str]]:
    """Columns of the table; where there is none, the tables that there are."""
    import duckdb  # see `DatabaseSetup`

    try:
        described = connection.execute(f"DESCRIBE {write.target}").fetchall()
    except duckdb.CatalogException:
        # The failed statement took the transaction with it, where there was one.
        with contextlib.suppress(duckdb.TransactionException):
            connection.execute("ROLLBACK")
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return {}, [str(row[0]) for row in tables]
    known = {
        str(name): TableColumn(str(kind), default is not None) for name, kind, _, _, default, _ in described
    }
    return known, []


def _insert(part: WritePlan) -> tuple[str, str]:
    """The statement, and the types that it reads JSON into."""
    kinds = {f"c{index}": kind for index, kind in enumerate(part.types)}
    shape = {name: kind if _DIRECT.fullmatch(kind) else "VARCHAR" for name, kind in kinds.items()}
    values = ", ".join(_value(name, kind, shape[name]) for name, kind in kinds.items())
    source = "SELECT unnest(from_json_strict($rows, $shape), max_depth := 2)"
    text = f"INSERT INTO {part.into} SELECT {values} FROM ({source}) AS r{part.extra}"  # noqa: S608
    return text, json.dumps([shape])


def _value(name: str, kind: str, read_as: str) -> str:
    if kind == "BLOB":
        return f"from_base64(r.{name})"
    return f"r.{name}" if read_as == kind else f"CAST(r.{name} AS {kind})"
