"""What is retried by itself, because the policy of its playbook says so, when, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from noetl.errors import Conflict
from noetl.facts import events as e
from noetl.facts.outcome import ErrorInfo, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call
from noetl.testing import KINDS, START, Simulation
from noetl.usecases import catalog, control, inspect, retry
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.retry import RetryRequest
from noetl.usecases.sweep import sweep
from tests.budget import examples

EXTERNAL = {**KINDS, "http": KindInfo("http", queue="http", effects="external")}
CHAIN = """
- step: start
  tool: {kind: http, url: a}
  next: second
- step: second
  tool: {kind: http, url: b}
  next: third
- step: third
  tool: {kind: http, url: c}
"""


class Stubborn:
    """A playbook with a policy; its http tasks fail as often as `broken` says, by url."""

    def __init__(self, policy: str, workflow: str = CHAIN, root: str = "", **more: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.broken: dict[str, int] = {}
        self.kind = "server_error"
        self.text = (
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: again, path: tests/again}\n"
            f"{root}\nexecutor: {{spec: {{policy: {{retry: {policy}}}}}}}\nworkflow:\n{workflow}"
        )
        self.sim = Simulation(self.text, {"http": self._call}, **more)

    def _call(self, call: Call) -> Any:
        url = str(call.config["url"])
        self.calls[url] += 1
        if self.broken.get(url, 0) > 0:
            self.broken[url] -= 1
            return failed(ErrorInfo(self.kind, f"{url} is broken"))
        return {"url": url}

    def begin(self, payload: Mapping[str, Any] | None = None, **broken: int) -> str:
        """An execution that has come to rest; no time has passed."""
        self.broken = dict(broken)
        execution_id = self.sim.start(payload)
        self.sim.settle()
        return execution_id

    def row(self, execution_id: str) -> ExecutionRow:
        return inspect.execution(self.sim.rt, execution_id)

    def next(self, execution_id: str) -> Any:
        return inspect.state_at(self.sim.rt, execution_id).next_attempt

    def attempts(self, execution_id: str) -> list[ExecutionRow]:
        """The execution and those that retry it, in order."""
        rows = [self.row(execution_id)]
        while (following := self.next(rows[-1].execution_id)) is not None and following.execution_id:
            rows.append(self.row(following.execution_id))
        return rows

    def statuses(self, execution_id: str) -> list[str]:
        return [row.status for row in self.attempts(execution_id)]

    def pass_time(self, seconds: float) -> None:
        self.sim.pass_time(seconds)
        self.sim.settle()


def test_a_failure_is_retried_until_it_goes_well_and_what_stands_is_not_called_again() -> None:
    play = Stubborn("{attempts: 5}")
    first = play.begin(b=2)
    assert play.statuses(first) == ["failed", "failed", "completed"]
    assert play.calls == {"a": 1, "b": 3, "c": 1}
    _, second, third = play.attempts(first)
    assert (second.source_id, second.descent) == (first, "retry")
    assert (third.source_id, third.descent) == (second.execution_id, "retry")
    assert play.next(third.execution_id) is None


def test_attempts_count_the_first_execution_and_the_last_failure_says_so() -> None:
    play = Stubborn("{attempts: 2}")
    first = play.begin(b=9)
    assert play.statuses(first) == ["failed", "failed"]
    last = play.next(play.attempts(first)[-1].execution_id)
    assert (last.standing, last.reason) == ("declined", "attempt 2 of 2 was the last")


def test_the_end_says_when_the_next_attempt_begins_and_time_brings_it() -> None:
    play = Stubborn("{attempts: 3, delay: 60, backoff: exponential}")
    first = play.begin(b=2)
    facts = [event.fact for event in play.sim.events(first)]
    assert facts[-2:] == [
        e.Processed("failed", None, play.sim.report(first).row.error and facts[-2].error),  # type: ignore[union-attr]
        e.RetryScheduled(2, 3, "2026-01-01T00:01:00+00:00"),
    ]
    play.pass_time(59)
    assert play.statuses(first) == ["failed"]
    play.pass_time(1)
    assert play.statuses(first) == ["failed", "failed"]
    play.pass_time(119)
    assert play.statuses(first) == ["failed", "failed"]
    play.pass_time(1)
    assert play.statuses(first) == ["failed", "failed", "completed"]


def test_nobody_sees_a_failure_without_what_follows_it() -> None:
    play = Stubborn("{attempts: 3, delay: 60}")
    play.broken = {"a": 9}
    first = play.sim.start()
    while play.row(first).status != "failed":
        assert play.sim.mailbox.messages
        play.sim.deliver()
    assert play.next(first).standing == "scheduled"


@pytest.mark.parametrize(
    ("when", "payload", "retried"),
    [
        ("\"{{ error.kind == 'server_error' and error.step == 'second' }}\"", {}, True),
        ("\"{{ error.kind == 'timeout' }}\"", {}, False),
        ('"{{ attempt < 2 and workload.again }}"', {"again": True}, True),
        ('"{{ attempt < 2 and workload.again }}"', {"again": False}, False),
        ('"{{ ctx.seen is defined }}"', {}, False),
        ("false", {}, False),
    ],
)
def test_when_says_which_failures_are_retried(when: str, payload: Any, retried: bool) -> None:
    play = Stubborn(f"{{when: {when}}}", root="workload: {again: false}")
    first = play.begin(payload, b=1)
    assert play.statuses(first) == (["failed", "completed"] if retried else ["failed"])
    if not retried:
        assert play.next(first).reason == "`when` of executor.spec.policy.retry does not hold"


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ('{when: "{{ 1 + error }}"}', "executor.spec.policy.retry: "),
        ('{attempts: "{{ workload.n }}"}', "executor.spec.policy.retry: 'attempts' must be a whole number"),
        ('{delay: "{{ workload.n }}"}', "executor.spec.policy.retry: 'delay': 'many' is not a duration"),
    ],
)
def test_a_policy_that_cannot_be_evaluated_leaves_the_failure_and_says_why(policy: str, reason: str) -> None:
    play = Stubborn(policy, root="workload: {n: many}")
    first = play.begin(b=1)
    assert play.statuses(first) == ["failed"]
    assert play.next(first).reason.startswith(reason)


def test_only_failures_are_retried() -> None:
    play = Stubborn("{delay: 60}")
    assert play.next(play.begin()) is None
    running = play.sim.start()
    control.cancel(play.sim.rt, running)
    play.sim.settle()
    assert play.row(running).status == "cancelled"
    assert play.next(running) is None


# --- effects ---


def test_calls_that_may_have_had_effects_are_not_made_again_by_themselves() -> None:
    play = Stubborn("{attempts: 3}", kinds=EXTERNAL)
    play.kind = "timeout"
    first = play.begin(b=1)
    assert play.statuses(first) == ["failed"]
    assert "may have had effects: task_0 of step 'second'" in play.next(first).reason
    assert "--yes" in play.next(first).reason
    assert play.calls == {"a": 1, "b": 1}


def test_calls_that_failed_for_certain_are_made_again_and_those_that_went_well_are_not() -> None:
    play = Stubborn("{attempts: 3}", kinds=EXTERNAL)
    assert play.statuses(play.begin(b=1)) == ["failed", "completed"]
    assert play.calls == {"a": 1, "b": 2, "c": 1}


def test_the_policy_may_say_that_effects_may_come_twice() -> None:
    play = Stubborn("{attempts: 3, allow_effects: true}", kinds=EXTERNAL)
    play.kind = "timeout"
    assert play.statuses(play.begin(b=1)) == ["failed", "completed"]


# --- people, and other executions ---


def test_a_retry_that_is_scheduled_is_called_off() -> None:
    play = Stubborn("{delay: 60}")
    first = play.begin(b=1)
    control.cancel(play.sim.rt, first, "not today")
    play.sim.settle()
    assert (play.next(first).standing, play.next(first).reason) == ("cancelled", "not today")
    play.pass_time(3600)
    assert play.statuses(first) == ["failed"]
    assert play.row(first).next_wake_at is None
    with pytest.raises(Conflict, match=r"has ended \(failed\)\.$"):
        control.cancel(play.sim.rt, first)


def test_who_retries_by_hand_takes_the_place_of_the_policy_and_begins_to_count_anew() -> None:
    play = Stubborn("{attempts: 2, delay: 60}")
    first = play.begin(b=2)
    by_hand = retry.retry(play.sim.rt, RetryRequest(first)).execution_id
    play.sim.settle()
    assert play.next(first).standing == "cancelled"
    assert play.next(first).reason == f"execution {by_hand} retries it"
    play.pass_time(60)
    play.pass_time(60)
    assert play.statuses(first) == ["failed"]
    assert play.statuses(by_hand) == ["failed", "completed"]


def test_a_playbook_that_was_called_leaves_it_to_its_caller() -> None:
    play = Stubborn("{attempts: 3}")
    caller = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: tests/caller}
workflow:
- step: start
  tool: {kind: playbook, path: tests/again}
"""
    play.sim.path = catalog.register(play.sim.rt, caller, "caller.yaml").path
    first = play.begin(b=1)
    (child,) = inspect.executions(play.sim.rt, parent=first)
    assert play.row(first).status == "failed"
    assert play.next(child.execution_id).reason.startswith(f"execution {first} called it")
    assert inspect.executions(play.sim.rt, source=child.execution_id) == []


