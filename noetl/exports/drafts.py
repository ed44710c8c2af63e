"""Rows on their way: JSON lines in a file for each table, handed on when it is full."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

from noetl.projection.tables import TABLES, ProjectionRow, ProjectionTable

#: Rows and bytes of one part.
MOST_ROWS: Final = 200_000
MOST_BYTES: Final = 128 * 1024 * 1024


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
    memory."""

    def __init__(self, folder: Path, tables: Collection[str], full: Full, most_rows: int = MOST_ROWS) -> None:
        self._folder = folder
        self._full = full
        self._most_rows = most_rows
        self._open: dict[str, PartDraft] = {}
        self._names = {name: [one.name for one in TABLES[name].columns] for name in tables}

    def add(self, row: ProjectionRow) -> None:
        """Keys are in the order of the table's columns."""
        draft = self._open.get(row.table) or self._begin(row.table)
        values = {name: row.values[name] for name in self._names[row.table]}
        line = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        draft.file.write(line)
        draft.rows += 1
        draft.size += len(line)
        draft.longest = max(draft.longest, len(line))
        if draft.rows >= self._most_rows or draft.size >= MOST_BYTES:
            self._hand_on(row.table)

    def begin(self, table: str) -> None:
        """Has a file of that table, were it one without rows."""
        if table not in self._open:
            self._begin(table)

    def finish(self) -> None:
        """Hands on what is left, in the order of the tables."""
        for table in [name for name in TABLES if name in self._open]:
            self._hand_on(table)

    def close(self) -> None:
        """Hands on nothing more."""
        for draft in self._open.values():
            draft.file.close()

    def _begin(self, table: str) -> PartDraft:
        path = self._folder / f"{table}.jsonl"
        self._open[table] = draft = PartDraft(TABLES[table], path, path.open("wb"))
        return draft

    def _hand_on(self, table: str) -> None:
        draft = self._open.pop(table)
        draft.file.close()
        self._full(draft)
        draft.path.unlink(missing_ok=True)
