"""The directory of an export, here or in an object store, and its `manifest.json`, which is
replaced at the end of every export.

A file that it does not name is no part of the export. `heads` names the file with how far every
execution has been exported: a line `<execution_id> <version> <log>` for each, from the newest to
the oldest, so that two of them are compared without being in memory. Earlier releases wrote no
`log`, the number of the last chunk that was printed."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import fsspec
from pydantic import TypeAdapter, ValidationError

from noetl.atomic import replace_file
from noetl.errors import BadRequest, Conflict, Unavailable
from noetl.usecases.export import ExportedHead

Format: TypeAlias = Literal["parquet", "jsonl", "clickhouse"]

MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """A file of one table; `export` is the number of the export that wrote it."""

    file: str
    rows: int
    export: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """`exports` counts them; `playbooks` are the newest exported version of each path, `nets`
    digests."""

    format: Format
    tables: dict[str, list[ManifestPart]]
    exports: int = 0
    heads: str | None = None
    playbooks: dict[str, int] = field(default_factory=dict)
    nets: list[str] = field(default_factory=list)
    #: Of this file's shape.
    schema: int = 1

    @property
    def files(self) -> set[str]:
        """All that belongs to the export but the manifest and scripts."""
        parts = {part.file for parts in self.tables.values() for part in parts}
        return parts | ({self.heads} if self.heads else set())

    def after(self, parts: Iterable[tuple[str, ManifestPart]], **changes: Any) -> Manifest:
        """One export later."""
        tables = {name: list(earlier) for name, earlier in self.tables.items()}
        for table, part in parts:
            tables[table].append(part)
        return replace(self, tables=tables, exports=self.exports + 1, **changes)

    def as_json(self) -> bytes:
        return _ADAPTER.dump_json(self, indent=1) + b"\n"


_ADAPTER: Final = TypeAdapter(Manifest)


def parse(content: bytes, place: str) -> Manifest:
    """Raises BadRequest where it is none."""
    try:
        found = _ADAPTER.validate_json(content)
    except ValidationError as error:
        raise BadRequest(
            f"{place}/{MANIFEST} is no manifest of an export; export to another directory."
        ) from error
    if found.schema != 1:
        raise BadRequest(f"{place}/{MANIFEST} is of a newer version of NoETL; upgrade.")
    return found


def heads(lines: Iterable[str]) -> Iterator[ExportedHead]:
    """That of each line."""
    for line in lines:
        execution_id, version, *log = line.split()
        yield ExportedHead(execution_id, int(version), int(log[0]) if log else 0)


def format_head(head: ExportedHead) -> str:
    """What `heads` reads."""
    return f"{head.execution_id} {head.version} {head.log}\n"


def lookup(known: Iterator[ExportedHead]) -> Callable[[str], ExportedHead]:
    """How far an execution is known. To be asked for falling ids, each once."""
    at = next(known, None)

    def head(execution_id: str) -> ExportedHead:
        nonlocal at
        while at is not None and int(at.execution_id) > int(execution_id):
            at = next(known, None)
        return at if at is not None and at.execution_id == execution_id else ExportedHead(execution_id)

    return head


class Folder:
    """Files by their names below `url`. A file is all there or not at all, also after a crash.

    Raises BadRequest where `url` cannot be a directory, Unavailable where the store does not do
    what it is asked to.
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
    def hold(self) -> Iterator[None]:
        """Keeps other exports of this machine out of it; object stores know no locks. Raises
        Conflict."""
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
