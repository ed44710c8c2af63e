"""The port of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from noetl.facts.json import JsonMap


@dataclass(frozen=True, slots=True)
class PlaybookRow:
    """A version of a playbook in the catalog. `digest` names the compiled net (see `Nets`)."""

    path: str
    version: int
    content: str
    content_sha256: str
    digest: str
    created_at: datetime
    name: str = ""
    description: str = ""
    #: What the compiler warned of when it was registered: see `usecases.catalog.warnings_of`.
    warnings: tuple[JsonMap, ...] = ()


@dataclass(frozen=True, slots=True)
class PlaybookHead:
    """A version of a playbook without its text: what a list shows of it."""

    path: str
    version: int
    name: str
    description: str
    content_sha256: str
    digest: str
    created_at: datetime


class Playbooks(Protocol):
    """The catalog: versions of playbooks under their paths."""

    def add(self, row: PlaybookRow) -> bool:
        """False where that version of the path exists, though it may have been committed only
        since it was looked for."""

    def keep_warnings(self, path: str, version: int, warnings: Sequence[JsonMap]) -> None:
        """Gives a version other warnings."""

    def get(self, path: str, version: int | None = None) -> PlaybookRow | None:
        """That version, or the newest."""

    def newest(self) -> list[PlaybookRow]:
        """The newest version of each path, ordered by path."""

    def versions(self, path: str) -> list[PlaybookRow]: ...

    def heads(self) -> list[PlaybookHead]:
        """The same as `newest`, without texts; paths in the order of their code points."""

    def heads_of(self, path: str) -> list[PlaybookHead]:
        """All versions of a path, newest first, without texts."""
