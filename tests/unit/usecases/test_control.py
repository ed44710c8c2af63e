"""What people may ask of a running execution: cancel, pause, resume, patch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playbooks import lone, playbook

from noetl.errors import BadRequest, Conflict, NotFound, ToolError, VersionConflict
from noetl.facts.events import ResultDiscarded
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.runtime import RuntimeLimits

TWO = playbook("""
    - step: start
      tool: {kind: http, url: http://x}
      next: end
    - step: end
      tool: {kind: noop}
""")

LOOP = lone("""
    loop: {in: "{{ range(6) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: http, url: http://x, input: {item: "{{ item }}"}}
""")


class During:
    """A tool that does something while it runs for the `nth` time, then yields its item."""

    def __init__(self, nth: int, act: Callable[[], object]) -> None:
        self.left = nth
        self.act = act

    def __call__(self, call: Call) -> Json:
        self.left -= 1
        if self.left == 0:
            self.act()
        return call.args.get("item")


def simulated(
    text: str, nth: int, act: Callable[[Simulation, str], object], **limits: float
) -> tuple[Simulation, str]:
    """An execution in whose `nth` call `act` happens."""
    tool = During(nth, lambda: act(sim, run))
    sim = Simulation(text, {"http": tool}, limits=RuntimeLimits(**{"slice_s": 3600.0, **limits}))  # type: ignore[arg-type]
    run = sim.start()
    return sim, run


def open_commands(sim: Simulation, run: str) -> int:
    with sim.rt.store.read() as tx:
        return len(tx.commands.open_of(run))


# --- cancel --------------------------------------------------------------------------------------


def test_an_execution_is_cancelled_before_it_began() -> None:
    sim = Simulation(TWO)
    run = sim.start()
    control.cancel(sim.rt, run, "not wanted")
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    assert sim.tools.calls == []


def test_a_cancelled_execution_withdraws_what_no_worker_holds() -> None:
    sim = Simulation(TWO)
    run = sim.start()
    sim.deliver()
    control.cancel(sim.rt, run)
    sim.settle()
    assert (sim.report(run).row.status, sim.tools.calls) == ("cancelled", [])
    assert open_commands(sim, run) == 0


def test_running_work_ends_and_nothing_new_begins() -> None:
    sim, run = simulated(TWO, 1, lambda sim, run: control.cancel(sim.rt, run))
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "cancelled"
    assert report.steps["start"]["status"] == "done"
    assert "end" not in report.steps


@pytest.mark.parametrize("slice_s", [0.0, 3600.0])
def test_a_loop_is_cancelled_between_its_iterations(slice_s: float) -> None:
    sim, run = simulated(LOOP, 3, lambda sim, run: control.cancel(sim.rt, run), slice_s=slice_s)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    assert len(sim.tools.calls) == 3
    assert open_commands(sim, run) == 0


def test_work_that_does_not_end_is_waited_for_until_the_grace_has_passed() -> None:
    seen: list[str] = []

    def act(sim: Simulation, run: str) -> None:
        control.cancel(sim.rt, run, grace_s=10)
        for seconds in (0, 9, 2):
            sim.pass_time(seconds)
            sim.settle()
            seen.append(sim.report(run).row.status)

    sim, run = simulated(TWO, 1, act)
    sim.settle()
    assert seen == ["running", "running", "cancelled"]
    discarded = sim.events(run)[-1].fact
    assert isinstance(discarded, ResultDiscarded)
    assert (discarded.is_loss, discarded.reason) == (
        False,
        "a result came too late (step.done): the execution had ended (cancelled)",
    )


def test_a_worker_that_hears_of_the_cancellation_lets_go_and_the_execution_ends_at_once() -> None:
    def act(sim: Simulation, run: str) -> None:
        control.cancel(sim.rt, run)
        sim.settle()
        sim.leases.beat()

    sim, run = simulated(TWO, 1, act)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"


def test_cancelling_twice_is_fine_and_after_the_end_a_conflict() -> None:
    sim = Simulation(TWO)
    run = sim.start()
    control.cancel(sim.rt, run)
    control.cancel(sim.rt, run)
    sim.settle()
    assert sim.types(run).count("playbook.cancel.requested") == 1
    with pytest.raises(Conflict):
        control.cancel(sim.rt, run)
    with pytest.raises(NotFound):
        control.cancel(sim.rt, "12345")


def test_a_late_report_leaves_a_trace_and_changes_nothing() -> None:
    sim, run = simulated(TWO, 1, lambda sim, run: (control.cancel(sim.rt, run, grace_s=0), sim.settle()))
    sim.settle()
    ended = sim.report(run).row.ended_at
    assert sim.types(run)[-1] == "result.discarded"
    sim.pass_time(100)
    sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.row.ended_at) == ("cancelled", ended)


def test_a_late_report_of_a_lane_leaves_a_trace_too() -> None:
    sim, run = simulated(LOOP, 2, lambda sim, run: (control.cancel(sim.rt, run, grace_s=0), sim.settle()))
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    assert sim.types(run)[-1] == "result.discarded"


# --- pause ---------------------------------------------------------------------------------------


def resumed(sim: Simulation, run: str) -> None:
    control.resume(sim.rt, run)
    sim.settle()


def test_a_pause_waits_for_running_work_and_resume_goes_on() -> None:
    sim, run = simulated(TWO, 1, lambda sim, run: control.pause(sim.rt, run))
    sim.settle()
    assert (sim.report(run).row.status, sim.types(run)[-1]) == ("paused", "playbook.paused")
    resumed(sim, run)
    assert sim.report(run).row.status == "completed"


def test_a_command_on_its_way_is_not_taken_while_paused() -> None:
    sim = Simulation(TWO, {"http": lambda call: 1})
    run = sim.start()
    sim.deliver()
    control.pause(sim.rt, run)
    sim.settle()
    assert (sim.report(run).row.status, sim.tools.calls) == ("paused", [])
    resumed(sim, run)
    assert sim.report(run).row.status == "completed"


@pytest.mark.parametrize("slice_s", [0.0, 3600.0])
@pytest.mark.parametrize("nth", [1, 2, 5, 6])
def test_a_loop_is_paused_in_the_middle_and_goes_on(slice_s: float, nth: int) -> None:
    sim, run = simulated(LOOP, nth, lambda sim, run: control.pause(sim.rt, run), slice_s=slice_s)
    sim.settle()
    assert sim.report(run).row.status == "paused"
    assert len(sim.tools.calls) == nth
    resumed(sim, run)
    report = sim.report(run)
    assert (report.row.status, report.result["results"]) == ("completed", [0, 1, 2, 3, 4, 5])
    assert len(sim.tools.calls) == 6


def test_a_worker_that_dies_while_paused_does_not_lose_its_command() -> None:
    class Death(BaseException):
        """The process is gone."""

    def act(sim: Simulation, run: str) -> None:
        control.pause(sim.rt, run)
        raise Death

    sim, run = simulated(TWO, 1, act)
    with pytest.raises(Death):
        sim.settle()
    sim.pass_time(40)
    sim.settle()
    assert sim.report(run).row.status == "paused"
    resumed(sim, run)
    assert sim.report(run).row.status == "completed"


def test_a_branch_that_fails_while_paused_fails_the_execution_after_resume() -> None:
    def http(call: Call) -> Json:
        control.pause(sim.rt, run)
        raise ToolError("connection", "nobody there")

    sim = Simulation(TWO, {"http": http})
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "paused"
    resumed(sim, run)
    assert sim.report(run).row.status == "failed"


def test_an_execution_is_paused_before_it_began() -> None:
    sim = Simulation(TWO, {"http": lambda call: 1})
    run = sim.start()
    control.pause(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "paused"
    resumed(sim, run)
    assert sim.report(run).row.status == "completed"


def test_resuming_what_is_not_paused_is_a_conflict() -> None:
    sim = Simulation(TWO)
    with pytest.raises(Conflict, match="not paused"):
        control.resume(sim.rt, sim.start())


def test_a_paused_execution_can_be_cancelled() -> None:
    sim, run = simulated(TWO, 1, lambda sim, run: control.pause(sim.rt, run))
    sim.settle()
    control.cancel(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"


# --- patch ---------------------------------------------------------------------------------------

GATED = playbook("""
    - step: start
      next: gated
    - step: gated
      spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
      tool: {kind: noop, input: {who: "{{ ctx.who }}"}}
""")


def test_a_ctx_patch_re_enables_a_denied_token() -> None:
    sim = Simulation(GATED)
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    control.patch_ctx(sim.rt, run, {"who": "me"})
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    control.patch_ctx(sim.rt, run, {"open": True})
    sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.result) == ("completed", {"who": "me"})


def test_a_patch_that_expects_another_version_is_refused() -> None:
    sim = Simulation(GATED)
    run = sim.start()
    sim.settle()
    head = sim.report(run).row.head_version
    with pytest.raises(VersionConflict):
        control.patch_ctx(sim.rt, run, {"open": True}, expected_version=head - 1)
    assert control.patch_ctx(sim.rt, run, {"open": True}, expected_version=head) == head + 1


@pytest.mark.parametrize("patch", [{}, {"": 1}, {"a..b": 1}, {"a": float("nan")}, {"a": object()}])
def test_a_patch_that_ctx_cannot_hold_is_refused(patch: dict[str, Json]) -> None:
    sim = Simulation(GATED)
    run = sim.start()
    with pytest.raises(BadRequest):
        control.patch_ctx(sim.rt, run, patch)
    assert sim.types(run) == ["playbook.execution.requested"]
