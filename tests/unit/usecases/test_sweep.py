"""What is lost on the way, and how the tables bring it back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playbooks import lone, playbook

from noetl.facts.events import CommandIssued, CommandLost, ResultDiscarded
from noetl.facts.json import Json
from noetl.history.run_details import find_attempts
from noetl.pipeline.model import Call
from noetl.testing import Mailbox, Simulation
from noetl.ui.run.bars import TimeScale, draw_bars
from noetl.usecases import control
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.sweep import SweepReport, sweep
from noetl.usecases.timeline import timeline

ONE = lone("tool: {kind: http, url: http://x}")
PIPELINE = lone("""
    tool:
      - first: {kind: http, url: http://x}
      - second: {kind: http, url: http://x, input: {was: "{{ first }}"}}
      - third: {kind: http, url: http://x, input: {was: "{{ second }}"}}
""")


class Death(BaseException):
    """The process is gone: nothing catches this."""


class Mortal:
    """A tool whose process dies in the calls numbered by `deaths` (from 1); else it yields its
    number."""

    def __init__(self, *deaths: int) -> None:
        self.deaths = deaths
        self.calls: list[tuple[int | None, str]] = []

    def __call__(self, call: Call) -> Json:
        self.calls.append((call.where.iteration, call.task))
        if len(self.calls) in self.deaths:
            raise Death
        return call.args.get("item", len(self.calls))


def until_quiet(sim: Simulation, run: str) -> None:
    """Delivers and passes time, over every death, until the execution has ended."""
    for _ in range(100):
        try:
            sim.settle()
        except Death:
            sim.rt.states.clear()
        if sim.report(run).row.status in ("completed", "failed"):
            return
        sim.pass_time(31)
    raise AssertionError(f"still {sim.report(run).row.status}")


def test_a_healthy_run_needs_no_sweeper() -> None:
    sim = Simulation(ONE, {"http": lambda call: 1})
    sim.start()
    sim.settle()
    assert sweep(sim.rt) == SweepReport()


def test_a_lost_wake_is_asked_for_again() -> None:
    sim = Simulation(ONE, {"http": lambda call: 1})
    run = sim.start()
    sim.mailbox.messages.clear()
    assert sweep(sim.rt).woken == 1
    sim.settle()
    assert sim.report(run).row.status == "completed"


def test_commands_that_could_not_leave_are_sent_when_the_broker_is_back() -> None:
    sim = Simulation(ONE, {"http": lambda call: 1})
    sim.mailbox.away = True
    run = sim.start()
    assert sim.report(run).row.status == "pending"
    sim.pass_time(1)
    sim.mailbox.away = False
    sim.pass_time(1)
    sim.deliver()
    sim.mailbox.messages.clear()
    sim.pass_time(61)
    sim.settle()
    assert sim.report(run).row.status == "completed"


def test_a_broker_that_is_away_at_the_turn_leaves_the_command_unsent() -> None:
    sim = Simulation(ONE, {"http": lambda call: 1})
    run = sim.start()
    wake = sim.mailbox.messages.pop()
    sim.mailbox.away = True
    sim.mailbox.messages.append(wake)
    sim.deliver()
    with sim.rt.store.read() as tx:
        assert [row.sent_at for row in tx.commands.open_of(run)] == [None]
    sim.mailbox.away = False
    assert sweep(sim.rt) == SweepReport(sent=1)
    sim.settle()
    assert sim.report(run).row.status == "completed"


def test_what_nobody_claimed_is_sent_again_after_a_while() -> None:
    sim = Simulation(ONE, {"http": lambda call: 1})
    run = sim.start()
    sim.deliver()
    sim.mailbox.messages.clear()
    sim.now += timedelta(seconds=59)
    assert sweep(sim.rt) == SweepReport()
    sim.now += timedelta(seconds=2)
    assert sweep(sim.rt) == SweepReport(resent=1)
    sim.settle()
    assert sim.report(run).row.status == "completed"


def test_a_backlog_is_no_loss_unless_it_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(ONE, {"http": lambda _: 1})
    sim.start()
    sim.deliver()
    sim.mailbox.messages.clear()
    monkeypatch.setattr(Mailbox, "waiting", lambda *_: 7)
    sim.now += timedelta(seconds=61)
    assert sweep(sim.rt).resent == 0
    sim.now += timedelta(seconds=600)
    assert sweep(sim.rt).resent == 1


def test_a_lane_that_is_sent_again_keeps_its_place_in_the_chord() -> None:
    sim = Simulation(
        lone("""
            loop: {in: [1, 2, 3], iterator: item, spec: {mode: parallel}}
            tool: {kind: noop}
        """)
    )
    sim.start()
    sim.deliver()
    sent = [message.command for message in sim.mailbox.messages]
    sim.mailbox.messages.clear()
    sim.pass_time(61)
    again = [message.command for message in sim.mailbox.messages]
    places = [(row.chord_id, row.chord_index, row.chord_size) for row in sent if row is not None]
    assert [size for _, _, size in places] == [3, 3, 3]
    assert len({chord for chord, _, _ in places}) == 1
    assert sorted(places, key=repr) == sorted(
        ((row.chord_id, row.chord_index, row.chord_size) for row in again if row is not None), key=repr
    )


def test_a_second_delivery_goes_on_behind_the_last_recorded_task() -> None:
    tool = Mortal(2)
    sim = Simulation(PIPELINE, {"http": tool})
    run = sim.start()
    until_quiet(sim, run)
    assert [task for _, task in tool.calls] == ["first", "second", "second", "third"]
    assert sim.report(run).result == 4
    assert sim.types(run).count("step.started") == 1


def test_a_worker_that_is_lost_is_seen_on_the_timeline_and_among_the_attempts() -> None:
    sim = Simulation(PIPELINE, {"http": Mortal(2)})
    run = sim.start()
    until_quiet(sim, run)
    (lost,) = (event for event in sim.events(run) if isinstance(event.fact, ResultDiscarded))
    assert lost.draft.attempt == 1
    mine = [event for event in sim.events(run) if event.draft.run_id == lost.draft.run_id]
    ended = [(one.task, one.status) for one in find_attempts(mine)]
    assert ended == [("first", "done"), ("", "lost"), ("second", "done"), ("third", "done")]
    (again,) = (one.begun_again for one in find_attempts(mine) if one.status == "lost")
    assert again == "worker simulated was lost with delivery 1; begun again as 2"
    (line,) = (one for one in timeline(sim.rt, run).steps if one.step == "start")
    segments = line.runs[0].segments
    assert [one.lost for one in segments if one.lost] == [1]
    (bar,) = (one for one in draw_bars(line, TimeScale(100_000)) if "was lost with its worker" in one.title)
    assert bar.look == "failed"


LOOP = playbook("""
    - step: start
      loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
      tool: {kind: http, url: http://x}
      next: rest
    - step: rest
      tool: {kind: wait, signal: go}
""")


def test_what_handed_out_the_indices_of_a_loop_goes_with_its_execution() -> None:
    def is_left() -> bool:
        sweep(sim.rt)
        with sim.rt.store.read() as tx:
            return tx.loops.get(run, "start#1") is not None

    sim = Simulation(LOOP, {"http": lambda _: 1})
    run = sim.start()
    sim.settle()
    assert is_left()
    control.cancel(sim.rt, run, grace_s=0)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    assert not is_left()


def test_a_delivery_of_a_resumed_pipeline_may_die_too() -> None:
    body = """
        tool:
          - flaky:
              kind: python
              code: "result = 1"
              spec: {policy: {rules: [{when: "{{ _attempt == 1 }}", then: {do: retry, delay: 5}},
                                      {else: {then: {do: continue}}}]}}
          - first: {kind: http, url: http://x}
          - second: {kind: http, url: http://x}
    """
    tool = Mortal(2)
    sim = Simulation(lone(body), {"http": tool})
    run = sim.start()
    until_quiet(sim, run)
    assert sim.report(run).row.status == "completed"
    assert [task for _, task in tool.calls] == ["first", "second", "second"]
    assert sim.types(run).count("step.resumed") == 1


def test_deliveries_that_are_used_up_end_in_command_lost_and_a_failed_step() -> None:
    sim = Simulation(ONE, {"http": Mortal(*range(1, 100))}, limits=RuntimeLimits(max_deliveries=3))
    run = sim.start()
    until_quiet(sim, run)
    report = sim.report(run)
    lost = [event.fact for event in sim.events(run) if isinstance(event.fact, CommandLost)]
    assert [fact.deliveries for fact in lost] == [3]
    assert len(sim.tools.calls) == 3
    assert (report.row.status, report.steps["start"]["status"]) == ("failed", "failed")
    assert report.error is not None
    assert (report.error["kind"], report.error["type"]) == ("internal", "WorkerLost")


def test_a_worker_whose_lease_ran_out_reports_nothing() -> None:
    calls: list[int] = []

    def http(call: Call) -> Json:
        calls.append(len(calls))
        if len(calls) == 1:
            sim.pass_time(31)
            sim.settle()
        return len(calls)

    sim = Simulation(ONE, {"http": http})
    run = sim.start()
    sim.settle()
    assert calls == [0, 1]
    report = sim.report(run)
    assert (report.row.status, report.result) == ("completed", 2)
    assert sim.types(run).count("step.done") == 1


def test_a_worker_that_dies_in_a_branch_while_another_fails_does_not_keep_the_execution() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              next: [dies, fails]
            - step: dies
              tool: {kind: http, url: http://x}
            - step: fails
              tool: {kind: python, code: "raise ValueError('no')"}
        """),
        {"http": Mortal(1)},
    )
    run = sim.start()
    until_quiet(sim, run)
    assert sim.report(run).row.status == "failed"


# --- loops ---------------------------------------------------------------------------------------


def looped(mode: str, *deaths: int, **limits: float) -> tuple[Simulation, str, Mortal]:
    body = f"""
        loop: {{in: [0, 1, 2, 3, 4], iterator: item, spec: {{mode: {mode}, max_in_flight: 2}}}}
        tool:
          - a: {{kind: http, url: http://x, input: {{item: "{{{{ item }}}}"}}, set: {{iter.seen: 1}}}}
          - b: {{kind: http, url: http://x, input: {{item: "{{{{ item }}}}"}}}}
    """
    tool = Mortal(*deaths)
    sim = Simulation(lone(body), {"http": tool}, limits=RuntimeLimits(**{"slice_s": 3600.0, **limits}))  # type: ignore[arg-type]
    return sim, sim.start(), tool


@pytest.mark.parametrize("slice_s", [0.0, 3600.0])
@pytest.mark.parametrize("deaths", [(1,), (4,), (9,), (2, 3), (5, 6, 7)])
def test_a_sequential_loop_keeps_its_order_over_deaths(slice_s: float, deaths: tuple[int, ...]) -> None:
    sim, run, tool = looped("sequential", *deaths, slice_s=slice_s)
    until_quiet(sim, run)
    assert sim.report(run).result["results"] == [0, 1, 2, 3, 4]
    order = [iteration for iteration, _ in tool.calls if iteration is not None]
    assert order == sorted(order)
    assert len(tool.calls) == 10 + len(deaths), "only the call that died was made again"


@pytest.mark.parametrize("deaths", [(1,), (1, 2), (3, 4, 5)])
def test_iterations_that_a_dead_lane_took_are_issued_again(deaths: tuple[int, ...]) -> None:
    sim, run, tool = looped("parallel", *deaths)
    until_quiet(sim, run)
    assert sim.report(run).result["results"] == [0, 1, 2, 3, 4]
    assert len(tool.calls) == 10 + len(deaths)
    generations = {e.fact.generation for e in sim.events(run) if isinstance(e.fact, CommandIssued)}
    assert generations == {1, 2}


def test_an_iteration_that_kills_every_worker_is_given_up() -> None:
    body = lone("""
        loop: {in: [0, 1, 2], iterator: item, spec: {mode: parallel}}
        tool: {kind: http, url: http://x, input: {item: "{{ item }}"}}
    """)

    def http(call: Call) -> Json:
        if call.args["item"] == 1:
            raise Death
        return call.args["item"]

    sim = Simulation(body, {"http": http})
    run = sim.start()
    until_quiet(sim, run)
    report = sim.report(run)
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["type"], report.error["iteration"]) == ("WorkerLost", 1)
