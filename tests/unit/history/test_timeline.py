"""When runs wait for workers, run, and wait for something else; and what steps are meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from noetl.engine.state import initial_state
from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.events import Draft, Event
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo
from noetl.history.lines import RunLine, Timeline
from noetl.history.timeline import TimelineFold
from noetl.net.model import Net
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control, inspect
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.timeline import timeline
from tests.timelines import check_timeline, fold

from .stories import playbook
from .test_why import RETRY, failing

ONE = playbook("- step: start\n  tool: {kind: http, url: x}\n")


def look(sim: Simulation, run: str) -> Timeline:
    """The timeline, of which all holds that has to."""
    events = sim.events(run)
    check_timeline(inspect.net_of(sim.rt, run), events, len(events) // 2 or 1)
    found = timeline(sim.rt, run)
    for version in range(1, found.version + 1):
        view = inspect.state_view(sim.rt, run, version)
        said = {step.step: [one for one in step.changes if one.version <= version] for step in found.steps}
        assert {name: one["status"] for name, one in view["steps"].items()} == {
            name: changes[-1].status for name, changes in said.items() if changes
        }
        assert view["status"] == [one.status for one in found.statuses if one.version <= version][-1]
    return found


def runs_of(found: Timeline, step: str) -> list[RunLine]:
    return next(list(one.runs) for one in found.steps if one.step == step)


def parts(run: RunLine) -> list[Any]:
    """`[phase, seconds that it took, attempt, failed]` of every segment; None: still so."""
    return [
        [
            one.phase,
            None if one.end_ms is None else (one.end_ms - one.begin_ms) / 1000,
            one.attempt,
            one.failed,
        ]
        for one in run.segments
    ]


class Working:
    """A tool whose calls take so many seconds, one after another; it fails where that is said."""

    def __init__(self, *calls: float | str) -> None:
        self.sim: Simulation | None = None
        self._calls = list(calls)

    def __call__(self, _call: Call) -> Json:
        assert self.sim is not None
        now = self._calls.pop(0) if self._calls else 0.0
        self.sim.now += timedelta(seconds=float(now))
        if isinstance(now, str):
            raise ToolError("server_error", "not yet", retryable=True)
        return "ok"


def working(text: str, *calls: float | str) -> Simulation:
    tool = Working(*calls)
    tool.sim = Simulation(text, tools={"http": tool})
    return tool.sim


def test_a_run_is_queued_until_a_worker_takes_it() -> None:
    sim = working(ONE, 2)
    run = sim.start()
    sim.deliver()
    sim.now += timedelta(seconds=5)
    (queued,) = runs_of(look(sim, run), "start")
    assert (queued.status, parts(queued)) == ("running", [["queued", None, None, False]])
    sim.settle()
    (ended,) = runs_of(look(sim, run), "start")
    assert (ended.status, ended.end_ms) == ("done", 7_000)
    assert parts(ended) == [["queued", 5, None, False], ["running", 2, 1, False]]


def test_each_attempt_is_a_segment_and_a_delay_is_waited_for() -> None:
    sim = working(RETRY, "1", 3)
    run = sim.start()
    sim.settle()
    (waiting,) = runs_of(look(sim, run), "start")
    assert parts(waiting) == [["running", 1, 1, True], ["waiting", None, None, False]]
    sim.pass_time(100)
    sim.settle()
    (ended,) = runs_of(look(sim, run), "start")
    assert parts(ended) == [
        ["running", 1, 1, True],
        # It was due after 60 seconds, and its worker came after 100.
        ["waiting", 60, None, False],
        ["queued", 40, None, False],
        ["running", 3, 2, False],
    ]


def told(more: Sequence[tuple[float, Draft]]) -> Timeline:
    """The timeline of a run of which a command was issued, and then `more` was recorded, each so
    many seconds later."""
    sim = working(ONE)
    run = sim.start()
    sim.deliver()
    events = sim.events(run)
    assert events[-1].fact.type == "command.issued"
    for number, (seconds, draft) in enumerate(more, len(events) + 1):
        events.append(Event(run, number, events[0].recorded_at + timedelta(seconds=seconds), draft))
    check_timeline(inspect.net_of(sim.rt, run), events, len(events) - 1)
    return fold(inspect.net_of(sim.rt, run), events)


def instant(seconds: float) -> str:
    """The text of an instant so long after the execution was asked for."""
    return (working(ONE).now + timedelta(seconds=seconds)).isoformat()


def test_attempts_that_are_recorded_at_once_took_what_they_say() -> None:
    failed = e.AttemptFailed("task_0", ErrorInfo("server_error", "not yet"))
    sleeping = e.PolicyEvaluated("task_0", 0, None, {}, "retry", delay=2.0)
    done: list[Draft] = [
        _of_worker(e.StepStarted("w", instant(1))),
        _of_worker(failed, 3, 1),
        _of_worker(sleeping, None, 1),
        _of_worker(failed, 2, 2),
        _of_worker(e.TaskDone("task_0"), 1, 3),
        _of_worker(e.StepDone("task_0")),
    ]
    (one,) = runs_of(told([(9, draft) for draft in done]), "start")
    assert parts(one) == [
        ["queued", 1, None, False],
        ["running", 3, 1, True],
        ["waiting", 2, None, False],
        ["running", 2, 2, True],
        ["running", 1, 3, False],
    ]


def test_a_run_that_was_resumed_ran_before_its_first_report() -> None:
    issued = Draft(e.CommandIssued("c", "pipeline", "-", "http", 2, 1), "server", "start", "start#1")
    seconds_and_drafts: list[tuple[float, Draft]] = [
        (0, _of_worker(e.StepStarted("w", instant(0)))),
        (1, _of_worker(e.StepSuspended("task_0", "wait"))),
        (4, issued),
        (10, _of_worker(e.StepResumed("w"))),
        (10, _of_worker(e.TaskDone("task_0"), 3, 1)),
        (10, _of_worker(e.TaskDone("task_1"), 2, 1)),
        (11, _of_worker(e.StepDone("task_1"))),
    ]
    (one,) = runs_of(told(seconds_and_drafts), "start")
    assert parts(one) == [
        ["running", 1, 1, False],
        ["waiting", 3, None, False],
        ["queued", 1, None, False],
        ["running", 6, 1, False],
    ]


def test_a_task_that_still_runs_says_since_when() -> None:
    issued = Draft(e.CommandIssued("c", "pipeline", "-", "http", 2, 1), "server", "start", "start#1")
    found = told(
        [
            (0, _of_worker(e.StepStarted("w", instant(0)))),
            (1, _of_worker(e.StepSuspended("task_0", "wait"))),
            (4, issued),
            (10, _of_worker(e.StepResumed("w"))),
            (10, _of_worker(e.TaskStarted("task_0", instant(5)))),
        ]
    )
    assert parts(runs_of(found, "start")[0])[2:] == [
        ["queued", 1, None, False],
        ["running", None, 1, False],
    ]


def test_a_delay_that_is_over_by_the_last_event_is_over() -> None:
    issued = e.CommandIssued("c", "pipeline", "-", "http", 2, 1, due_at=instant(5))
    delayed = (1, Draft(issued, "server", "start", "start#1"))
    patched = Draft(e.CtxPatched({"x": 1}, "client"), "client")
    for seconds, expected in ((4, ["waiting", None]), (7, ["queued", None])):
        (one,) = runs_of(told([delayed, (seconds, patched)]), "start")
        assert parts(one)[-1][:2] == expected
    assert parts(one)[-2][:2] == ["waiting", 4]


def test_a_fork_waits_for_what_was_with_a_worker_there() -> None:
    started = _of_worker(e.StepStarted("w", instant(0)))
    found = told([(1, started), (2, Draft(e.Forked("7", 6), "client"))])
    (one,) = runs_of(found, "start")
    assert (one.status, [part[:2] for part in parts(one)]) == (
        "waiting",
        [["running", 2], ["waiting", None]],
    )
    assert found.steps[0].changes[-1].version == found.version


def test_a_run_that_the_end_of_the_execution_takes_away_is_cancelled() -> None:
    found = told([(1, Draft(e.CancelRequested(instant(2)), "client")), (3, Draft(e.Cancelled(), "server"))])
    (one,) = runs_of(found, "start")
    assert (one.status, one.end_version, parts(one)) == (
        "cancelled",
        found.version,
        [["queued", 3, None, False]],
    )


def _of_worker(fact: e.Fact, seconds: float | None = None, attempt: int | None = None) -> Draft:
    spent = None if seconds is None else seconds * 1000
    return Draft(fact, "worker", "start", "start#1", attempt=attempt, duration_ms=spent)


def test_a_run_waits_for_a_signal_and_goes_on_once_a_worker_takes_it() -> None:
    sim = Simulation(playbook("- step: start\n  tool: {kind: wait, signal: go}\n  next: end\n- step: end\n"))
    run = sim.start()
    sim.settle()
    sim.now += timedelta(seconds=30)
    found = look(sim, run)
    (waiting,) = runs_of(found, "start")
    assert (waiting.status, parts(waiting)[-1][:2]) == ("waiting", ["waiting", None])
    assert found.statuses[-1].status == "waiting"
    send_signal(sim.rt, run, SignalRequest("go"))
    sim.settle()
    found = look(sim, run)
    (done,) = runs_of(found, "start")
    assert (done.status, parts(done)[0][:2]) == ("done", ["waiting", 30])
    assert [one.status for one in found.steps[0].changes][-3:] == ["waiting", "running", "done"]


def test_a_loop_marks_what_became_of_its_iterations_and_has_no_attempts() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              loop: {in: [1, 2, 3], iterator: n, spec: {policy: {failure: {mode: best_effort}}}}
              tool: {kind: http, url: x}
        """),
        tools={"http": failing(1)},
    )
    run = sim.start()
    sim.deliver()
    sim.now += timedelta(seconds=4)
    sim.settle()
    (one,) = runs_of(look(sim, run), "start")
    assert one.loop is not None
    assert (one.loop.total, one.loop.mode) == (3, "sequential")
    assert [(mark.iteration, mark.status) for mark in one.loop.ended] == [
        (0, "failed"),
        (1, "done"),
        (2, "done"),
    ]
    assert one.loop.ended[0].at_ms == 4_000
    assert parts(one)[0] == ["queued", 4, None, False]
    assert all(segment.attempt is None for segment in one.segments)


