"""The parts of a manifest as one list."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, overload

from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.facts.reference import Lazy, Load


class Parts(Lazy):
    """What a manifest loads to: each part is read when somebody looks into it. Raises BadRequest where `manifest` is
    none."""

    __slots__ = ("_ends", "_load", "_parts")

    def __init__(self, manifest: Mapping[str, Any], load: Load) -> None:
        self._load = load
        self._parts: list[Mapping[str, Any]] = list(manifest["parts"])
        if not all(map(_is_part, self._parts)):
            raise BadRequest("A part of this manifest has neither `items` nor `ref`, or no `count`.")
        self._ends = list(accumulate(part["count"] for part in self._parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        at = index if index >= 0 else index + len(self)
        if not 0 <= at < len(self):
            raise IndexError(index)
        part = bisect_right(self._ends, at)
        return self._items(self._parts[part])[at - self._ends[part] + self._parts[part]["count"]]

    def pages(self) -> Iterator[list[Json]]:
        for part in self._parts:
            items = self._items(part)
            yield from items.pages() if isinstance(items, Lazy) else [list(items)]

    def _items(self, part: Mapping[str, Any]) -> Any:
        if "items" in part:
            return part["items"]
        items = self._load(part["ref"])
        if not isinstance(items, Lazy | list) or len(items) != part["count"]:
            raise BadRequest("A part of this manifest is no list of as many items as it says.")
        return items


def _is_part(part: Any) -> bool:
    if not isinstance(part, Mapping) or not isinstance(part.get("count"), int):
        return False
    return isinstance(part.get("items"), list) or isinstance(part.get("ref"), Mapping)
