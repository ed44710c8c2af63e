"""What a playbook means otherwise than in earlier releases."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from noetl import expressions
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.compile.retries import asks_of_successes
from noetl.dsl.document import Step, TaskRetry, Tool
from noetl.dsl.problems import SINCE, Code, Finding, Path
from noetl.errors import TemplateError
from noetl.facts.outcome import ErrorInfo, ErrorKind, failed
from noetl.net.model import Directive, Rule, Template

#: Guards that cost nothing to evaluate: no filters, powers or formats.
_CHEAP: Final = re.compile(r"[^|*%~]{1,200}")
#: What a rule can say of an error whatever the tool is; of a result, that there is none.
_STATUSES: Final = frozenset({("outcome", "status"), ("output", "status")})
_OF_ERRORS: Final = _STATUSES | {("error",), ("outcome", "error"), ("output", "error")}
_PARTS: Final = frozenset({"kind", "retryable"})
_RESULTS: Final = frozenset({"result", "response"})


def check_unmatched_errors(subject: Subject) -> Iterator[Finding]:
    """Rules that an error may pass, after which the pipeline went on."""
    for path, rules in _policies(subject).items():
        missed = next((error for error in _ERRORS if not any(_takes(rule, error) for rule in rules)), None)
        if missed is not None:
            yield Finding(
                Code.CHANGED,
                path,
                f"an error that no rule takes fails the task {SINCE}: the pipeline went on before",
                'end with {when: "{{ error }}", then: {do: fail}}, or with else: {do: continue} to go on',
            )


def _policies(subject: Subject) -> Mapping[Path, tuple[Rule, ...]]:
    """The rules that some task has, by where they stand in the document."""
    calls = ((call.rules, call.task.rules or ()) for call in subject.notes.calls)
    return {at: rules for at, rules in calls if at is not None and at[-1] == "rules"}


def check_retries(subject: Subject) -> Iterator[Finding]:
    """A `retry` that was the last task's of its step, or was asked after errors alone: those forms
    that the classic dialect had as well."""
    for part, path in subject.parts:
        at = (*path, "retry")
        if not isinstance(part, Step | Tool) or not isinstance(part.retry, TaskRetry):
            continue
        if isinstance(part, Step) and at in {call.rules for call in _but_last(subject.notes.calls)}:
            message = f"the retry of a step is that of each of its tasks {SINCE}: it was that of the last one"
            yield Finding(Code.CHANGED, at, message, "put it beside kind: of the tasks that it is meant for")
        if asks_of_successes(part.retry.when) and _may_hold_after_errors(part.retry.when):
            message = f"this guard is asked after successes as well {SINCE}: it was asked after errors alone"
            hint = "begin it with outcome.status == 'error' and …, where it is about errors"
            yield Finding(Code.CHANGED, (*at, "when"), message, hint)


def _but_last(calls: Sequence[CompiledCall]) -> Iterator[CompiledCall]:
    """Those of steps that are not the last ones of their pipelines."""
    for call, following in itertools.pairwise(calls):
        if call.step and call.pipeline == following.pipeline:
            yield call


def _may_hold_after_errors(when: Template) -> bool:
    """Whether a guard may hold after an error; one that says itself how the attempt ended is asked
    as it was."""
    if isinstance(when, str) and not _STATUSES.isdisjoint(expressions.names_used(when, guard=True)):
        return False
    return not _is_of_errors(when) or any(_takes(Rule(when, Directive()), error) for error in _ERRORS)


def _takes(rule: Rule, error: Mapping[str, Any]) -> bool:
    """Whether a rule surely matches where `error` is what it sees."""
    when = rule.when
    if when is None or isinstance(when, bool):
        return when is not False
    if not _is_of_errors(when):
        return False
    try:
        return expressions.truth(when, error)
    except TemplateError:
        return False


def _is_of_errors(when: Template) -> bool:
    """Whether a guard asks for nothing but what an error is, and costs nothing."""
    if not isinstance(when, str) or not _CHEAP.fullmatch(when) or expressions.check(when, guard=True):
        return False
    return all(
        chain[0] in _RESULTS or chain in _OF_ERRORS or (chain[-1] in _PARTS and chain[:-1] in _OF_ERRORS)
        for chain in expressions.names_used(when, guard=True)
    )


def _as_seen(error: ErrorInfo) -> Mapping[str, Any]:
    envelope = failed(error).as_json()
    return {"outcome": envelope, "output": envelope, "error": envelope["error"]}


#: One error of each sort that rules tell apart.
_ERRORS: Final = tuple(
    _as_seen(ErrorInfo(kind, "it failed", retryable=retryable))
    for kind, retryable in itertools.product(get_args(ErrorKind), (False, True))
)
