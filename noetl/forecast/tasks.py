"""Tasks: their templates as far as they are known, what they touch, and the playbooks that they call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from noetl.expressions import BeginQuoting, NoQuoting
from noetl.facts.json import Json
from noetl.forecast.loops import loop_ahead
from noetl.forecast.model import AfterAhead, Called, Rendered, RepeatAhead, StepAhead, TaskAhead
from noetl.forecast.sight import AT_THE_END, Sight, rendered, rendered_all, verdict
from noetl.forecast.worlds import WORLDS
from noetl.forecast.written import Written
from noetl.net.model import Again, KindInfo, Task, Template
from noetl.pipeline.calls import prepared

#: What a kind says that a call with this configuration touches; templates may be left in it.
Touches: TypeAlias = Callable[[str, Mapping[str, Json]], tuple[str, ...]]

#: The kind whose tasks call playbooks.
_CALL: Final = "playbook"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The installed kinds, what each says of a configuration, and how values are written into command lines."""

    infos: Mapping[str, KindInfo]
    touches: Touches
    quoting: BeginQuoting = NoQuoting


@dataclass(frozen=True, slots=True)
class Views:
    """What the parts of a step's tasks see. `of` makes a sight of inputs that lie over those of the step, and of names
    that only the run answers for."""

    of: Callable[[Mapping[str, Rendered], frozenset[str]], Sight]

    def before(self, task: Task) -> Sight:
        """What is rendered before the task's inputs are."""
        return self.of({}, _ends(task))

    def item(self, one: Written) -> Callable[[Mapping[str, Rendered]], Sight]:
        """What the task itself sees with its inputs, and where it has a loop for each item."""
        iterator = {one.task.loop.iterator} if one.task.loop is not None else set()
        handed = {name: Rendered(None, (name,)) for name in one.given}
        return lambda inputs: self.of({**handed, **inputs}, _ends(one.task) | iterator)


def task_ahead(one: Written, views: Views, kinds: Kinds) -> TaskAhead:
    """A task of a step, with what `views` lets it see."""
    task, before, sight = one.task, views.before(one.task), views.item(one)
    ready = prepared(task, kinds.quoting)
    inputs: dict[str, Rendered] = {}
    for stage in ready.stages:
        inputs |= {**as_written(stage.args), **rendered_all(stage.templates, sight(inputs))}
    values = {**as_written(task.config), **rendered_all(ready.config, sight(inputs))}
    info = kinds.infos.get(task.kind)
    return TaskAhead(
        name=task.name,
        kind=task.kind,
        effects=info.effects if info is not None else "external",
        touches=kinds.touches(task.kind, {key: value.value for key, value in values.items()}),
        config=values,
        args=inputs,
        tries=_tries(task),
        jumps=tuple(dict.fromkeys(rule.then.to for rule in task.rules or () if rule.then.to is not None)),
        line=task.line,
        # One item after another, so the width of parallel loops means nothing here.
        loop=loop_ahead(task.loop, before, 1) if task.loop is not None else None,
        repeat=_repeat(one.again, before) if one.again is not None else None,
        behind=one.behind,
        after=None if task.after is None else AfterAhead(task.after, verdict(task.after, before)),
        expects=task.expects,
        returns=task.returns,
    )


def _ends(task: Task) -> frozenset[str]:
    """The names of an outcome: those behind the end of a pipeline see one."""
    return AT_THE_END if task.after is not None else frozenset()


def _repeat(again: Again, sight: Sight) -> RepeatAhead:
    changes = tuple("input" if key == "args" else key for key in again.changes)
    return RepeatAhead(again.when, again.pages, again.until, rendered(again.most, sight), changes)


def as_written(values: Mapping[str, Template]) -> dict[str, Rendered]:
    """`values` that hold no template."""
    return {key: Rendered(value, worlds=(value,) * len(WORLDS)) for key, value in values.items()}


def _tries(task: Task) -> Template:
    """The most attempts that a rule allows: a number, or the template of the first that is one."""
    asked = [rule.then.attempts for rule in task.rules or () if rule.then.do == "retry"]
    numbers = [attempts for attempts in asked if isinstance(attempts, int)]
    templates = [attempts for attempts in asked if not isinstance(attempts, int)]
    return templates[0] if templates else max(numbers, default=None)


def place_of(step: StepAhead, task: TaskAhead) -> str:
    """How a task is called: by its step, where that has no other."""
    return step.name if len(step.tasks) == 1 else f"{step.name}.{task.name}"


def calls_of(steps: Iterable[StepAhead]) -> tuple[Called, ...]:
    """The playbooks that tasks call, each version once."""
    found: dict[tuple[str, str], Called] = {}
    for step in steps:
        for task in step.tasks:
            if task.kind != _CALL or (path := task.config.get("path")) is None:
                continue
            version = task.config["version"].value if "version" in task.config else None
            key = str(path.value), str(version)
            users = (*(found[key].used_by if key in found else ()), place_of(step, task))
            found[key] = Called(str(path.value), version, users, path.needs)
    return tuple(found.values())
