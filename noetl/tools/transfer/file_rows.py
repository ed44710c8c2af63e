"""The rows of files: of CSV as a table of its own, of JSON as mappings with the values that stand
there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import JsonMap
from noetl.tools.duckdb.causes import cause_of, csv_cause
from noetl.tools.duckdb.csv_files import Encoding, layout_of, lines_of, rejected_lines, unreadable
from noetl.tools.duckdb.file_patterns import literal_pattern
from noetl.tools.kit.large import PARQUET_OPTIONS
from noetl.tools.sql.rows import quote_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FETCH: Final = 5_000
#: Bytes of a line: those of an object that DuckDB takes.
_LONGEST: Final = 16 * 1024 * 1024
#: Unasked, DuckDB takes a buffer of 16 lines.
_SIZES: Final = f", max_line_size = {_LONGEST}, buffer_size = {2 * _LONGEST}"


def write_csv_as_parquet(
    connection: DuckDBPyConnection, path: Path, encoding: Encoding, target: Path, *, skip: bool
) -> tuple[str, ...]:
    """Writes the rows of a CSV file to `target`, and says what was left out of them (`skip`: lines
    that cannot be read). Raises ToolError."""
    import duckdb  # the driver takes 90 ms

    place = f"The file {path}"
    layout = layout_of(connection, path, place, encoding)
    rows = layout.scan(", store_rejects = true" if skip else "")
    try:
        connection.execute(f"COPY (FROM {rows}) TO {quote_text(target)} ({PARQUET_OPTIONS})")
    except duckdb.Error as error:
        raise unreadable(error, place, layout.columns) from error
    return rejected_lines(connection, place) if skip else ()


def json_rows(
    connection: DuckDBPyConnection, path: Path, form: str, go_on: Callable[[], None]
) -> Iterator[JsonMap]:
    """The rows of a JSON file. `go_on` raises where the call must end. Raises ToolError that names
    the line, or the number of the value."""
    import duckdb  # see above

    place, unit = f"The file {path}", "line" if form == "ndjson" else "value"
    try:
        for number, text in enumerate(_texts(connection, path, form, go_on), 1):
            if text.strip():
                yield from _rows(text, f"{place} cannot be read: {unit} {number}", form)
    except duckdb.Error as error:
        why = csv_cause(error) if form == "ndjson" else cause_of(error)
        raise ToolError("sql", f"{place} cannot be read: {why.rstrip('. ')}.", type="BadJson") from error


def _texts(connection: DuckDBPyConnection, path: Path, form: str, go_on: Callable[[], None]) -> Iterator[str]:
    """The lines of the file, or the values in it, as they are written: a number that DuckDB takes
    out of JSON is a float."""
    if form == "ndjson":
        connection.execute(f"FROM {lines_of(path, _SIZES)}")
    else:
        name = quote_text(literal_pattern(path))
        connection.execute(f"SELECT CAST(json AS VARCHAR) FROM read_json_objects({name})")  # noqa: S608
    while block := connection.fetchmany(_FETCH):
        go_on()
        for (text,) in block:
            yield (text or "").removeprefix("\ufeff")


def _rows(text: str, place: str, form: str) -> Sequence[JsonMap]:
    """What a line or a value holds: a row, or a list of them where DuckDB does not see one (behind
    a byte order mark)."""
    try:
        value = json.loads_exactly(text)
    except (ValueError, RecursionError) as error:
        raise ToolError("sql", f"{place} is no JSON ({error}).", type="BadJson") from error
    rows = value if form == "json" and isinstance(value, list) else [value]
    if not all(isinstance(row, dict) for row in rows):
        raise ToolError("sql", f"{place} is no mapping of columns: {text[:100]}", type="BadRows")
    return rows
