"""What every dialect is rewritten with: values and their paths, tasks, new names, walks over
steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Moved, Tree


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

    def mapping(self, key: str) -> dict[str, Tree]:
        """The entries of the mapping under `key`; none where there is nothing, or null."""
        found = self.get(key)
        return {} if found is None else {name: one.moved for name, one in found.entries().items()}


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

    def tree(self, changes: dict[str, Tree], without: Set[str]) -> Tree:
        """The task with other keys."""
        value = self.tool.value
        if not isinstance(value, str):
            made = {key: one for key, one in value.items() if key not in without} | changes
        else:
            made = {"kind": "workbook", "task": self.tool.moved, **changes} if changes else value
        moved = Moved(made, self.tool.path)
        return moved if self.label is None else {self.label: moved}


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


@dataclass(slots=True)
class NewNames:
    """Gives names that nothing else has: with a number behind `mark` where they are taken."""

    taken: set[str]
    mark: str = "_"

    def new(self, wanted: str) -> str:
        """`wanted`, or that with a number; it is taken from then on."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}{self.mark}{number}"
        self.taken.add(name)
        return name


def reach(
    starts: Iterable[str],
    targets: Mapping[str, Iterable[str]],
    enters: Callable[[str], bool] = lambda _: True,
    found: dict[str, None] | None = None,
) -> dict[str, None]:
    """Adds to `found` the steps of `targets` that are reached from `starts`, which are among them,
    the nearest first. Steps that `enters` denies are not entered."""
    found = {} if found is None else found
    waiting = deque(starts)
    while waiting:
        name = waiting.popleft()
        if name not in found and name in targets and enters(name):
            found[name] = None
            waiting.extend(targets[name])
    return found
