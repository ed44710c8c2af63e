"""Values of a document's data with their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Moved


@dataclass(frozen=True, slots=True)
class Spot:
    """A value of the data, and where it stands."""

    value: Any
    path: Path

    def get(self, key: str) -> Spot | None:
        """What stands under `key`; None where there is nothing, or null."""
        found = self.value.get(key)
        return None if found is None else Spot(found, (*self.path, key))

    def entries(self) -> dict[str, Spot]:
        """Those of a mapping by key."""
        return {key: Spot(value, (*self.path, key)) for key, value in self.value.items()}

    def items(self) -> list[Spot]:
        """Those of a list; of anything else, itself."""
        if not isinstance(self.value, list):
            return [self]
        return [Spot(value, (*self.path, index)) for index, value in enumerate(self.value)]

    @property
    def moved(self) -> Moved:
        return Moved(self.value, self.path)
