"""All forms of `tool` and `workbook`, to entries: named, but not yet compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from noetl.dsl.context import Context
from noetl.dsl.document import NamedTask, Tool
from noetl.dsl.identifiers import usable
from noetl.dsl.problems import Code, Path, shown


@dataclass(frozen=True, slots=True)
class Entry:
    """A task before it is compiled. `parts` overlay each other: a workbook's task, then its call."""

    name: str
    name_path: Path
    parts: tuple[tuple[Tool, Path], ...]

    @property
    def path(self) -> Path:
        """Where the task stands in the workflow."""
        return self.parts[-1][1]


def entries_of(context: Context, form: Any, path: Path) -> Iterator[Entry]:
    """The tasks of `tool`, which stands at `path`: those whose names can be used and are given once."""
    seen: set[str] = set()
    for entry in _entries(context, form, path):
        if entry is None or not usable(context.report, entry.name, entry.name_path, "task"):
            continue
        if entry.name in seen:
            context.report.add(
                Code.DUPLICATE_NAME,
                entry.name_path,
                f"two tasks of this step are called {shown(entry.name)}",
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
            context.report.add(Code.DUPLICATE_NAME, name_path, f"two workbook tasks are called {shown(name)}")
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


def _entries(context: Context, form: Any, path: Path) -> Iterator[Entry | None]:
    match form:
        case str():
            yield _call(context, form, "", path, None)
        case list():
            for index, item in enumerate(form):
                yield _item(context, item, (*path, index), index)
        case Tool():
            yield _entry(context, form, path, form.label or form.name, "task_0")


def _item(context: Context, item: Any, path: Path, index: int) -> Entry | None:
    if isinstance(item, str):
        return _call(context, item, "", path, None)
    if isinstance(item, Tool):
        return _entry(context, item, path, item.label or item.name, f"task_{index}")
    label, tool = next(iter(item.items()))
    return _entry(context, tool, (*path, label), label, label)


def _entry(context: Context, tool: Tool, path: Path, label: str | None, default: str) -> Entry | None:
    if tool.kind == "workbook":
        return _workbook_call(context, tool, path, label)
    name_path = (*path, "label" if tool.label else "name")
    return Entry(label or default, name_path, ((tool, path),))


def _workbook_call(context: Context, tool: Tool, path: Path, label: str | None) -> Entry | None:
    task = (tool.model_extra or {}).get("task")
    if isinstance(task, str):
        return _call(context, task, label or "", (*path, "task"), (tool, path))
    if tool.name is None:
        context.report.missing(path, "name", "the call does not say which workbook task", "add name:")
        return None
    return _call(context, tool.name, "" if label == tool.name else label or "", (*path, "name"), (tool, path))


def _call(
    context: Context, name: str, label: str, path: Path, caller: tuple[Tool, Path] | None
) -> Entry | None:
    known = context.workbook.get(name)
    if known is None:
        hint = context.report.suggest(name, context.workbook, _listing(context.workbook))
        context.report.add(Code.UNKNOWN_TASK, path, f"there is no workbook task {shown(name)}", hint)
        return None
    if known[0].kind == "workbook":
        context.report.add(
            Code.UNSUPPORTED,
            path,
            f"workbook task {shown(name)} calls the workbook again",
            "name the last one",
        )
        return None
    return Entry(label or name, path, (known, caller) if caller else (known,))


def _listing(names: Mapping[str, object]) -> str:
    return f"the workbook has {', '.join(names)}" if names else "the playbook has no workbook"
