"""Results on any file system that fsspec knows."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from noetl.errors import BadRequest, Unavailable
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST, Column, Retention, is_reference
from noetl.results import objects, tables, tree
from noetl.results.blocks import LineBlock, LineBlocks, PartBlocks, count_lines, index_lines
from noetl.results.storage import Storage, measure

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


#: Bytes of JSON whose values are kept in memory.
CACHE_BYTES: Final = 64 * 1024 * 1024
#: What an opened table or list of lines counts in the cache.
_OPENED_BYTES: Final = 1024


class ResultCache:
    """Values that were loaded lately, bounded by the size of their JSON; the least recently used
    goes first. Values are shared: they must not be changed. Safe for threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[Json, int]] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, name: str, make: Callable[[], tuple[Json, int]]) -> Json:
        """The value of that name. `make` yields it with its size; one that is larger than the cache
        is not kept."""
        with self._lock:
            if name in self._entries:
                self._entries.move_to_end(name)
                return self._entries[name][0]
        value, size = make()
        if size <= self._max_bytes:
            with self._lock:
                self._bytes += size - self._entries.pop(name, (None, 0))[1]
                self._entries[name] = value, size
                while self._bytes > self._max_bytes:
                    self._bytes -= self._entries.popitem(last=False)[1][1]
        return value


