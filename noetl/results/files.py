"""Results on any file system that fsspec knows."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import BadRequest, ConfigError, NotFound, Unavailable
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST, Column, Keep
from noetl.results import objects, tables
from noetl.results.cache import Cache
from noetl.results.parts import Parts

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Bytes of JSON whose values are kept in memory.
CACHE_BYTES: Final = 64 * 1024 * 1024
_BLOCK: Final = 1024 * 1024


class FileResults:
    """`noetl.usecases.ports.Results` below `base_url` (a path, `file://…`, `s3://…`, `memory://…`).

    Objects lie at `<base>/<place>/<sha256>.<form>` and are never changed. On local disks they
    are written beside their place, flushed to the disk and renamed: whoever finds one finds all of it.
    Temporary files go to `scratch` (None: where the system keeps them).
    """

    def __init__(
        self,
        base_url: str,
        name: str = "results",
        cache_bytes: int = CACHE_BYTES,
        scratch: Path | None = None,
    ) -> None:
        self._url = base_url
        self._name = name
        self._scratch_root = scratch or Path(tempfile.gettempdir())
        self._tables = tables.Database(self._scratch_root)
        self._cache = Cache(cache_bytes)
        if not base_url.startswith("file://"):
            # A store that cannot be opened is said so at once; a folder always can.
            _ = self._opened

    @cached_property
    def _opened(self) -> tuple[AbstractFileSystem, str]:
        """The file system and the base path in it. Raises ConfigError."""
        import fsspec  # with asyncio and TLS behind it: a run with small results does without

        try:
            files, base = fsspec.core.url_to_fs(self._url)
        except (ValueError, ImportError) as error:
            raise ConfigError(f"The result store {self._url!r} cannot be opened: {error}.") from error
        return files, str(base).rstrip("/")

    @property
    def _files(self) -> AbstractFileSystem:
        return self._opened[0]

    @property
    def _base(self) -> str:
        return self._opened[1]

    def put(self, value: Json, keep: Keep) -> JsonMap:
        """See the port."""
        packed = objects.pack(value, keep.place)
        self._store(packed.name, lambda path: self._write(path, packed.packed))
        shown = objects.preview(value, packed.json)
        return objects.reference(self._name, keep, packed.name, len(packed.json), objects.JSON, shown)

    def put_file(self, path: Path, content_type: str, keep: Keep) -> JsonMap:
        """See the port."""
        form = objects.CONTENT_TYPES.get(content_type.partition(";")[0].strip().lower(), "bytes")
        sha256, size, head = _measured(path)
        name = objects.Name(keep.place, sha256, form)
        # Looked into first: what is no table should not be kept as one.
        table = self._table_of(path) if form == "parquet" else None
        self._store(name, lambda target: self._copy(path, target, compress=name.compressed))
        if table is not None:
            return objects.table_reference(self._name, keep, name, size, *table)
        shown = {"type": form, "length": size, "head": head.decode("utf-8", "replace")[: objects.PREVIEW]}
        return objects.reference(self._name, keep, name, size, content_type, shown)

    def put_table(self, path: Path, content_type: str, columns: Sequence[Column], keep: Keep) -> JsonMap:
        """See the port."""
        with self._scratch() as folder:
            table = folder / "table.parquet"
            with self._tables.cursor() as cursor:
                tables.write_parquet(cursor, path, content_type, columns, table)
            return self.put_file(table, objects.PARQUET, keep)

    def _table_of(self, path: Path) -> tuple[tables.Shape, list[dict[str, Json]]]:
        """Shape and first rows of a Parquet file."""
        with self._tables.cursor() as cursor:
            shape = tables.shape(cursor, str(path))
            return shape, tables.first_rows(cursor, str(path), objects.PREVIEW_ROWS)

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A folder for temporary files, there while the block runs."""
        self._scratch_root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="noetl-result-", dir=self._scratch_root) as folder:
            yield Path(folder)

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """See the port."""
        if reference.get("kind") == MANIFEST:
            return Parts(reference, self.load)
        name = objects.name_of(self._name, reference)
        cached = self._cache.get(name.path)
        if cached is not None:
            return cached[0]
        raw = objects.unpacked(name, self._read(name))
        value = objects.value_of(name.form, raw)
        self._cache.put(name.path, value, len(raw))
        return value

    @contextlib.contextmanager
    def file(self, reference: Mapping[str, Json], /) -> Iterator[Path]:
        """See the port."""
        name = objects.name_of(self._name, reference)
        if "file" in self._protocols and not name.compressed:
            yield Path(self._path(name))
            return
        with self._scratch() as folder:
            copy = folder / f"{name.sha256}.{name.form}"
            copy.write_bytes(objects.unpacked(name, self._read(name)))
            yield copy

    def places(self) -> Iterator[str]:
        """See the port."""
        found = {
            folder.removeprefix(f"{self._base}/")
            for pattern in ("executions/*", "running/*", "until/*", "permanent")
            for folder in map(str, self._files.glob(f"{self._base}/{pattern}"))
        }
        return (place for place in sorted(found) if objects.PLACE.fullmatch(place))

    def remove(self, place: str) -> int:
        """See the port."""
        if not objects.PLACE.fullmatch(place):
            raise BadRequest(f"{place[:200]!r} is no place of a result store.")
        folder = f"{self._base}/{place}"
        count = len(self._files.find(folder))
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(folder, recursive=True)
        return count

    @property
    def _protocols(self) -> tuple[str, ...]:
        named = self._files.protocol
        return (named,) if isinstance(named, str) else tuple(named)

    def _path(self, name: objects.Name) -> str:
        return f"{self._base}/{name.path}"

    def _store(self, name: objects.Name, write: Callable[[str], None]) -> None:
        path = self._path(name)
        try:
            if not self._files.exists(path):
                write(path)
        except OSError as error:
            raise Unavailable(f"The result store {self._base} cannot be written: {error}.") from error

    def _copy(self, source: Path, path: str, *, compress: bool) -> None:
        """A file of any size into the store, a block at a time."""
        with self._scratch() as folder:
            if compress:
                packed = folder / "packed"
                with source.open("rb") as plain, gzip.GzipFile(packed, "wb", compresslevel=4, mtime=0) as out:
                    shutil.copyfileobj(plain, out, _BLOCK)
                source = packed
            if "file" in self._protocols:
                _settle_local(Path(path), lambda draft: shutil.copyfile(source, draft))
            else:
                self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
                self._files.put_file(str(source), path)

    def _read(self, name: objects.Name) -> bytes:
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError as error:
            raise NotFound(
                f"The result {name.sha256} is gone from {self._base}; run its step again."
            ) from error
        except OSError as error:
            raise Unavailable(f"The result store {self._base} cannot be read: {error}.") from error

    def _write(self, path: str, content: bytes) -> None:
        if "file" in self._protocols:
            _settle_local(Path(path), lambda draft: draft.write_bytes(content))
        else:
            # Object stores show an object when all of it has come.
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._files.pipe_file(path, content)


def _measured(path: Path) -> tuple[str, int, bytes]:
    """Hash, size and first bytes of a file."""
    digest, size, head = hashlib.sha256(), 0, b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            head = head or block[: 4 * objects.PREVIEW]
            size += len(block)
            digest.update(block)
    return digest.hexdigest(), size, head


def _settle_local(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        write(draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _flush_directory(path.parent)


def _flush_directory(folder: Path) -> None:
    """Makes the rename itself durable, where the system can."""
    flags: Any = getattr(os, "O_DIRECTORY", None)
    if flags is None:
        return
    handle = os.open(folder, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
