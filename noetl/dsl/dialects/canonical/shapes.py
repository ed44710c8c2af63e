"""Where the parts of a document's data stand that several passes look for: rules, templates, the
tasks of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl.dsl.dialects.parts import Spot
from noetl.dsl.dialects.tools import items_of
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Path
from noetl.net.model import KindInfo

_RULES: Final = ("spec", "policy", "rules")


def at(data: Any, path: Path) -> Any:
    """What stands at `path`; None where nothing does."""
    for key in path:
        if isinstance(data, dict) and isinstance(key, str):
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int):
            data = data[key]
        else:
            return None
    return data


def texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The templates at and below `path`, where `value` stands; guards are templates without
    braces."""
    match value:
        case str() if is_template(value) or path[-1] == "when":
            yield path, value
        case dict():
            for key, inner in value.items():
                yield from texts(inner, (*path, key))
        case list():
            for index, inner in enumerate(value):
                yield from texts(inner, (*path, index))


def rules_in(value: Any, path: Path) -> Iterator[Path]:
    """Where the rules of policies stand, at and below `path`."""
    if path[-3:] == _RULES:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from rules_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from rules_in(inner, (*path, index))


def arcs_of(form: Any, path: Path) -> Iterator[tuple[Any, Path]]:
    """The arcs of `next`, which stands at `path`: names of steps, or mappings."""
    match form:
        case str():
            yield form, path
        case list():
            for index, inner in enumerate(form):
                yield from arcs_of(inner, (*path, index))
        case {"arcs": list() as arcs}:
            yield from arcs_of(arcs, (*path, "arcs"))
        case {"step": _}:
            yield form, path


def target_of(arc: Any) -> str | None:
    """The step that an arc leads to."""
    found = arc.get("step") if isinstance(arc, dict) else arc
    return found if isinstance(found, str) else None


def targets_in(value: Any) -> set[str]:
    """The names that `set` assigns at and below `value`, of ctx or plain: `total` of
    `ctx.total.x`."""
    match value:
        case dict():
            found = set().union(*map(targets_in, value.values()))
            assigned = value.get("set")
            return found | set(map(_head, assigned)) if isinstance(assigned, dict) else found
        case list():
            return set().union(*map(targets_in, value))
        case _:
            return set()


def _head(target: str) -> str:
    return target.removeprefix("ctx.").removeprefix("vars.").partition(".")[0]


class Tools:
    """The tasks of the steps of a document, those of the workbook that they call among them."""

    def __init__(self, data: dict[str, Any], kinds: Mapping[str, KindInfo]) -> None:
        self._data = data
        self._kinds = kinds
        self._book = _workbook(data)
        self._calls: Counter[Path] = Counter()
        self._looped: set[Path] = set()
        self._first: set[Path] = set()
        for index, step in enumerate(data.get("workflow") or []):
            items = list(self.items(step, ("workflow", index, "tool")))
            found = [path for item in items for path in item]
            self._calls.update(found)
            self._first.update(items[0] if items else ())
            if step.get("loop") is not None or step.get("iteration") is not None:
                self._looped.update(found)

    def of_step(self, step: dict[str, Any], path: Path) -> Iterator[Path]:
        """Where the tasks of `step`, whose `tool` stands at `path`, are said: a call, then what it
        calls."""
        for tools in self.items(step, path):
            yield from tools

    def items(self, step: dict[str, Any], path: Path) -> Iterator[list[Path]]:
        """The same for each of its tasks."""
        form = step.get("tool")
        for item in items_of(Spot(form, path)) if form else []:
            yield list(self._chain(item.tool.value, item.tool.path))

    def _chain(self, tool: Any, path: Path) -> Iterator[Path]:
        seen: set[str] = set()
        while True:
            if isinstance(tool, dict):
                yield path
            called = _called(tool)
            if called is None or called in seen or called not in self._book:
                return
            seen.add(called)
            path = self._book[called]
            tool = at(self._data, path)

    def is_one_task(self, form: Any) -> bool:
        """Whether `tool` has one task."""
        return form is not None and (not isinstance(form, list) or len(form) == 1)

    def is_called_once(self, path: Path) -> bool:
        """Whether one task of one step is said at `path`."""
        return self._calls[path] == 1

    def is_ever_first(self, path: Path) -> bool:
        """Whether the first task of some step is said at `path`."""
        return path in self._first

    def only_without_loops(self, path: Path) -> bool:
        """Whether no step with a loop has the task at `path`."""
        return path not in self._looped

    def rendered(self, path: Path) -> Iterator[Path]:
        """The parts of the task at `path` that are rendered: all but code, and SQL that comes with
        `params`."""
        tool = at(self._data, path)
        info = self._kinds.get(tool.get("kind"))
        verbatim: set[str] = set()
        if info is not None and (tool.get("spec") or {}).get("render") is not True:
            with_params = info.verbatim_with_params if tool.get("params") is not None else ()
            verbatim = {*info.verbatim, *with_params}
        for key in tool:
            if key not in verbatim:
                yield (*path, key)


def _workbook(data: dict[str, Any]) -> dict[str, Path]:
    """Name of a task of the workbook → where its tool stands."""
    book = data.get("workbook") or {}
    entries = list(book.items()) if isinstance(book, dict) else list(enumerate(book))
    found: dict[str, Path] = {}
    for key, entry in entries:
        named = key if isinstance(book, dict) else entry.get("name")
        inner = "kind" not in entry and isinstance(entry.get("tool"), dict)
        found[str(named)] = ("workbook", key, "tool") if inner else ("workbook", key)
    return found


def _called(tool: Any) -> str | None:
    """The task of the workbook that `tool` calls; None where it is of another kind."""
    if isinstance(tool, str):
        return tool
    if not isinstance(tool, dict) or tool.get("kind") != "workbook":
        return None
    named = tool.get("task") or tool.get("name")
    return None if named is None else str(named)
