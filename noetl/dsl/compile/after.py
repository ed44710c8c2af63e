"""`spec.after`: tasks that run once the pipeline has ended. They stand last, and no jump leads in
or out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from noetl.dsl.compile.context import Context
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.problems import Code, Path, shown
from noetl.net.model import Template


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


def siblings(entries: Iterable[ToolEntry]) -> Siblings:
    entries = list(entries)
    after = frozenset(entry.name for entry in entries if said(entry) is not None)
    return Siblings(dict.fromkeys(entry.name for entry in entries), after)


def said(entry: ToolEntry) -> tuple[Template, Path] | None:
    """`true` or the guard, and where it stands; None for a task of the pipeline proper. Of a
    workbook's task and its call the call wins."""
    for tool, path in reversed(entry.parts):
        if tool.spec is not None and tool.spec.after is not None:
            return (tool.spec.after, (*path, "spec", "after")) if tool.spec.after is not False else None
    return None


def after(context: Context, entry: ToolEntry, step: str | None) -> Template:
    """`Task.after` of an entry."""
    if (given := said(entry)) is None:
        return None
    guard, path = given
    context.use(path, guard, step, guard=True)
    return guard


def check_order(context: Context, entries: Iterable[ToolEntry]) -> None:
    """Adds a problem for each task of the pipeline proper that stands behind one that runs after
    it."""
    behind: ToolEntry | None = None
    for entry in entries:
        if said(entry) is not None:
            behind = behind or entry
        elif behind is not None:
            context.report.add(
                Code.MISPLACED,
                entry.path,
                f"task {shown(entry.name)} stands behind {shown(behind.name)}, which runs once the "
                "pipeline has ended",
                "put tasks with spec.after last, or give this one an after: as well",
            )
