"""What an open execution takes along to another version, and what keeps it where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from noetl.errors import BadRequest, Conflict
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, failed
from noetl.pipeline.model import Call, Later
from noetl.testing import KINDS, Simulation
from noetl.usecases import catalog, control, inspect, migrate, retry, signals
from noetl.usecases.migrate import MigrateRequest
from noetl.usecases.retry import RetryRequest
from noetl.usecases.signals import SignalRequest

ROOT = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: moved, path: tests/moved}\n"

GATE = """
- step: start
  tool: {kind: http, url: a}
  set: {ctx.a: "{{ result }}"}
  next: gate
- step: gate
  spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
  tool: {kind: noop, input: {go: "{{ ctx.go }}"}}
  next: last
- step: last
  tool: {kind: http, url: wrong}
"""
#: A job elsewhere, and what follows.
JOB = """
- step: start
  tool: {kind: http, url: job}
  next: last
- step: last
  tool: {kind: http, url: wrong}
"""
LOOP = JOB.replace(
    "- step: start", "- step: start\n  loop: {in: [1, 2, 3], iterator: i, mode: parallel}"
).replace("job", "'u{{ i }}'")
AGAIN = JOB.replace(
    "url: job",
    "url: job, spec: {policy: {rules: [{when: '{{ error is defined }}', then: {do: retry, attempts: 9, delay: 600}}]}}",
)


class Moved:
    """A playbook whose http tasks are noted; an entry of `answers` that can be called is."""

    def __init__(self, workflow: str) -> None:
        self.calls: list[str] = []
        self.keys: dict[str, list[str]] = {}
        self.answers: dict[str, Any] = {}
        # As with jobs of a quantum machine: what is begun elsewhere can be called off.
        kinds = {**KINDS, "http": replace(KINDS["http"], abandons=True)}
        self.sim = Simulation(self.text(workflow), {"http": self._call}, kinds=kinds)

    def text(self, workflow: str) -> str:
        return f"{ROOT}workflow:\n{workflow}"

    def _call(self, call: Call) -> Any:
        url = str(call.config["url"])
        self.calls.append(url)
        self.keys.setdefault(url, []).append(call.idempotency_key)
        answer = self.answers.get(url, url)
        return answer(call) if callable(answer) else answer

    def begin(self) -> str:
        execution_id = self.sim.start()
        self.sim.settle()
        return execution_id

    def register(self, workflow: str) -> int:
        return catalog.register(self.sim.rt, self.text(workflow), "moved.yaml").version

    def migrate(self, execution_id: str, **how: Any) -> str:
        made = migrate.migrate(self.sim.rt, MigrateRequest(execution_id, **how))
        self.sim.settle()
        return made.execution_id

    def obstacles(self, execution_id: str) -> list[str]:
        planned = migrate.plan(self.sim.rt, MigrateRequest(execution_id))
        before = self.sim.types(execution_id)
        with pytest.raises(Conflict, match="cannot be migrated now"):
            migrate.migrate(self.sim.rt, MigrateRequest(execution_id))
        assert self.sim.types(execution_id) == before, "it stays as it is"
        return list(planned.obstacles)

    def status(self, execution_id: str) -> str:
        return inspect.execution(self.sim.rt, execution_id).status


def test_what_waits_for_people_goes_on_under_the_version_that_is_mended() -> None:
    book = Moved(GATE)
    first = book.begin()
    assert book.status(first) == "waiting"
    version = book.register(GATE.replace("wrong", "right"))
    second = book.migrate(first)
    assert (book.status(first), book.status(second)) == ("cancelled", "waiting")
    row = inspect.execution(book.sim.rt, second)
    assert (row.descent, row.source_id, row.playbook_version) == ("migration", first, version)
    assert book.calls == ["a"], "what was done is not done again"
    control.patch_ctx(book.sim.rt, second, {"go": True})
    book.sim.settle()
    assert book.status(second) == "completed"
    assert book.calls == ["a", "right"]


def test_what_people_have_assigned_counts_there_in_the_order_in_which_it_came() -> None:
    book = Moved(GATE)
    book.answers["wrong"] = lambda _: Later(3600.0)
    first = book.begin()
    control.patch_ctx(book.sim.rt, first, {"go": "first", "note": 1})
    book.sim.settle()
    control.patch_ctx(book.sim.rt, first, {"go": "later"})
    book.register(GATE + "  next: added\n- step: added\n  tool: {kind: http, url: added}\n")
    book.sim.settle()
    second = book.migrate(first)
    report = book.sim.report(second)
    assert report.steps["gate"]["result"] == {"go": "first"}
    assert report.ctx == {"a": "a", "go": "later", "note": 1}
    book.answers["wrong"] = "done"
    book.sim.pass_time(3600)
    book.sim.settle()
    assert book.status(second) == "completed"
    assert book.calls[-1] == "added"


def test_a_wait_goes_on_since_when_it_began_with_the_signals_that_came() -> None:
    gate = """
