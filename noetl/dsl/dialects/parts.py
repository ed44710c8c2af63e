"""Parts of a document with their paths: of the model, and of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from noetl.dsl.document import Part
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Moved

#: Parts of a document, each with where it stands.
Parts: TypeAlias = Sequence[tuple[Part, Path]]


def parts_of(document: Part) -> Parts:
    """`document`, and all parts in it; outer ones first."""
    found: list[tuple[Part, Path]] = []
    _collect(document, (), found)
    return found


def _collect(value: Any, path: Path, found: list[tuple[Part, Path]]) -> None:
    match value:
        case Part():
            found.append((value, path))
            fields = type(value).model_fields
            for name in fields.keys() & value.model_fields_set:
                _collect(getattr(value, name), (*path, fields[name].alias or name), found)
        case list():
            for index, item in enumerate(value):
                _collect(item, (*path, index), found)
        case dict():
            for key, item in value.items():
                _collect(item, (*path, key), found)


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
