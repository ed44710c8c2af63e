"""Rules of tasks that say less than they seem to: errors that none covers, retries that do not try
again, jumps that never end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from noetl.dsl.checks.guards import always
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.notes import CompiledCall
from noetl.dsl.compile.policies import branches_of
from noetl.dsl.document import Policy, Then
from noetl.dsl.problems import Code, Finding, Path, shown
from noetl.net.model import Task, Template

# Words by which a guard shows that it has errors in mind.
_OF_ERRORS: Final = re.compile(r"error|fail|!=|\bnot\b|http|status_code|pg\b|is none|undefined")


def _rules(subject: Subject) -> Iterator[tuple[Path, list[tuple[Template, Then, Path]]]]:
    """The rules that hold for some task: where they stand, and of each the guard and what
    follows."""
    used = {call.rules for call in subject.notes.calls}
    for policy, path in subject.parts_that_are(Policy):
        at = (*path, "rules")
        if at in used:
            branches = branches_of(policy.rules or (), at)
            yield at, [(when, part, way) for when, part, way in branches if isinstance(part, Then)]


def check_errors_covered(subject: Subject) -> Iterator[Finding]:
    """Rules of which none is about errors: after one the pipeline goes on."""
    for path, rules in _rules(subject):
        if rules and not any(_covers_errors(when) for when, _, _ in rules):
            message = "no rule of this policy covers errors: after one the pipeline goes on"
            hint = "add - else: {then: {do: fail}} as the last rule"
            yield Finding(Code.ERRORS_UNCOVERED, path, message, hint)


def check_retries(subject: Subject) -> Iterator[Finding]:
    """Retries that allow one attempt."""
    for _, rules in _rules(subject):
        for _, then, path in rules:
            if then.do == "retry" and str(then.attempts).strip() == "1":
                message = "attempts: 1 counts the first try: nothing is tried again"
                hint = "write attempts: 2 or more, or do: fail"
                yield Finding(Code.RETRY_ONCE, (*path, "attempts"), message, hint)


def check_jumps(subject: Subject) -> Iterator[Finding]:
    """Tasks that jump back, or to themselves, whatever happens, while nothing on the way leads
    elsewhere."""
    pipelines: dict[Path, list[CompiledCall]] = {}
    for call in subject.notes.calls:
        if call.step and not call.claims:
            pipelines.setdefault(call.pipeline, []).append(call)
    for calls in pipelines.values():
        yield from _endless(calls)


def _endless(calls: Sequence[CompiledCall]) -> Iterator[Finding]:
    tasks = [call.task for call in calls]
    names = [task.name for task in tasks]
    for index, task in enumerate(tasks):
        first = task.rules[0] if task.rules else None
        if first is None or first.then.do != "jump" or first.then.to not in names or not always(first.when):
            continue
        begin = names.index(first.then.to)
        if begin <= index and not any(map(_may_leave, tasks[begin:index])):
            repeated = ", ".join(names[begin : index + 1])
            message = f"task {shown(task.name)} always jumps back: {repeated} repeat until one of them fails"
            yield Finding(Code.ENDLESS_JUMP, calls[index].path, message, "give the jump a when:")


def _may_leave(task: Task) -> bool:
    """Whether a rule may lead out of the row of tasks, other than by a failure that nobody
    planned."""
    return any(rule.then.do in ("break", "fail", "jump") for rule in task.rules or ())


def _covers_errors(when: Template) -> bool:
    return when is None or when is True or (isinstance(when, str) and bool(_OF_ERRORS.search(when)))