def test_attempts_of_iterations_do_not_cut_their_run() -> None:
    retry = "{rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 3, delay: 9}}]}"
    sim = Simulation(
        playbook(f"""
            - step: start
              loop: {{in: [1, 2], iterator: n}}
              tool: {{kind: http, url: x, spec: {{policy: {retry}}}}}
        """),
        tools={"http": failing(1)},
    )
    run = sim.start()
    sim.settle()
    sim.pass_time(20)
    sim.settle()
    (one,) = runs_of(look(sim, run), "start")
    assert (one.status, parts(one)) == ("done", [["running", 20, None, False]])


APART = playbook("""
    - step: start
      loop: {in: [1, 2, 3, 4], iterator: n, spec: {sync: false}}
      tool: {kind: http, url: x}
      next: after
    - step: after
      tool: {kind: noop}
""")


@pytest.mark.parametrize(("broken", "status"), [(0, "done"), (4, "failed")])
def test_a_run_whose_step_does_not_wait_ends_with_its_loop(broken: int, status: str) -> None:
    sim = Simulation(
        APART,
        tools={"http": failing(broken)},
    )
    run = sim.start()
    sim.settle()
    (one,) = runs_of(look(sim, run), "start")
    last = next(event for event in sim.events(run) if isinstance(event.fact, e.LoopDone))
    assert (one.status, one.end_version) == (status, last.version)


