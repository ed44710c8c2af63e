"""Steps that may begin only between two others."""

from __future__ import annotations

import pytest
from playbooks import playbook

from noetl.facts import events as e
from noetl.testing import Simulation
from noetl.usecases.signals import SignalRequest, send_signal

GUARDED = playbook("""
    - {step: start, next: [a, b]}
    - {step: a, tool: {kind: wait, signal: a}, next: c}
    - {step: c, tool: {kind: wait, signal: c}, next: y}
    - {step: y, tool: {kind: noop}}
    - {step: b, tool: {kind: wait, signal: b}, next: m}
    - {step: m, spec: {milestone: {after: a, before: y}}, tool: {kind: noop}, next: n}
    - {step: n, tool: {kind: noop}}
""")


def _stages(sim: Simulation, execution_id: str) -> list[str]:
    facts = (event.fact for event in sim.events(execution_id))
    return [fact.stage for fact in facts if isinstance(fact, e.MilestoneEvaluated)]


def _send(sim: Simulation, execution_id: str, name: str) -> None:
    send_signal(sim.rt, execution_id, SignalRequest(name))
    sim.settle()


@pytest.mark.parametrize(
    ("order", "stages", "status"),
    [
        ("abc", ["reached"], "done"),
        ("bac", ["early", "reached"], "done"),
        ("acb", ["passed"], "skipped"),
    ],
)
def test_the_step_begins_only_while_the_one_is_done_and_the_other_has_not_begun(
    order: str, stages: list[str], status: str
) -> None:
    sim = Simulation(GUARDED)
    execution_id = sim.start()
    sim.settle()
    for name in order:
        _send(sim, execution_id, name)
    report = sim.report(execution_id)
    assert report.row.status == "completed"
    assert _stages(sim, execution_id) == stages
    assert report.steps["m"]["status"] == status
    assert ("n" in report.steps) == (status == "done")


def test_a_token_that_waits_when_the_other_begins_is_skipped() -> None:
    sim = Simulation(
        playbook("""
        - {step: start, next: [a, y, m]}
        - {step: a, tool: {kind: wait, timer: 2h}}
        - {step: y, tool: {kind: wait, timer: 1h}, next: z}
        - {step: z, tool: {kind: noop}}
        - {step: m, spec: {milestone: {after: a, before: z}}, tool: {kind: noop}}
    """)
    )
    report = sim.run()
    assert report.row.status == "completed"
    assert report.steps["m"] == {**report.steps["m"], "status": "skipped", "runs": 0}
    assert _stages(sim, report.row.execution_id) == ["early", "passed"]
    skipped = [one.fact for one in sim.events(report.row.execution_id) if isinstance(one.fact, e.StepSkipped)]
    assert [one.reason for one in skipped] == ["step 'z' had begun"]


def test_one_bound_is_enough() -> None:
    sim = Simulation(
        playbook("""
        - {step: start, next: [a, m, early]}
        - {step: early, spec: {milestone: {before: z}}, tool: {kind: noop}}
        - {step: a, tool: {kind: wait, timer: 1h}, next: z}
        - {step: z, tool: {kind: noop}, next: late}
        - {step: late, spec: {milestone: {before: z}}, tool: {kind: noop}}
        - {step: m, spec: {milestone: {after: a}}, tool: {kind: noop}}
    """)
    )
    report = sim.run()
    status = {name: said["status"] for name, said in report.steps.items()}
    assert (status["early"], status["m"], status["late"]) == ("done", "done", "skipped")
    assert report.row.status == "completed"


def test_a_milestone_that_can_never_be_reached_fails_its_branch() -> None:
    report = Simulation(
        playbook("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a, when: false}, {step: m}, {step: o}]}}
        - {step: a, tool: {kind: noop}}
        - {step: o, tool: {kind: noop}}
        - {step: m, spec: {milestone: {after: a}}, tool: {kind: noop}}
    """)
    ).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["kind"], report.error["step"]) == ("join", "m")
    assert "step 'a'" in report.error["message"]


def test_a_join_that_can_still_reach_the_milestone_is_settled_before_it_is_given_up() -> None:
    report = Simulation(
        playbook("""
        - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: m}, {step: one}, {step: two}]}}
        - {step: m, spec: {milestone: {after: meet}}, tool: {kind: noop}, next: meet}
        - {step: one, tool: {kind: noop}, next: meet}
        - {step: two, tool: {kind: noop}, next: meet}
        - {step: meet, spec: {join: auto}, tool: {kind: noop}}
    """)
    ).run()
    assert report.row.status == "completed"
    assert report.steps["m"]["runs"] == 1


def test_an_execution_that_waits_for_a_milestone_takes_no_turns_of_its_own() -> None:
    sim = Simulation(GUARDED)
    execution_id = sim.start()
    sim.settle()
    _send(sim, execution_id, "b")
    before = len(sim.events(execution_id))
    for _ in range(3):
        sim.pass_time(60)
        sim.settle()
    assert len(sim.events(execution_id)) == before
    assert sim.report(execution_id).row.status == "waiting"


def test_what_waits_before_a_join_is_skipped_when_the_other_begins() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: [one, two, y]}
            - {step: one, tool: {kind: noop}, next: m}
            - {step: two, tool: {kind: wait, timer: 2h}, next: {arcs: [{step: m, when: "{{ false }}"}]}}
            - {step: m, spec: {join: all, milestone: {before: z}}, tool: {kind: noop}}
            - {step: y, tool: {kind: wait, timer: 1h}, next: z}
            - {step: z, tool: {kind: noop}}
        """)
    )
    report = sim.run()
    assert (report.row.status, report.steps["m"]["status"]) == ("completed", "skipped")


def test_admission_is_asked_once_the_milestone_is_reached() -> None:
    sim = Simulation(
        playbook("""
        - {step: start, next: [a, m]}
        - {step: a, tool: {kind: wait, timer: 1h}}
        - step: m
          spec:
            milestone: {after: a}
            policy: {admit: {rules: [{else: {then: {allow: false}}}], on_deny: fail}}
          tool: {kind: noop}
    """)
    )
    execution_id = sim.start()
    sim.settle()
    kinds = [
        one for one in sim.types(execution_id) if one in ("milestone.evaluated", "policy.admit.evaluated")
    ]
    assert kinds == ["milestone.evaluated"]
    sim.rest()
    assert sim.report(execution_id).row.status == "failed"