class FileResults:
    """`noetl.usecases.ports.Results` below `base_url` (a path, `file://…`, `s3://…`, `gs://…`,
    `memory://…`). Temporary files go to `scratch` (None: where the system keeps them)."""

    def __init__(
        self,
        base_url: str,
        name: str = "results",
        cache_bytes: int = CACHE_BYTES,
        scratch: Path | None = None,
    ) -> None:
        self.name = name
        self._cache = ResultCache(cache_bytes)
        self.storage = Storage(base_url, scratch)
        self._tables = tables.TableDatabase(
            self.storage.scratch_root, lambda: None if self.storage.is_local else self.storage.files
        )

    def put(self, value: Json, keep: Retention) -> JsonMap:
        """See the port."""
        raw = objects.encode(value)
        kept = tree.keep_tree(_Nodes(self, keep.place), value, raw)
        return self._reference(kept, keep, objects.preview(value, raw))

    def put_file(self, path: Path, content_type: str, keep: Retention) -> JsonMap:
        """See the port."""
        form = objects.CONTENT_TYPES.get(content_type.partition(";")[0].strip().lower(), "bytes")
        sha256, size, head = measure(path)
        name = objects.ObjectName(self.name, keep.place, sha256, form)
        if form == "parquet":
            # Looked into first: what is not a table should not be kept as one.
            return self._put_table(path, objects.StoredObject(name, size, content_type), keep)
        self.storage.keep_file(name, path)
        shown: JsonMap = {
            "type": form,
            "length": size,
            "head": head.decode("utf-8", "replace")[: objects.PREVIEW],
        }
        rows = count_lines(path) if form == "ndjson" else None
        return self._reference(objects.StoredObject(name, size, content_type, rows), keep, shown)

    def _reference(self, kept: objects.StoredObject, keep: Retention, preview: JsonMap) -> JsonMap:
        return objects.reference(kept, keep, preview, self.storage.location)

    def _put_table(self, path: Path, kept: objects.StoredObject, keep: Retention) -> JsonMap:
        with self._tables.cursor() as cursor:
            columns, rows = tables.shape(cursor, str(path))
            first = tables.some_rows(cursor, str(path), 0, objects.PREVIEW_ROWS)
        self.storage.keep_file(kept.name, path)
        shown = objects.table_preview(rows, columns, first)
        return self._reference(replace(kept, rows=rows), keep, shown)

    def put_table(self, path: Path, content_type: str, columns: Sequence[Column], keep: Retention) -> JsonMap:
        """See the port."""
        with self.storage.scratch() as folder:
            table = folder / "table.parquet"
            self.write_parquet(path, content_type, columns, table)
            return self.put_file(table, objects.PARQUET, keep)

    def write_parquet(self, source: Path, content_type: str, columns: Sequence[Column], target: Path) -> None:
        """Makes the text table `source` a Parquet file. Raises what `put_table` raises."""
        with self._tables.cursor() as cursor:
            tables.write_parquet(cursor, source, content_type, columns, target)

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """See the port."""
        if reference.get("kind") == MANIFEST:
            return PartBlocks(reference, self.load)
        name = objects.name_of(self.name, reference)
        match name.form:
            case "parquet":
                return self._cache.load(name.path, lambda: (self._table(name), _OPENED_BYTES))
            case "ndjson":
                return self._lines(name, reference)
            case "json" | "text" | "csv" | "bytes":
                return self._cache.load(name.path, lambda: self._value(name))
            case _:
                assert_never(name.form)

    def holds(self, reference: Mapping[str, Json], /) -> bool:
        """See the port."""
        if reference.get("kind") == MANIFEST:
            return all(self.holds(part["ref"]) for part in reference["parts"] if "ref" in part)
        return self.storage.exists(objects.name_of(self.name, reference))

    def _value(self, name: objects.ObjectName) -> tuple[Json, int]:
        raw = objects.unpack(name, self.storage.read(name))
        value = objects.value_of(name.form, raw)
        if name.form == "json" and is_reference(value) and value["kind"] == MANIFEST:
            value = PartBlocks(value, self.load)
        return value, len(raw)

    def _table(self, name: objects.ObjectName) -> tables.RowBlocks:
        with self._reading(name) as cursor:
            _, rows = tables.shape(cursor, self.storage.address(name))
        return tables.RowBlocks(
            rows,
            lambda start, end: self._some_rows(name, start, end),
            lambda number, make: self._cache.load(f"{name.path}#{number}", make),
        )

    def _some_rows(self, name: objects.ObjectName, start: int, end: int) -> list[dict[str, Json]]:
        with self._reading(name) as cursor:
            return tables.some_rows(cursor, self.storage.address(name), start, end)

    @contextlib.contextmanager
    def _reading(self, name: objects.ObjectName) -> Iterator[DuckDBPyConnection]:
        """A cursor for one table. Raises NotFound where it is gone or damaged, else Unavailable."""
        try:
            with self._tables.cursor() as cursor:
                yield cursor
        except BadRequest as error:
            raise objects.damage(name, error.message.rstrip(".")) from error
        except Unavailable as error:
            with self.storage.reading(name):
                if not self.storage.exists(name):
                    raise self.storage.missing(name) from error
            raise

    def _lines(self, name: objects.ObjectName, reference: Mapping[str, Json]) -> LineBlocks:
        meta = reference.get("meta")
        rows = meta.get("rows") if isinstance(meta, Mapping) else None
        return LineBlocks(
            lambda: self._cache.load(f"{name.path}#", lambda: self._index(name)),
            lambda start, end: self.storage.read(name, start, end),
            lambda number, make: self._cache.load(f"{name.path}#{number}", make),
            rows if type(rows) is int else None,
        )

    def _index(self, name: objects.ObjectName) -> tuple[list[LineBlock], int]:
        with self.storage.open(name) as file:
            found = index_lines(file)
        return found, 64 * len(found)

    def file(self, reference: Mapping[str, Json], /) -> AbstractContextManager[Path]:
        """See the port."""
        return self.storage.local(objects.name_of(self.name, reference))

    def places(self) -> Iterator[str]:
        """See the port."""
        return self.storage.places()

    def remove(self, place: str) -> int:
        """See the port."""
        return self.storage.remove(place)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Where the parts of one value go (see `tree.NodeStore`)."""

    results: FileResults
    place: str

    def keep_json(self, raw: bytes, content: bytes) -> objects.StoredObject:
        name, packed = objects.pack(self.results.name, content, self.place)
        self.results.storage.keep(name, packed)
        return objects.StoredObject(name, len(raw), objects.JSON)

    def keep_rows(self, raw: bytes, columns: Sequence[Column], rows: int) -> objects.StoredObject:
        with self.results.storage.scratch() as folder:
            source, table = folder / "rows.json", folder / "table.parquet"
            source.write_bytes(raw)
            self.results.write_parquet(source, objects.JSON, columns, table)
            sha256, _, _ = measure(table)
            name = objects.ObjectName(self.results.name, self.place, sha256, "parquet")
            self.results.storage.keep_file(name, table)
        return objects.StoredObject(name, len(raw), objects.PARQUET, rows)
