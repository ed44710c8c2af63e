"""`repeat` and `pagination` of tasks: from the document to the net."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from noetl.dsl.compile.context import Context, PipelineSite, assignment
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.compile.policies import seconds_at
from noetl.dsl.document import Collect, NextCall, Pagination, Repeat
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.expressions import inside
from noetl.facts.json import Json
from noetl.net.model import CollectPolicy, NextRequest, Pages, Rule, Task, Template
from noetl.net.model import Repeat as NetRepeat

#: Compiles the tasks that stand at a path, one by one.
CompileTasks: TypeAlias = Callable[[Context, Any, Path, PipelineSite], list[tuple[ToolEntry, Task]]]

#: The keys of a tool that `next` changes; `args` are the inputs.
CHANGING: Final = ("params", "url", "headers", "data", "json")
#: What tools call them besides.
_ALSO: Final[Mapping[str, str]] = {"url": "endpoint", "json": "payload"}
#: Calls or pages unless the playbook says how many.
_MOST: Final = 100
_UNNAMED: Final = re.compile(r"task_\d+")


def add_repeats(
    context: Context, tasks: Sequence[tuple[ToolEntry, Task]], site: PipelineSite, compile_tasks: CompileTasks
) -> tuple[Task, ...]:
    """The pipeline: tasks with `repeat` or `pagination` say so, and those that run after every call
    of one stand behind it. `compile_tasks` yields the tasks of `each`."""
    made: list[Task] = []
    names = {task.name for _, task in tasks}
    for entry, task in tasks:
        if (pages := entry.part("pagination")) is not None:
            made.append(replace(task, repeat=_compile_pagination(context, *pages, site)))
        elif (repeat := entry.part("repeat")) is not None:
            each = _compile_each(context, *repeat, task, site, compile_tasks)
            _check_names(context, repeat[1], each, names)
            made += [replace(task, repeat=_compile_repeat(context, *repeat, task, site)), *each]
        else:
            made.append(task)
    return tuple(made)


def _check_names(context: Context, path: Path, each: Sequence[Task], names: set[str]) -> None:
    for task in each:
        if task.name in names:
            context.report.add(
                Code.DUPLICATE_NAME,
                path,
                f"two tasks of this step are called {quote_value(task.name)}",
                "give each its own name",
                at_key=True,
            )
        names.add(task.name)


def _compile_pagination(context: Context, part: Pagination, path: Path, site: PipelineSite) -> NetRepeat:
    for key in ("start", "size", "limit", "max_pages", "delay"):
        value = getattr(part, key)
        # A check reports text around an expression where a number is meant.
        if key == "delay" or part.type == "cursor" or is_expression(value):
            context.use((*path, key), value, site.step)
    context.use((*path, "stop_when"), part.stop_when, site.step, guard=True)
    by = part.type or "page"
    pages = Pages(
        by,
        param=part.param or ("" if by == "link" else by),
        start=part.start,
        size=part.limit if by == "offset" else part.size,
        path=part.path or "",
        until=part.stop_when,
    )
    most = _MOST if part.max_pages is None else part.max_pages
    collect = CollectPolicy(part.items or "", part.collect or "append")
    return NetRepeat((), pages, most, _delay(context, part.delay, path), "fixed", collect)


def _compile_repeat(context: Context, part: Repeat, path: Path, task: Task, site: PipelineSite) -> NetRepeat:
    for key in ("max", "delay"):
        context.use((*path, key), getattr(part, key), site.step)
    most = _MOST if part.max is None else part.max
    collect = _compile_collect(context, part.collect, (*path, "collect"), site)
    calls = tuple(_compile_next(context, entry, at, task, site) for entry, at in next_calls(part, path))
    return NetRepeat(calls, None, most, _delay(context, part.delay, path), part.backoff or "fixed", collect)


def is_expression(value: Template) -> bool:
    """Whether a template is one expression in braces and nothing else."""
    return is_template(value) and inside(value) is not None


def _delay(context: Context, value: float | str | None, path: Path) -> Template:
    return 0.0 if value is None else seconds_at(context, value, (*path, "delay"))


def _compile_collect(
    context: Context, part: Collect | None, path: Path, site: PipelineSite
) -> CollectPolicy | None:
    if part is None:
        return None
    into = None
    if part.into is not None:
        bare = part.into.removeprefix("ctx.").removeprefix("vars.")
        into = assignment(context, (*path, "into"), f"ctx.{bare}", None, site)
    return CollectPolicy(part.path or "", part.strategy or "append", into)


def next_calls(part: Repeat, path: Path) -> Iterator[tuple[NextCall, Path]]:
    """The entries of `next` of the repetition at `path`, each with where it stands."""
    if isinstance(part.next, NextCall):
        yield part.next, (*path, "next")
    else:
        yield from ((entry, (*path, "next", number)) for number, entry in enumerate(part.next or ()))


def _compile_next(
    context: Context, entry: NextCall, path: Path, task: Task, site: PipelineSite
) -> NextRequest:
    context.use((*path, "when"), entry.when, site.step, guard=True)
    given = {key: value for key, value in context.raw(path).items() if key in CHANGING}
    for key, value in {**given, "args": entry.args}.items():
        context.use((*path, key), value, site.step)
    args = {"args": entry.args} if entry.args else {}
    return NextRequest(entry.when, {key_of(task, key): value for key, value in given.items()} | args)


def key_of(task: Task, key: str) -> str:
    """What the task calls `key`, one of CHANGING."""
    other = _ALSO.get(key, key)
    return other if other in task.config and key not in task.config else key


def _compile_each(
    context: Context, part: Repeat, path: Path, task: Task, site: PipelineSite, compile_tasks: CompileTasks
) -> tuple[Task, ...]:
    """The tasks that run after every call. They stand where the task stands: in the pipeline
    proper, or behind it, where its guard is theirs. Unnamed ones are called after the task."""
    if part.each is None:
        return ()
    tasks = [one for _, one in compile_tasks(context, part.each, (*path, "each"), site)]
    names = {
        one.name: f"{task.name}.{one.name}" if _UNNAMED.fullmatch(one.name) else one.name for one in tasks
    }
    after = None if task.after is None else True
    return tuple(
        replace(one, name=names[one.name], rules=_redirect(one.rules, names), each_of=task.name, after=after)
        for one in tasks
    )


def _redirect(rules: tuple[Rule, ...] | None, names: Mapping[str, str]) -> tuple[Rule, ...] | None:
    """`rules` whose jumps lead to tasks that have got other `names`."""
    if rules is None:
        return None
    targets: Mapping[Json, str] = names
    return tuple(
        replace(rule, then=replace(rule.then, to=targets.get(rule.then.to, rule.then.to))) for rule in rules
    )
