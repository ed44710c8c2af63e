"""Policy: what follows from an attempt's outcome. Decisions are values; nothing is done here.

The first rule that matches decides. Where none does, or there is none, a success continues and a
failure fails.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never

from noetl.errors import BadRequest
from noetl.expressions import evaluate, truth, values_read
from noetl.facts.durations import seconds
from noetl.facts.events import AttemptFailed, PolicyEvaluated, TaskDone, TaskFailed
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.facts.reference import Load
from noetl.net.attempts import grow_delay, read_attempts
from noetl.net.model import Assignment, Directive, Task, Template
from noetl.pipeline.failures import CannotGoOn, blame
from noetl.pipeline.names import TemplateScope

Do = Literal["continue", "retry", "jump", "break", "fail"]

#: Ends of tasks in one pipeline, over all its slices: beyond that, jumps go round for ever. Of
#: tasks that run after every call of another one only those behind the last call count.
MOST_TASK_ENDS: Final = 10_000
#: The longest `Retry-After` that is honoured.
LONGEST_RETRY_AFTER_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the pipeline. `rule` (from 0) is None where no rule matched; `delay` is in
    seconds.

    `names` are the values that the rule's `when` read. `error` is set exactly where `do` is `fail`;
    its place in the playbook is still to be filled in.
    """

    do: Do
    rule: int | None = None
    when: str | None = None
    names: JsonMap = field(default_factory=dict)
    to: str | None = None
    delay: float = 0.0
    set: tuple[Assignment, ...] = ()
    error: ErrorInfo | None = None

    def failing(self, error: ErrorInfo) -> Verdict:
        """The same rule, but the task fails."""
        return replace(self, do="fail", to=None, delay=0.0, error=error)

    def decisions(self, task: str) -> list[PolicyEvaluated]:
        """What the policy of `task` decided; nothing where no rule did."""
        if self.rule is None:
            return []
        return [PolicyEvaluated(task, self.rule, self.when, self.names, self.do, self.to, self.delay)]


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged: attempt number `attempt` (from 1) of `task`, the number `alike` of those that
    ended as it did, and what the task's rules see of it."""

    task: Task
    outcome: Outcome
    sight: TemplateScope
    attempt: int
    alike: int
    load: Load
    random: Callable[[], float]


def judge(case: Case) -> Verdict:
    """The verdict on an attempt.

    Never raises: an expression of a rule that cannot be evaluated fails the task.
    """
    for number, rule in enumerate(case.task.rules or ()):
        verdict = Verdict(rule.then.do, number, _text(rule.when))
        try:
            with blame(rule_of(case.task, number)):
                if holds(rule.when, case.sight, case.load):
                    names = _read(rule.when, case.sight, case.load)
                    return _direct(replace(verdict, names=names, set=rule.then.set), rule.then, case)
        except CannotGoOn as broken:
            return verdict.failing(broken.error)
    return _without_rule(case)


def _without_rule(case: Case) -> Verdict:
    """What follows where no rule matched."""
    task, error = case.task, case.outcome.error
    # Nets of earlier versions went on, where there were rules.
    if error is None or (task.rules is not None and task.unmatched == "continue"):
        return Verdict("continue")
    return Verdict("fail", error=error)


def check_jump(verdict: Verdict, task: Task, names: Container[str], ends: int) -> Verdict:
    """The verdict to jump, or the failure that no task of `names` is called so, or that the
    pipeline, which has ended `ends` tasks, jumps for ever."""
    if verdict.to not in names:
        place = rule_of(task, verdict.rule or 0)
        message = f"{place} jumps to {verdict.to!r}, which is no task of this step."
        return verdict.failing(ErrorInfo("client_error", message))
    if ends + 1 < MOST_TASK_ENDS:
        return verdict
    message = (
        f"Task '{task.name}' jumps back for ever: its pipeline has ended {MOST_TASK_ENDS} tasks; "
        f"give the jump to '{verdict.to}' a condition that comes to an end."
    )
    return verdict.failing(ErrorInfo("limit", message, type="EndlessPipeline"))


def rule_of(task: Task, number: int) -> str:
    """How messages name a rule; they count from 1."""
    return f"Rule {number + 1} of the policy of task '{task.name}'"


