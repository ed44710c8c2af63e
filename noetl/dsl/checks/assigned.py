"""What the tasks of a step assign to."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.net.model import Assignment, Scope, Transition


def by_tasks(transition: Transition) -> list[Assignment]:
    """All assignments of its tasks and of their rules."""
    return [one for task in transition.tasks for one in task.assigns]


def heads(assignments: Iterable[Assignment], scope: Scope) -> set[str]:
    """The names in `scope` that are assigned to, whole or in part."""
    return {one.name.partition(".")[0] for one in assignments if one.scope == scope}