def test_a_paused_or_patched_failure_is_refused_with_what_it_waits_for() -> None:
    play = Stubborn("{delay: 60}")
    first = play.begin(b=1)
    with pytest.raises(Conflict, match=r"has ended \(failed\), and waits to be retried"):
        control.pause(play.sim.rt, first)


# --- it is durable ---


def test_the_retry_begins_once_however_many_turns_and_sweeps_come() -> None:
    play = Stubborn("{delay: 60}")
    first = play.begin(b=1)
    play.sim.now = START.replace(minute=5)
    for _ in range(3):
        sweep(play.sim.rt)
        play.sim.mailbox.messages *= 2
        play.sim.settle()
    assert len(inspect.executions(play.sim.rt, source=first)) == 1
    assert play.sim.types(first).count("execution.retry.started") == 1


def test_a_lost_message_delays_the_retry_until_somebody_sweeps() -> None:
    play = Stubborn("{attempts: 2}")
    play.broken = {"a": 1}
    first = play.sim.start()
    while play.row(first).status != "failed":
        play.sim.deliver()
    # The process that took the turn is gone, with its memory and whatever it had sent.
    play.sim.mailbox.messages.clear()
    play.sim.rt.states.clear()
    play.sim.rt.sources.clear()
    play.pass_time(1)
    play.pass_time(61)
    assert play.statuses(first) == ["failed", "completed"]


