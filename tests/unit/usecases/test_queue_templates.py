"""A queue that only the run knows."""

from __future__ import annotations

import pytest
from playbooks import playbook

from noetl.facts.events import CommandIssued
from noetl.testing import Simulation

POOL = """
    - step: start
      tool: {kind: python, code: "result = 'sim'"}
      next: {step: work, args: {machine: "{{ start }}"}}
    - step: work
      LOOP
      tool: {kind: python, code: "result = 1", spec: {queue: "quantum.{{ args.machine }}"}}
"""


def queues(sim: Simulation, run: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for event in sim.events(run):
        if isinstance(event.fact, CommandIssued):
            found.setdefault(event.draft.step or "", set()).add(event.fact.queue)
    return found


@pytest.mark.parametrize("loop", ["", "loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}"])
def test_a_template_names_the_queue_of_all_commands_of_a_run(loop: str) -> None:
    sim = Simulation(playbook(POOL.replace("LOOP", loop)))
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert queues(sim, run) == {"start": {"python"}, "work": {"quantum.sim"}}


@pytest.mark.parametrize(("said", "shown"), [("{{ nothing }}", "None"), ("{{ 'a, b' }}", "'a, b'")])
def test_what_is_no_name_of_a_queue_fails_the_step_and_is_named(said: str, shown: str) -> None:
    steps = f"""
    - step: start
      tool: {{kind: noop, spec: {{queue: "{said}"}}}}
    """
    report = Simulation(playbook(steps)).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["kind"], report.error["step"]) == ("template", "start")
    assert f"spec.queue: `{said}` comes to {shown}" in report.error["message"]
