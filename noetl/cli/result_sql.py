"""A result as a table of DuckDB, for one question."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from noetl.errors import BadRequest
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Lazy
from noetl.results.tables import rows_of, text
from noetl.usecases import results
from noetl.usecases.ports import Results

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Ending of a reference → how DuckDB reads such a file.
_READERS: Final = {
    ".parquet": "read_parquet({})",
    ".ndjson": "read_json({}, format = 'newline_delimited')",
    ".csv": "read_csv({})",
}
_MEMORY: Final = "1GB"


def query(kept: Results, reference: JsonMap, sql: str) -> list[dict[str, Json]]:
    """The rows that `sql` yields over the table `result`, within bounds of memory; nothing else can
    be reached. Raises BadRequest where DuckDB refuses, NotFound where the result is gone."""
    import duckdb  # the driver takes 90 ms, which other commands do without

    with TemporaryDirectory(prefix="noetl-sql-") as scratch, _file(kept, reference, Path(scratch)) as path:
        try:
            with _confined(path, scratch) as connection:
                return rows_of(connection.execute(sql))
        except duckdb.Error as error:
            raise BadRequest(f"The query cannot be run: {str(error).strip()}") from error


@contextlib.contextmanager
def _confined(path: Path, scratch: str) -> Iterator[DuckDBPyConnection]:
    """A database that sees one file, as `result`."""
    import duckdb  # see `query`

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "temp_directory": scratch,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
    }
    reader = _READERS[path.suffix].format(text(str(path)))
    with duckdb.connect(":memory:", config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE VIEW result AS SELECT * FROM {reader}")  # noqa: S608 - quoted
        connection.execute(f"SET allowed_paths = [{text(str(path))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


@contextlib.contextmanager
def _file(kept: Results, reference: JsonMap, scratch: Path) -> Iterator[Path]:
    """A file that DuckDB can read, with the rows of the result; a value that is no list is one
    row."""
    if PurePosixPath(reference["ref"]).suffix in _READERS:
        with kept.file(reference) as path:
            yield path
        return
    value = kept.load(reference)
    items = itertools.chain.from_iterable(value.pages()) if isinstance(value, Lazy) else value
    path = scratch / "result.ndjson"
    with path.open("w", encoding="utf-8") as out:
        for item in items if isinstance(value, Lazy | list) else [value]:
            row = item if isinstance(item, dict) else {"value": item}
            out.writelines(results.json_of(row, kept.load))
            out.write("\n")
    yield path
