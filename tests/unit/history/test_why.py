"""Why a step ran, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.errors import ToolError
from noetl.facts.events import StepScheduled
from noetl.facts.json import Json
from noetl.history.explain import explain
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog, control, history, inspect
from noetl.usecases.ports import WorkerRow

from .stories import ended, explained, playbook


def failing(times: int) -> Callable[[Call], Json]:
    left = [times]

    def run(_call: Call) -> Json:
        left[0] -= 1
        if left[0] >= 0:
            raise ToolError("server_error", "not yet", retryable=True)
        return "ok"

    return run


RETRY = playbook("""
    - step: start
      tool:
        kind: http
        spec:
          policy:
            rules:
              - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 60}}
""")


def test_a_run_says_which_arc_fired_it_and_with_which_values() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: noop, result: 7}
              next: {arcs: [{step: big, when: "{{ result > 5 }}"}]}
            - step: big
              tool: {kind: noop}
        """)
    )
    accounts = explained(sim, ended(sim))
    assert accounts["start"].why == "It ran as the entry."
    one = accounts["big"]
    assert (one.standing, one.why, one.run_count) == ("done", "It ran after start.", 1)
    (run,) = one.runs
    (cause,) = run.because
    assert (cause.source, cause.fate, cause.run) == ("start", "taken", "start#1")
    assert cause.guard is not None
    assert cause.guard.text == "{{ result > 5 }} with result = 7"
    assert (run.worker, run.tasks[0].status, run.tasks[0].attempts) == ("simulated", "done", 1)
    assert [(way.step, way.fate) for way in accounts["start"].runs[0].next] == [("big", "taken")]


def test_a_retry_shows_its_rule_its_values_and_until_when_it_waits() -> None:
    sim = Simulation(RETRY, tools={"http": failing(1)})
    run = sim.start()
    sim.settle()
    one = explained(sim, run)["start"]
    assert (one.standing, one.waits[0].kind) == ("waiting", "delay")
    assert one.why == "It waits: task 'task_0' goes on at 2026-01-01T00:01:00+00:00 (retry)."
    (policy,) = one.runs[0].policies
    assert (policy.do, policy.delay, policy.rule) == ("retry", 60.0, 0)
    assert policy.guard.names == {"outcome.status": "error"}
    sim.pass_time(3600)
    sim.settle()
    (task,) = explained(sim, run)["start"].runs[0].tasks
    assert (task.status, task.attempts) == ("done", 2)
    assert task.error is not None
    assert task.error["message"] == "not yet"


def test_a_command_is_in_its_queue_until_a_worker_has_it() -> None:
    sim = Simulation(RETRY, tools={"http": failing(0)})
    run = sim.start()
    sim.deliver()
    one = explained(sim, run)["start"]
    assert (one.standing, one.waits[0].kind) == ("running", "worker")
    assert one.why == "It runs: its command is in queue 'http', which no worker serves."
    with sim.rt.store.begin() as tx:
        tx.workers.see(WorkerRow("io@host", "worker", ("http",), sim.now, sim.now))
    one = explained(sim, run)["start"]
    assert one.why == "It runs: its command is in queue 'http': no worker of that queue has reported on it."
    with sim.rt.store.begin() as tx:
        tx.commands.claim(f"{run}/start#1/-/1", "io@host", sim.now, sim.now.replace(hour=1), 3)
    assert explained(sim, run)["start"].why == (
        f"It runs: worker io@host has its command, with a lease until {sim.now:%Y-%m-%d} 01:00:00 UTC."
    )


def test_a_message_that_was_not_sent_is_told() -> None:
    sim = Simulation(RETRY, tools={"http": failing(0)})
    run = sim.start()
    sim.mailbox.away = True
    sim.deliver()
    assert "its command for queue 'http' has not been sent yet" in explained(sim, run)["start"].why


GATE = playbook("""
    - step: start
      next: gate
    - step: gate
      spec:
        policy:
          admit:
            rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]
      tool: {kind: noop}
      next: behind
    - step: behind
      tool: {kind: noop}
""")


