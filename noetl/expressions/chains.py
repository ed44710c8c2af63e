"""Names with attributes: what most templates are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chain:
    """`head.part.part`: a name, then attributes and constant items."""

    head: str
    parts: tuple[str | int, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return (self.head, *map(str, self.parts))