def ask_guard(task: Task, sight: TemplateScope, load: Load) -> PolicyEvaluated:
    """Whether a task that has a guard is to run. Raises TemplateError."""
    held = truth(task.after, sight, load=load)
    read = _read(task.after, sight, load)
    return PolicyEvaluated(task.name, None, _text(task.after), read, "enter" if held else "skip")


def retry_after(outcome: Outcome) -> float:
    """The seconds for which the other side asked to be left alone; 0 where it did not."""
    section = outcome.extras.get("http")
    asked = section.get("retry_after") if isinstance(section, dict) else None
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        return 0.0
    return float(min(asked, LONGEST_RETRY_AFTER_S))


def holds(when: Template, sight: TemplateScope, load: Load) -> bool:
    """Whether a guard holds; None always does. Raises TemplateError."""
    if when is None or isinstance(when, bool):
        return when is not False
    return truth(when, sight, load=load)


def _text(when: Template) -> str | None:
    if when is None or isinstance(when, str):
        return when
    return str(when).lower() if isinstance(when, bool) else str(when)


def _read(when: Template, sight: TemplateScope, load: Load) -> JsonMap:
    """What the guard read, for the log; what the keychain holds stays out of it."""
    if not isinstance(when, str):
        return {}
    read = values_read(when, sight, guard=True, load=load)
    return {name: value for name, value in read.items() if name.partition(".")[0] != "keychain"}


def _direct(verdict: Verdict, directive: Directive, case: Case) -> Verdict:
    match directive.do:
        case "retry":
            return _retry(verdict, directive, case)
        case "jump":
            return replace(verdict, to=directive.to)
        case "fail":
            guard = f" because {verdict.when}" if verdict.when is not None else ""
            message = f"The policy of task '{case.task.name}' said fail{guard}."
            failure = ErrorInfo("client_error", message, type="PolicyFailed")
            return verdict.failing(case.outcome.error or failure)
        case "continue" | "break":
            return verdict


def _retry(verdict: Verdict, directive: Directive, case: Case) -> Verdict:
    attempts = read_attempts(evaluate(directive.attempts, case.sight, load=case.load))
    attempt = case.alike if directive.count == "alike" else case.attempt
    if attempt >= attempts:
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        message = f"Task '{case.task.name}' is still not satisfied after {tries}."
        failure = ErrorInfo("limit", message, type="AttemptsUsedUp")
        return verdict.failing(case.outcome.error or failure)
    first = read_seconds("delay", directive.delay, case.sight, case.load)
    delay = grow_delay(directive.backoff, first, attempt)
    jitter = read_seconds("jitter", directive.jitter, case.sight, case.load)
    if jitter:
        delay += case.random() * jitter
    return replace(verdict, delay=max(delay, retry_after(case.outcome)))


def read_seconds(name: str, value: Template, sight: TemplateScope, load: Load) -> float:
    """The duration that `value` yields. Raises TemplateError, and BadRequest that calls it
    `name`."""
    try:
        return seconds(evaluate(value, sight, load=load))
    except ValueError as error:
        raise BadRequest(f"'{name}': {error}") from error


def end_of(
    task: Task, outcome: Outcome, verdict: Verdict, call: str = "", key: str = ""
) -> TaskDone | TaskFailed | AttemptFailed | None:
    """How the attempt is recorded, with the digest of its call and the key of its effect. One that
    went well and is repeated leaves only its policy's event."""
    meta, extras, after = outcome.meta, outcome.extras, task.after is not None
    match verdict.do:
        case "fail":
            error = verdict.error or outcome.error
            assert error is not None, "a verdict that fails carries its error"
            return TaskFailed(task.name, error, meta, extras, fatal=True, after=after, call=call, key=key)
        case "retry":
            error = outcome.error
            return AttemptFailed(task.name, error, meta, extras, call, key) if error else None
        case "continue" | "jump" | "break":
            if outcome.error is not None:
                return TaskFailed(task.name, outcome.error, meta, extras, after=after, call=call, key=key)
            return TaskDone(task.name, outcome.result, meta, extras, after, call, key)
        case _:
            assert_never(verdict.do)