def test_a_denied_admission_shows_the_rules_and_what_they_read() -> None:
    sim = Simulation(GATE)
    run = ended(sim)
    accounts = explained(sim, run)
    one = accounts["gate"]
    assert (one.standing, one.waits[0].kind) == ("waiting", "admission")
    assert [(rule.text, rule.said) for rule in one.waits[0].rules] == [
        ("{{ ctx.go }} with ctx.go = null", "did not hold"),
        ("otherwise", "denied"),
    ]
    assert accounts["behind"].ways[0].fate == "open"
    control.patch_ctx(sim.rt, run, {"go": False})
    assert explained(sim, run)["gate"].waits[0].kind == "scheduler"
    sim.settle()
    assert explained(sim, run)["gate"].waits[0].rules[0].names == {"ctx.go": False}
    control.patch_ctx(sim.rt, run, {"go": True})
    sim.settle()
    assert explained(sim, run)["gate"].why == "It ran after start, admitted."
    # In the middle of the turn that admitted it.
    scheduled = next(
        event.version
        for event in sim.events(run)
        if isinstance(event.fact, StepScheduled) and event.draft.step == "gate"
    )
    (wait,) = explained(sim, run, scheduled - 1)["gate"].waits
    assert (wait.kind, wait.rules[-1].said) == ("scheduler", "admitted")
    assert wait.text == "the scheduler starts it with its next turn"


def test_a_paused_execution_says_so() -> None:
    sim = Simulation(GATE)
    run = sim.start()
    sim.deliver()
    control.pause(sim.rt, run, "")
    sim.settle()
    assert "the execution is paused" in explained(sim, run)["gate"].why


JOINS = """
    - step: start
      next: [a, b]
    - step: a
      tool: {kind: noop}
      next: join
    - step: b
      tool: {kind: http}
      next: join
    - step: join
      spec: {join: MODE}
      tool: {kind: noop}
"""


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("auto", "its join waits for what can still come: from run b#1"),
        ("all", "its join takes all of its 2 ways in: nothing has come from b"),
        ("{count: 2}", "its join takes 2 of its ways in, and 1 came: nothing has come from b"),
    ],
)
def test_a_join_says_what_it_waits_for(mode: str, told: str) -> None:
    sim = Simulation(playbook(JOINS.replace("MODE", mode)), tools={"http": lambda _: 1})
    run = sim.start()
    sim.deliver()
    (index,) = [n for n, one in enumerate(sim.mailbox.messages) if one.command and one.command.step == "a"]
    sim.deliver(index)
    while any(one.command is None for one in sim.mailbox.messages):
        sim.deliver(next(n for n, one in enumerate(sim.mailbox.messages) if one.command is None))
    one = explained(sim, run)["join"]
    assert (one.standing, one.waits[0].kind, one.waits[0].text) == ("waiting", "join", told)
    sim.settle()
    assert explained(sim, run)["join"].why == "It ran after a and b."


def test_a_call_names_the_execution_that_it_waits_for() -> None:
    sim = Simulation(playbook("- step: start\n  tool: {kind: playbook, path: tests/called}"))
    called = GATE.replace("tests/test", "tests/called")
    catalog.register(sim.rt, called, "called.yaml")
    run = ended(sim)
    one = explained(sim, run)["start"]
    (wait,) = one.waits
    assert (one.standing, wait.kind) == ("waiting", "child")
    assert wait.execution is not None
    assert one.runs[0].children == (wait.execution,)
    assert f"execution {wait.execution} of playbook tests/called" in one.why
    assert "which waits for somebody outside" in one.why
    assert explained(sim, wait.execution)["gate"].waits[0].kind == "admission"


LOOP = playbook("""
    - step: start
      loop: {in: [0, 1, 2, 3, 4, 5, 6, 7], iterator: n, spec: {policy: {failure: {mode: best_effort}}}}
      tool: {kind: python, input: {n: "{{ iter.n }}"}, code: "result = 1 / (n % 2)"}
""")


