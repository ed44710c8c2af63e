"""The directory of an export, here or in an object store."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec

from noetl.atomic import replace_file
from noetl.errors import BadRequest, Conflict, Unavailable


class Folder:
    """Files by their names below `url`. A file is all there or not at all, also after a crash.

    Raises BadRequest where `url` cannot be a directory, Unavailable where the store does not do
    what it is told.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            found: tuple[Any, str] = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError, OSError) as error:
            raise BadRequest(f"{url!r} is no directory to export to: {error}.") from error
        self._files, base = found
        self._base = base.rstrip("/")
        named = self._files.protocol
        self._local = "file" in ((named,) if isinstance(named, str) else named)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else exports to it meanwhile (of this machine; object stores know no locks).
        Raises Conflict."""
        with self._translate_errors("written"):
            self._files.makedirs(self._base, exist_ok=True)
        if not self._local:
            yield
            return
        with open(self._path(".lock"), "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Conflict(f"Another export writes to {self.url!r}; wait for its end.") from None
            yield

    def names(self) -> list[str]:
        """Of all files below, `execution/part-000001.parquet`, but those that begin with a dot."""
        with self._translate_errors("read"):
            found = self._files.find(self._base)
        names = (str(path)[len(self._base) :].lstrip("/") for path in found)
        return sorted(name for name in names if not name.rpartition("/")[2].startswith("."))

    def read(self, name: str) -> bytes | None:
        """None where there is no such file."""
        with self._translate_errors("read"):
            try:
                return bytes(self._files.cat_file(self._path(name)))
            except FileNotFoundError:
                return None

    def fetch(self, name: str, to: Path) -> None:
        """Copies a file of any size to this machine."""
        with self._translate_errors("read"):
            self._files.get_file(self._path(name), str(to))

    def write(self, name: str, file: Path) -> None:
        """Puts a file of this machine there, in the place of an older one."""
        path = self._path(name)
        with self._translate_errors("written"):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            if self._local:
                with replace_file(Path(path)) as draft:
                    shutil.copyfile(file, draft)
            else:
                self._files.put_file(str(file), path)

    def remove(self, name: str) -> None:
        with self._translate_errors("written"):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._base}/{name}"

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (NotADirectoryError, FileExistsError) as error:
            raise BadRequest(f"{self.url!r} is no directory to export to: {error.strerror}.") from error
        except OSError as error:
            raise Unavailable(f"{self.url!r} cannot be {what}: {error.strerror or error}.") from error
