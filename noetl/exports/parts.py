"""Drafts become parts: files in the export's format, numbered behind those that are there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.exports.columns import TYPES, quote, read
from noetl.exports.drafts import PartDraft
from noetl.exports.folder import Folder
from noetl.exports.manifest import Format, Manifest, ManifestPart

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ENDINGS: Final[dict[Format, str]] = {"parquet": "parquet", "clickhouse": "parquet", "jsonl": "jsonl"}
#: DuckDB's share of the memory, while it writes a part.
_MEMORY: Final = "256MB"


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
        self._folder.write(name, draft.path if ending == "jsonl" else self._parquet(draft))
        self.written.append((table, ManifestPart(name, draft.rows, self._manifest.exports + 1)))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _parquet(self, draft: PartDraft) -> Path:
        target = self._scratch / "part.parquet"
        rows = read(draft.table, draft.path, draft.longest, TYPES)
        self._duckdb().execute(f"COPY (FROM {rows}) TO {quote(target)} (FORMAT parquet, COMPRESSION zstd)")
        return target

    def _duckdb(self) -> DuckDBPyConnection:
        if self._connection is None:
            import duckdb  # a heavy driver, for formats that need it

            # One thread: the same rows are the same file, in their order.
            self._connection = duckdb.connect(
                config={"threads": 1, "memory_limit": _MEMORY, "temp_directory": str(self._scratch)}
            )
        return self._connection