def test_a_loop_counts_its_iterations_and_shows_the_first_that_failed() -> None:
    sim = Simulation(LOOP)
    run = ended(sim)
    loop = explained(sim, run)["start"].runs[0].loop
    assert loop is not None
    assert (loop.total, loop.completed, loop.failed, loop.open) == (8, 4, 4, 0)
    assert [one.iteration for one in loop.failures] == [0, 2, 4]
    assert "division" in loop.failures[0].error["message"]
    # Of the step alone more is told.
    (close,) = history.explain(sim.rt, run, "start").steps
    assert close.runs[0].loop is not None
    assert len(close.runs[0].loop.failures) == 4


def test_a_loop_under_way_says_how_far_it_is() -> None:
    sim = Simulation(LOOP)
    run = sim.start()
    sim.deliver()
    one = explained(sim, run)["start"]
    assert (one.standing, one.waits[0].kind) == ("running", "loop")
    assert "0 of 8 iterations have ended" in one.why


def test_a_step_that_ran_often_shows_its_last_runs() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: noop}
              set: {ctx.n: "{{ (ctx.n or 0) + 1 }}"}
              next: {arcs: [{step: start, when: "{{ ctx.n < 5 }}"}, {step: behind}]}
            - step: behind
              tool: {kind: noop}
        """)
    )
    run = ended(sim)
    one = explained(sim, run)["start"]
    assert (one.run_count, [each.run for each in one.runs]) == (5, ["start#4", "start#5"])
    again = next(way for way in one.ways if way.source == "start")
    assert (again.asked, again.taken, again.fate) == (5, 4, "missed")
    assert [way.fate for way in one.runs[-1].next] == ["missed", "taken"]


def test_the_final_step_runs_last_and_waits_until_then() -> None:
    book = playbook(
        """
        - step: start
          tool: {kind: noop}
        - step: sum_up
          tool: {kind: noop}
        """,
        "executor: {spec: {final_step: sum_up}}",
    )
    sim = Simulation(book)
    run = sim.start()
    sim.deliver()
    assert explained(sim, run)["sum_up"].why == "It has not run: the final step follows everything else."
    sim.settle()
    assert explained(sim, run)["sum_up"].why == "It ran last, after everything else."


def test_every_version_of_an_execution_is_explained_as_it_was() -> None:
    sim = Simulation(RETRY, tools={"http": failing(1)})
    run = ended(sim)
    last = len(sim.events(run))
    told = [history.explain(sim.rt, run, version=version) for version in range(last + 1)]
    views = [inspect.state_view(sim.rt, run, version)["status"] for version in range(last + 1)]
    assert [one.status for one in told] == views
    assert [one.version for one in told] == list(range(last + 1))
    standings = [one.steps[0].standing for one in told]
    assert list(dict.fromkeys(standings)) == ["not_run", "waiting", "running", "done"]
    assert {(one.execution_id, one.path, one.playbook_version) for one in told} == {(run, "tests/test", 1)}


def test_what_leads_to_the_final_step_waits_for_all_others() -> None:
    book = playbook(
        """
        - step: start
          next: [one, sum_up]
        - step: one
          tool: {kind: noop}
        - step: sum_up
          tool: {kind: noop}
        """,
        "executor: {spec: {final_step: sum_up}}",
    )
    sim = Simulation(book)
    run = sim.start()
    sim.deliver()
    (wait,) = explained(sim, run)["sum_up"].waits
    assert wait.kind == "others"
    sim.settle()
    assert explained(sim, run)["sum_up"].why == "It ran after start."


def test_of_many_rules_that_matched_the_first_ones_are_shown_and_the_others_counted() -> None:
    sim = Simulation(
        RETRY.replace("attempts: 3, delay: 60", "attempts: 6, delay: 0"), tools={"http": failing(5)}
    )
    run = ended(sim)
    (account,) = explained(sim, run)["start"].runs
    assert (len(account.policies), account.policies_more) == (3, 2)
    (close,) = history.explain(sim.rt, run, "start").steps
    assert (len(close.runs[0].policies), close.runs[0].policies_more) == (5, 0)


def test_of_the_past_only_the_log_is_told() -> None:
    told = list[str]()

    def second(_call: Call) -> Json:
        told.append(explained(sim, run)["start"].why)
        told.append(explained(sim, run, 5)["start"].why)
        return 1

    sim = Simulation(
        playbook("- step: start\n  tool: [{name: a, kind: noop}, {name: b, kind: http}]"),
        tools={"http": second},
    )
    run = sim.start()
    sim.settle()
    now, then = told
    assert "worker simulated has its command" in now
    assert "no worker of that queue has reported on it" in then


def test_a_task_whose_failure_was_passed_over_says_that_the_pipeline_went_on() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool:
                - {name: a, kind: http, spec: {policy: {rules: [{when: "{{ error }}", then: {do: continue}}]}}}
                - {name: b, kind: noop}
        """),
        tools={"http": failing(1)},
    )
    (account,) = explained(sim, ended(sim))["start"].runs
    assert [(task.task, task.status, task.went_on) for task in account.tasks] == [
        ("a", "failed", True),
        ("b", "done", False),
    ]
    assert [(one.task, one.do) for one in account.policies] == [("a", "continue")]


