"""Parses `next` in all its forms, those with `then` and `else` included, to arcs; `tasks` and `run`
to actions and to steps to route to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from noetl.dsl.dialects.parts import SUCCEEDED, Guards, Located, asks_how_it_ended
from noetl.dsl.dialects.rules.drafts import (
    Branch,
    Choice,
    Guard,
    Mode,
    NextRoutes,
    RewriteContext,
    Route,
    RuleAction,
    RuleTasks,
    Work,
    entries_at,
    names_of,
)
from noetl.dsl.document import Arc, known_keys
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.document.retries import is_classic_retry
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.origins import Rewritten, Tree
from noetl.dsl.read.report import ProblemReport

_OF_TRANSITIONS: Final = frozenset({"when", "then", "else", "desc"})
#: Keys of an arc that do not stay as they are.
_OF_WAYS: Final = frozenset({"step", "when", "set", "then", "else"})


def onward(form: Any, path: Path, report: ProblemReport) -> NextRoutes | None:
    """The arcs of `next`, which stands at `path`; None where it is nothing. Problems are in
    `report`."""
    if isinstance(form, dict) and ("arcs" in form or "spec" in form or not _is_item(form)):
        spec = names_of(form.get("spec"))
        mode: Mode = spec.get("mode") or "exclusive"
        arcs = Located(form.get("arcs") or [], (*path, "arcs"))
        return _onward(NextRoutes(path, mode, spec=dict(spec), written=form), arcs.items(), report)
    if isinstance(form, list):
        mode = "exclusive" if _is_one_decision(form) else "inclusive"
        return _onward(NextRoutes(path, mode, written=form), Located(form, path).items(), report)
    return None if form is None else _onward(NextRoutes(path, written=form), [Located(form, path)], report)


def targets(form: Any, path: Path) -> Choice:
    """The arcs of `then`, `else`: a name, a mapping with step, or a list of them."""
    return [route(item.value, item.path) for item in Located(form, path).items()]


def route(item: Any, path: Path) -> Route:
    """One arc, a name or a mapping, without `then` and `else`."""
    if isinstance(item, str):
        return Route(path, item, path)
    body: dict[str, Tree] = {
        key: Rewritten(value, (*path, key)) for key, value in item.items() if key not in _OF_WAYS
    }
    if "set" in item:
        body["set"] = entries_at(item["set"], (*path, "set"))
    return Route(path, item.get("step"), (*path, "step"), item.get("when"), (*path, "when"), body)


def both(report: ProblemReport, path: Path, *guards: Guard) -> Guard:
    """Holds where all of `guards` do. One that cannot be put together with others is a problem at
    `path`."""
    return _plain(Guards(report).every(*(Located(guard, path) for guard in guards)))


def _plain(made: Located) -> Guard:
    guard: Guard = made.value
    return None if guard is True else guard


def _is_item(form: Any) -> bool:
    return isinstance(form, dict) and bool({"step", "then", "else"} & form.keys())


def _branches(form: Any) -> bool:
    return isinstance(form, dict) and bool({"then", "else"} & form.keys())


def _is_one_decision(items: list[Any]) -> bool:
    """Whether at most one item can act: a lone one that branches, or one and an `else`."""
    if not items or not _branches(items[0]):
        return False
    rest = items[1:]
    return not rest or (len(rest) == 1 and _is_else(rest[0]) and "else" not in items[0])


def _is_else(item: Any) -> bool:
    return isinstance(item, dict) and "else" in item and "then" not in item and item.get("when") is None


def _onward(made: NextRoutes, items: list[Located], report: ProblemReport) -> NextRoutes:
    asked: list[Guard] = []
    for item, path in ((one.value, one.path) for one in items):
        if isinstance(item, list):
            _check_choice(item, path, report)
            made.choices.append(targets(item, path))
        elif not _branches(item):
            one = route(item, path)
            asked.append(one.when)
            made.choices.append([one])
        else:
            made.mark_changed()
            made.choices.extend(_decision(item, path, asked, made.mode == "inclusive", report))
            if not _is_else(item):
                asked.append(item.get("when"))
    if made.mode == "inclusive":
        made.choices = [[one] for one in made.routes]
    return made


def _check_choice(items: list[Any], path: Path, report: ProblemReport) -> None:
    """A list among arcs is one choice already: none of its arcs can branch."""
    for index, item in enumerate(items):
        for key in sorted({"then", "else"} & names_of(item).keys()):
            message = (
                f"`{key}` stands in a list of arcs, which is one choice: its arcs have `step`, "
                "`when` and `set`"
            )
            hint = "make it an item of next.arcs by itself"
            report.add(Code.MISPLACED, (*path, index, key), message, hint, at_key=True)


def _decision(
    item: dict[str, Any], path: Path, before: list[Guard], inclusive: bool, report: ProblemReport
) -> Iterator[Choice]:
    """The choices of `{when, then, else}`; `before` are the guards of the items before it."""
    when: Guard = item.get("when")
    then = _then(item, path, report)
    if then:
        yield under(when, (*path, "when"), then, report)
    if item.get("else") is None:
        return
    at = (*path, "else")
    refused: Guard = None
    # In exclusive mode what comes later is not asked, unless a target was refused by a guard of its
    # own.
    if inclusive or any(one.when is not None for one in then):
        held: list[Guard] = before if _is_else(item) else [when]
        refused = _otherwise(report, at, held)
    yield under(refused, at, targets(item["else"], at), report)


def _then(item: dict[str, Any], path: Path, report: ProblemReport) -> Choice:
    if item.get("then") is None and item.get("step") is not None:
        return [route({**item, "when": None}, path)]
    beside = "then" if item.get("then") is not None else "else"
    for key in sorted(item.keys() - _OF_TRANSITIONS):
        hint = "put it at the target: {step, args, set}"
        if key not in known_keys(Arc):
            hint = report.suggest(key, sorted(_OF_TRANSITIONS), hint)
        message = f"`{key}` means nothing beside {beside}"
        add_unknown_key(report, (*path, key), message, hint, _OF_TRANSITIONS, item)
    return targets(item["then"], (*path, "then")) if beside == "then" else []


def _otherwise(report: ProblemReport, path: Path, held: Sequence[Guard]) -> Guard:
    """None of `held` holds. An arc without a guard is for success only, and so is this."""
    guards = Guards(report)
    refused = guards.every(*(guards.no(Located(guard, path)) for guard in held))
    return _plain(guards.every(SUCCEEDED, refused) if asks_how_it_ended(refused) else refused)


def under(when: Guard, path: Path, choice: Choice, report: ProblemReport) -> Choice:
    """The same arcs where `when`, which stands at `path`, holds besides their own guards."""
    return [
        one.with_guard(when, path)
        if one.when is None
        else one.with_guard(both(report, one.when_path, when, one.when), one.when_path)
        for one in choice
    ]


def tasks_of(data: Mapping[str, Any], steps: set[str], report: ProblemReport) -> RuleTasks:
    """The root key `tasks`."""
    tasks = RuleTasks()
    for name, actions, parallel, path, name_path in _entries(data.get("tasks"), report):
        if name in steps or name in tasks.works:
            what = "a step" if name in steps else "another task"
            report.add(
                Code.DUPLICATE_NAME,
                name_path,
                f"{what} is called {quote_value(name)} as well",
                "rename the task",
            )
            continue
        found = actions_of(actions, path)
        if not found:
            entry = path[:-1] if path[-1] == "actions" else path
            report.missing(
                entry, "actions", f"the task {quote_value(name)} has no actions", "add actions: [{kind: ...}]"
            )
        tasks.works[name] = Work(name, path, tuple(_name_all(found, name)), parallel)
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


def actions_of(form: Any, path: Path) -> list[RuleAction]:
    """One action or a list of them; none where `form` is null."""
    return [] if form is None else [action(item.value, item.path) for item in Located(form, path).items()]


def _name_all(actions: list[RuleAction], task: str) -> Iterator[RuleAction]:
    """The last one stands for the task, so that its result is that of the task."""
    for number, one in enumerate(actions):
        default = task if number == len(actions) - 1 else f"{task}_{number}"
        yield one if one.name else one.under(default)


def action(form: Any, path: Path) -> RuleAction:
    """One action in any form that a tool list takes."""
    if isinstance(form, str):
        return RuleAction(form, path, {"kind": "workbook", "task": Rewritten(form, path)}, ruled=True)
    if len(form) == 1 and isinstance(inner := next(iter(form.values())), dict):
        label = next(iter(form))
        return replace(_tool(inner, (*path, label)), name=label)
    return _tool(form, path)


def _tool(form: Mapping[str, Any], path: Path) -> RuleAction:
    kind_key = next((key for key in ("kind", "action", "type") if form.get(key) is not None), "kind")
    body: dict[str, Tree] = {key: value for key, value in form.items() if key not in ("kind", kind_key)}
    if form.get(kind_key) is not None:
        kind = form[kind_key] if kind_key == "kind" else Rewritten(form[kind_key], (*path, kind_key))
        body = {"kind": kind, **body}
    elif "kind" in form:
        body = dict(form)
    called = form.get("label") or form.get("name") or ""
    ruled = form.get(kind_key) == "workbook" or form.get("retry") is not None or has_rules(form.get("spec"))
    return RuleAction(called, path, body, ruled)


def has_rules(spec: Any) -> bool:
    """Whether a `spec` says what follows from an attempt."""
    return names_of(names_of(spec).get("policy")).get("rules") is not None


def has_retry(retry: Any) -> bool:
    """Whether the `retry` of a step says what follows from an attempt of each of its tasks."""
    return retry is not None and not is_classic_retry(retry)


def branches(context: RewriteContext, run: Any, path: Path) -> list[Branch]:
    """What `run` names, in order."""
    items = [item for item in Located(run, path).items() if item.value is not None]
    found = [_branch(context, item.value, item.path) for item in items]
    return [branch for branch in found if branch is not None]


def _branch(context: RewriteContext, item: Any, path: Path) -> Branch | None:
    tasks = context.tasks
    if isinstance(item, dict):
        return route(item, path) if "step" in item else Work("", path, (action(item, path),))
    if item in context.steps:
        return Route(path, item, path)
    if item in tasks.works:
        tasks.used.add(item)
        return tasks.works[item]
    if item in context.book:
        return Work(item, path, (action(item, path),))
    known = [*context.steps, *tasks.works, *context.book]
    otherwise = "name a step, an entry of tasks or of the workbook, or write an action"
    hint = context.report.suggest(item, known, otherwise)
    context.report.add(Code.UNKNOWN_STEP, path, f"there is no step and no task {quote_value(item)}", hint)
    return None
