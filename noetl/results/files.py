"""Results on any file system that fsspec knows."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import ConfigError, NotFound, Unavailable
from noetl.facts.json import Json, JsonMap
from noetl.results import objects
from noetl.results.cache import Cache

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: Bytes of JSON whose values are kept in memory.
CACHE_BYTES: Final = 64 * 1024 * 1024


class FileResults:
    """`noetl.usecases.ports.Results` below `base_url` (a path, `file://…`, `s3://…`, `memory://…`).

    Objects lie at `<base>/<first two digits>/<sha256>.json.gz` and are never changed. On local disks they
    are written beside their place, flushed to the disk and renamed: whoever finds one finds all of it.
    """

    def __init__(self, base_url: str, name: str = "results", cache_bytes: int = CACHE_BYTES) -> None:
        self._url = base_url
        self._name = name
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

    def put(self, value: Json) -> JsonMap:
        """Raises BadRequest where `value` is not JSON, Unavailable where it cannot be written."""
        packed = objects.pack(value)
        path = self._path(packed.sha256)
        try:
            if not self._files.exists(path):
                self._write(path, packed.packed)
        except OSError as error:
            raise Unavailable(f"The result store {self._base} cannot be written: {error}.") from error
        return objects.reference(self._name, value, packed)

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """The value, shared with other callers: not to be changed. Raises NotFound where it is gone."""
        name = objects.name_of(self._name, reference)
        cached = self._cache.get(name)
        if cached is not None:
            return cached[0]
        value, size = objects.unpack(name, self._read(name))
        self._cache.put(name, value, size)
        return value

    @property
    def _protocols(self) -> tuple[str, ...]:
        named = self._files.protocol
        return (named,) if isinstance(named, str) else tuple(named)

    def _path(self, sha256: str) -> str:
        return f"{self._base}/{sha256[:2]}/{sha256}.json.gz"

    def _read(self, name: str) -> bytes:
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError as error:
            raise NotFound(f"The result {name} is gone from {self._base}; run its step again.") from error
        except OSError as error:
            raise Unavailable(f"The result store {self._base} cannot be read: {error}.") from error

    def _write(self, path: str, content: bytes) -> None:
        if "file" in self._protocols:
            _write_local(Path(path), content)
        else:
            # Object stores show an object when all of it has come.
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._files.pipe_file(path, content)


def _write_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
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
