"""Parts of a document with their paths: of the model, and of its data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from noetl.dsl.document import Part
from noetl.dsl.origins import Moved
from noetl.dsl.problems import Path


def parts_of(value: Any, path: Path = ()) -> Iterator[tuple[Part, Path]]:
    """`value`, where it is a part, and those in it; outer ones first."""
    match value:
        case Part():
            yield value, path
            fields = type(value).model_fields
            for name in fields.keys() & value.model_fields_set:
                key = fields[name].alias or name
                yield from parts_of(getattr(value, name), (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from parts_of(item, (*path, index))
        case dict():
            for key, item in value.items():
                yield from parts_of(item, (*path, key))


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
