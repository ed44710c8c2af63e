"""An export to a directory, and every later one to the same: what is new since then, in files
beside the old ones.

Killed at any point it leaves what the manifest of the export before says. Files that were on their
way are removed by the next one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noetl.errors import BadRequest
from noetl.exports import clickhouse
from noetl.exports.folder import MANIFEST, Folder, Format, Manifest, format_head, heads, lookup, parse
from noetl.exports.parts import ENDINGS, MOST_ROWS, Drafts, Parts
from noetl.facts.nearest import did_you_mean
from noetl.projection.rows import ProjectionRow
from noetl.projection.tables import TABLES
from noetl.usecases.export import ExportedBefore, ExportedHead, rows
from noetl.usecases.runtime import Runtime

#: What exports write besides manifest and scripts.
_OURS: Final = re.compile(rf"(?:{'|'.join(TABLES)})/part-\d+\.\w+|state/heads-\d+")


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What is asked for. Without `format` or `tables`: those of the directory, else Parquet and all
    tables."""

    to: str
    format: Format | None = None
    tables: Sequence[str] = ()


def export(rt: Runtime, request: ExportRequest, most_rows: int = MOST_ROWS) -> Manifest:
    """Exports what is new; the manifest after it. Raises BadRequest, Conflict where another export
    writes to the same directory, Unavailable where it cannot be written."""
    check(request.tables)
    folder = Folder(request.to)
    with folder.hold(), tempfile.TemporaryDirectory(prefix="noetl-export-") as scratch:
        before = _begin(folder, request, Path(scratch))
        # What an export left behind that did not come to its end.
        for name in set(folder.names()) - before.files:
            if _OURS.fullmatch(name):
                folder.remove(name)
        return _Export(rt, folder, before, Path(scratch)).run(most_rows)


def check(tables: Collection[str]) -> None:
    """Raises BadRequest for a table that there is not."""
    for name in tables:
        if name not in TABLES:
            raise BadRequest(f"There is no table {name!r}.{did_you_mean(name, TABLES)}")


def _begin(folder: Folder, request: ExportRequest, scratch: Path) -> Manifest:
    """What the directory holds. A new one has its manifest before anything else, so that it is
    known for ours."""
    content = folder.read(MANIFEST)
    if content is not None:
        found = parse(content, folder.url)
        _agree(folder, request, found)
        return found
    if folder.names():
        raise BadRequest(f"{folder.url!r} holds files and no {MANIFEST}; export to another directory.")
    wanted = set(request.tables or TABLES)
    manifest = Manifest(request.format or "parquet", {name: [] for name in TABLES if name in wanted})
    _write(folder, MANIFEST, manifest.as_json(), scratch)
    return manifest


def _agree(folder: Folder, request: ExportRequest, found: Manifest) -> None:
    if request.format not in (None, found.format):
        raise BadRequest(
            f"{folder.url!r} is an export as {found.format}; for {request.format}, take another directory."
        )
    if request.tables and set(request.tables) != set(found.tables):
        raise BadRequest(
            f"{folder.url!r} is an export of {', '.join(found.tables)}; for other tables, "
            "take another directory."
        )


def _write(folder: Folder, name: str, content: bytes, scratch: Path) -> None:
    file = scratch / "small"
    file.write_bytes(content)
    folder.write(name, file)


class _Export:
    """From one manifest to the next."""

    def __init__(self, rt: Runtime, folder: Folder, before: Manifest, scratch: Path) -> None:
        self._rt = rt
        self._folder = folder
        self._before = before
        self._scratch = scratch
        self._number = before.exports + 1
        self._playbooks = dict(before.playbooks)
        self._nets = dict.fromkeys(before.nets)

    def run(self, most_rows: int) -> Manifest:
        parts = Parts(self._folder, self._before, self._scratch)
        for_read = ENDINGS[self._before.format] == "parquet"
        drafts = Drafts(self._scratch, self._before.tables, parts.take, most_rows, for_read=for_read)
        with ExitStack() as stack:
            stack.callback(parts.close)
            stack.callback(drafts.close)
            if self._number == 1:
                # Each table is found with its columns, whether or not it has rows.
                for table in self._before.tables:
                    drafts.begin(table)
            self._collect(drafts)
            drafts.finish()
        return self._finish(parts)

    def _collect(self, drafts: Drafts) -> None:
        with (self._scratch / "heads").open("w") as file, closing(self._read_heads()) as known:
            head = lookup(known)
            state = ExportedBefore(head, self._before.playbooks, self._before.nets)
            for item in rows(self._rt, list(self._before.tables), state):
                match item:
                    case ExportedHead():
                        file.write(format_head(item))
                    case ProjectionRow():
                        self._note(item)
                        drafts.add(item)

    def _read_heads(self) -> Generator[ExportedHead]:
        if self._before.heads is None:
            return
        file = self._scratch / "known"
        self._folder.fetch(self._before.heads, file)
        with file.open() as lines:
            yield from heads(lines)

    def _note(self, row: ProjectionRow) -> None:
        match row.table:
            case "playbook":
                self._playbooks[row.values["path"]] = row.values["version"]
            case "playbook_step" | "playbook_arc":
                self._nets[row.values["digest"]] = None
            case _:
                pass

    def _finish(self, parts: Parts) -> Manifest:
        name = f"state/heads-{self._number:06}"
        self._folder.write(name, self._scratch / "heads")
        if self._before.format == "clickhouse" and parts.written:
            self._scripts(parts)
        changes = {"heads": name, "playbooks": self._playbooks, "nets": list(self._nets)}
        after = self._before.after(parts.written, **changes)
        _write(self._folder, MANIFEST, after.as_json(), self._scratch)
        if self._before.heads is not None:
            self._folder.remove(self._before.heads)
        return after

    def _scripts(self, parts: Parts) -> None:
        tables = list(self._before.tables)
        _write(self._folder, "schema.sql", clickhouse.schema(tables).encode(), self._scratch)
        load = clickhouse.load((table, part.file) for table, part in parts.written)
        _write(self._folder, f"load-{self._number:06}.sql", load.encode(), self._scratch)