- step: start
  tool:
    kind: wait
    all: {paid: {signal: paid}, packed: {signal: packed}, late: {timer: 1h}}
  next: told
- step: told
  tool: {kind: http, url: wrong}
"""
    book = Moved(gate)
    first = book.begin()
    signals.send_signal(book.sim.rt, first, SignalRequest("paid", 1, id="once"))
    book.sim.settle()
    book.sim.pass_time(3000)
    book.register(gate.replace("wrong", "right"))
    second = book.migrate(first)
    assert signals.send_signal(book.sim.rt, second, SignalRequest("paid", 2, id="once")).existing
    signals.send_signal(book.sim.rt, second, SignalRequest("packed", 3))
    book.sim.settle()
    book.sim.pass_time(599)
    book.sim.settle()
    assert book.status(second) != "completed", "an hour from the beginning"
    book.sim.pass_time(1)
    book.sim.settle()
    assert (book.status(second), book.calls) == ("completed", ["right"])
    results = book.sim.report(second).steps["start"]["result"]["results"]
    assert [results[name]["payload"] for name in ("paid", "packed")] == [1, 3]


def test_an_approval_expires_when_it_would_have_in_the_other_execution() -> None:
    asks = """
- step: start
  tool: {kind: wait, approval: {message: "Ship it?", expires: 1h}}
  next: told
- step: told
  tool: {kind: http, url: wrong}