def test_iterations_that_the_last_event_of_a_run_cuts_off_are_cancelled() -> None:
    sim = Simulation(APART)
    run = sim.start()
    sim.deliver()
    events, cut = sim.events(run), e.LoopDone(4, 0, 0, cancelled=4, cut=True)
    draft = Draft(cut, "server", "start", "start#1")
    events.append(Event(run, len(events) + 1, events[-1].recorded_at, draft))
    check_timeline(inspect.net_of(sim.rt, run), events, len(events) - 1)
    (one,) = runs_of(fold(inspect.net_of(sim.rt, run), events), "start")
    assert one.loop is not None
    assert [(mark.iteration, mark.status) for mark in one.loop.ended] == [
        (index, "cancelled") for index in range(4)
    ]


def test_a_run_waits_for_its_slot() -> None:
    limited = "spec: {concurrency: {limit: 1, key: k}}, tool: {kind: http, url: x}"
    sim = working(
        playbook(f"""
            - step: start
              next: [a, b]
            - {{step: a, {limited}}}
            - {{step: b, {limited}}}
        """),
        5,
    )
    run = sim.start()
    sim.deliver()
    (waiting,) = runs_of(look(sim, run), "b")
    assert (waiting.status, parts(waiting)) == ("waiting", [["waiting", None, None, False]])
    sim.settle()
    sim.pass_time(0)
    sim.settle()
    (one,) = runs_of(look(sim, run), "b")
    assert (one.status, parts(one)[0]) == ("done", ["waiting", 5, None, False])


