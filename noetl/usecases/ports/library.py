"""The port of playbooks that are files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PlaybookFile:
    """The text of a playbook, and the name of its file."""

    file: str
    content: str


class Library(Protocol):
    """Playbooks that are files: those that a call may name although no catalog knows them."""

    def find(self, path: str, *, anew: bool = False) -> PlaybookFile | None:
        """The file whose `metadata.path` it is. `anew`: what was seen before does not count."""

    def paths(self) -> Sequence[str]:
        """What could have been found."""
