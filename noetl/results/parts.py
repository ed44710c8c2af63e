"""The parts of a manifest as one list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.facts.reference import Lazy, Load
from noetl.results.blocks import Blocks


class PartBlocks(Blocks):
    """What a manifest loads to: each part is read when somebody looks into it. Raises BadRequest
    where `manifest` is none."""

    __slots__ = ("_ends", "_load", "_parts")

    def __init__(self, manifest: Mapping[str, Any], load: Load) -> None:
        self._load = load
        self._parts: list[Mapping[str, Any]] = list(manifest["parts"])
        if not all(map(_is_part, self._parts)):
            raise BadRequest("A part of this manifest has neither `items` nor `ref`, or no `count`.")
        self._ends = list(accumulate((part["count"] for part in self._parts), initial=0))

    def ends(self) -> Sequence[int]:
        return self._ends

    def block(self, number: int) -> Sequence[Json]:
        """Raises BadRequest where the part is no list of as many items as the manifest says."""
        part = self._parts[number]
        items = part["items"] if "items" in part else self._load(part["ref"])
        if not isinstance(items, Lazy | list) or len(items) != part["count"]:
            raise BadRequest("A part of this manifest is no list of as many items as it says.")
        return items

    def pages(self) -> Iterator[list[Json]]:
        for number in range(len(self._parts)):
            items = self.block(number)
            yield from items.pages() if isinstance(items, Lazy) else [list(items)]


def _is_part(part: Any) -> bool:
    if not isinstance(part, Mapping) or not isinstance(part.get("count"), int) or part["count"] < 0:
        return False
    return isinstance(part.get("items"), list) or isinstance(part.get("ref"), Mapping)
