"""The tasks of a step as they were written: one that is called again is one task, whatever it was
compiled into."""

from __future__ import annotations

from dataclasses import dataclass, replace

from noetl.net.model import Again, Rule, Task, Transition


@dataclass(frozen=True, slots=True)
class Written:
    """A task that stands in the playbook. `again`: how often it is called; `behind`: it runs after
    every call of that task, which `again` is of. `given` are the names that it is handed by others
    than its step."""

    task: Task
    again: Again | None = None
    behind: str = ""
    given: tuple[str, ...] = ()


def written(step: Transition) -> tuple[Written, ...]:
    """The tasks of `step` in the order of the document, each under the name that it has there;
    before them the claim of its loop's cursor."""
    repeated = {task.name: task.again for task in step.tasks if task.again is not None}
    parts = {part: again.task for again in repeated.values() for part in again.parts}
    behind = {name: again for again in repeated.values() for name in again.each}
    names = {**parts, **{call: again.task for call, again in repeated.items()}}
    return tuple(
        _written(task, repeated.get(task.name), behind.get(task.name), names)
        for task in step.calls
        if task.name not in parts
    )


def _written(task: Task, again: Again | None, behind: Again | None, names: dict[str, str]) -> Written:
    task = replace(task, rules=_renamed(task.rules, names))
    if again is not None:
        first = replace(
            task,
            name=again.task,
            config={**task.config, **again.config},
            args={**task.args, **again.args},
        )
        return Written(first, again)
    if behind is not None:
        return Written(replace(task, given={}), behind, behind.task, tuple(task.given))
    return Written(task)


def _renamed(rules: tuple[Rule, ...] | None, names: dict[str, str]) -> tuple[Rule, ...] | None:
    """Jumps lead to tasks by the names that these have in the document."""
    if rules is None:
        return None
    return tuple(
        replace(rule, then=replace(rule.then, to=names.get(rule.then.to or "", rule.then.to)))
        for rule in rules
    )