LOOPED = """
- step: start
  loop: {in: [a, b, c], iterator: url, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: http, url: "{{ url }}"}
  next: [left, right]
- step: left
  tool: {kind: http, url: l}
  set: {ctx.seen: "{{ result.url }}"}
  next: end
- step: right
  tool: {kind: http, url: r}
  next: end
- step: end
  spec: {join: all}
  tool: {kind: http, url: e}
"""


@hypothesis.settings(max_examples=examples(15))
@hypothesis.given(
    broken=st.dictionaries(st.sampled_from("abclre"), st.integers(0, 3)),
    chaos=st.lists(st.tuples(st.sampled_from(["deliver", "drop", "double", "wait"]), st.integers(0, 9))),
)
def test_whatever_becomes_of_messages_attempts_follow_one_another_until_all_goes_well(
    broken: dict[str, int], chaos: list[tuple[str, int]]
) -> None:
    play = Stubborn("{attempts: 99, delay: 10}", LOOPED)
    play.broken = dict(broken)
    first = play.sim.start()
    for word, number in chaos:
        _do(play.sim, word, number)
    while play.row(play.attempts(first)[-1].execution_id).status != "completed":
        play.pass_time(120)
    for _ in range(3):
        play.pass_time(120)
    attempts = play.attempts(first)
    assert [row.status for row in attempts[:-1]] == ["failed"] * (len(attempts) - 1)
    last = play.sim.report(attempts[-1].execution_id)
    assert (last.row.status, last.ctx, last.result) == ("completed", {"seen": "l"}, {"url": "e"})
    # Nothing was begun beside that line.
    assert len(inspect.executions(play.sim.rt, limit=1000)) == len(attempts)
    if not chaos:
        assert play.calls == {url: 1 + broken.get(url, 0) for url in "abclre"}


def _do(sim: Simulation, word: str, number: int) -> None:
    messages = sim.mailbox.messages
    index = number % len(messages) if messages else 0
    match word:
        case "deliver" if messages:
            sim.deliver(index)
        case "drop" if messages:
            messages.pop(index)
        case "double" if messages:
            messages.append(messages[index])
        case _:
            sim.pass_time(number * 7)


@pytest.mark.parametrize("later", [False, True])
def test_a_defect_in_the_plan_leaves_the_failure_and_stops_nobody(
    later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: Any) -> Any:
        raise RuntimeError("a defect")

    play = Stubborn("{delay: 60}")
    if later:
        first = play.begin(b=1)
    monkeypatch.setattr(retry, "plan_next", defect)
    if not later:
        first = play.begin(b=1)
    play.pass_time(60)
    following = play.next(first)
    assert following.standing == "declined"
    assert "could not" in following.reason
    assert following.reason.endswith("a defect")
    assert play.row(first).next_wake_at is None
    assert play.row(play.begin()).status == "completed"


def test_a_secret_that_was_given_is_there_in_every_attempt() -> None:
    play = Stubborn(
        "{attempts: 3}",
        '- step: start\n  tool: {kind: http, url: a, headers: {x: "{{ workload.token }}"}}\n',
        root="inputs: {token: {type: string, secret: true, required: true}}",
    )
    first = play.begin({"token": "s3cret"}, a=1)
    assert play.statuses(first) == ["failed", "completed"]
    given = [play.sim.events(row.execution_id)[0].fact.payload["token"] for row in play.attempts(first)]  # type: ignore[union-attr]
    assert given[0] == given[1]
    assert given[0]["kind"] == "secret_ref"
