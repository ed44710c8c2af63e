"""The tasks of a pipeline and of the workbook before they are compiled: named, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noetl.dsl.compile.context import Context
from noetl.dsl.document import NamedTask, Tool
from noetl.dsl.document.identifiers import usable
from noetl.dsl.problems import Code, Path, quote_value
from noetl.facts.json import JsonMap
from noetl.net.model import Template


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A task before it is compiled. `parts` overlay each other: a workbook's task, then its
    call."""

    name: str
    name_path: Path
    parts: tuple[tuple[Tool, Path], ...]

    @property
    def path(self) -> Path:
        """Where the task stands in the workflow; one of the workbook by itself, where it stands
        there."""
        path = self.parts[-1][1]
        # Of a task that a step calls by its name alone nothing else stands in the workflow.
        return self.name_path if path[0] == "workbook" else path

    def part(self, key: str) -> tuple[Any, Path] | None:
        """What the task says under `key`, and where. Of a workbook's task and its call the call
        wins."""
        given = [(getattr(tool, key), (*path, key)) for tool, path in self.parts]
        return next((one for one in reversed(given) if one[0] is not None), None)

    @property
    def after(self) -> tuple[Template, Path] | None:
        """`true` or the guard, and where it stands; None for a task of the pipeline proper."""
        for tool, path in reversed(self.parts):
            if tool.spec is not None and tool.spec.after is not None:
                after = tool.spec.after
                return None if after is False else (after, (*path, "spec", "after"))
        return None


def tool_inputs(tool: Tool) -> dict[str, JsonMap]:
    """What a task says of its inputs, by key; the later one wins."""
    return {"args": tool.args or {}, "input": tool.input or {}}


def entries_of(context: Context, form: Any, path: Path) -> Iterator[ToolEntry]:
    """The tasks of `tool`, which stands at `path`: those whose names can be used and are given
    once."""
    seen: set[str] = set()
    for entry in _entries(context, form, path):
        if entry is None or not usable(context.report, entry.name, entry.name_path, "task"):
            continue
        if entry.name in seen:
            context.report.add(
                Code.DUPLICATE_NAME,
                entry.name_path,
                f"two tasks of this step are called {quote_value(entry.name)}",
                "give each its own name",
            )
            continue
        seen.add(entry.name)
        yield entry


def workbook_entries(context: Context) -> dict[str, tuple[Tool, Path]]:
    """The tasks of the document's workbook by name."""
    book: dict[str, tuple[Tool, Path]] = {}
    for name, entry, path, name_path in _workbook_items(context):
        tool = entry.tool if isinstance(entry, NamedTask) else entry
        at = (*path, "tool") if isinstance(entry, NamedTask) else path
        if name is None or tool is None:
            key = "name" if name is None else "tool"
            context.report.missing(path, key, f"the workbook task has no {key}", f"add {key}:")
        elif name in book:
            context.report.add(
                Code.DUPLICATE_NAME, name_path, f"two workbook tasks are called {quote_value(name)}"
            )
        elif usable(context.report, name, name_path, "workbook task"):
            book[name] = (tool, at)
    return book


def _workbook_items(context: Context) -> Iterator[tuple[str | None, NamedTask | Tool, Path, Path]]:
    book = context.document.workbook
    if isinstance(book, Mapping):
        for name, entry in book.items():
            yield name, entry, ("workbook", name), ("workbook", name)
        return
    for index, entry in enumerate(book or []):
        path: Path = ("workbook", index)
        yield entry.name, entry, path, (*path, "name")


def _entries(context: Context, form: Any, path: Path) -> Iterator[ToolEntry | None]:
    match form:
        case str():
            yield _call(context, form, "", path, None)
        case list():
            for index, item in enumerate(form):
                yield _item(context, item, (*path, index), index)
        case Tool():
            yield _entry(context, form, path, form.label or form.name, "task_0")


def _item(context: Context, item: Any, path: Path, index: int) -> ToolEntry | None:
    if isinstance(item, str):
        return _call(context, item, "", path, None)
    if isinstance(item, Tool):
        return _entry(context, item, path, item.label or item.name, f"task_{index}")
    label, tool = next(iter(item.items()))
    return _entry(context, tool, (*path, label), label, label)


