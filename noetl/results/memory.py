"""Results in memory: the same objects, gone with the process."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.errors import NotFound
from noetl.facts.json import Json, JsonMap
from noetl.results import objects


class MemoryResults:
    """`noetl.usecases.ports.Results` for tests and for trying things out."""

    def __init__(self, name: str = "results") -> None:
        self._name = name
        self._objects: dict[str, bytes] = {}

    def put(self, value: Json) -> JsonMap:
        """Raises BadRequest where `value` is not JSON."""
        packed = objects.pack(value)
        self._objects.setdefault(packed.sha256, packed.packed)
        return objects.reference(self._name, value, packed)

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """Raises NotFound where it is gone."""
        name = objects.name_of(self._name, reference)
        packed = self._objects.get(name)
        if packed is None:
            raise NotFound(f"The result {name} is gone from memory; run its step again.")
        return objects.unpack(name, packed)[0]