"""
    book = Moved(asks)
    first = book.begin()
    book.sim.pass_time(3000)
    book.register(asks.replace("wrong", "right"))
    second = book.migrate(first)
    book.sim.pass_time(599)
    book.sim.settle()
    assert book.status(second) == "waiting", "an hour from the beginning"
    book.sim.pass_time(1)
    book.sim.settle()
    error = book.sim.report(second).error
    assert error is not None
    assert (book.status(second), error["type"]) == ("failed", "ApprovalExpired")


def test_a_job_elsewhere_is_gone_on_with_under_its_key() -> None:
    book = Moved(JOB)
    book.answers["job"] = lambda call: (
        {"of": call.checkpoint} if call.checkpoint else Later(3600.0, {"id": 7})
    )
    first = book.begin()
    book.register(JOB.replace("wrong", "right"))
    second = book.migrate(first)
    assert book.status(second) == "completed"
    assert book.sim.report(second).steps["start"]["result"] == {"of": {"id": 7}}
    assert len(set(book.keys["job"])) == 1
    assert book.calls == ["job", "job", "right"]


def test_what_was_begun_elsewhere_is_not_called_off() -> None:
    book = Moved(JOB)
    book.answers["job"] = lambda _: Later(3600.0, {"id": 7})
    first = book.begin()
    book.register(JOB.replace("wrong", "right"))
    migrate.migrate(book.sim.rt, MigrateRequest(first))
    sent = [one.command.purpose for one in book.sim.mailbox.messages if one.command is not None]
    assert "abandon" not in sent


def test_what_is_paused_is_paused_there() -> None:
    book = Moved(GATE)
    first = book.begin()
    control.pause(book.sim.rt, first)
    book.sim.settle()
    book.register(GATE.replace("wrong", "right"))
    second = book.migrate(first)
    assert book.status(second) == "paused"
    control.resume(book.sim.rt, second)
    book.sim.settle()
    assert book.status(second) == "waiting"


def test_a_loop_keeps_the_iterations_that_have_ended_and_waits_in_the_others() -> None:
    book = Moved(LOOP)
    book.answers["u2"] = lambda call: "late" if call.checkpoint else Later(3600.0, {"id": 2})
    first = book.begin()
    book.register(LOOP.replace("wrong", "right"))
    second = book.migrate(first)
    assert book.status(second) == "completed"
    assert sorted(book.calls) == ["right", "u1", "u2", "u2", "u3"]


def test_a_failure_that_is_tried_again_later_is_tried_there() -> None:
    book = Moved(AGAIN)
    book.answers["job"] = failed(ErrorInfo("server_error", "away", retryable=True))
    first = book.begin()
    book.answers["job"] = "there"
    book.register(AGAIN.replace("wrong", "right"))
    second = book.migrate(first)
    assert book.status(second) == "completed"
    assert book.calls == ["job", "job", "right"]


def test_everything_is_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Moved(GATE)
    first = book.begin()
    book.register(GATE.replace("wrong", "right"))

    def die(*_: Json) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(migrate, "begin", die)
    with pytest.raises(KeyboardInterrupt):
        book.migrate(first)
    monkeypatch.undo()
    assert book.status(first) == "waiting"
    assert book.status(book.migrate(first)) == "waiting"


# --- what stays -----------------------------------------------------------------------------------


def test_a_task_that_waits_and_is_another_one_there_keeps_it_here() -> None:
    two = JOB.replace(
        "{kind: http, url: job}", "[{name: one, kind: http, url: one}, {name: job, kind: http, url: job}]"
    )
    book = Moved(two)
    book.answers["job"] = lambda _: Later(3600.0, {"id": 7})
    first = book.begin()
    version = book.register(two.replace("url: job", "url: other"))
    (said,) = book.obstacles(first)
    assert said == f"step 'start' waits in task 'job', and in version {version} that is another task"
    assert migrate.plan(book.sim.rt, MigrateRequest(first, version=1)).obstacles == []


def test_a_token_that_waits_before_a_step_that_is_gone_keeps_it_here() -> None:
    book = Moved(GATE)
    first = book.begin()
    book.register(GATE.replace("gate", "door"))
    assert book.obstacles(first) == ["it waits before step 'gate', which version 2 does not have"]


def test_who_is_at_work_is_not_moved() -> None:
    book = Moved(JOB)
    seen: list[list[str]] = []
    first = book.sim.start()
    book.answers["job"] = lambda _: seen.append(book.obstacles(first))
    book.sim.settle()
    assert seen == [["a worker is at work on step 'start'; pause the execution, or try again"]]


def test_a_caller_that_waits_and_the_execution_that_it_waits_for_stay() -> None:
    book = Moved("- step: start\n  tool: {kind: playbook, path: tests/child}\n")
    catalog.register(book.sim.rt, book.text(GATE).replace("moved", "child"), "child.yaml")
    first = book.begin()
    (called,) = inspect.executions(book.sim.rt, parent=first)
    assert book.obstacles(first) == [
        f"step 'start' waits for execution {called.execution_id}, which it called"
    ]
    assert book.obstacles(called.execution_id) == [f"execution {first} called it and waits for it"]


def test_what_has_ended_is_retried_and_what_was_migrated_is_not() -> None:
    book = Moved(GATE)
    first = book.begin()
    book.register(GATE.replace("wrong", "right"))
    second = book.migrate(first)
    with pytest.raises(Conflict, match="nothing of it is left to migrate; retry it"):
        book.migrate(first)
    with pytest.raises(Conflict, match=f"was migrated to {second}: retry that"):
        retry.retry(book.sim.rt, RetryRequest(first))


def test_effects_that_would_happen_again_are_confirmed() -> None:
    book = Moved(GATE.replace("url: a", "url: a, effects: external"))
    first = book.begin()
    book.register(GATE.replace("url: a", "url: b, effects: external"))
    with pytest.raises(Conflict, match="may have had effects"):
        book.migrate(first)
    second = book.migrate(first, confirmed=True)
    assert book.calls == ["a", "b"]
    assert book.status(second) == "waiting"


def test_another_playbook_is_no_version() -> None:
    book = Moved(GATE)
    first = book.begin()
    with pytest.raises(BadRequest, match="is another one"):
        book.migrate(first, path="tests/other")
