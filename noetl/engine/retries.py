"""Behind the end of an execution that failed: whether, and when, its playbook's policy retries it.

What the policy says is decided once, right behind the end, and is in the log of the execution that
failed; so is the start of the next attempt, which is an execution of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.engine.workload import request_names
from noetl.errors import BadRequest, TemplateError
from noetl.expressions import evaluate, truth
from noetl.expressions.scope import layer_names
from noetl.facts import events as e
from noetl.facts.durations import seconds
from noetl.facts.events import Draft
from noetl.facts.ids import child_id
from noetl.facts.retries import NextAttempt
from noetl.net.attempts import grow_delay, read_attempts
from noetl.net.model import RetryPolicy

#: Where messages say that the policy stands.
_PLACE: Final = "executor.spec.policy.retry"
#: The key of what becomes of a retry that was scheduled: one thing.
DUE: Final = "retry:due"

# --- folding --------------------------------------------------------------------------------------


def fold_behind_end(state: State, fact: e.Fact) -> State:
    """What an event means that came behind the end: most change nothing."""
    match fact:
        case e.RetryScheduled():
            found = NextAttempt("scheduled", fact.attempt, fact.attempts, fact.due_at)
        case e.RetryDeclined():
            found = NextAttempt("declined", fact.attempt + 1, reason=fact.reason)
        case e.RetryStarted():
            attempts = state.next_attempt.attempts if state.next_attempt is not None else 0
            found = NextAttempt("started", fact.attempt, attempts, execution_id=fact.execution_id)
        case e.RetryCancelled() if state.next_attempt is not None:
            found = replace(state.next_attempt, standing="cancelled", due_at=None, reason=fact.reason)
        case _:
            return state
    return replace(state, next_attempt=found)


def retry_due(state: State) -> datetime | None:
    """When the next attempt begins; None where none is scheduled."""
    following = state.next_attempt
    if following is None or following.standing != "scheduled" or following.due_at is None:
        return None
    return datetime.fromisoformat(following.due_at)


# --- deciding -------------------------------------------------------------------------------------


def is_to_be_asked(plan: Plan, state: State) -> bool:
    """Whether the execution has failed, and its policy was not asked yet what follows. What never
    began would be refused again."""
    return (
        plan.net.retry is not None
        and state.status == "failed"
        and state.started
        and state.next_attempt is None
    )


def ask_policy(plan: Plan, state: State, inputs: Inputs, find_obstacle: Callable[[], str]) -> Draft:
    """What the policy makes of the failure. `find_obstacle` says why there can be no retry by
    itself, in a clause; nothing where there can be one. It is asked last."""
    policy = plan.net.retry
    assert policy is not None, "who has none is not asked"
    fact = _ask(policy, state, inputs)
    if isinstance(fact, e.RetryScheduled) and (obstacle := find_obstacle()):
        fact = e.RetryDeclined(state.attempt, obstacle)
    return Draft(fact, dedup_key="retry")


def _ask(policy: RetryPolicy, state: State, inputs: Inputs) -> e.RetryScheduled | e.RetryDeclined:
    if state.parent is not None:
        caller = state.parent.execution_id
        reason = f"execution {caller} called it, and only what was started from outside is retried by itself"
        return e.RetryDeclined(state.attempt, reason)
    try:
        return _evaluate(policy, state, inputs)
    except (TemplateError, BadRequest) as error:
        return e.RetryDeclined(state.attempt, f"{_PLACE}: {error.message.rstrip('.')}")


def _evaluate(policy: RetryPolicy, state: State, inputs: Inputs) -> e.RetryScheduled | e.RetryDeclined:
    """Raises TemplateError, BadRequest."""
    names, load = _names(state, inputs), inputs.load
    attempts = read_attempts(evaluate(policy.attempts, names, load=load))
    if state.attempt >= attempts:
        return e.RetryDeclined(state.attempt, f"attempt {state.attempt} of {attempts} was the last")
    if policy.when is not None and not truth(policy.when, names, load=load):
        return e.RetryDeclined(state.attempt, f"`when` of {_PLACE} does not hold")
    try:
        first = seconds(evaluate(policy.delay, names, load=load))
    except ValueError as error:
        raise BadRequest(f"'delay': {error}") from error
    due = inputs.now + timedelta(seconds=grow_delay(policy.backoff, first, state.attempt))
    return e.RetryScheduled(state.attempt + 1, attempts, due.isoformat())


def _names(state: State, inputs: Inputs) -> Mapping[str, Any]:
    own = {
        "error": state.error.as_json() if state.error is not None else None,
        "attempt": state.attempt,
        "workload": state.workload,
        "ctx": state.ctx,
        "vars": state.ctx,
    }
    return layer_names({**request_names(state, inputs), **own}, state.ctx, state.workload)


def start_retry(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The next attempt, once it is due."""
    following, due = state.next_attempt, retry_due(state)
    if following is None or due is None or inputs.now < due:
        return []
    new_id = child_id(inputs.now, inputs.turn, inputs.place + state.version)
    if obstacle := inputs.prepare_retry(new_id):
        return [decline(state, obstacle)]
    return [Draft(e.RetryStarted(new_id, following.attempt), dedup_key=DUE)]


def decline(state: State, reason: str) -> Draft:
    """No attempt follows, for that `reason`: a clause."""
    return Draft(e.RetryDeclined(state.attempt, reason.rstrip(".")), dedup_key=DUE)
