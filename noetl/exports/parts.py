"""Parts of an export: rows become JSON lines in a draft for each table, and a full draft becomes a
file in the export's format."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

from noetl.exports.folder import Folder, Format, Manifest, ManifestPart
from noetl.facts import json
from noetl.facts.json import Json
from noetl.projection.rows import ColumnType, ProjectionRow, ProjectionTable
from noetl.projection.tables import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ENDINGS: Final[dict[Format, str]] = {"parquet": "parquet", "clickhouse": "parquet", "jsonl": "jsonl"}
#: DuckDB's share of the memory, while it writes a part.
_MEMORY: Final = "256MB"
#: Rows and bytes of one part.
MOST_ROWS: Final = 200_000
MOST_BYTES: Final = 128 * 1024 * 1024
TYPES: Final[dict[ColumnType, str]] = {
    "id": "BIGINT",
    "integer": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "instant": "TIMESTAMPTZ",
    "json": "JSON",
}
#: For people: no function of DuckDB and no driver needs a time zone to be looked up.
PLAIN_TYPES: Final[dict[ColumnType, str]] = {**TYPES, "instant": "TIMESTAMP"}
#: DuckDB's own limit for one row of JSON.
_MOST_OF_A_ROW: Final = 16 * 1024 * 1024


class Parts:
    """The parts that one export writes to `folder`."""

    def __init__(self, folder: Folder, manifest: Manifest, scratch: Path) -> None:
        self.written: list[tuple[str, ManifestPart]] = []
        self._folder = folder
        self._manifest = manifest
        self._scratch = scratch
        self._numbers = {table: len(parts) for table, parts in manifest.tables.items()}
        self._connection: DuckDBPyConnection | None = None

    def take(self, draft: PartDraft) -> None:
        """Writes the next part of its table."""
        table = draft.table.name
        self._numbers[table] += 1
        ending = ENDINGS[self._manifest.format]
        name = f"{table}/part-{self._numbers[table]:06}.{ending}"
        file = draft.path
        if ending == "parquet":
            file = self._scratch / "part.parquet"
            rows = read(draft.table, draft.path, draft.longest, TYPES)
            self._duckdb().execute(f"COPY (FROM {rows}) TO {quote(file)} (FORMAT parquet, COMPRESSION zstd)")
        self._folder.write(name, file)
        self.written.append((table, ManifestPart(name, draft.rows, self._manifest.exports + 1)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _duckdb(self) -> DuckDBPyConnection:
        if self._connection is None:
            import duckdb  # a heavy driver, for formats that need it

            # One thread: the same rows are the same file, in their order.
            self._connection = duckdb.connect(
                config={"threads": 1, "memory_limit": _MEMORY, "temp_directory": str(self._scratch)}
            )
        return self._connection


@dataclass(slots=True)
class PartDraft:
    """A file of JSON lines; `longest` is the size of its longest line, in bytes."""

    table: ProjectionTable
    path: Path
    file: IO[bytes]
    rows: int = 0
    size: int = 0
    longest: int = 0


#: Takes a draft that is closed; its file may be moved away.
Full: TypeAlias = Callable[[PartDraft], None]


class Drafts:
    """Those of `tables`, in `folder`. No more of a table than one part is held, and none of it in
    memory. With `for_read` they are written for `read`."""

    def __init__(
        self,
        folder: Path,
        tables: Collection[str],
        full: Full,
        most_rows: int = MOST_ROWS,
        *,
        for_read: bool = True,
    ) -> None:
        self._folder = folder
        self._full = full
        self._most_rows = most_rows
        self._open: dict[str, PartDraft] = {}
        self._names = {name: [one.name for one in TABLES[name].columns] for name in tables}
        self._documents = {name: documents_of(TABLES[name]) if for_read else [] for name in tables}

    def add(self, row: ProjectionRow) -> None:
        """Keys are in the order of the table's columns."""
        draft = self.begin(row.table)
        values = {name: row.values[name] for name in self._names[row.table]}
        for name in self._documents[row.table]:
            values[name] = None if values[name] is None else _text_of(values[name])
        line = _text_of(values).encode() + b"\n"
        draft.file.write(line)
        draft.rows += 1
        draft.size += len(line)
        draft.longest = max(draft.longest, len(line))
        if draft.rows >= self._most_rows or draft.size >= MOST_BYTES:
            self._pass(row.table)

    def begin(self, table: str) -> PartDraft:
        """The draft of that table, if only one without rows."""
        if table not in self._open:
            path = self._folder / f"{table}.jsonl"
            self._open[table] = PartDraft(TABLES[table], path, path.open("wb"))
        return self._open[table]

    def finish(self) -> None:
        """Passes what is left, in the order of the tables."""
        for table in [name for name in TABLES if name in self._open]:
            self._pass(table)

    def close(self) -> None:
        """Passes nothing more."""
        for draft in self._open.values():
            draft.file.close()

    def _pass(self, table: str) -> None:
        draft = self._open.pop(table)
        draft.file.close()
        self._full(draft)
        draft.path.unlink(missing_ok=True)


def _text_of(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def documents_of(table: ProjectionTable) -> list[str]:
    """The columns of a table that hold JSON."""
    return [column.name for column in table.columns if column.type == "json"]


def create(table: ProjectionTable) -> str:
    """The statement that makes an empty table."""
    columns = (
        f'"{one.name}" {PLAIN_TYPES[one.type]}{" NOT NULL" if one.required else ""}' for one in table.columns
    )
    return f'CREATE TABLE "{table.name}" ({", ".join(columns)})'


def read(table: ProjectionTable, path: Path, longest: int, types: dict[ColumnType, str]) -> str:
    """What stands in the place of a table, over a draft whose longest row has that many bytes. JSON
    is a text in it: DuckDB makes floats of the numbers of what it reads as JSON."""
    read_as = {**types, "json": "VARCHAR"}
    columns = ", ".join(f"'{one.name}': '{read_as[one.type]}'" for one in table.columns)
    size = max(_MOST_OF_A_ROW, 2 * longest)
    cells = ", ".join(
        f'CAST("{one.name}" AS {types[one.type]}) AS "{one.name}"' if one.type == "json" else f'"{one.name}"'
        for one in table.columns
    )
    return (
        f"(SELECT {cells} FROM read_json({quote(path)}, format='newline_delimited', "  # noqa: S608 - names of ours
        f"columns={{{columns}}}, maximum_object_size={size}))"
    )


def quote(path: Path) -> str:
    """A path as a literal: COPY takes no parameters in older versions."""
    return "'" + str(path).replace("'", "''") + "'"
