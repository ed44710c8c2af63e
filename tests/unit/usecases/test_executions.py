"""Whole executions: what people write, and what comes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playbooks import lone, playbook

from noetl.engine.names import outcome_of
from noetl.engine.run_state import LastTask, Run
from noetl.errors import Conflict, NotFound, ToolError
from noetl.facts.events import CommandIssued, Requested, TaskDone
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.facts.reference import is_reference
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import inspect, large_values, variables
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime, RuntimeLimits
from noetl.usecases.start import StartRequest, start
from noetl.usecases.turn import advance, deciding
from noetl.usecases.work.leases import Leases, Worker

HELLO = playbook("""
    - step: start
      tool: {kind: python, code: "result = 1"}
      next: middle
    - step: middle
      tool: {kind: python, code: "result = n + 1", input: {n: "{{ start }}"}}
      next: end
    - step: end
      tool: {kind: python, code: "result = {'n': n}", input: {n: "{{ middle }}"}}
""")


def test_hello_runs_its_three_steps_in_turn() -> None:
    report = Simulation(HELLO).run()
    assert report.row.status == "completed"
    assert report.result == {"n": 2}
    assert {name: step["status"] for name, step in report.steps.items()} == {
        "start": "done",
        "middle": "done",
        "end": "done",
    }


def test_a_report_has_the_shape_of_run_json() -> None:
    report = Simulation(HELLO).run().as_json()
    assert list(report) == [
        "execution_id",
        "parent_id",
        "source_id",
        "descent",
        "operation_id",
        "key",
        "labels",
        "principal",
        "path",
        "version",
        "status",
        "hold",
        "stop",
        "inputs",
        "result",
        "ctx",
        "steps",
        "error",
        "retry",
        "waits",
        "errors_passed_over",
        "warnings",
        "events",
        "duration_ms",
        "children",
        "descendants",
    ]
    assert report["steps"]["middle"] == {"status": "done", "runs": 1, "result": 2}
    assert report["execution_id"].isdigit()
    assert (report["error"], report["events"]) == (None, 23)


def test_a_step_costs_seven_events_and_two_messages() -> None:
    sim = Simulation(HELLO)
    run = sim.start()
    delivered = 0
    while sim.mailbox.messages:
        sim.deliver()
        delivered += 1
    types = sim.types(run)
    assert delivered == 1 + 3 * 2
    assert types.count("step.scheduled") == types.count("command.issued") == 3
    assert len(types) == 2 + 1 + 3 * 6 + 2


@pytest.mark.parametrize(
    "workflow",
    [
        "- step: start",
        "- step: start\n  tool: {kind: noop}",
        "- step: start\n  tool: [{name: a, kind: noop}, {name: b, kind: python, code: 'result = 1'}]",
        "- step: start\n  tool: [{a: {kind: noop}}, {b: {kind: noop}}]",
        "- step: start\n  next: end\n- step: end",
        "- step: start\n  next: [end]\n- step: end\n  tool: [{kind: noop}, {kind: noop}]",
        "- step: start\n  tool: {kind: noop}\n  next: {arcs: []}",
        "- step: start\n  next: {arcs: [{step: end, when: '{{ false }}'}]}\n- step: end",
        "- step: start\n  next: [{step: a}, {step: b}]\n- step: a\n  next: end\n- step: b\n  next: "
        "end\n- step: end",
        "- step: one\n  tool: {kind: noop}\n  loop: {in: [], iterator: x}\n  next: two\n- step: two\n  "
        "tool: {kind: noop}",
    ],
)
def test_every_shape_of_playbook_ends(workflow: str) -> None:
    assert Simulation(playbook(workflow)).run().row.status == "completed"


# --- routing -------------------------------------------------------------------------------------


def routed(form: str, result: Json = 5) -> list[str]:
    """Which of `a` and `b` ran behind a start whose `next` is `form`."""
    sim = Simulation(
        playbook(f"""
            - step: start
              tool: {{kind: http, url: http://x}}
              next: {form}
            - step: a
              tool: {{kind: noop}}
            - step: b
              tool: {{kind: noop}}
        """),
        {"http": lambda call: result},
    )
    report = sim.run()
    assert report.row.status == "completed"
    return sorted(set(report.steps) - {"start"})


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        ("a", ["a"]),
        ("[a, b]", ["a", "b"]),
        ("[{step: a}, {step: b, when: '{{ result > 9 }}'}]", ["a"]),
        ("{arcs: [{step: a, when: '{{ result > 9 }}'}, {step: b}]}", ["b"]),
        ("{spec: {mode: exclusive}, arcs: [{step: a, when: '{{ result > 1 }}'}, {step: b}]}", ["a"]),
        ("{spec: {mode: inclusive}, arcs: [{step: a, when: '{{ result > 1 }}'}, {step: b}]}", ["a", "b"]),
        ("{arcs: [{step: a, when: '{{ start == 5 }}'}]}", ["a"]),
        ("{arcs: [{step: a, when: \"{{ event.name == 'call.done' }}\"}]}", ["a"]),
    ],
)
def test_every_form_of_next_routes(form: str, steps: list[str]) -> None:
    assert routed(form) == steps


def test_arcs_hand_over_args_and_assign_ctx() -> None:
    report = Simulation(
        playbook("""
            - step: start
              tool: {kind: python, code: "result = 4"}
              next: {arcs: [{step: end, set: {ctx.seen: "{{ result }}"}, args: {n: "{{ ctx.seen * 2 }}"}}]}
            - step: end
              tool: {kind: python, code: "result = n"}
        """)
    ).run()
    assert (report.ctx, report.result) == ({"seen": 4}, 8)


def test_a_join_waits_for_both_branches_and_sees_their_results() -> None:
    report = Simulation(
        playbook("""
            - step: start
              next: [a, b]
            - step: a
              tool: {kind: python, code: "result = 1"}
              next: end
            - step: b
              tool: {kind: python, code: "result = 2"}
              next: end
            - step: end
              tool: {kind: python, code: "result = x + y", input: {x: "{{ a }}", y: "{{ b }}"}}
        """)
    ).run()
    assert (report.result, report.steps["end"]["runs"]) == (3, 1)


def test_a_cycle_over_arcs_counts_in_ctx() -> None:
    report = Simulation(
        playbook("""
            - step: start
              next: work
            - step: work
              tool: {kind: python, code: "result = n + 1", input: {n: "{{ ctx.n | default(0) }}"}}
              set: {ctx.n: "{{ result }}"}
              next: {arcs: [{step: work, when: "{{ ctx.n < 16 }}"}, {step: end}]}
            - step: end
        """)
    ).run()
    assert (report.ctx, report.steps["work"]["runs"]) == ({"n": 16}, 16)


# --- failures ------------------------------------------------------------------------------------


def broken(_call: Call) -> Json:
    raise ToolError("connection", "nobody there")


BRANCHES = """
    - step: start
      next: [bad, good]
    - step: bad
      tool: {kind: http, url: http://x}
    - step: good
      tool: {kind: noop}
      next: after
    - step: after
      tool: {kind: noop}
"""


def test_a_failed_execution_carries_its_error_everywhere() -> None:
    sim = Simulation(playbook(BRANCHES), {"http": broken})
    report = sim.run()
    assert report.row.status == "failed"
    assert report.row.error == report.error
    assert report.error is not None
    assert (report.error["message"], report.error["step"], report.error["task"]) == (
        "nobody there",
        "bad",
        "task_0",
    )
    assert report.error["line"] > 1


def test_best_effort_ends_partial_with_the_other_branches_done() -> None:
    root = "executor: {spec: {policy: {failure: {mode: best_effort}}}}"
    report = Simulation(playbook(BRANCHES, root), {"http": broken}).run()
    assert report.row.status == "partial"
    assert report.steps["after"]["status"] == "done"
    assert report.error is not None


def test_a_handled_failure_does_not_fail_the_execution() -> None:
    report = Simulation(
        playbook("""
            - step: start
              tool: {kind: http, url: http://x}
              next: {arcs: [{step: end, when: "{{ outcome.status == 'error' }}",
                             args: {why: "{{ error.message }}"}}]}
            - step: end
              tool: {kind: noop, input: {why: "{{ why }}"}}
        """),
        {"http": broken},
    ).run()
    assert (report.row.status, report.result) == ("completed", {"why": "nobody there"})


def test_fail_fast_lets_work_that_a_worker_holds_end() -> None:
    sim = Simulation(playbook(BRANCHES))
    run = sim.start()
    sim.deliver()
    held: list[str] = []

    def good(call: Call) -> Json:
        # While `good` runs, `bad` fails and the scheduler decides on it.
        sim.tools._functions = {**sim.tools._functions, "http": broken}
        while sim.mailbox.messages:
            sim.deliver()
        held.append(sim.report(run).row.status)
        return "done"

    sim.tools._functions = {**sim.tools._functions, "noop": good}
    commands = [message.command for message in sim.mailbox.messages]
    sim.deliver(next(i for i, row in enumerate(commands) if row is not None and row.step == "good"))
    sim.settle()
    report = sim.report(run)
    assert held == ["running"]
    assert (report.row.status, report.steps["good"]["result"]) == ("failed", "done")
    assert "after" not in report.steps


def test_the_final_step_runs_once_after_success_and_after_failure() -> None:
    workflow = """
        - step: start
          tool: {kind: http, url: http://x}
        - step: last
          tool: {kind: noop, input: {was: "{{ args.status }}", failed: "{{ args.steps.failed }}"}}
    """
    root = "executor: {spec: {final_step: last}}"
    good = Simulation(playbook(workflow, root), {"http": lambda call: 1}).run()
    bad = Simulation(playbook(workflow, root), {"http": broken}).run()
    assert (good.row.status, good.result["was"], good.result["failed"]) == ("completed", "completed", 0)
    assert (bad.row.status, bad.result["was"], bad.result["failed"]) == ("failed", "failed", 1)
    assert bad.steps["last"]["runs"] == 1


def test_a_defect_ends_the_one_execution_that_meets_it_and_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = Simulation(HELLO)
    run = sim.start()
    sim.deliver()

    def defective(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(deciding.Course, "go_on", defective)
        sim.settle()
    other = sim.start()
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["kind"], report.error["type"]) == ("internal", "RuntimeError")
    assert sim.report(other).row.status == "completed"
    with sim.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []


# --- starting ------------------------------------------------------------------------------------


def test_the_same_idempotency_key_is_the_same_execution() -> None:
    sim = Simulation(HELLO)
    request = StartRequest(sim.path, payload={"a": 1}, idempotency_key="k")
    first = start(sim.rt, request).execution_id
    assert start(sim.rt, request).execution_id == first
    with pytest.raises(Conflict, match=first):
        start(sim.rt, StartRequest(sim.path, payload={"a": 2}, idempotency_key="k"))
    sim.settle()
    assert [type_ for type_ in sim.types(first) if type_ == Requested.type] == [Requested.type]


def test_a_payload_is_merged_over_the_workload_and_overrides_over_that() -> None:
    sim = Simulation(
        lone(
            "tool: {kind: noop, input: {a: '{{ a }}', b: '{{ workload.b }}', c: '{{ c.x }}'}}",
            "workload: {a: 1, b: '{{ a + 1 }}', c: {x: 0, y: 0}}",
        )
    )
    assert sim.run({"c": {"x": 5}}, a=3).result == {"a": 3, "b": 4, "c": 5}


# --- values too large for the log ----------------------------------------------------------------


def test_results_too_large_for_the_log_become_references_and_read_as_if_they_were_inline() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool:
                - make: {kind: python, code: "result = {'rows': list(range(500)), 'n': 500}", set: {ctx.all: "{{ result }}"}}
              next: {arcs: [{step: end, when: "{{ start.n == 500 and ctx.all.n == 500 and result.n == 500 }}",
                             args: {rows: "{{ start.rows }}"}}]}
            - step: end
              tool:
                - first: {kind: python, code: "result = len(rows) + len(again)", input: {again: "{{ start.rows }}"}}
                - second: {kind: python, code: "result = n + last", input: {n: "{{ first }}", last: "{{ ctx.all.rows[499] }}"}}
        """),
        limits=RuntimeLimits(inline_bytes=200),
    )
    report = sim.run()
    assert (report.row.status, report.result) == ("completed", 1499)
    assert report.ctx["all"]["n"] == 500
    facts = [event.fact for event in sim.events(report.row.execution_id)]
    made = next(fact for fact in facts if isinstance(fact, TaskDone))
    assert is_reference(made.result)
    assert max(len(repr(fact)) for fact in facts) < 1700


def test_a_command_carries_only_the_names_its_templates_use() -> None:
    sim = Simulation(
        playbook(
            """
            - step: start
              tool: {kind: python, code: "result = 1", set: {ctx.used: 1, ctx.unused: 2}}
              next: end
            - step: end
              tool: {kind: noop, input: {a: "{{ used_key }}", b: "{{ ctx.used }}"}}
            """,
            "workload: {used_key: 1, unused_key: 2}",
        )
    )
    run = sim.start()
    sim.settle()
    issued = [event.fact for event in sim.events(run) if isinstance(event.fact, CommandIssued)][-1]
    with sim.rt.store.read() as tx:
        row = tx.commands.get(issued.command_id)
    assert row is not None
    context = row.context
    assert (context["workload"], context["ctx"], context["steps"]) == ({"used_key": 1}, {"used": 1}, {})


def test_a_call_names_the_event_that_issued_its_command() -> None:
    seen: list[tuple[str, str]] = []

    def told(call: Call) -> Json:
        seen.append((call.where.run_id, call.where.event))
        return call.task

    sim = Simulation(
        playbook(
            """
            - step: start
              tool: {kind: python, code: "result = 1"}
              next: each
            - step: each
              loop: {in: [1, 2], iterator: n}
              tool: {kind: python, code: "result = 2"}
            """
        ),
        {"python": told},
    )
    run = sim.start()
    sim.settle()
    issued = {event.event_id: event for event in sim.events(run) if isinstance(event.fact, CommandIssued)}
    assert [issued[event].draft.run_id for _, event in seen] == [run_id for run_id, _ in seen]
    assert [run_id for run_id, _ in seen] == ["start#1", "each#1", "each#1"]


def test_code_that_names_context_sees_everything_as_of_its_command() -> None:
    seen: list[dict[str, Json]] = []

    def python(call: Call) -> Json:
        if call.context is not None:
            seen.append(dict(call.context()))
        return call.task

    report = Simulation(
        playbook(
            """
            - step: start
              tool: {kind: python, code: "result = 1", set: {ctx.a: 1}}
              next: end
            - step: end
              tool: {kind: python, code: "result = context['ctx']"}
            """,
            "workload: {w: 2}",
        ),
        {"python": python},
    ).run()
    assert report.row.status == "completed"
    assert (seen[0]["ctx"], seen[0]["workload"], seen[0]["start"]) == ({"a": 1}, {"w": 2}, "task_0")


def test_a_task_that_outlives_a_heartbeat_shows_in_the_log_while_it_runs() -> None:
    seen: list[str] = []

    def slow(_: Call) -> str:
        sim.now += timedelta(seconds=10)
        sim.worker.leases.beat()
        sim.worker.leases.beat()
        seen.extend(sim.types(execution_id))
        return "late"

    sim = Simulation(playbook("- step: start\n  tool: {kind: http, url: u}\n"), {"http": slow})
    sim.worker = Worker(sim.rt, "simulated", Leases(sim.rt))
    execution_id = sim.start()
    sim.settle()
    assert seen[-2:] == ["step.started", "task.started"]
    assert sim.types(execution_id).count("task.started") == 1
    assert sim.report(execution_id).result == "late"


@pytest.mark.parametrize("status", ["ok", "error"])
def test_the_outcome_of_a_step_keeps_what_its_last_task_said_besides(status: str) -> None:
    def http(_: Call) -> Outcome:
        if status == "ok":
            return succeeded({"v": 1}, {"redirects": 2}, http={"status": 200})
        return failed(ErrorInfo("server_error", "no", status=503), {"redirects": 2}, http={"status": 503})

    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: http, url: x}
              next: [{step: end, when: "{{ outcome.http.status }}",
                      args: {http: "{{ output.http.status }}", meta: "{{ outcome.meta }}"}}]
            - step: end
        """),
        {"http": http},
    )
    found = sim.run().result
    assert found["http"] == (200 if status == "ok" else 503)
    assert found["meta"] == {"redirects": 2, "attempt": 1}


def test_a_worker_that_is_lost_does_not_speak_with_the_voice_of_the_task_before() -> None:
    error = ErrorInfo("internal", "gone", type="WorkerLost")
    run = Run(
        "s#1", "s", {}, 1, status="failed", error=error, last_task=LastTask(False, {"a": 1}, {"http": {}})
    )
    assert outcome_of(run).as_json().keys() == {"status", "meta", "error"}


def test_references_inside_of_results_and_variables_are_opened() -> None:
    sim = Simulation(
        playbook("""
            - step: each
              loop: {in: [0, 1], iterator: n}
              tool: {kind: python, code: "result = {'n': n, 'pad': 'x' * 400}", input: {n: "{{ n }}"}}
              set: {ctx.all: "{{ result.results }}", ctx.first: "{{ result.results[0] }}", ctx.in.it: "{{ result.results }}"}
        """),
        limits=RuntimeLimits(inline_bytes=300),
    )
    execution_id = sim.start()
    sim.settle()
    shown = inspect.result(sim.rt, execution_id).value
    assert [one["n"] for one in shown["results"]] == [0, 1]
    assert [one["n"] for one in variables.variable(sim.rt, execution_id, "all").value] == [0, 1]
    assert variables.variable(sim.rt, execution_id, "first.n").value == 0
    assert variables.variable(sim.rt, execution_id, "in").value["it"][1]["pad"] == "x" * 400


def test_what_is_opened_inside_of_a_result_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(
        playbook("""
            - step: each
              loop: {in: [0, 1], iterator: n}
              tool: {kind: python, code: "result = {'n': n, 'pad': 'x' * 400}", input: {n: "{{ n }}"}}
        """),
        limits=RuntimeLimits(inline_bytes=300),
    )
    execution_id = sim.start()
    sim.settle()
    monkeypatch.setattr(large_values, "SHOWN_BYTES", 500)
    first, second = inspect.result(sim.rt, execution_id).value["results"]
    assert first["n"] == 0
    assert is_reference(second)


@pytest.mark.parametrize("level", ["step", "task"])
def test_a_part_can_be_assigned_of_what_the_log_keeps_by_reference(level: str) -> None:
    assigns = "set: {ctx.big.n: 2, ctx.big.deep.a: 3}"
    task = f"tool: {{kind: noop, {assigns}}}" if level == "task" else f"tool: {{kind: noop}}\n  {assigns}"
    body = f"""
        - step: start
          tool: {{kind: python, code: "result = {{'pad': 'x' * 400, 'n': 1, 'deep': {{'a': 1, 'b': 1}}}}"}}
          set: {{ctx.big: "{{{{ result }}}}"}}
          next: again
        - step: again
          {task.replace(chr(10), chr(10) + " " * 8)}
          next: end
        - step: end
          tool: {{kind: noop, input: {{n: "{{{{ ctx.big.n }}}}", deep: "{{{{ ctx.big.deep }}}}", pad: "{{{{ ctx.big.pad | length }}}}"}}}}
    """
    report = Simulation(playbook(body), limits=RuntimeLimits(inline_bytes=300)).run()
    assert report.result == {"n": 2, "deep": {"a": 3, "b": 1}, "pad": 400}


def test_a_template_of_the_engine_that_is_undefined_is_recorded_with_its_place() -> None:
    sim = Simulation(
        playbook(
            """
            - step: start
              input: {a: "{{ gone_a }}"}
              loop: {in: "{{ gone_b }}", iterator: x}
              tool: {kind: noop}
              set: {ctx.c: "{{ gone_c }}"}
              next: [{step: end, args: {d: "{{ gone_d }}"}}]
            - step: end
            """,
            'workload: {w: "{{ gone_w }}"}',
        )
    )
    events = sim.events(sim.run().row.execution_id)
    recorded = [
        (e.fact.type, one["template"], one["place"])
        for e in events
        for one in getattr(e.fact, "warnings", ())
    ]
    assert recorded == [
        ("playbook.request.evaluated", "{{ gone_w }}", "workload.w"),
        ("step.scheduled", "{{ gone_a }}", "input.a"),
        ("loop.started", "{{ gone_b }}", "loop.in"),
        ("next.evaluated", "{{ gone_c }}", "set.ctx.c"),
        ("next.evaluated", "{{ gone_d }}", "next.end.args.d"),
    ]


def test_arcs_that_lead_to_the_final_step_wait_for_everything_else() -> None:
    sim = Simulation(
        playbook(
            """
            - {step: start, next: [a, b]}
            - {step: a, tool: {kind: noop}, next: {step: end, args: {a: 1}}}
            - {step: b, tool: {kind: python, code: "result = 1"}, next: {step: end, args: {b: 2, status: mine}}}
            - {step: end, tool: {kind: noop}}
            """,
            "executor: {spec: {final_step: end}}",
        )
    )
    report = sim.run()
    assert report.steps["end"]["runs"] == 1
    assert report.result == {
        "a": 1,
        "b": 2,
        "status": "completed",
        "steps": {"done": 3, "failed": 0, "skipped": 0},
        "errors": [],
    }


def test_an_execution_that_cannot_be_read_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    sim, said = Simulation(HELLO), list[str]()
    unreadable, other = sim.start(), sim.start()
    opened = deciding._open

    def broken(rt: Runtime, tx: Transaction, row: ExecutionRow, *rest: Any) -> Any:
        if row.execution_id == unreadable:
            raise NotFound("Its net is gone.")
        return opened(rt, tx, row, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(deciding, "_open", broken)
        patch.setattr(advance.log, "exception", lambda text, *args, **_: said.append(text % args))
        (failed,) = advance.advance(sim.rt)
        sim.settle()
    assert (failed.execution_id, str(failed.error)) == (unreadable, "Its net is gone.")
    assert (sim.report(unreadable).row.status, sim.report(other).row.status) == ("pending", "completed")
    assert f"Execution {unreadable} cannot be served" in said
    sim.pass_time(5)
    sim.settle()
    assert sim.report(unreadable).row.status == "completed"
