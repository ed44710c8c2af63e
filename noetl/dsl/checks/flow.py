"""Where tokens and tasks go: steps not reached, endless cycles and jumps, joins, policies."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from noetl import expressions
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.compile.policies import branches_of
from noetl.dsl.compile.specs import rules_of
from noetl.dsl.document import Policy, Step, TaskRetry, Then, Tool
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.errors import TemplateError
from noetl.net.checks import (
    UnfilledJoin,
    endless_cycles,
    endless_steps,
    find_shadowed_arcs,
    reachable,
    unfillable_joins,
)
from noetl.net.model import Net, Template

# Constants and operators that cost nothing: no calls, filters, powers or formats.
_SIMPLE: Final = re.compile(r"[^(|*%~]{1,60}")
#: Steps that a message names.
_MAX_NAMED: Final = 5


def always(when: Template) -> bool | None:
    """Whether a guard holds or not, whatever the values are; None where it depends on them. No
    guard holds."""
    if when is None or isinstance(when, bool):
        return when is not False
    if not isinstance(when, str) or not _SIMPLE.fullmatch(when) or not when.strip():
        return None
    if expressions.names_used(when, guard=True) or expressions.check(when, guard=True):
        return None
    try:
        return expressions.truth(when, {})
    except TemplateError:
        return None


def check_reachability(subject: Subject) -> Iterator[Finding]:
    """Steps that no path leads to."""
    for net in _net(subject):
        reached = reachable(net)
        for step in net.transitions:
            if step.name not in reached:
                yield Finding(
                    Code.UNREACHABLE,
                    _place(net, step.name),
                    f"no path leads to step {quote_value(step.name)}",
                    "add an arc to it, or remove it",
                )


def check_cycles(subject: Subject) -> Iterator[Finding]:
    """Steps that repeat for ever."""
    for net in _net(subject):
        for name in endless_steps(net, always):
            yield Finding(
                Code.SELF_LOOP,
                _place(net, name),
                f"step {quote_value(name)} leads to itself without a condition",
                "give the arc a when:",
            )
        for cycle in endless_cycles(net, always):
            if len(cycle) > 1:
                yield Finding(
                    Code.ENDLESS,
                    _place(net, cycle[0]),
                    f"the steps {_some(cycle)} repeat for ever",
                    "give one of the arcs a when:",
                )


def check_shadowed_arcs(subject: Subject) -> Iterator[Finding]:
    """Arcs behind one that is always taken."""
    for net in _net(subject):
        for arc, before in find_shadowed_arcs(net, always):
            yield Finding(
                Code.SHADOWED_ARC,
                subject.notes.arcs[arc.id],
                f"the arc to {quote_value(arc.step)} is never taken: the one to "
                f"{quote_value(before.step)} always is",
                "put the arc without a guard last",
            )


def check_joins(subject: Subject) -> Iterator[Finding]:
    """Joins that cannot fill."""
    for net in _net(subject):
        for step in net.transitions:
            arcs = len(net.incoming[step.name])
            if step.join.mode == "count" and step.join.count > arcs:
                yield Finding(
                    Code.JOIN_COUNT,
                    _place(net, step.name),
                    f"the join waits for {step.join.count} tokens, but {arcs} lead to it",
                    "lower its count",
                )
        for one in unfillable_joins(net, subject.graph) if subject.graph is not None else ():
            yield Finding(Code.JOIN_UNFILLED, _place(net, one.join), *_why(one))


def _net(subject: Subject) -> Iterator[Net]:
    """The net, where no step and no arc is left out."""
    if subject.net is not None and subject.notes.is_whole:
        yield subject.net


def _place(net: Net, step: str) -> Path:
    """Where the name of a step stands. Steps of a whole net stand in the order of the document."""
    return "workflow", list(net.steps).index(step), "step"


def _why(one: UnfilledJoin) -> tuple[str, str]:
    """The message and the hint."""
    steps = _some(one.steps)
    match one.why:
        case "unreached":
            return (
                f"the join of {quote_value(one.join)} waits for {steps}, which nothing leads to",
                "remove those arcs, or lead to the steps",
            )
        case "later":
            return (
                f"the join of {quote_value(one.join)} waits for {steps}, which can only run after it",
                "write spec.join: any, or leave join out",
            )
        case "exclusive":
            return (
                f"the join of {quote_value(one.join)} waits for {steps}, but {quote_value(one.router)} leads "
                "to one of them"
            ), f"write mode: inclusive in the router of {one.router}, or leave join out"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")


def _rules(subject: Subject) -> Iterator[tuple[Path, list[tuple[Template, Then, Path]]]]:
    """The rules that hold for some task: where they stand, and of each the guard and what
    follows."""
    used = {call.rules for call in subject.notes.calls}
    for policy, path in subject.parts_that_are(Policy):
        at = (*path, "rules")
        if at in used:
            branches = branches_of(policy.rules or (), at)
            yield at, [(when, part, way) for when, part, way in branches if isinstance(part, Then)]


def check_retries(subject: Subject) -> Iterator[Finding]:
    """Retries that allow one attempt."""
    for _, rules in _rules(subject):
        for _, then, path in rules:
            if then.do == "retry" and str(then.attempts).strip() == "1":
                yield Finding(
                    Code.RETRY_ONCE,
                    (*path, "attempts"),
                    "attempts: 1 counts the first try: nothing is tried again",
                    "write attempts: 2 or more, or do: fail",
                )
    for part, path in subject.parts:
        if isinstance(part, Step | Tool) and (at := _single_attempt(part.retry, (*path, "retry"))):
            message = "attempts count the first try: nothing is tried again"
            yield Finding(Code.RETRY_ONCE, at, message, "write 2 or more, or leave retry out")
    if subject.net is not None and subject.net.retry is not None and subject.net.retry.attempts == 1:
        yield Finding(
            Code.RETRY_ONCE,
            ("executor", "spec", "policy", "retry", "attempts"),
            "attempts: 1 counts the first execution: nothing is retried",
            "write attempts: 2 or more, or leave retry out",
        )


def _single_attempt(retry: object, at: Path) -> Path | None:
    """Where it is said that there is one."""
    said, place = (retry.attempts, (*at, "attempts")) if isinstance(retry, TaskRetry) else (retry, at)
    return place if isinstance(said, int | str) and str(said).strip() == "1" else None


def check_places_of_retries(subject: Subject) -> Iterator[Finding]:
    """A `retry` beside rules of the same task, or of the same step, where one of them would have no
    effect; and one without a tool."""
    for part, path in subject.parts:
        if not isinstance(part, Step | Tool) or part.retry is None:
            continue
        at = (*path, "retry")
        if rules_of(part.spec) is not None:
            message = "`retry` stands beside spec.policy.rules, which say what follows an error"
            hint = "keep one of them: a rule with then: {do: retry} does what retry does"
            yield Finding(Code.MISPLACED, at, message, hint, at_key=True)
        if isinstance(part, Step) and part.tool is None:
            message = "there is no tool that could be called again"
            yield Finding(Code.MISPLACED, at, message, "add tool:", at_key=True)


def check_jumps(subject: Subject) -> Iterator[Finding]:
    """Tasks that jump back, or to themselves, whatever happens, while nothing on the way leads
    elsewhere."""
    for calls in _pipelines(subject):
        yield from _endless(calls)


def check_order_of_tasks(subject: Subject) -> Iterator[Finding]:
    """Tasks of the pipeline proper that stand behind one that runs after it."""
    for calls in _pipelines(subject):
        first = next((call.task.name for call in calls if call.task.after is not None), "")
        for call in itertools.dropwhile(lambda call: call.task.after is None, calls):
            if call.task.after is None:
                yield Finding(
                    Code.MISPLACED,
                    call.path,
                    f"task {quote_value(call.task.name)} stands behind {quote_value(first)}, which runs "
                    "once the "
                    "pipeline has ended",
                    "put tasks with spec.after last, or give this one an after: as well",
                )


def _pipelines(subject: Subject) -> Collection[Sequence[CompiledCall]]:
    """The calls of each pipeline of a step, as they are written."""
    found: dict[Path, list[CompiledCall]] = {}
    for call in subject.notes.calls:
        if call.step and not call.claims:
            found.setdefault(call.pipeline, []).append(call)
    return found.values()


def _endless(calls: Sequence[CompiledCall]) -> Iterator[Finding]:
    tasks = [call.task for call in calls]
    names = [task.name for task in tasks]
    for index, task in enumerate(tasks):
        first = task.rules[0] if task.rules else None
        if first is None or first.then.do != "jump" or first.then.to not in names or not always(first.when):
            continue
        begin = names.index(first.then.to)
        ways = {rule.then.do for task in tasks[begin:index] for rule in task.rules or ()}
        # Failures that are not planned do not count as a way out.
        if begin <= index and ways.isdisjoint({"break", "fail", "jump"}):
            repeated = ", ".join(names[begin : index + 1])
            yield Finding(
                Code.ENDLESS_JUMP,
                calls[index].path,
                f"task {quote_value(task.name)} always jumps back: {repeated} repeat until one of them fails",
                "give the jump a when:",
            )
