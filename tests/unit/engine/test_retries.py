"""Whether what has failed is retried by itself: the engine's promises, one decision at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from nets import plan, step

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.retries import ask_policy, is_to_be_asked
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.lineage import RetryOf
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import RetryPolicy
from noetl.testing import START, given

ERROR = ErrorInfo("timeout", "it took too long", step="start")
FAILED = (e.WorkflowFinished("failed", None, ERROR), e.Processed("failed", None, ERROR))
LOG = (e.Requested("tests/test", 1, "digest"), e.Evaluated(True), e.WorkflowStarted(()), *FAILED)


def _plan(**policy: Any) -> Plan:
    return plan(step("start"), retry=RetryPolicy(**policy))


def _failed(on: Plan, attempt: int = 1) -> State:
    again = RetryOf("0", attempt=attempt) if attempt > 1 else None
    facts = (
        e.Requested("tests/test", 1, "digest", retry=again),
        e.Evaluated(True, {"limit": 5}),
        e.WorkflowStarted(()),
        *FAILED,
    )
    return given(on, *facts).state


def _asked(on: Plan, attempt: int = 1, obstacle: str = "") -> e.Fact:
    draft = ask_policy(on, _failed(on, attempt), Inputs(now=START), lambda: obstacle)
    assert draft.dedup_key == "retry"
    return draft.fact


@pytest.mark.parametrize(
    ("attempt", "backoff", "seconds"),
    [(1, "none", 0), (2, "fixed", 10), (3, "linear", 30), (3, "exponential", 40), (9, "exponential", 2560)],
)
def test_the_delay_grows_as_that_of_tasks_does(attempt: int, backoff: Any, seconds: int) -> None:
    fact = _asked(_plan(attempts=99, delay="10s", backoff=backoff), attempt)
    due = (START + timedelta(seconds=seconds)).isoformat()
    assert fact == e.RetryScheduled(attempt + 1, 99, due)


def test_attempts_count_those_of_the_whole_lineage() -> None:
    on = _plan(attempts="{{ workload.limit }}")
    assert isinstance(_asked(on, 4), e.RetryScheduled)
    assert _asked(on, 5) == e.RetryDeclined(5, "attempt 5 of 5 was the last")


def test_what_stands_in_the_way_is_asked_for_only_where_the_policy_wants_a_retry() -> None:
    assert _asked(_plan(), obstacle="it is gone") == e.RetryDeclined(1, "it is gone")
    on = _plan(when="{{ error.kind == 'sql' }}")

    def never() -> str:
        raise AssertionError("the plan costs time")

    fact = ask_policy(on, _failed(on), Inputs(now=START), never).fact
    assert fact == e.RetryDeclined(1, "`when` of executor.spec.policy.retry does not hold")


def test_only_a_failure_behind_a_beginning_is_asked_about_and_once() -> None:
    on = _plan()
    state = _failed(on)
    assert is_to_be_asked(on, state)
    assert not is_to_be_asked(plan(step("start")), state)
    done = given(on, e.Requested("t", 1, "d"), e.WorkflowStarted(()), e.Processed("completed")).state
    assert not is_to_be_asked(on, done)
    refused = given(
        on, e.Requested("t", 1, "d"), e.Evaluated(False, error=ERROR), e.Processed("failed")
    ).state
    assert not is_to_be_asked(on, refused)
    after = given(on, *LOG, e.RetryDeclined(1, "no")).state
    assert not is_to_be_asked(on, after)


def test_the_next_attempt_begins_when_it_is_due_and_not_again() -> None:
    on = _plan()
    due = START + timedelta(minutes=1)
    waiting = given(on, *LOG, e.RetryScheduled(2, 3, due.isoformat()))
    waiting.when().then()
    later = given(on, *LOG, e.RetryScheduled(2, 3, due.isoformat()), inputs=Inputs(now=due))
    when = later.when()
    (fact,) = when.facts
    assert isinstance(fact, e.RetryStarted)
    assert fact.attempt == 2
    assert when.state.next_attempt is not None
    assert (when.state.next_attempt.standing, when.state.next_attempt.attempts) == ("started", 3)
    given(on, *LOG, e.RetryScheduled(2, 3, due.isoformat()), fact, inputs=Inputs(now=due)).when().then()


def test_what_has_changed_meanwhile_may_stand_in_the_way() -> None:
    on = _plan()
    inputs = Inputs(now=START, prepare_retry=lambda new_id: f"{bool(new_id)}: its playbook is gone")
    scheduled = e.RetryScheduled(2, 3, START.isoformat())
    given(on, *LOG, scheduled, inputs=inputs).when().then(e.RetryDeclined(1, "True: its playbook is gone"))


def test_a_retry_that_was_called_off_does_not_begin() -> None:
    on = _plan()
    facts = (*LOG, e.RetryScheduled(2, 3, START.isoformat()), e.RetryCancelled("enough"))
    state = given(on, *facts).when().then()
    assert state.next_attempt is not None
    assert (state.next_attempt.standing, state.next_attempt.reason) == ("cancelled", "enough")


def test_behind_an_end_nothing_else_changes() -> None:
    on = _plan()
    before = given(on, *LOG).state
    after = given(on, *LOG, Draft(e.CtxPatched({"x": 1}, "client"))).state
    assert (after.version, after.ctx, after.status) == (before.version + 1, before.ctx, "failed")
