"""Where the parts of a document's data stand that several passes look for: rules, templates, the
tasks of a step."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from noetl import expressions
from noetl.dsl.dialects.parts import Located, callee, items_of, workbook_of
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import Origins, value_at
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json
from noetl.net.model import KindInfo

Chain: TypeAlias = tuple[str, ...]
#: What a pass makes of a document's data, and where the parts come from; None where nothing
#: changes.
Rewritten: TypeAlias = tuple[dict[str, Json], Origins] | None

_RULES: Final = ("spec", "policy", "rules")


def replace_key(mapping: dict[str, Any], old: str, new: str, value: Any) -> None:
    """Takes `old` out of `mapping`, and puts `value` under `new`: in the place of `old`, unless
    there is one already."""
    given = dict(mapping)
    mapping.clear()
    for key, known in given.items():
        if key == new or (key == old and new not in given):
            mapping[new] = value
        elif key != old:
            mapping[key] = known


def texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The templates at and below `path`, where `value` stands; guards are templates without
    braces."""
    match value:
        case str() if is_template(value) or path[-1] == "when":
            yield path, value
        case dict() | list():
            for key, inner in _inner(value):
                yield from texts(inner, (*path, key))


def rules_in(value: Any, path: Path) -> Iterator[Path]:
    """Where the rules of policies stand, at and below `path`."""
    if path[-3:] == _RULES:
        yield path
        return
    for key, inner in _inner(value):
        yield from rules_in(inner, (*path, key))


def sets_in(value: Any, path: Path) -> Iterator[Path]:
    """Where `set` assigns, below `path`."""
    for key, inner in _inner(value):
        if key == "set" and isinstance(inner, dict):
            yield (*path, key)
        else:
            yield from sets_in(inner, (*path, key))


def _inner(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


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


class TextRewriting:
    """A document's data whose texts are to be rewritten, and what is reported of that."""

    def __init__(self, data: dict[str, Any], kinds: Mapping[str, KindInfo], report: ProblemReport) -> None:
        self.data = data
        self.report = report
        self.tasks = Tasks(data, kinds)
        #: Where a text stands → the text instead.
        self.texts: dict[Path, str] = {}

    def text(self, place: Path) -> str:
        """The text at `place` as it is by now."""
        return self.texts[place] if place in self.texts else str(value_at(self.data, place))

    def warn(self, code: Code, place: Path, message: str, old: Chain, new: str, *, guard: bool) -> None:
        """Warns of `old`, which the text at `place` reads, and for which `new` is to be written."""
        text = value_at(self.data, place)
        offset = expressions.place_of_name(text, old, guard=guard)
        within = None if offset is None else (text, offset)
        self.report.add(code, place, message, f"write {new}", within=within)

    def copy(self) -> Any:
        """The data with the other texts."""
        data = copy.deepcopy(self.data)
        for path, text in self.texts.items():
            value_at(data, path[:-1])[path[-1]] = text
        return data


class Tasks:
    """The tasks of the steps of a document, those of the workbook that they call among them."""

    def __init__(self, data: dict[str, Any], kinds: Mapping[str, KindInfo]) -> None:
        self._data = data
        self._kinds = kinds
        self._book = workbook_of(data)
        #: How many tasks of steps are said at a place, and the places of those that are the first
        #: ones of their steps, or have a loop around them.
        self.calls: Counter[Path] = Counter()
        self.first: set[Path] = set()
        self.looped: set[Path] = set()
        for index, step in enumerate(data.get("workflow") or []):
            items = list(self.items(step, ("workflow", index)))
            found = [path for item in items for path in item]
            self.calls.update(found)
            self.first.update(items[0] if items else ())
            if step.get("loop") is not None or step.get("iteration") is not None:
                self.looped.update(found)

    def of_step(self, step: dict[str, Any], path: Path) -> list[Path]:
        """Where the tasks of `step`, which stands at `path`, are said: a call, then what it
        calls."""
        return [tool for tools in self.items(step, path) for tool in tools]

    def items(self, step: dict[str, Any], path: Path) -> Iterator[list[Path]]:
        """The same for each of its tasks."""
        form = step.get("tool")
        for item in items_of(Located(form, (*path, "tool"))) if form else []:
            yield list(self._chain(item.tool.value, item.tool.path))

    def _chain(self, tool: Any, path: Path) -> Iterator[Path]:
        seen: set[str] = set()
        while True:
            if isinstance(tool, dict):
                yield path
            called = callee(tool)
            if called is None or called in seen or called not in self._book:
                return
            seen.add(called)
            path = self._book[called]
            tool = value_at(self._data, path)

    def rendered_parts(self, path: Path) -> Iterator[Path]:
        """The parts of the task at `path` that are rendered: all but code, and SQL that comes with
        `params`."""
        tool = value_at(self._data, path)
        info = self._kinds.get(tool.get("kind"))
        verbatim: set[str] = set()
        if info is not None and (tool.get("spec") or {}).get("render") is not True:
            with_params = info.verbatim_with_params if tool.get("params") is not None else ()
            verbatim = {*info.verbatim, *with_params}
        return ((*path, key) for key in tool if key not in verbatim)