def test_iterations_say_for_what_they_wait() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              loop: {in: [0, 1, 2, 3, 4], iterator: n, spec: {mode: parallel}}
              tool: {kind: playbook, path: tests/called}
        """)
    )
    catalog.register(sim.rt, GATE.replace("tests/test", "tests/called"), "called.yaml")
    run = ended(sim)
    one = explained(sim, run)["start"]
    assert [wait.kind for wait in one.waits] == ["loop", "child", "child", "child"]
    assert (len(one.runs[0].children), one.runs[0].child_count) == (3, 5)
    assert one.waits[2].text.startswith("iteration 1: execution ")
    loop = one.runs[0].loop
    assert loop is not None
    assert (loop.waiting, loop.open, loop.completed) == (5, 0, 0)


def test_an_iteration_that_is_to_be_tried_again_says_when() -> None:
    tried = set[int]()

    def at_first(call: Call) -> Json:
        """Fails at the first attempt of each iteration."""
        if call.where.iteration in tried:
            return 1
        tried.add(call.where.iteration or 0)
        raise ToolError("server_error", "not yet")

    sim = Simulation(
        playbook("""
            - step: start
              loop: {in: [0, 1], iterator: n}
              tool:
                kind: http
                spec: {policy: {rules: [{when: "{{ error }}", then: {do: retry, delay: 60}}]}}
        """),
        tools={"http": at_first},
    )
    run = sim.start()
    sim.settle()
    delays = [wait for wait in explained(sim, run)["start"].waits if wait.kind == "delay"]
    assert [wait.until for wait in delays] == ["2026-01-01T00:01:00+00:00"]
    (account,) = explained(sim, run)["start"].runs
    assert account.policies[0].iteration == 0
    assert account.loop is not None
    assert (account.loop.waiting, account.loop.open) == (1, 1)
    assert delays[0].text == "iteration 0 goes on at 2026-01-01T00:01:00+00:00"
    sim.pass_time(60)
    sim.settle()
    delays = [wait for wait in explained(sim, run)["start"].waits if wait.kind == "delay"]
    assert [wait.text for wait in delays] == ["iteration 1 goes on at 2026-01-01T00:02:00+00:00"]


def test_a_token_of_an_arc_that_the_net_does_not_have_is_told_of() -> None:
    steps = "- step: start\n  next: {}\n- step: {}\n  tool: {{kind: noop}}\n- step: behind\n  tool: {{kind: noop}}\n"
    sim = Simulation(playbook(steps.format("behind", "other")))
    run = ended(sim)
    newer = catalog.register(sim.rt, playbook(steps.format("other", "other")), "test.yaml")
    with sim.rt.store.read() as tx:
        plan = sim.rt.plan(tx, newer.digest)
    behind = explain(plan, sim.events(run)).steps[2]
    assert behind.runs[0].because[0].why == "was taken in another version of the playbook"
    assert behind.why == "It ran after start."
