"""What every dialect is rewritten with: values and their paths, guards, tasks, new names, walks
over steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from noetl import expressions
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.origins import Rewritten, Tree
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.event_names import BOUNDARY
from noetl.net.model import Template


@dataclass(frozen=True, slots=True)
class Located:
    """A value of the data, and where it stands."""

    value: Any
    path: Path

    def get(self, key: str) -> Located | None:
        """What stands under `key`; None where there is nothing, or null."""
        found = self.value.get(key)
        return None if found is None else Located(found, (*self.path, key))

    def entries(self) -> dict[str, Located]:
        """Those of a mapping by key."""
        return {key: Located(value, (*self.path, key)) for key, value in self.value.items()}

    def items(self) -> list[Located]:
        """Those of a list; of anything else, itself."""
        if not isinstance(self.value, list):
            return [self]
        return [Located(value, (*self.path, index)) for index, value in enumerate(self.value)]

    @property
    def moved(self) -> Rewritten:
        return Rewritten(self.value, self.path)

    def mapping(self, key: str) -> dict[str, Tree]:
        """The entries of the mapping under `key`; none where there is nothing, or null."""
        found = self.get(key)
        return {} if found is None else {name: one.moved for name, one in found.entries().items()}


#: A guard as it was written, or one that was made.
Guard: TypeAlias = Located | Template

SUCCEEDED: Final = "{{ outcome.status == 'ok' }}"
FAILED: Final = "{{ outcome.status == 'error' }}"


class Guards:
    """Joins guards. What comes out says where the first of them was written. Only what is one
    expression can be a part of another (`{{ (a) and (b) }}`): any other one is a problem."""

    def __init__(self, report: ProblemReport) -> None:
        self._report = report

    def every(self, *guards: Guard) -> Located:
        """Holds where all do; no guard (None) always does."""
        return self._join("and", guards, nothing=True)

    def some(self, *guards: Guard) -> Located:
        """Holds where any does."""
        return self._join("or", guards, nothing=False)

    def no(self, guard: Guard) -> Located:
        """Holds where `guard` does not."""
        known = _literal(guard)
        return Located(
            f"{{{{ not ({self._inside(guard)}) }}}}" if known is None else not known, _path([guard])
        )

    def _join(self, word: str, guards: Sequence[Guard], *, nothing: bool) -> Located:
        """`nothing` is what no guard at all means, and what does not count among others."""
        left = [guard for guard in guards if _literal(guard) is not nothing]
        path = _path(left or guards)
        if any(_literal(guard) is not None for guard in left):
            return Located(not nothing, path)
        if len(left) < 2:
            return Located(_plain(left[0]) if left else nothing, path)
        return Located("{{ " + f" {word} ".join(f"({self._inside(guard)})" for guard in left) + " }}", path)

    def _inside(self, guard: Guard) -> str:
        text = _plain(guard)
        found = expressions.inside(text) if isinstance(text, str) else None
        if found is None:
            message = f"the guard {quote_value(text)} is joined with another one, and is not one expression"
            self._report.add(Code.VALUE, _path([guard]), message, 'write it as one: "{{ a and b }}"')
        return found or "false"


def heads(guard: Guard) -> frozenset[str]:
    """The names that a guard begins its chains with."""
    text = _plain(guard)
    try:
        used = expressions.names_used(text, guard=True) if isinstance(text, str) else frozenset()
    except TemplateError:
        # The compiler reports it where it stands.
        return frozenset()
    return frozenset(chain[0] for chain in used)


def asks_how_it_ended(guard: Guard) -> bool:
    """Whether a guard mentions how the step or task ended: one that does not is for successes
    only."""
    return not BOUNDARY.isdisjoint(heads(guard))


def _plain(guard: Guard) -> Template:
    return guard.value if isinstance(guard, Located) else guard


def _path(guards: Sequence[Guard]) -> Path:
    return next((guard.path for guard in guards if isinstance(guard, Located)), ())


def _literal(guard: Guard) -> bool | None:
    known = _plain(guard)
    if known is None:
        return True
    return known if isinstance(known, bool) else None


@dataclass(frozen=True, slots=True)
class Item:
    """One task of a `tool`, in any of its forms. `tool` is its mapping, or the name of a task of
    the workbook."""

    name: str
    label: str | None
    tool: Located

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.tool.value if isinstance(self.tool.value, dict) else ())

    def get(self, key: str) -> Located | None:
        """What the task says under `key`; None where it does not, or null."""
        return self.tool.get(key) if isinstance(self.tool.value, dict) else None

    def tree(self, changes: dict[str, Tree], without: Set[str]) -> Tree:
        """The task with other keys."""
        made: Tree = self.tool.value
        if not isinstance(made, str):
            made = {key: one for key, one in made.items() if key not in without} | changes
        elif changes:
            made = {"kind": "workbook", "task": self.tool.moved, **changes}
        moved = Rewritten(made, self.tool.path)
        return moved if self.label is None else {self.label: moved}


def items_of(form: Located | None) -> list[Item]:
    """The tasks of a `tool`."""
    if form is None:
        return []
    # One task alone has no label, as in the document.
    in_list = isinstance(form.value, list)
    return [_item(spot, index, in_list=in_list) for index, spot in enumerate(form.items())]


def _item(spot: Located, index: int, *, in_list: bool) -> Item:
    if isinstance(spot.value, str):
        return Item(spot.value, None, spot)
    if in_list and "kind" not in spot.value and len(spot.value) == 1:
        label, tool = next(iter(spot.entries().items()))
        if isinstance(tool.value, dict):
            return Item(label, label, tool)
    given = spot.get("label") or spot.get("name") or spot.get("task")
    return Item(f"task_{index}" if given is None else str(given.value), None, spot)


def workbook_of(data: Mapping[str, Any]) -> dict[str, Path]:
    """Name of a task of the workbook → where its tool stands."""
    book = data.get("workbook") or {}
    found: dict[str, Path] = {}
    for key, entry in book.items() if isinstance(book, dict) else enumerate(book):
        name = key if isinstance(book, dict) else entry.get("name")
        inner = "kind" not in entry and isinstance(entry.get("tool"), dict)
        if name is not None:
            found[str(name)] = ("workbook", key, "tool") if inner else ("workbook", key)
    return found


def callee(tool: Any) -> str | None:
    """The task of the workbook that `tool` calls; None where it is of another kind."""
    if isinstance(tool, str):
        return tool
    if not isinstance(tool, dict) or tool.get("kind") != "workbook":
        return None
    named = tool.get("task") or tool.get("name")
    return None if named is None else str(named)


def follow_calls(tool: Mapping[str, Any], book: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The tasks of the workbook `book` that a call leads to, the last of another kind; none where
    there is no such task."""
    found: dict[str, Mapping[str, Any]] = {}
    while (name := callee(tool)) is not None:
        if name not in book or name in found:
            return ()
        found[name] = tool = book[name]
    return tuple(found.values())


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
