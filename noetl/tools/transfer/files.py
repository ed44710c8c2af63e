"""Rows of a transfer as a file."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.tools.duckdb.open import first_line
from noetl.tools.kit.large import PARQUET_OPTIONS
from noetl.tools.sql.rows import quote
from noetl.tools.transfer.load import StagedTable
from noetl.tools.transfer.stage import format_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_OPTIONS: Final = {"parquet": PARQUET_OPTIONS, "csv": "FORMAT csv, HEADER true", "ndjson": "FORMAT json"}


def write_file(reader: DuckDBPyConnection, staged: StagedTable, path: Path, form: str | None) -> None:
    """Writes beside the file first: whoever finds it finds all of it. Raises ToolError."""
    import duckdb  # the driver takes 90 ms

    options = _OPTIONS.get(format_of(path, form, "target"))
    if options is None:
        raise ToolError(
            "client_error",
            "A transfer writes parquet, csv or ndjson; name the file so.",
            type="UnknownFormat",
        )
    columns = ", ".join(
        f"{quote(column.name)} AS {quote(name)}"
        for column, name in zip(staged.columns, staged.names, strict=True)
    )
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    target = "'" + str(draft).replace("'", "''") + "'"
    rows = f"SELECT {columns} FROM {staged.source(0, staged.rows)} ORDER BY file_row_number"  # noqa: S608 - quoted
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reader.execute(f"COPY ({rows}) TO {target} ({options})")
        draft.replace(path)
    except (duckdb.Error, OSError) as error:
        raise ToolError(
            "sql", f"The file {path} cannot be written: {first_line(error)}", type=type(error).__name__
        ) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
