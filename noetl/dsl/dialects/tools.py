"""Items of `tool` while they are put together."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from noetl.dsl.dialects.parts import Spot
from noetl.dsl.read.origins import Moved, Tree


@dataclass(frozen=True, slots=True)
class Item:
    """One task of a `tool`, in any of its forms. `tool` is its mapping, or the name of a task of
    the workbook."""

    name: str
    label: str | None
    tool: Spot

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.tool.value if isinstance(self.tool.value, dict) else ())

    def get(self, key: str) -> Spot | None:
        """What the task says under `key`; None where it does not, or null."""
        return self.tool.get(key) if isinstance(self.tool.value, dict) else None

    def mapping(self, key: str) -> dict[str, Tree]:
        found = self.get(key)
        return {} if found is None else dict(found.value)

    def tree(self, changes: dict[str, Tree], without: Set[str]) -> Tree:
        """The task with other keys."""
        if not changes and not without & self.keys:
            tool: Tree = self.tool.moved
        elif isinstance(self.tool.value, str):
            tool = Moved({"kind": "workbook", "task": self.tool.moved, **changes}, self.tool.path)
        else:
            kept = {key: one for key, one in self.tool.value.items() if key not in without}
            tool = Moved(kept | changes, self.tool.path)
        return tool if self.label is None else {self.label: tool}


def items_of(form: Spot | None) -> list[Item]:
    """The tasks of a `tool`."""
    if form is None:
        return []
    # One task alone has no label, as in the document.
    in_list = isinstance(form.value, list)
    return [_item(spot, index, in_list=in_list) for index, spot in enumerate(form.items())]


def _item(spot: Spot, index: int, *, in_list: bool) -> Item:
    if isinstance(spot.value, str):
        return Item(spot.value, None, spot)
    if in_list and "kind" not in spot.value and len(spot.value) == 1:
        label, tool = next(iter(spot.entries().items()))
        if isinstance(tool.value, dict):
            return Item(label, label, tool)
    given = spot.get("label") or spot.get("name") or spot.get("task")
    return Item(f"task_{index}" if given is None else str(given.value), None, spot)
