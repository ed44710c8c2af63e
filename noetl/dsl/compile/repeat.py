"""`repeat` and `pagination` of tasks: to the tasks that they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from noetl.dsl.compile.assignments import assignment, task_level
from noetl.dsl.compile.context import Context, Site
from noetl.dsl.compile.entries import Entry
from noetl.dsl.compile.pagination import paged
from noetl.dsl.compile.policies import seconds_at
from noetl.dsl.compile.repetition import (
    MOST_CALLS,
    Repetition,
    again,
    count,
    expression,
    in_braces,
    is_cut,
    kept_inputs,
    request_of,
    sets,
    subscripts,
)
from noetl.dsl.document import Collect, NextCall, Repeat
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.document.texts import is_template
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.json import Json
from noetl.net.model import Assignment, KindInfo, Task, Template

#: Compiles the tasks that stand at a path, one by one.
Tasks: TypeAlias = Callable[[Context, Any, Path, Site], list[tuple[Entry, Task]]]

#: Ends of tasks that calls may take; a pipeline has some more (`pipeline.interpreter.MOST_TASK_ENDS`).
_MOST_ENDS: Final = 8_000
#: The keys of a tool that `next` changes; `args` are the inputs.
_PARTS: Final = ("params", "url", "headers", "data", "json")
#: What tools call them besides.
_ALSO: Final[Mapping[str, str]] = {"url": "endpoint", "json": "payload"}
_UNNAMED: Final = re.compile(r"task_\d+")


def repeated(
    context: Context, tasks: Sequence[tuple[Entry, Task]], site: Site, compiled: Tasks
) -> tuple[Task, ...]:
    """The pipeline, with the tasks that `repeat` and `pagination` stand for. Jumps to such a task lead to its first
    call. `compiled` yields the tasks of `each`."""
    made: list[Task] = []
    moved: dict[str, str] = {}
    names = {task.name for _, task in tasks}
    for entry, task in tasks:
        if not is_repeated(entry):
            made.append(task)
        elif (form := _repetition(context, entry, task, site, compiled)) is not None:
            _check_names(context, entry, form.each, names)
            calls = form.tasks()
            moved[task.name] = calls[0].name
            made += calls
    return tuple(_redirected(task, moved) for task in made)


def is_repeated(entry: Entry) -> bool:
    return any(tool.repeat is not None or tool.pagination is not None for tool, _ in entry.parts)


def _check_names(context: Context, entry: Entry, each: Sequence[Task], names: set[str]) -> None:
    for task in each:
        if task.name in names:
            message = f"two tasks of this step are called {shown(task.name)}"
            context.report.add(
                Code.DUPLICATE_NAME, (*entry.path, "repeat"), message, "give each its own name", at_key=True
            )
        names.add(task.name)


def _repetition(context: Context, entry: Entry, task: Task, site: Site, compiled: Tasks) -> Repetition | None:
    store = _store(task.name)
    given = [(tool.repeat, (*path, "repeat")) for tool, path in entry.parts if tool.repeat is not None]
    if task.loop is not None or (given and any(tool.pagination is not None for tool, _ in entry.parts)):
        message = f"task {shown(task.name)} has two of `loop`, `repeat` and `pagination`"
        context.report.add(Code.MISPLACED, entry.path, message, "keep one; a step can loop over such a task")
        return None
    if not given:
        return paged(context, entry, task, site, store)
    # The innermost one: a call of the workbook may replace that of the task.
    part, path = given[-1]
    return _Form(context, part, path, task, site, store).repetition(compiled)


def _store(task: str) -> str:
    """The variable in which a task keeps what it knows between calls. It comes of the name, which is the task's own in its
    step: what stands elsewhere in a file means the same."""
    return f"_calls_{task}" if task.isidentifier() else f"_calls_0{task.encode().hex()}"


def _redirected(task: Task, moved: Mapping[str, str]) -> Task:
    if not moved or task.rules is None:
        return task
    rules = tuple(
        replace(rule, then=replace(rule.then, to=moved.get(rule.then.to or "", rule.then.to)))
        for rule in task.rules
    )
    return replace(task, rules=rules)


@dataclass(frozen=True, slots=True)
class _Form:
    """A `repeat` and what it belongs to."""

    context: Context
    part: Repeat
    path: Path
    task: Task
    site: Site
    store: str

    def repetition(self, compiled: Tasks) -> Repetition | None:
        """None where it cannot be used; problems say why."""
        context, part, path = self.context, self.part, self.path
        warn_unknown(part, path, context.report)
        each = self._each(compiled)
        most = self._most(_MOST_ENDS // (2 + len(each) + bool(each)))
        delay = self._delay()
        entries = self._entries()
        if not entries:
            hint = "add next: {when, params} with what differs in the next call"
            context.report.missing(path, "next", "the repetition does not say which call is next", hint)
            return None
        requests = [self._request(entry, at) for entry, at in entries]
        then = [
            again(self.store, entry.when, request)
            for (entry, _), request in zip(entries, requests, strict=True)
        ]
        task = self.task
        config = {key for request in requests for key in request} & task.config.keys()
        args = {name for request in requests for name in request.get("args", {})} & task.args.keys()
        kept, result, sets_ = self._kept(), self._result(), self._sets()
        return Repetition(
            task=replace(
                task,
                config={key: value for key, value in task.config.items() if key not in config},
                args=dict(task.args) | kept_inputs(self.store, args),
            ),
            store=self.store,
            call="call",
            most=most,
            delay=delay,
            backoff=part.backoff or "fixed",
            kept=kept,
            then=tuple(then),
            result=result,
            sets=sets_,
            first=request_of(task, self.store, sorted(config), sorted(args)),
            each=each,
            when=tuple(entry.when for entry, _ in entries),
            config={key: task.config[key] for key in sorted(config)},
            args={name: task.args[name] for name in sorted(args)},
        )

    # --- the request ---

    def _entries(self) -> list[tuple[NextCall, Path]]:
        given, at = self.part.next, (*self.path, "next")
        if isinstance(given, NextCall):
            return [(given, at)]
        return [(entry, (*at, number)) for number, entry in enumerate(given or [])]

    def _request(self, entry: NextCall, at: Path) -> dict[str, Json]:
        """What differs, by the keys of the tool; and `args`."""
        context = self.context
        self._check_keys(entry, at)
        context.use((*at, "when"), entry.when, self.site.step, guard=True)
        named = {key: value for key, value in context.raw(at).items() if key in _PARTS}
        for key, value in {**named, "args": entry.args}.items():
            context.use((*at, key), value, self.site.step)
        args = {"args": entry.args} if entry.args else {}
        return {self._key(key): value for key, value in named.items()} | args

    def _check_keys(self, entry: NextCall, at: Path) -> None:
        context, known = self.context, self._known()
        given = [*(entry.model_extra or {}), *(key for key in _PARTS if key in context.raw(at))]
        for key in given:
            if key in _PARTS and (known is None or self._key(key) in known):
                continue
            mine = [*(part for part in _PARTS if known is None or self._key(part) in known), "args", "when"]
            hint = context.report.suggest(key, mine, f"known here: {', '.join(mine)}")
            message = f"the key {shown(key)} means nothing to the next call of {self.task.kind}"
            add_unknown_key(context.report, (*at, key), message, hint, mine, given)

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

    def _most(self, highest: int) -> Template:
        value, at = self.part.max, (*self.path, "max")
        if value is None:
            return MOST_CALLS
        self.context.use(at, value, self.site.step)
        if expression(value) is not None or (isinstance(value, int) and 1 <= value <= highest):
            return value
        hint = f"write a whole number from 1 to {highest:,}, or a template that is one expression"
        self.context.report.add(Code.VALUE, at, f"max is {shown(value)}", hint)
        return MOST_CALLS

    def _delay(self) -> Template:
        value, at = self.part.delay, (*self.path, "delay")
        if value is None:
            return 0.0
        self.context.use(at, value, self.site.step)
        if is_template(value) and expression(value) is None:
            hint = "write a template that is one expression, or a duration"
            self.context.report.add(Code.VALUE, at, f"delay is {shown(value)}", hint)
        return seconds_at(self.context, value, at)

    # --- what calls leave ---

    @property
    def _collect(self) -> Collect:
        return self.part.collect or Collect()

    def _kept(self) -> tuple[Assignment, ...]:
        """The values see `output`, the response."""
        store, collect = self.store, self._collect
        page = sets(store, "page", in_braces("output"))
        if self.part.collect is None:
            return (page,)
        warn_unknown(collect, (*self.path, "collect"), self.context.report)
        found = self._found(collect.path)
        match collect.strategy:
            case "replace":
                value, append = f"{found} if {found} is defined else [] + {found}", False
            case "merge":
                value, append = f"{found} if {found} is defined else [] + {found}", True
            case _:
                is_list = f"{found} is sequence and {found} is not string and {found} is not mapping"
                # To add what is not there is an error that names it.
                else_ = f"[{found}] if {found} is defined and {found} is not none else [] if {found} is defined else [] + {found}"
                value, append = f"{found} if {is_list} else {else_}", True
        name = f"{store}.parts" if append else f"{store}.parts.1"
        return page, Assignment("local", name, in_braces(value), append=append)

    def _found(self, path: str | None) -> str:
        keys = subscripts(path)
        if self.task.kind != "http":
            return f"output{keys}"
        body, response = f"output.data{keys}", f"output{keys}"
        return f"({body} if {body} is defined else {response})" if keys else body

    def _whole(self) -> str:
        parts = f"({self.store}.parts | default({{}})).values()"
        match self._collect.strategy:
            case "replace":
                return f"{parts} | list | last | default(none)"
            case "merge":
                return f"{parts} | merge"
            case _:
                return f"{parts} | flatten"

    def _result(self) -> Template:
        store = self.store
        page, cut = f"{store}.page", f"({is_cut(store)})"
        more = f"pages={count(store)}, truncated={cut}"
        if self.part.collect is not None and self._collect.into is None:
            whole = self._whole()
            laid, alone = f"dict({page}, data={whole}, {more})", f"dict(data={whole}, {more})"
        else:
            laid, alone = f"dict({page}, {more})", f"dict(data={page}, {more})"
        result = f"{laid} if {page} is mapping else {alone}"
        return in_braces(result if self.part.collect is not None else f"({result}) if {cut} else {page}")

    def _sets(self) -> tuple[Assignment, ...]:
        into = self._collect.into
        if into is None:
            return ()
        at = (*self.path, "collect", "into")
        made = assignment(
            self.context, at, f"ctx.{_bare(into)}", in_braces(self._whole()), task_level(self.site)
        )
        return () if made is None else (made,)

    # --- each ---

    def _each(self, compiled: Tasks) -> tuple[Task, ...]:
        """The tasks that run after every call, with the page and the response for inputs."""
        if self.part.each is None:
            return ()
        tasks = compiled(self.context, self.part.each, (*self.path, "each"), self.site)
        for entry, _ in tasks:
            if is_repeated(entry):
                message = "a task that runs after every call cannot be repeated itself"
                self.context.report.add(
                    Code.MISPLACED, entry.path, message, "call a playbook that repeats it"
                )
        page = f"{self.store}.page"
        data = f"{page}.data" if self.task.kind == "http" else page
        given = {"data": in_braces(data), "result": in_braces(page), "response": in_braces(page)}
        named = {task.name: self._named(task.name) for _, task in tasks}
        return tuple(
            _redirected(replace(task, name=named[task.name], given=given), named) for _, task in tasks
        )

    def _named(self, name: str) -> str:
        """Tasks without a name of their own are called after the one that they belong to."""
        return f"{self.task.name}.{name}" if _UNNAMED.fullmatch(name) else name


def _bare(name: str) -> str:
    return name.removeprefix("ctx.").removeprefix("vars.")
