"""What an export directory holds: `manifest.json`, which is replaced at the end of every export.

A file that it does not name is no part of the export. `heads` names the file with how far every
execution has been exported: a line `<execution_id> <version> <log>` for each, from the newest to
the oldest, so that two of them are compared without being in memory. Earlier releases wrote no
`log`, the number of the last chunk that was printed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from noetl.errors import BadRequest
from noetl.usecases.export import Head

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
        body = _ADAPTER.dump_python(self, mode="json")
        return json.dumps(body, indent=1, ensure_ascii=False).encode() + b"\n"


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


def heads(lines: Iterable[str]) -> Iterator[Head]:
    """That of each line."""
    for line in lines:
        execution_id, version, *log = line.split()
        yield Head(execution_id, int(version), int(log[0]) if log else 0)


def format_head(head: Head) -> str:
    """What `heads` reads."""
    return f"{head.execution_id} {head.version} {head.log}\n"


def lookup(known: Iterator[Head]) -> Callable[[str], Head]:
    """How far an execution is known. To be asked for falling ids, each once."""
    at = next(known, None)

    def head(execution_id: str) -> Head:
        nonlocal at
        while at is not None and int(at.execution_id) > int(execution_id):
            at = next(known, None)
        return at if at is not None and at.execution_id == execution_id else Head(execution_id)

    return head
