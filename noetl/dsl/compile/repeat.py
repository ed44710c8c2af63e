"""`repeat` and `pagination` of tasks: from the document to the net."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from noetl.dsl.compile.context import Context, Site, assignment, task_level
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.compile.pagination import is_expression, paged
from noetl.dsl.compile.policies import seconds_at
from noetl.dsl.document import NextCall, Repeat
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.document.texts import is_template
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, shown
from noetl.net.model import Assignment, CollectPolicy, KindInfo, NextRequest, Task, Template
from noetl.net.model import Repeat as Repetition

#: Compiles the tasks that stand at a path, one by one.
Tasks: TypeAlias = Callable[[Context, Any, Path, Site], list[tuple[ToolEntry, Task]]]

#: Calls unless the playbook says how many.
_MOST_CALLS: Final = 100
#: The keys of a tool that `next` changes; `args` are the inputs.
_PARTS: Final = ("params", "url", "headers", "data", "json")
#: What tools call them besides.
_ALSO: Final[Mapping[str, str]] = {"url": "endpoint", "json": "payload"}
_UNNAMED: Final = re.compile(r"task_\d+")


def repeated(
    context: Context, tasks: Sequence[tuple[ToolEntry, Task]], site: Site, compiled: Tasks
) -> tuple[Task, ...]:
    """The pipeline: tasks with `repeat` or `pagination` say so, and those that run after every call
    of one stand behind it. `compiled` yields the tasks of `each`."""
    made: list[Task] = []
    names = {task.name for _, task in tasks}
    for entry, task in tasks:
        if not is_repeated(entry):
            made.append(task)
        elif (found := _repetition(context, entry, task, site, compiled)) is not None:
            repetition, each = found
            _check_names(context, entry, each, names)
            made += [replace(task, repeat=repetition), *each]
    return tuple(made)


def is_repeated(entry: ToolEntry) -> bool:
    return any(tool.repeat is not None or tool.pagination is not None for tool, _ in entry.parts)


def _check_names(context: Context, entry: ToolEntry, each: Sequence[Task], names: set[str]) -> None:
    for task in each:
        if task.name in names:
            context.report.add(
                Code.DUPLICATE_NAME,
                (*entry.path, "repeat"),
                f"two tasks of this step are called {shown(task.name)}",
                "give each its own name",
                at_key=True,
            )
        names.add(task.name)


def _repetition(
    context: Context, entry: ToolEntry, task: Task, site: Site, compiled: Tasks
) -> tuple[Repetition, tuple[Task, ...]] | None:
    """None where it cannot be used; problems say why."""
    given = [(tool.repeat, (*path, "repeat")) for tool, path in entry.parts if tool.repeat is not None]
    if task.loop is not None or (given and any(tool.pagination is not None for tool, _ in entry.parts)):
        context.report.add(
            Code.MISPLACED,
            entry.path,
            f"task {shown(task.name)} has two of `loop`, `repeat` and `pagination`",
            "keep one; a step can loop over such a task",
        )
        return None
    if not given:
        pages = paged(context, entry, task, site)
        return None if pages is None else (pages, ())
    # The innermost one: a call of the workbook may replace that of the task.
    part, path = given[-1]
    return _Form(context, part, path, task, site).compiled(compiled)


@dataclass(frozen=True, slots=True)
class _Form:
    """A `repeat` and what it belongs to."""

    context: Context
    part: Repeat
    path: Path
    task: Task
    site: Site

    def compiled(self, compiled: Tasks) -> tuple[Repetition, tuple[Task, ...]] | None:
        """None where it cannot be used; problems say why."""
        warn_unknown(self.part, self.path, self.context.report)
        each = self._each(compiled)
        most, delay = self._most(), self._delay()
        entries = self._entries()
        if not entries:
            self.context.report.missing(
                self.path,
                "next",
                "the repetition does not say which call is next",
                "add next: {when, params} with what differs in the next call",
            )
            return None
        calls = tuple(self._next(entry, at) for entry, at in entries)
        backoff = self.part.backoff or "fixed"
        return Repetition(calls, None, most, delay, backoff, self._collect()), each

    # --- the request ---

    def _entries(self) -> list[tuple[NextCall, Path]]:
        given, at = self.part.next, (*self.path, "next")
        if isinstance(given, NextCall):
            return [(given, at)]
        return [(entry, (*at, number)) for number, entry in enumerate(given or [])]

    def _next(self, entry: NextCall, at: Path) -> NextRequest:
        context = self.context
        self._check_keys(entry, at)
        context.use((*at, "when"), entry.when, self.site.step, guard=True)
        named = {key: value for key, value in context.raw(at).items() if key in _PARTS}
        for key, value in {**named, "args": entry.args}.items():
            context.use((*at, key), value, self.site.step)
        args = {"args": entry.args} if entry.args else {}
        return NextRequest(entry.when, {self._key(key): value for key, value in named.items()} | args)

    def _check_keys(self, entry: NextCall, at: Path) -> None:
        context, known = self.context, self._known()
        given = [*(entry.model_extra or {}), *(key for key in _PARTS if key in context.raw(at))]
        for key in given:
            if key in _PARTS and (known is None or self._key(key) in known):
                continue
            mine = [*(part for part in _PARTS if known is None or self._key(part) in known), "args", "when"]
            add_unknown_key(
                context.report,
                (*at, key),
                f"the key {shown(key)} means nothing to the next call of {self.task.kind}",
                context.report.suggest(key, mine, f"known here: {', '.join(mine)}"),
                mine,
                given,
            )

    def _kind(self) -> KindInfo:
        return self.context.kinds[self.task.kind]

    def _known(self) -> frozenset[str] | None:
        """The keys that the tool has; None where it takes any."""
        schema = self._kind().schema
        return (
            frozenset(schema.get("properties", {})) if schema.get("additionalProperties") is False else None
        )

    def _key(self, key: str) -> str:
        """What the task calls it."""
        other, config = _ALSO.get(key, key), self.task.config
        return other if other in config and key not in config else key

    # --- numbers ---

    def _most(self) -> Template:
        value, at = self.part.max, (*self.path, "max")
        if value is None:
            return _MOST_CALLS
        self.context.use(at, value, self.site.step)
        if is_expression(value) or (isinstance(value, int) and value >= 1):
            return value
        self.context.report.add(
            Code.VALUE,
            at,
            f"max is {shown(value)}",
            "write a whole number from 1, or a template that is one expression",
        )
        return _MOST_CALLS

    def _delay(self) -> Template:
        value, at = self.part.delay, (*self.path, "delay")
        if value is None:
            return 0.0
        self.context.use(at, value, self.site.step)
        if is_template(value) and not is_expression(value):
            self.context.report.add(
                Code.VALUE,
                at,
                f"delay is {shown(value)}",
                "write a template that is one expression, or a duration",
            )
        return seconds_at(self.context, value, at)

    # --- what calls leave ---

    def _collect(self) -> CollectPolicy | None:
        part, at = self.part.collect, (*self.path, "collect")
        if part is None:
            return None
        warn_unknown(part, at, self.context.report)
        into = None if part.into is None else self._into(part.into, (*at, "into"))
        return CollectPolicy(part.path or "", part.strategy or "append", into)

    def _into(self, name: str, at: Path) -> Assignment | None:
        bare = name.removeprefix("ctx.").removeprefix("vars.")
        return assignment(self.context, at, f"ctx.{bare}", None, task_level(self.site))

    # --- each ---

    def _each(self, compiled: Tasks) -> tuple[Task, ...]:
        """The tasks that run after every call. They stand where the task stands: in the pipeline
        proper, or behind it, where its guard is theirs."""
        if self.part.each is None:
            return ()
        tasks = compiled(self.context, self.part.each, (*self.path, "each"), self.site)
        for entry, _ in tasks:
            if is_repeated(entry):
                self.context.report.add(
                    Code.MISPLACED,
                    entry.path,
                    "a task that runs after every call cannot be repeated itself",
                    "call a playbook that repeats it",
                )
        after = None if self.task.after is None else True
        named = {task.name: self._named(task.name) for _, task in tasks}
        return tuple(
            replace(_redirected(task, named), name=named[task.name], each_of=self.task.name, after=after)
            for _, task in tasks
        )

    def _named(self, name: str) -> str:
        """Tasks without a name of their own are called after the one that they belong to."""
        return f"{self.task.name}.{name}" if _UNNAMED.fullmatch(name) else name


def _redirected(task: Task, names: Mapping[str, str]) -> Task:
    """`task`, whose jumps lead to tasks that have got other `names`."""
    if task.rules is None:
        return task
    rules = tuple(
        replace(rule, then=replace(rule.then, to=names.get(rule.then.to or "", rule.then.to)))
        for rule in task.rules
    )
    return replace(task, rules=rules)