def _entry(context: Context, tool: Tool, path: Path, label: str | None, default: str) -> ToolEntry | None:
    if tool.kind == "workbook":
        return _workbook_call(context, tool, path, label)
    name_path = (*path, "label" if tool.label else "name")
    return ToolEntry(label or default, name_path, ((tool, path),))


def _workbook_call(context: Context, tool: Tool, path: Path, label: str | None) -> ToolEntry | None:
    callee = _callee(context, tool, path)
    if callee is None:
        return None
    name, at = callee
    # Where `name` is the callee's it is no name of the call.
    own = label if at[-1] == "task" or label != tool.name else None
    return _call(context, name, own or "", at, (tool, path))


def _callee(context: Context, tool: Tool, path: Path) -> tuple[str, Path] | None:
    """Which workbook task a `kind: workbook` names, and where it does."""
    if (name := _name_of_callee(tool)) is None:
        context.report.missing(path, "name", "the call does not say which workbook task", "add name:")
        return None
    return name, (*path, "task" if isinstance((tool.model_extra or {}).get("task"), str) else "name")


def _call(
    context: Context, name: str, label: str, path: Path, caller: tuple[Tool, Path] | None
) -> ToolEntry | None:
    known = context.workbook.get(name)
    if known is None:
        names = ", ".join(context.workbook)
        otherwise = f"the workbook has {names}" if names else "the playbook has no workbook"
        hint = context.report.suggest(name, context.workbook, otherwise)
        if name in context.kinds:
            hint = f"write tool: {{kind: {name}, ...}} with what the tool needs"
        context.report.add(Code.UNKNOWN_TASK, path, f"there is no workbook task {quote_value(name)}", hint)
        return None
    parts = _chain(context, *known)
    if parts[0][0].kind == "workbook":
        return None  # reported where it stands in the workbook, once
    return ToolEntry(label or name, path, (*parts, caller) if caller else parts)


def workbook_entry(context: Context, name: str) -> ToolEntry | None:
    """The workbook's task `name` by itself; reports what is wrong with those that it calls."""
    tool, path = context.workbook[name]
    parts = _chain(context, tool, path)
    if parts[0][0].kind != "workbook":
        return ToolEntry(name, path, parts)
    callee = _callee(context, tool, path)
    if callee is None:
        return None
    inner, at = callee
    if inner not in context.workbook:
        return _call(context, inner, "", at, None)
    if _name_of_callee(parts[0][0]) in context.workbook:
        context.report.add(
            Code.UNKNOWN_TASK,
            at,
            f"workbook task {quote_value(name)} leads in a circle through {quote_value(inner)}",
            "one of them has to be of another kind",
        )
    return None


def _chain(context: Context, tool: Tool, path: Path) -> tuple[tuple[Tool, Path], ...]:
    """A task of the workbook behind those that it calls, the innermost first: of another kind than
    workbook unless that leads to nothing, or in a circle."""
    chain = [(tool, path)]
    while chain[0][0].kind == "workbook":
        inner = context.workbook.get(_name_of_callee(chain[0][0]) or "")
        if inner is None or inner in chain:
            break
        chain.insert(0, inner)
    return tuple(chain)


def _name_of_callee(tool: Tool) -> str | None:
    task = (tool.model_extra or {}).get("task")
    return task if isinstance(task, str) else tool.name


@dataclass(frozen=True, slots=True)
class Siblings:
    """The tasks of one step by name, in order, and those of them that run behind the end of the
    others."""

    names: Collection[str]
    after: frozenset[str] = frozenset()

    def may_lead(self, task: str, target: str) -> bool:
        """Whether a jump of `task` may lead to `target`."""
        return target in self.names and (target in self.after) == (task in self.after)

    def around(self, task: str) -> Sequence[str]:
        """Those that a jump of `task` may lead to."""
        return [name for name in self.names if self.may_lead(task, name)]


def siblings(entries: Sequence[ToolEntry]) -> Siblings:
    after = frozenset(entry.name for entry in entries if entry.after is not None)
    return Siblings(dict.fromkeys(entry.name for entry in entries), after)
