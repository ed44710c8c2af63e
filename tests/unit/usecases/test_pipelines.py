"""Pipelines inside of executions: retries that leave the worker, jumps, breaks, ctx patches."""

from __future__ import annotations

from playbooks import failing, lone, playbook

from noetl.testing import Simulation

RETRY = lone("""
    tool:
      kind: http
      url: http://x
      spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 5}},
        {else: {then: {do: continue}}}]}}
""")


def test_a_retry_delay_of_seconds_leaves_the_worker_and_comes_back() -> None:
    sim = Simulation(RETRY, {"http": failing(2, {"ok": True})})
    run = sim.start()
    sim.settle()
    assert sim.types(run)[-2:] == ["step.suspended", "command.issued"]
    assert sim.report(run).row.status == "running"
    sim.pass_time(4)
    assert sim.mailbox.messages == [], "it is not due yet"
    for _ in range(2):
        sim.pass_time(6)
        sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.result) == ("completed", {"ok": True})
    assert [call.attempt for call in sim.tools.calls] == [1, 2, 3]
    assert len({call.idempotency_key for call in sim.tools.calls}) == 1
    assert [type_ for type_ in sim.types(run) if type_ == "step.resumed"] == ["step.resumed"] * 2


def test_attempts_that_are_used_up_fail_the_execution_with_the_error() -> None:
    report = Simulation(RETRY, {"http": failing(9)}).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["kind"], report.error["step"], report.error["attempt"]) == (
        "server_error",
        "start",
        3,
    )
    assert report.error["message"] == "not yet"
    assert report.steps["start"]["error"] == report.error


def test_a_jump_goes_round_until_its_rule_says_otherwise() -> None:
    report = Simulation(
        lone("""
            tool:
              - fetch:
                  kind: python
                  code: "result = page + 1"
                  input: {page: "{{ page_number | default(0) }}"}
                  set: {page_number: "{{ result }}"}
              - check:
                  kind: noop
                  spec: {policy: {rules: [{when: "{{ fetch < 5 }}", then: {do: jump, to: fetch}}]}}
              - last: {kind: python, code: "result = n", input: {n: "{{ fetch }}"}}
        """)
    ).run()
    assert (report.row.status, report.result) == ("completed", 5)


def test_a_break_ends_the_pipeline_as_ok() -> None:
    sim = Simulation(
        lone("""
            tool:
              - first:
                  kind: python
                  code: "result = 'enough'"
                  spec: {policy: {rules: [{when: "{{ result == 'enough' }}", then: {do: break}}]}}
              - never: {kind: http, url: http://x}
        """)
    )
    report = sim.run()
    assert (report.row.status, report.result) == ("completed", "enough")
    assert [call.task for call in sim.tools.calls] == ["first"]


def test_a_task_patches_ctx_and_the_next_step_sees_it() -> None:
    report = Simulation(
        playbook("""
            - step: start
              tool:
                kind: python
                code: "result = 7"
                set: {ctx.deep.n: "{{ result }}"}
              next: end
            - step: end
              tool: {kind: python, code: "result = n", input: {n: "{{ ctx.deep.n }}"}}
        """)
    ).run()
    assert (report.result, report.ctx) == (7, {"deep": {"n": 7}})
