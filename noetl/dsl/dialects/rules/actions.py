"""`tasks` and what `run` names: steps to route to, and actions to carry out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from noetl.dsl.dialects.rules.drafts import Branch, Route, RuleAction, RuleTasks, Work, names_of
from noetl.dsl.dialects.rules.transitions import route
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.read.origins import Moved, Tree
from noetl.dsl.read.report import ProblemReport


def tasks_of(data: Mapping[str, Any], steps: set[str], report: ProblemReport) -> RuleTasks:
    """The root key `tasks`."""
    tasks = RuleTasks()
    for name, actions, parallel, path, name_path in _entries(data.get("tasks"), report):
        if name in steps or name in tasks.works:
            what = "a step" if name in steps else "another task"
            report.add(
                Code.DUPLICATE_NAME, name_path, f"{what} is called {shown(name)} as well", "rename the task"
            )
            continue
        found = list(_actions(actions, path))
        if not found:
            entry = path[:-1] if path[-1] == "actions" else path
            report.missing(
                entry, "actions", f"the task {shown(name)} has no actions", "add actions: [{kind: ...}]"
            )
        tasks.works[name] = Work(name, path, tuple(_named(found, name)), parallel)
    return tasks


def _entries(form: Any, report: ProblemReport) -> Iterator[tuple[str, Any, bool, Path, Path]]:
    """(name, actions, parallel, path of the actions, path of the name)."""
    if isinstance(form, dict):
        for name, entry in form.items():
            at: Path = ("tasks", name)
            if isinstance(entry, dict) and "actions" in entry:
                yield name, entry["actions"], entry.get("parallel") is True, (*at, "actions"), at
            else:
                yield name, entry, False, at, at
        return
    for index, entry in enumerate(form or []):
        at = ("tasks", index)
        key = "name" if entry.get("name") is not None else "task"
        if entry.get(key) is None:
            report.missing(at, "name", "the task has no name", "add name:")
            continue
        yield entry[key], entry.get("actions"), entry.get("parallel") is True, (*at, "actions"), (*at, key)


def _actions(form: Any, path: Path) -> Iterator[RuleAction]:
    if isinstance(form, list):
        for index, item in enumerate(form):
            yield action(item, (*path, index))
    elif form is not None:
        yield action(form, path)


def _named(actions: list[RuleAction], task: str) -> Iterator[RuleAction]:
    """The last one stands for the task, so that its result is that of the task."""
    for number, one in enumerate(actions):
        default = task if number == len(actions) - 1 else f"{task}_{number}"
        yield one if one.name else one.under(default)


def action(form: Any, path: Path) -> RuleAction:
    """One action in any form that a tool list takes."""
    if isinstance(form, str):
        return RuleAction(form, path, {"kind": "workbook", "task": Moved(form, path)}, ruled=True)
    if len(form) == 1 and isinstance(inner := next(iter(form.values())), dict):
        label = next(iter(form))
        return replace(_tool(inner, (*path, label)), name=label)
    return _tool(form, path)


def _tool(form: Mapping[str, Any], path: Path) -> RuleAction:
    kind_key = next((key for key in ("kind", "action", "type") if form.get(key) is not None), "kind")
    dropped = {kind_key} - {"kind"}
    body: dict[str, Tree] = {key: value for key, value in form.items() if key not in dropped}
    if form.get(kind_key) is not None:
        kind = form[kind_key] if kind_key == "kind" else Moved(form[kind_key], (*path, kind_key))
        body = {"kind": kind, **{key: value for key, value in body.items() if key != "kind"}}
    called = form.get("label") or form.get("name") or ""
    ruled = form.get(kind_key) == "workbook" or has_rules(form.get("spec"))
    return RuleAction(called, path, body, ruled)


def has_rules(spec: Any) -> bool:
    """Whether a `spec` says what follows from an attempt."""
    return names_of(names_of(spec).get("policy")).get("rules") is not None


def branches(
    run: Any, path: Path, steps: set[str], book: set[str], tasks: RuleTasks, report: ProblemReport
) -> list[Branch]:
    """What `run` names, in order."""
    items = (
        [(item, (*path, index)) for index, item in enumerate(run)] if isinstance(run, list) else [(run, path)]
    )
    found = (_branch(item, at, steps, book, tasks, report) for item, at in items if item is not None)
    return [branch for branch in found if branch is not None]


def _branch(
    item: Any, path: Path, steps: set[str], book: set[str], tasks: RuleTasks, report: ProblemReport
) -> Branch | None:
    if isinstance(item, dict):
        return route(item, path) if "step" in item else Work("", path, (action(item, path),))
    if item in steps:
        return Route(path, item, path)
    if item in tasks.works:
        tasks.used.add(item)
        return tasks.works[item]
    if item in book:
        return Work(item, path, (action(item, path),))
    known = [*steps, *tasks.works, *book]
    hint = report.suggest(
        item, known, "name a step, an entry of tasks or of the workbook, or write an action"
    )
    report.add(Code.UNKNOWN_STEP, path, f"there is no step and no task {shown(item)}", hint)
    return None
