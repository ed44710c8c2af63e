"""Rules of task policies and of admission, in all their forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from noetl.dsl.compile.context import RETRY, Context, PipelineSite, as_number, assignments, whole_number
from noetl.dsl.compile.entries import Siblings
from noetl.dsl.document import (
    Admit,
    AdmitRule,
    Allow,
    DocumentPart,
    ElseAllow,
    ElseThen,
    ExecutionRetry,
    PolicyRule,
    Then,
)
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.facts.durations import seconds
from noetl.net.model import Admission, Backoff, Directive, RetryPolicy, Rule, Template
from noetl.net.model import AdmitRule as NetAdmitRule

#: What is said where the attempts of a task are none.
ATTEMPTS: Final = "all tries are counted: a whole number from 1, or a template"


def branches_of(
    rules: Sequence[PolicyRule | AdmitRule], path: Path
) -> Iterator[tuple[Template, DocumentPart, Path]]:
    """(`when`, what follows, its path) of every rule; one with an `else` gives two."""
    for index, rule in enumerate(rules):
        at, other = (*path, index), rule.else_
        if rule.then is not None and (rule.when is not None or not isinstance(other, DocumentPart)):
            yield rule.when, rule.then, (*at, "then")
        if isinstance(other, Then | Allow):
            yield None, other, (*at, "else")
        elif isinstance(other, DocumentPart) and (inner := getattr(other, "then", None)) is not None:
            yield None, inner, (*at, "else", "then")


def branches(
    context: Context, rules: Sequence[PolicyRule | AdmitRule], path: Path, step: str | None
) -> Iterator[tuple[Template, DocumentPart, Path]]:
    """Those of `rules`, which stand at `path`; adds a problem for each that does not say what
    follows."""
    for index, rule in enumerate(rules):
        at, other = (*path, index), rule.else_
        if rule.when is not None:
            context.use((*at, "when"), rule.when, step, guard=True)
        if rule.then is None and (rule.when is not None or not isinstance(other, DocumentPart)):
            context.report.missing(at, "then", "the rule does not say what follows", "add then: {...}")
        if isinstance(other, ElseThen | ElseAllow) and other.then is None:
            context.report.missing(
                (*at, "else"), "then", "`else` does not say what follows", "add then: {...}"
            )
    yield from branches_of(rules, path)


def policy(
    context: Context, rules: Sequence[PolicyRule], path: Path, task: str, tasks: Siblings, site: PipelineSite
) -> tuple[Rule, ...]:
    """The rules of `task`, which is one of the pipeline's `tasks`."""
    made = []
    for when, then, at in branches(context, rules, path, site.step):
        if isinstance(then, Then):
            made.append(Rule(when, _directive(context, then, at, task, tasks, site)))
    return tuple(made)


def admission(context: Context, admit: Admit, path: Path, step: str) -> Admission:
    """Whether tokens may enter `step`."""
    made = []
    for when, then, at in branches(context, admit.rules or [], (*path, "rules"), step):
        if not isinstance(then, Allow):
            continue
        if then.allow is None:
            context.report.missing(
                at, "allow", "the rule does not say whether to allow", "add allow: true or false"
            )
        else:
            made.append(NetAdmitRule(when, then.allow))
    return Admission(tuple(made), admit.on_deny or "pending")


def entry_guard(context: Context, when: bool | str, path: Path, step: str) -> Admission:
    """`when` of `step`: tokens that it does not let in go on behind it."""
    context.use(path, when, step, guard=True)
    return Admission((NetAdmitRule(when, True), NetAdmitRule(None, False)), "pass")


def _directive(
    context: Context, then: Then, at: Path, task: str, tasks: Siblings, site: PipelineSite
) -> Directive:
    default = Directive()
    delay = default.delay if then.delay is None else seconds_at(context, then.delay, (*at, "delay"))
    made = Directive(
        do=then.do or "continue",
        attempts=attempts_at(context, then.attempts, (*at, "attempts"), default.attempts, ATTEMPTS),
        backoff=_backoff(then),
        delay=delay,
        jitter=default.jitter if then.jitter is None else seconds_at(context, then.jitter, (*at, "jitter")),
        to=_target(context, then, at, task, tasks),
        set=assignments(context, then, at, site),
        count=then.count or default.count,
    )
    for key, value in (("attempts", made.attempts), ("delay", made.delay), ("jitter", made.jitter)):
        context.use((*at, key), value, site.step)
    return made


def execution_retry(context: Context, given: ExecutionRetry, at: Path) -> RetryPolicy:
    """When the execution is retried by itself: `policy.retry` of the executor, which stands at
    `at`."""
    default = RetryPolicy()
    hint = "all executions are counted: a whole number from 1, or a template"
    made = RetryPolicy(
        attempts=attempts_at(context, given.attempts, (*at, "attempts"), default.attempts, hint),
        backoff=_backoff(given),
        delay=default.delay if given.delay is None else seconds_at(context, given.delay, (*at, "delay")),
        when=given.when,
        allow_effects=bool(given.allow_effects),
    )
    context.use((*at, "when"), made.when, RETRY, guard=True)
    for key, value in (("attempts", made.attempts), ("delay", made.delay)):
        context.use((*at, key), value, RETRY)
    return made


def _backoff(given: Then | ExecutionRetry) -> Backoff:
    # A delay without a word on how it grows is meant to be waited.
    return given.backoff or ("none" if given.delay is None else "fixed")


def attempts_at(
    context: Context, given: int | str | None, at: Path, default: Template, hint: str
) -> Template:
    """How often in all, where `given`, which stands at `at`, says so; else `default`."""
    return default if given is None else whole_number(context, as_number(given), at, 1, hint)


def _target(context: Context, then: Then, at: Path, task: str, tasks: Siblings) -> str | None:
    if then.do != "jump":
        return None
    if then.to is not None and tasks.may_lead(task, then.to):
        return then.to
    near = tasks.around(task)
    listed = ", ".join(near)
    if then.to is None:
        context.report.missing(at, "to", "the jump does not say where to", f"add to: with one of {listed}")
        return None
    if then.to in tasks.names:
        context.report.add(
            Code.VALUE,
            (*at, "to"),
            (
                f"the jump to {quote_value(then.to)} crosses the end of the pipeline, behind which tasks "
                "with spec.after run"
            ),
            f"it may lead to {listed}",
        )
        return None
    if then.to == "previous":
        return _previous(context, at, task, tasks)
    context.report.add(
        Code.UNKNOWN_TASK,
        (*at, "to"),
        f"there is no task {quote_value(then.to)} in this step",
        context.report.suggest(then.to, [*near, "previous"], f"tasks here: {listed}"),
    )
    return None


def _previous(context: Context, at: Path, task: str, tasks: Siblings) -> str | None:
    near = tasks.around(task)
    index = near.index(task)
    if index:
        return near[index - 1]
    place = "behind the end of its pipeline" if task in tasks.after else "of its step"
    context.report.add(
        Code.NO_PREVIOUS,
        (*at, "to"),
        f"task {quote_value(task)} is the first {place}: there is no previous one",
        "name a task, or use do: retry",
    )
    return None


def seconds_at(context: Context, value: float | str, at: Path) -> Template:
    if is_template(value):
        return value
    try:
        return seconds(value)
    except ValueError:
        context.report.add(
            Code.VALUE,
            at,
            f"{quote_value(value)} is not a duration",
            "write seconds, 500ms, 10s, 5m, 2h, 1d, or a template",
        )
        return 0.0
