"""Which files a pattern of DuckDB means: `*`, `?`, `[...]`, and `**` for directories at any depth,
links not followed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from noetl.errors import ToolError

#: What makes a name a pattern.
MAGIC: Final = re.compile(r"[*?\[]")
#: Entries of directories that one pattern is compared with: about a second.
MOST_ENTRIES: Final = 200_000


def literal_pattern(path: Path) -> str:
    """The pattern that means this file alone, whatever its name is spelled with."""
    return MAGIC.sub(r"[\g<0>]", str(path))


@dataclass
class FilePattern:
    """A pattern below `directory`. `seen` counts the entries that were looked at."""

    directory: Path
    text: str
    seen: int = 0

    def files(self) -> Iterator[Path]:
        """What it means, in no order. Raises ToolError(client_error) where it would have to look at
        too much."""
        parts = [part for part in self.text.split("/") if part]
        return self._below(self.directory, parts)

    def _below(self, path: Path, parts: list[str]) -> Iterator[Path]:
        if not parts:
            yield path
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._at_any_depth(path, rest or ["*"])
        elif MAGIC.search(first) is None:
            if (path / first).exists():
                yield from self._below(path / first, rest)
        else:
            for entry in self._entries(path):
                if fnmatchcase(entry.name, first) and (not rest or entry.is_dir()):
                    yield from self._below(path / entry.name, rest)

    def _at_any_depth(self, path: Path, rest: list[str]) -> Iterator[Path]:
        waiting = [path]
        while waiting:
            here = waiting.pop()
            yield from self._below(here, rest)
            waiting += [here / one.name for one in self._entries(here) if one.is_dir(follow_symlinks=False)]

    def _entries(self, path: Path) -> Iterator[os.DirEntry[str]]:
        # What cannot be listed DuckDB does not list either.
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                self._count()
                yield entry

    def _count(self) -> None:
        self.seen += 1
        if self.seen > MOST_ENTRIES:
            raise ToolError(
                "client_error",
                f"The pattern '{self.text[:200]}' in {self.directory} has more than "
                f"{MOST_ENTRIES:,} files and directories to "
                "look at; begin it with the directory that is meant.",
                type="BadPath",
            )
