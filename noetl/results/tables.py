"""Tables: written from text to Parquet, and read in the parts that are looked at.

DuckDB does both, within a bound of memory and without network or extensions. It runs on one thread,
so that the same rows become the same bytes, and with them the same object.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import BadRequest, Unavailable
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Column
from noetl.facts.values import as_dicts, parse_json, unique_names
from noetl.results.blocks import Blocks

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from fsspec import AbstractFileSystem

#: Memory of one conversion or reader, beside what Python needs.
MEMORY: Final = "256MB"
#: Rows that lie together in a file, and that are read at once where all are wanted.
GROUP_ROWS: Final = 20_480
#: Rows that are read at once where one is wanted: what DuckDB takes in one go.
BLOCK_ROWS: Final = 2_048
#: Characters of one line of CSV, and of one mapping of NDJSON.
_LINE: Final = 16 * 1024 * 1024
_SHOWN: Final = 300

#: The sort of an error, and the name of a temporary file.
_NOISE: Final = re.compile(r'^(?:[A-Z]\w* )+Error: | in file "[^"\n]*",?')

#: What Parquet keeps as it is: no HUGEINT (it would become DOUBLE), no INTERVAL.
_TYPES: Final = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "VARCHAR",
    "TEXT",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "UUID",
    "JSON",
    "BLOB",
]
_DECIMAL: Final = re.compile(r"DECIMAL ?\( ?([0-9]{1,2}) ?, ?([0-9]{1,2}) ?\)")


class RowBlocks(Blocks):
    """The rows of a table as mappings. `read` yields those from a start to an end, `cached`
    remembers a block."""

    __slots__ = ("_cached", "_read", "rows")

    def __init__(
        self,
        rows: int,
        read: Callable[[int, int], list[dict[str, Json]]],
        cached: Callable[[int, Callable[[], tuple[Json, int]]], Json],
    ) -> None:
        self.rows = rows
        self._read = read
        self._cached = cached

    def ends(self) -> Sequence[int]:
        return [*range(0, self.rows, BLOCK_ROWS), self.rows] if self.rows else [0]

    def block(self, number: int) -> Sequence[Json]:
        items: Sequence[Json] = self._cached(number, lambda: self._block(number * BLOCK_ROWS))
        return items

    def _block(self, start: int) -> tuple[Json, int]:
        rows = self._read(start, min(start + BLOCK_ROWS, self.rows))
        return rows, len(json.dumps(rows))

    def pages(self) -> Iterator[list[Json]]:
        for start in range(0, self.rows, GROUP_ROWS):
            yield list(self._read(start, min(start + GROUP_ROWS, self.rows)))


class TableDatabase:
    """An empty database of this process, for reading and writing files; it spills into `scratch`.
    Opened when it is first used, which takes 60 ms; a forked child opens its own. Safe for threads.
    `files` says which file system it reads beside that of this machine."""

    def __init__(self, scratch: Path, files: Callable[[], AbstractFileSystem | None] = lambda: None) -> None:
        self._scratch = scratch
        self._files = files
        self._opened: tuple[int, DuckDBPyConnection] | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def cursor(self) -> Iterator[DuckDBPyConnection]:
        """Raises BadRequest for a file that is not a table, and Unavailable where files cannot be
        read or written."""
        import duckdb  # the driver takes 90 ms: a run with small results does without

        try:
            with self._connection().cursor() as cursor:
                yield cursor
        except duckdb.IOException as error:
            raise Unavailable(f"A table cannot be read or written: {describe_error(error)}.") from error
        except duckdb.Error as error:
            raise BadRequest(f"This table cannot be used: {describe_error(error)}.") from error

    def _connection(self) -> DuckDBPyConnection:
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = (os.getpid(), _connect(self._scratch, self._files()))
            return self._opened[1]


def _connect(scratch: Path, files: AbstractFileSystem | None) -> DuckDBPyConnection:
    import duckdb  # see `TableDatabase.cursor`

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": 1,
        "temp_directory": str(scratch / "duckdb"),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    if files is not None:
        connection.register_filesystem(files)
    return connection


def describe_error(error: Exception) -> str:
    """The place and the cause of an error of DuckDB, without its advice on settings that are
    ours."""
    lines = [line for line in _NOISE.sub("", str(error)).splitlines() if line.strip()] or [
        type(error).__name__
    ]
    causes = [
        line for line in lines[1:] if line.startswith(("Error when", "Expected", "Value with", "Maximum"))
    ]
    return ": ".join(line.strip().rstrip(".") for line in [lines[0], *causes[:1]])[:_SHOWN]


def write_parquet(
    cursor: DuckDBPyConnection, source: Path, content_type: str, columns: Sequence[Column], target: Path
) -> None:
    """The text table `source` as Parquet. Raises what `Results.put_table` raises."""
    rows = _read(source, content_type, check_columns(columns))
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS}"
    cursor.execute(f"COPY ({rows}) TO {quote_text(str(target))} ({options})")


def _read(source: Path, content_type: str, columns: Sequence[Column]) -> str:
    """The query for all rows of a text table."""
    kind, _, parameters = content_type.lower().partition(";")
    match kind.strip():
        case "text/csv":
            header = str("header=present" in parameters.replace(" ", "")).lower()
            form = (
                f"header = {header}, delim = ',', quote = '\"', escape = '\"', nullstr = '', "
                "allow_quoted_nulls = false"
            )
            sizes = f"max_line_size = {_LINE}, buffer_size = {2 * _LINE}"
            return _select(
                f"read_csv({quote_text(str(source))}, {form}, {sizes}", columns, "from_hex(substr({}, 3))"
            )
        case ("application/x-ndjson" | "application/json") as found:  # a list of mappings
            layout = "array" if found == "application/json" else "newline_delimited"
            # Unasked, DuckDB takes an object without a key for the value of the only column.
            form = f"format = '{layout}', records = true, maximum_object_size = {_LINE}"
            has_texts = "json=text" in parameters.replace(" ", "")
            reader = f"read_json({quote_text(str(source))}, {form}"
            return _select(reader, columns, "from_base64({})", "CAST({} AS JSON)" if has_texts else "{}")
        case other:
            raise BadRequest(f"{other[:100]!r} is no text of a table: text/csv and application/x-ndjson are.")


def _select(reader: str, columns: Sequence[Column], to_bytes: str, to_json: str = "{}") -> str:
    """Bytes are read as text: each format writes them in its own way. So is JSON where it is a
    text."""
    readings = {"BLOB": to_bytes, "JSON": to_json}
    as_text = [kind for kind, reading in readings.items() if reading != "{}"]
    types = ", ".join(
        f"{quote_text(one.name)}: '{'VARCHAR' if one.type in as_text else one.type}'" for one in columns
    )
    chosen = ", ".join(
        f"{readings.get(one.type, '{}').format(name(one.name))} AS {name(one.name)}" for one in columns
    )
    return f"SELECT {chosen} FROM {reader}, auto_detect = false, columns = {{{types}}})"  # noqa: S608 - quoted


def check_columns(columns: Sequence[Column]) -> list[Column]:
    """The columns with their types in capitals. Raises BadRequest."""
    if not columns:
        raise BadRequest("A table needs at least one column.")
    taken: set[str] = set()
    for column in columns:
        if not column.name or "\0" in column.name:
            raise BadRequest(f"{column.name[:60]!r} cannot be the name of a column.")
        if column.name.lower() in taken:
            raise BadRequest(f"The table has the column {column.name[:60]!r} twice.")
        taken.add(column.name.lower())
    return [Column(column.name, _type(column)) for column in columns]


def _type(column: Column) -> str:
    wanted = column.type.strip().upper()
    if wanted in _TYPES:
        return wanted
    digits = _DECIMAL.fullmatch(wanted)
    if digits is None or not int(digits[2]) <= int(digits[1]) <= 38:
        hint = did_you_mean(wanted, _TYPES)
        raise BadRequest(
            f"The column {column.name[:60]!r} has the type {column.type[:60]!r}, which no table has.{hint}"
        )
    return wanted


def shape(cursor: DuckDBPyConnection, file: str) -> tuple[list[Column], int]:
    """What a Parquet file says of itself without being read: its columns, and how many rows."""
    described = cursor.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()
    counted = cursor.execute("SELECT num_rows FROM parquet_file_metadata(?)", [file]).fetchall()
    return [Column(row[0], row[1]) for row in described], int(counted[0][0])


def some_rows(cursor: DuckDBPyConnection, file: str, start: int, end: int) -> list[dict[str, Json]]:
    """The rows from `start` to before `end`."""
    # Groups before the start are passed over: this takes as long as reading one.
    query = "SELECT * FROM read_parquet(?) LIMIT ? OFFSET ?"
    return rows_of(cursor.execute(query, [file, end - start, start]))


def rows_of(cursor: DuckDBPyConnection) -> list[dict[str, Json]]:
    """The rows of a query as JSON, as the SQL tools yield them."""
    described = cursor.description or []
    names = unique_names(column[0] for column in described)
    rows = as_dicts(names, cursor.fetchall(), set())
    for column_name, column in zip(names, described, strict=True):
        if str(column[1]) == "JSON":
            parse_json(rows, column_name)
    return rows


def quote_text(value: str) -> str:
    """A text literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """An identifier of SQL."""
    return '"' + value.replace('"', '""') + '"'
