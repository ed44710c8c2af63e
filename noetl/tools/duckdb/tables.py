"""Rows into DuckDB: temporary tables and views of what a playbook passes, and rows written to a
table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import BadRequest, NotFound, ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import is_reference, plain
from noetl.tools.duckdb.csv_files import layout_of
from noetl.tools.duckdb.file_patterns import literal_pattern
from noetl.tools.duckdb.readings import ColumnReading, is_type, reading_of, shape_of
from noetl.tools.kit.columns import names_alike
from noetl.tools.kit.large import CSV, NDJSON, PARQUET
from noetl.tools.kit.references import rows_in, rows_of
from noetl.tools.sql.batches import batches
from noetl.tools.sql.exactness import exact_spellings, rounding_notes
from noetl.tools.sql.plan import TableColumn, WritePlan, check_bytes, plan
from noetl.tools.sql.rows import TableWrite, quote, quote_text
from noetl.usecases.ports import Results

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Content types of what DuckDB reads where it lies.
_READ: Final = (PARQUET, NDJSON, CSV)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of rows."""

    path: Path
    content_type: str

    def scan(self, connection: DuckDBPyConnection, place: str) -> str:
        """What reads it in the place of a table in SQL. Raises ToolError."""
        name = quote_text(literal_pattern(self.path))
        match self.content_type:
            case "text/csv":
                return layout_of(connection, self.path, place).scan()
            case "application/x-ndjson":
                return f"read_json({name}, format = 'newline_delimited')"
            case _:
                return f"read_parquet({name})"


@dataclass(frozen=True, slots=True)
class InputRows:
    """Rows of a table: the names of all columns, and the types of those that came with one."""

    rows: Sequence[Mapping[str, Json]]
    names: Sequence[str]
    types: dict[str, str]


@dataclass(frozen=True, slots=True)
class InputTables:
    """What `tables` names: rows, and files of results that DuckDB reads where they lie."""

    rows: Mapping[str, InputRows]
    files: Mapping[str, TableFile]

    @property
    def paths(self) -> list[Path]:
        return [file.path for file in self.files.values()]


@contextlib.contextmanager
def open_tables(tables: Mapping[str, Json], results: Results | None) -> Iterator[InputTables]:
    """The tables for as long as the block runs. Each is a list of mappings, `{rows, columns}` as
    SQL tools yield, or a reference to such a thing or to a file. Raises ToolError."""
    rows: dict[str, InputRows] = {}
    files: dict[str, TableFile] = {}
    with contextlib.ExitStack() as stack:
        for name, given in tables.items():
            found = rows_in(given)
            content_type = _content_type(found)
            if content_type not in _READ or results is None:
                rows[name] = _rows(name, rows_of(given, results, f"Table '{name}'"), given)
            else:
                try:
                    path = stack.enter_context(results.file(found)).resolve()
                except (BadRequest, NotFound) as error:
                    raise ToolError(
                        "client_error", f"Table '{name}' cannot be read: {error}", type="BadReference"
                    ) from error
                files[name] = TableFile(path, content_type)
        yield InputTables(rows, files)


def _content_type(found: Json) -> str:
    meta = found.get("meta") if isinstance(found, Mapping) and is_reference(found) else None
    named = meta.get("content_type") if isinstance(meta, Mapping) else None
    return str(named or "").partition(";")[0].strip().lower()


def create_tables(connection: DuckDBPyConnection, tables: InputTables) -> None:
    """Makes a temporary table of rows, and a temporary view of a file.

    Columns have the types that the rows came with; of others integers become BIGINT, other numbers
    DOUBLE, exact ones DECIMAL, texts VARCHAR, lists and mappings LIST and STRUCT, and what does not
    agree JSON. Rows that are no mappings make one column, `value`."""
    for name, file in tables.files.items():
        source = file.scan(connection, f"Table '{name}'")
        connection.execute(f"CREATE TEMP VIEW {quote(name)} AS SELECT * FROM {source}")  # noqa: S608
    for name, table in tables.rows.items():
        _create_table(connection, name, table)


def _create_table(connection: DuckDBPyConnection, name: str, table: InputRows) -> None:
    types = table.types | {one: shape_of(table.rows, one) for one in table.names if one not in table.types}
    readings = [reading_of(types[one]) for one in table.names]
    shape = json.dumps([{f"c{index}": reading.shape for index, reading in enumerate(readings)}])
    values = ", ".join(
        f"{reading.value(f'r.c{index}')} AS {quote(one)}"
        for index, (one, reading) in enumerate(zip(table.names, readings, strict=True))
    )
    source = f"SELECT {values} FROM (SELECT unnest(from_json($rows, $shape), max_depth := 2)) AS r"  # noqa: S608 - quoted
    verb = f"CREATE TEMP TABLE {quote(name)} AS"
    spellings = [reading.spell for reading in readings]
    for batch in batches(table.rows, table.names, spellings) if table.rows else ["[]"]:
        connection.execute(f"{verb} {source}", {"rows": batch, "shape": shape})
        verb = f"INSERT INTO {quote(name)}"


def _rows(name: str, rows: Json, given: Json) -> InputRows:
    rows = [] if rows is None else plain(rows)
    if not isinstance(rows, list):
        raise ToolError(
            "sql", f"Table '{name}' must be a list of rows, or a mapping with `rows`.", type="BadTable"
        )
    if not all(isinstance(row, Mapping) for row in rows):
        return InputRows([{"value": row} for row in rows], ["value"], {})
    said = given if isinstance(given, Mapping) and not is_reference(given) else {}
    columns = [str(column) for column in said.get("columns") or ()]
    # Results of before have no types.
    typed = zip(columns, map(str, said.get("types") or ()), strict=False)
    types = {column: kind for column, kind in typed if is_type(kind)}
    names = list(dict.fromkeys([*columns, *(key for row in rows for key in row)]))
    if (alike := names_alike(names)) is not None:
        raise ToolError(
            "sql",
            f"Table '{name}' has the columns {alike[0]!r} and {alike[1]!r}, which are one to DuckDB; rename "
            "one.",
            type="RepeatedColumn",
        )
    return InputRows(rows, names or ["value"], types)


def write_rows(
    connection: DuckDBPyConnection, write: TableWrite, go_on: Callable[[], None], notes: set[str]
) -> dict[str, Json]:
    """Writes the rows; `notes` gets what became another value. `go_on` raises where the call must
    end between two pieces. Raises ToolError, and what DuckDB raises."""
    planned = plan(write, *describe_table(connection, write), fold=True)
    notes |= rounding_notes(planned)
    # DuckDB does not say which row holds what is not base64.
    check_bytes(planned, ("BLOB",))
    if write.mode == "replace":
        connection.execute(write.delete)
    for part in planned.parts():
        readings = list(map(reading_of, part.types))
        text, shape = _insert(part, readings)
        spellings = [
            exact or reading.spell for exact, reading in zip(exact_spellings(part), readings, strict=True)
        ]
        for batch in batches(part.rows, part.columns, spellings):
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


def _insert(part: WritePlan, readings: Sequence[ColumnReading]) -> tuple[str, str]:
    """The statement, and the types that it reads JSON into."""
    shape = json.dumps([{f"c{index}": reading.shape for index, reading in enumerate(readings)}])
    cells = [reading.value(f"r.c{index}") for index, reading in enumerate(readings)]
    source = "SELECT unnest(from_json_strict($rows, $shape), max_depth := 2)"
    return f"INSERT INTO {part.into} SELECT {', '.join(cells)} FROM ({source}) AS r{part.extra}", shape  # noqa: S608
