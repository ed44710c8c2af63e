"""One decision at a time: what comes after a digest."""

from __future__ import annotations

from depot_noetl.digest import Digest

from noetl.dsl import compile_playbook
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.testing import KINDS, START, given

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: depot, path: depot/test}
workflow:
  - step: start
    tool: {kind: digest, text: hello}
    next: {arcs: [{step: end, when: "{{ start.hex == 'abc' }}"}]}
  - step: end
"""
KINDS_OF_ALL = {**KINDS, "digest": Digest.info()}
PLAN = Plan(compile_playbook(PLAYBOOK, file="test.yaml", kinds=KINDS_OF_ALL).net)
REQUESTED = e.Requested("depot/test", 1, "digest")


def test_an_execution_begins_with_its_first_step() -> None:
    when = given(PLAN, REQUESTED).when()
    assert when.types[0] == "playbook.request.evaluated"
    assert when.types[-1] == "command.issued"
    assert [draft.step for draft in when.drafts if draft.step] == ["start"] * 2


def test_nothing_follows_from_nothing() -> None:
    begun = given(PLAN, REQUESTED).when()
    issued = next(fact for fact in begun.facts if isinstance(fact, e.CommandIssued))
    inputs = Inputs(now=START, commands={issued.command_id: True})
    facts = (REQUESTED, *begun.drafts)
    state = given(PLAN, *facts, inputs=inputs).when().then()
    assert state.status == "running"


def test_a_step_that_is_done_leads_on_where_its_guard_holds() -> None:
    begun = given(PLAN, REQUESTED).when()
    run = next(draft.run_id for draft in begun.drafts if isinstance(draft.fact, e.CommandIssued))
    for digest, leads in (("abc", True), ("def", False)):
        when = given(PLAN, REQUESTED, *begun.drafts).when(
            Draft(e.TaskDone("task_0", {"hex": digest}), step="start", run_id=run),
            Draft(e.StepDone("task_0"), step="start", run_id=run),
        )
        assert ("end" in when.state.steps) == leads, digest
        assert when.state.status == "completed"
