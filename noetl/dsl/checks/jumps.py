"""Pipelines that only jump back."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.dsl.checks.guards import always
from noetl.dsl.compile.context import Context
from noetl.dsl.problems import Code, Path, shown
from noetl.net.model import Task


def check_jumps(context: Context, tasks: Sequence[tuple[Path, Task]]) -> None:
    """Warns of tasks that jump back, or to themselves, whatever happens, while nothing on the way leads elsewhere."""
    names = [task.name for _, task in tasks]
    for index, (path, task) in enumerate(tasks):
        first = task.rules[0] if task.rules else None
        if first is None or first.then.do != "jump" or first.then.to not in names or not always(first.when):
            continue
        begin = names.index(first.then.to)
        if begin <= index and not any(_may_leave(one) for _, one in tasks[begin:index]):
            repeated = ", ".join(names[begin : index + 1])
            message = f"task {shown(task.name)} always jumps back: {repeated} repeat until one of them fails"
            context.report.add(Code.ENDLESS_JUMP, path, message, "give the jump a when:")


def _may_leave(task: Task) -> bool:
    """Whether a rule may lead out of the row of tasks, other than by a failure that nobody planned."""
    return any(rule.then.do in ("break", "fail", "jump") for rule in task.rules or ())
