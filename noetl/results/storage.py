"""Keeps the bytes of objects on any file system that fsspec knows."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from noetl.atomic import replace_file
from noetl.errors import BadRequest, ConfigError, NotFound, Unavailable
from noetl.facts.distribution import install_line
from noetl.results import objects
from noetl.results.blocks import pack_lines
from noetl.scratch import held_folder

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

BLOCK: Final = 1024 * 1024
#: Protocol → the extra that installs its driver.
EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


class Storage:
    """Objects at `<base>/<place>/<sha256>.<form>`, never changed. On local disks they are written
    beside their place, flushed to the disk and renamed: an object that is found is whole.
    Temporary files go to `scratch`.
    """

    def __init__(self, url: str, scratch: Path | None) -> None:
        self._url = url
        self.scratch_root = scratch or Path(tempfile.gettempdir())
        if not url.startswith("file://"):
            # A store that cannot be opened is said so at once; a folder always can.
            _ = self._opened

    @property
    def location(self) -> str:
        """Where it lies: `disk`, or the scheme of its URL."""
        scheme, separator, _ = self._url.partition("://")
        return scheme if separator and scheme != "file" else "disk"

    @cached_property
    def _opened(self) -> tuple[AbstractFileSystem, str]:
        """The file system and the base path in it. Raises ConfigError."""
        import fsspec  # with asyncio and TLS behind it: a run with small results does without

        try:
            # A listing that is remembered would know objects that somebody removed since.
            files, base = fsspec.core.url_to_fs(self._url, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise ConfigError(
                f"The result store {self._url!r} cannot be opened: {self._why(error)}."
            ) from error
        return files, str(base).rstrip("/")

    def _why(self, error: Exception) -> str:
        extra = EXTRAS.get(self._url.partition("://")[0])
        if isinstance(error, ImportError) and extra is not None:
            return f"its driver is not installed; {install_line(extra)}"
        return str(error).rstrip(".")

    @cached_property
    def _failures(self) -> tuple[type[Exception], ...]:
        """What drivers raise where a store does not answer; not all of them are errors of the
        system."""
        match EXTRAS.get(self._url.partition("://")[0]):
            case "s3":
                from botocore.exceptions import BotoCoreError  # only where its driver is in use

                return (OSError, BotoCoreError)
            case "gcs":
                from google.auth.exceptions import GoogleAuthError  # only where its driver is in use

                return (OSError, GoogleAuthError)
            case _:
                return (OSError,)

    @property
    def files(self) -> AbstractFileSystem:
        return self._opened[0]

    @property
    def base(self) -> str:
        return self._opened[1]

    @property
    def is_local(self) -> bool:
        named = self.files.protocol
        return "file" in ((named,) if isinstance(named, str) else named)

    def path(self, name: objects.ObjectName) -> str:
        return f"{self.base}/{name.path}"

    def address(self, name: objects.ObjectName) -> str:
        """What DuckDB calls it."""
        path = self.path(name)
        return path if self.is_local else str(self.files.unstrip_protocol(path))

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for temporary files, there while the block runs."""
        with held_folder(self.scratch_root, "result") as folder:
            yield folder

    def exists(self, name: objects.ObjectName) -> bool:
        return bool(self.files.exists(self.path(name)))

    def keep(self, name: objects.ObjectName, content: bytes) -> None:
        """Keeps packed bytes. Raises Unavailable."""
        self._keep(name, lambda draft: draft.write_bytes(content))

    def keep_file(self, name: objects.ObjectName, source: Path) -> None:
        """Keeps a file of any size, a block at a time. Raises BadRequest for NDJSON with an endless
        line, and Unavailable."""
        self._keep(name, lambda draft: _pack(name, source, draft))

    def _keep(self, name: objects.ObjectName, write: Callable[[Path], object]) -> None:
        path = self.path(name)
        with self._translate("written"):
            if self.files.exists(path):
                return
            if self.is_local:
                with replace_file(Path(path)) as draft:
                    write(draft)
                return
            with self.scratch() as folder:
                packed = folder / "packed"
                write(packed)
                # Buckets have no folders, and their drivers would make the bucket itself where it
                # is missing.
                if self._url.partition("://")[0] not in EXTRAS:
                    self.files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
                # Object stores show an object when all of it has come.
                self.files.put_file(str(packed), path)

    def read(self, name: objects.ObjectName, start: int | None = None, end: int | None = None) -> bytes:
        """Bytes as they are kept. Raises NotFound, or Unavailable."""
        with self.reading(name):
            return bytes(self.files.cat_file(self.path(name), start=start, end=end))

    @contextlib.contextmanager
    def open(self, name: objects.ObjectName) -> Iterator[IO[bytes]]:
        """The bytes as they are kept, to be read in pieces. Raises NotFound, or Unavailable."""
        with self.reading(name), self.files.open(self.path(name), "rb") as file:
            yield file

    @contextlib.contextmanager
    def reading(self, name: objects.ObjectName) -> Iterator[None]:
        """Says what went wrong with an object in the block. Raises NotFound, or Unavailable."""
        try:
            with self._translate("read", FileNotFoundError, gzip.BadGzipFile):
                yield
        except FileNotFoundError as error:
            raise self.missing(name) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise objects.damage(name, str(error)) from error

    @contextlib.contextmanager
    def _translate(self, what: str, *passing: type[Exception]) -> Iterator[None]:
        """Raises Unavailable where the store does not do in the block what it is asked to."""
        try:
            yield
        except passing:
            raise
        except self._failures as error:
            raise Unavailable(f"The result store {self.base} cannot be {what}: {error}.") from error

    def missing(self, name: objects.ObjectName) -> NotFound:
        return NotFound(f"The result {name.sha256} is gone from {self.base}; run its step again.")

    @contextlib.contextmanager
    def local(self, name: objects.ObjectName) -> Iterator[Path]:
        """A file with the content, there while the block runs. Raises NotFound, or Unavailable."""
        if self.is_local and not name.compressed:
            if not self.exists(name):
                raise self.missing(name)
            yield Path(self.path(name))
            return
        with self.scratch() as folder:
            copy = folder / f"{name.sha256}.{name.form}"
            self._unpack(name, copy)
            yield copy

    def _unpack(self, name: objects.ObjectName, target: Path) -> None:
        digest = hashlib.sha256()
        with self.open(name) as packed, target.open("wb") as out:
            plain = gzip.GzipFile(fileobj=packed) if name.compressed else packed
            while block := plain.read(BLOCK):
                digest.update(block)
                out.write(block)
        if digest.hexdigest() != name.sha256:
            raise objects.damage(name, "its content has another hash")

    def places(self) -> Iterator[str]:
        """See the port."""
        with self._translate("read"):
            found = {
                folder.removeprefix(f"{self.base}/")
                for pattern in ("executions/*", "running/*", "until/*", "permanent")
                for folder in map(str, self.files.glob(f"{self.base}/{pattern}"))
            }
        return (place for place in sorted(found) if objects.PLACE.fullmatch(place))

    def remove(self, place: str) -> int:
        """See the port. Raises BadRequest for what is no place, Unavailable where the store does
        not answer."""
        if not objects.PLACE.fullmatch(place):
            raise BadRequest(f"{place[:200]!r} is no place of a result store.")
        folder = f"{self.base}/{place}"
        with self._translate("cleared"):
            count = len(self.files.find(folder))
            with contextlib.suppress(FileNotFoundError):
                self.files.rm(folder, recursive=True)
        return count


def measure(path: Path) -> tuple[str, int, bytes]:
    """Hash, size and first bytes of a file."""
    with path.open("rb") as file:
        head = file.read(4 * objects.PREVIEW)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size, head


def _pack(name: objects.ObjectName, source: Path, target: Path) -> None:
    """The content in the file `source` as it is kept."""
    with source.open("rb") as plain, target.open("wb") as out:
        if name.form == "ndjson":
            pack_lines(plain, out)
        elif name.compressed:
            with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=4, mtime=0, filename="") as packed:
                shutil.copyfileobj(plain, packed, BLOCK)
        else:
            shutil.copyfileobj(plain, out, BLOCK)
