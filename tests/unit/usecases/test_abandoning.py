"""What a step that was called off has begun elsewhere is ended, behind the execution's back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from noetl.errors import ToolError
from noetl.facts.events import TaskAbandoned
from noetl.pipeline.model import Call, Later
from noetl.testing import KINDS, Simulation
from noetl.usecases import control, inspect
from noetl.usecases.ports import CredentialRow

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkload: {url: here}\n"
ONE = (
    HEAD + "workflow:\n- step: start\n  tool: {kind: http, name: job, url: '{{ workload.url }}', as: '{{ "
    "ctx.x }}'}\n"
)
LOOP = (
    HEAD + "workflow:\n- step: start\n  loop: {in: [a, b, c], iterator: url, spec: {mode: parallel, "
    "max_in_flight: 2}}\n" + "  tool: {kind: http, name: job, url: '{{ iter.url }}'}\n"
)
BRANCHES = (
    HEAD
    + "executor: {spec: {entry_step: fork}}\n"
    + "workflow:\n- {step: fork, tool: {kind: noop}, next: [start, wrong]}\n"
    + "- {step: start, tool: {kind: http, name: job, url: here}}\n"
    + "- {step: wrong, tool: {kind: python, code: 'raise ValueError()'}}\n"
)


class Elsewhere:
    """Jobs by url. `held` says how often a call to end one only asks to be called again."""

    def __init__(self, held: int = 0) -> None:
        self.jobs: dict[str, str] = {}
        self.held = held
        self.again = self.broken = False

    def __call__(self, call: Call) -> Later:
        url = str(call.config["url"])
        if not call.abandoned:
            self.jobs[url] = "runs"
            return Later(30, {"url": url})
        if self.broken:
            raise ToolError("connection", "Nobody answers.", type="Away")
        if self.held:
            assert call.checkpoint == {"url": url} | ({"held": self.held} if self.again else {})
            self.held, self.again = self.held - 1, True
            return Later(0.0, {"url": url, "held": self.held})
        self.jobs[url] = "ended"
        raise ToolError("cancelled", "Nobody waits for it.")


def simulated(
    playbook: str, elsewhere: Callable[[Call], object], *, abandons: bool = True
) -> tuple[Simulation, str]:
    """Its tasks wait for what they have begun."""
    kinds = {**KINDS, "http": replace(KINDS["http"], suspends=True, abandons=abandons)}
    sim = Simulation(playbook, {"http": elsewhere}, kinds=kinds)
    run = sim.start()
    sim.settle()
    return sim, run


def abandoned(sim: Simulation, run: str) -> list[tuple[int | None, str | None]]:
    """The iteration of each, and the message of its error."""
    facts = [
        (event.draft.iteration, event.fact)
        for event in sim.events(run)
        if isinstance(event.fact, TaskAbandoned)
    ]
    return [(place, None if fact.error is None else fact.error.message) for place, fact in facts]


@pytest.mark.parametrize("held", [0, 3])
def test_a_cancelled_execution_ends_at_once_and_its_job_soon_after(held: int) -> None:
    elsewhere = Elsewhere(held)
    sim, run = simulated(ONE, elsewhere)
    control.cancel(sim.rt, run)
    sim.deliver()
    assert sim.report(run).row.status == "cancelled"
    assert (elsewhere.jobs, inspect.has_to_notify(sim.rt, run)) == ({"here": "runs"}, True)

    sim.settle()

    assert (elsewhere.jobs, inspect.has_to_notify(sim.rt, run)) == ({"here": "ended"}, False)
    assert abandoned(sim, run) == [(None, None)]
    assert sim.report(run).row.status == "cancelled"


def test_each_iteration_that_waited_ends_its_own() -> None:
    elsewhere = Elsewhere()
    sim, run = simulated(LOOP, elsewhere)
    assert len(elsewhere.jobs) == 2
    control.cancel(sim.rt, run)
    sim.settle()
    assert set(elsewhere.jobs.values()) == {"ended"}
    assert sorted(abandoned(sim, run)) == [(0, None), (1, None)]


def test_a_branch_that_another_one_failed_ends_its_own() -> None:
    elsewhere = Elsewhere()
    sim, run = simulated(BRANCHES, elsewhere)
    assert (sim.report(run).row.status, elsewhere.jobs) == ("failed", {"here": "ended"})
    assert abandoned(sim, run) == [(None, None)]


@pytest.mark.parametrize(
    ("ends", "status"), [("spec: {completes: [start]}", "completed"), ("terminate: failed", "failed")]
)
def test_a_step_that_ends_others_ends_their_own_elsewhere(ends: str, status: str) -> None:
    elsewhere = Elsewhere()
    wrong = "{step: wrong, tool: {kind: python, code: 'raise ValueError()'}}"
    sim, run = simulated(BRANCHES.replace(wrong, f"{{step: wrong, tool: {{kind: noop}}, {ends}}}"), elsewhere)
    assert (sim.report(run).row.status, elsewhere.jobs) == (status, {"here": "ended"})
    assert abandoned(sim, run) == [(None, None)]


def test_an_order_whose_message_got_lost_is_sent_again_and_one_that_comes_twice_counts_once() -> None:
    elsewhere = Elsewhere()
    sim, run = simulated(ONE, elsewhere)
    control.cancel(sim.rt, run)
    sim.deliver()
    lost = [message for message in sim.mailbox.messages if message.command is not None]
    sim.mailbox.messages.clear()
    sim.pass_time(3600)
    sim.mailbox.messages += lost * 2
    sim.settle()
    assert (elsewhere.jobs, abandoned(sim, run)) == ({"here": "ended"}, [(None, None)])


def test_what_could_not_be_ended_is_in_the_log() -> None:
    elsewhere = Elsewhere()
    sim, run = simulated(ONE, elsewhere)
    elsewhere.broken = True
    control.cancel(sim.rt, run)
    sim.settle()
    assert abandoned(sim, run) == [(None, "Nobody answers.")]


def test_tools_that_do_not_say_that_they_can_are_not_called_again() -> None:
    elsewhere = Elsewhere()
    sim, run = simulated(ONE, elsewhere, abandons=False)
    control.cancel(sim.rt, run)
    sim.settle()
    assert (elsewhere.jobs, abandoned(sim, run)) == ({"here": "runs"}, [])


def test_credentials_of_the_execution_stay_until_the_order_is_carried_out() -> None:
    sim, run = simulated(ONE, Elsewhere())
    control.cancel(sim.rt, run)
    sim.deliver()
    with sim.rt.store.begin() as tx:
        tx.credentials.save(CredentialRow("key", "bearer", b"x", sim.now, sim.now, "execution", run))
    sim.pass_time(1)
    with sim.rt.store.read() as tx:
        assert tx.credentials.execution_ids() == [run]
    sim.settle()
    sim.pass_time(1)
    with sim.rt.store.read() as tx:
        assert tx.credentials.execution_ids() == []