def test_a_run_that_has_its_slot_is_queued() -> None:
    asked, granted = e.SlotRequested("-", ()), e.SlotGranted("-")
    drafts = [Draft(fact, "server", "start", "start#1") for fact in (asked, granted)]
    (one,) = runs_of(told([(2, drafts[0]), (5, drafts[1])]), "start")
    assert [part[:2] for part in parts(one)] == [["queued", 2], ["waiting", 3], ["queued", None]]


def test_what_a_cancel_ends_is_cancelled() -> None:
    sim = working(
        playbook(
            "- step: start\n  next: [a, b]\n- step: a\n  tool: {kind: http, url: x}\n- step: b\n  tool: {kind: noop}\n"
        )
    )
    run = sim.start()
    sim.deliver()
    sim.now += timedelta(seconds=3)
    control.cancel(sim.rt, run)
    sim.settle()
    found = look(sim, run)
    (one,) = runs_of(found, "a")
    assert (one.status, parts(one)) == ("cancelled", [["queued", 3, None, False]])
    assert found.statuses[-1].status == "cancelled"
    assert found.critical == ("start#1", "b#1"), "it ended behind a"


def test_what_undoes_a_run_stands_behind_what_ended_last() -> None:
    sim = working(
        playbook("""
            - step: start
              compensate: undo
              tool: {kind: http, url: x}
              next: breaks
            - {step: breaks, tool: {kind: http, url: x}}
            - {step: undo, tool: {kind: http, url: x}}
        """),
        1,
        "2",
        3,
    )
    run = sim.start()
    sim.settle()
    found = look(sim, run)
    assert found.critical == ("start#1", "breaks#1", "undo#1")
    assert parts(runs_of(found, "breaks")[0]) == [["running", 2, 1, True]]
    assert [(one.version, one.status) for one in found.steps[2].changes][-1][1] == "done"


def test_the_way_goes_over_the_token_that_came_last() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c, when: "{{ false }}"}]}}
            - {step: a, tool: {kind: noop}, next: join}
            - {step: b, tool: {kind: http, url: x}, next: join}
            - {step: c, tool: {kind: noop}}
            - {step: join, spec: {join: all}, tool: {kind: noop}}
        """),
        tools={"http": failing(0)},
    )
    run = sim.start()
    sim.deliver()
    sim.deliver(1)
    sim.now += timedelta(seconds=1)
    sim.settle()
    found = look(sim, run)
    asked = {one.arc: (len(one.taken), len(one.missed)) for one in found.arcs}
    assert list(asked.values())[:3] == [(1, 0), (1, 0), (0, 1)]
    routed = [event.draft.run_id for event in sim.events(run) if isinstance(event.fact, e.NextEvaluated)]
    assert routed[1] in ("a#1", "b#1")
    assert found.critical == ("start#1", routed[2], "join#1")


def test_a_fork_begins_with_its_copies_at_its_own_time() -> None:
    sim = working(
        playbook(
            "- step: start\n  tool: {kind: http, url: x}\n  next: b\n- step: b\n  tool: {kind: http, url: x}\n"
        ),
        5,
        5,
    )
    run = sim.start()
    sim.settle()
    sim.now += timedelta(seconds=100)
    made = fork(sim.rt, ForkRequest(run, before="b")).execution_id
    sim.now += timedelta(seconds=1)
    sim.settle()
    found = look(sim, made)
    (copied,), (own,) = runs_of(found, "start"), runs_of(found, "b")
    assert (copied.begin_ms, copied.end_ms) == (0, 0)
    assert (parts(own)[0][0], found.at_ms[-1]) == ("running", 1_000)
    assert found.critical == ("start#1", "b#1")


def test_clocks_that_differ_do_not_turn_time_back() -> None:
    sim = working(ONE)
    run = sim.start()
    sim.settle()
    folding = TimelineFold(run, inspect.net_of(sim.rt, run))
    for event in sim.events(run):
        late = timedelta(seconds=-3 if event.draft.source == "worker" else event.version)
        folding.take(Event(run, event.version, event.recorded_at + late, event.draft))
    found = folding.timeline()
    assert list(found.at_ms) == sorted(found.at_ms)
    (one,) = runs_of(found, "start")
    assert all((segment.end_ms or 0) >= segment.begin_ms >= 0 for segment in one.segments)


def test_without_an_event_there_is_no_timeline() -> None:
    folding = TimelineFold("1", Net("x", "x", "start", ()))
    assert folding.state == initial_state("1")
    with pytest.raises(ValueError, match="no event of execution 1"):
        folding.timeline()
