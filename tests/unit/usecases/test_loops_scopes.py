"""Loops of which iterations run on behind their step: in regions, where runs are undone and cleaned
up, and where others end them."""

from __future__ import annotations

from typing import Any

import pytest
from moments import some
from playbooks import playbook
from test_cancelling import During

from noetl.engine.evolve import replay
from noetl.engine.moments import moment_at
from noetl.engine.state import initial_state
from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control, fork
from noetl.usecases.fork import ForkRequest
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.turn.advance import advance

APART = "sync: false, mode: parallel"
ENOUGH = "enough: {when: '{{ completed >= 1 }}', rest: run},"


class Log:
    """Notes what its tasks are called (`say`), and fails for what is in `fails`."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.fails = {"bad"}

    def __call__(self, call: Call) -> Json:
        name = str(call.args["say"])
        self.said.append(name)
        if name in self.fails:
            raise ToolError("client_error", f"it is {name}")
        return name


def say(step: str, word: str = "", also: str = "") -> str:
    return f"- {{step: {step}, tool: {{kind: http, url: http://x, input: {{say: {word or step}}}}}{also}}}\n"


def looped(
    loop: str = "",
    spec: str = APART,
    *,
    step: str = "",
    after: str = "",
    items: str = "[1, 2, 3]",
    root: str = "",
    beside: str = "",
) -> str:
    """A loop whose iterations wait for a signal each, beside what else the playbook has."""
    return playbook(
        "- {step: start, next: [apart, beside]}\n"
        "- step: apart\n"
        f"  {step}\n"
        f"  loop: {{in: {items}, iterator: n, {loop} spec: {{{spec}}}}}\n"
        "  compensate: undo\n"
        "  finally: swept\n"
        "  tool: {kind: wait, signal: {name: 'go{{ n }}'}}\n"
        "  next: after\n"
        + say("after", also=after)
        + f"- {{step: beside, tool: {{kind: wait, signal: beside}}, {beside or 'next: then'}}}\n"
        + say("then")
        + say("bad")
        + say("later")
        + say("undo", '\'{{ "undo " ~ args.item ~ " " ~ (args.result or {}).payload }}\'')
        + say("swept", "'{{ \"swept \" ~ status }}'")
        + say("closed", "'{{ \"closed \" ~ status }}'"),
        root,
    )


class Course:
    """An execution that is told to go on, and what it has said."""

    def __init__(self, text: str) -> None:
        self.log = Log()
        self.sim = Simulation(text, {"http": self.log})
        self.run = self.sim.start()
        self.sim.settle()

    @property
    def said(self) -> list[str]:
        return self.log.said

    def go(self, *items: int) -> list[str]:
        """Lets the iterations of those items end; what was said by then."""
        for item in items:
            self.tell(f"go{item}", f"p{item}")
        return self.said

    def tell(self, name: str, payload: Json = None) -> list[str]:
        send_signal(self.sim.rt, self.run, SignalRequest(name, payload))
        self.sim.settle()
        return self.said

    @property
    def ended(self) -> tuple[str, Any]:
        report = self.sim.report(self.run)
        return report.row.status, report.error and report.error["message"]

    def facts(self, *kinds: type) -> list[Any]:
        return [event.fact for event in self.sim.events(self.run) if isinstance(event.fact, kinds)]

    def is_replayed(self) -> bool:
        return replay(initial_state(self.run), self.sim.events(self.run)) == self.sim.rt.states.get(self.run)


# --- finally -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loop", "spec"), [("", APART), (ENOUGH, "mode: parallel")])
def test_a_step_is_cleaned_up_once_when_the_last_of_its_iterations_has_ended(loop: str, spec: str) -> None:
    course = Course(looped(loop, spec))
    assert course.go(1, 2) == ["after"]
    assert course.go(3) == ["after", "swept done"]
    course.tell("beside")
    assert course.said == ["after", "swept done", "then"]
    assert course.ended == ("completed", None)
    assert [fact.boundary for fact in course.facts(e.NextEvaluated)].count("loop.done") == 1
    assert course.is_replayed()


def test_a_handler_hears_how_the_iterations_ended_that_nothing_waited_for() -> None:
    course = Course(looped(step="spec: {deadline: 60, policy: {failure: {mode: best_effort}}}"))
    course.go(1)
    course.sim.pass_time(61)
    course.sim.settle()
    assert course.said == ["after", "swept failed"]
    course.tell("beside")
    assert course.ended[0] == "partial"
    assert course.is_replayed()


def test_behind_a_failure_that_stops_all_it_waits_until_nothing_runs_any_more() -> None:
    course = Course(looped(step="spec: {deadline: 60}"))
    course.go(1)
    course.sim.pass_time(61)
    course.sim.settle()
    assert course.said == ["after", "swept failed", "undo 1 p1"]
    assert course.ended[0] == "failed"
    assert course.is_replayed()


def test_a_step_that_was_cancelled_behind_its_end_is_cleaned_up_and_routed_once() -> None:
    course = Course(looped())
    course.go(2)
    control.cancel_step(course.sim.rt, course.run, "apart")
    course.sim.settle()
    assert course.said == ["after", "swept cancelled"]
    course.tell("beside")
    assert course.ended == ("completed", None)
    assert course.sim.report(course.run).steps["apart"]["status"] == "done"
    assert course.is_replayed()


HANDLED_APART = playbook(
    "- {step: start, finally: swept, tool: {kind: noop}, next: after}\n"
    "- step: swept\n"
    "  loop: {in: [1, 2], iterator: n, spec: {sync: false, mode: parallel}}\n"
    "  tool: {kind: wait, signal: {name: 'go{{ n }}'}}\n" + say("after")
)


def test_a_handler_is_waited_for_until_its_last_iteration_has_ended() -> None:
    course = Course(HANDLED_APART)
    assert course.go(1) == []
    assert course.go(2) == ["after"]
    assert course.ended == ("completed", None)
    assert course.is_replayed()


def test_what_was_withdrawn_is_cleaned_up_before_an_execution_has_failed() -> None:
    course = Course(looped(beside="next: bad"))
    course.go(2)
    assert course.tell("beside") == ["after", "bad", "swept cancelled", "undo 2 p2"]
    assert course.ended == ("failed", "it is bad")
    assert course.is_replayed()


def test_a_run_that_waits_for_its_handler_begins_no_iteration_any_more() -> None:
    text = playbook(
        "- step: start\n"
        "  spec: {deadline: 60}\n"
        "  finally: swept\n"
        "  loop: {in: [1, 2], iterator: item}\n"
        "  tool: {kind: http, url: http://x, input: {item: '{{ item }}'}}\n"
        "- {step: swept, tool: {kind: wait, signal: swept}}\n"
    )
    called: list[Json] = []

    def act(call: Call) -> Json:
        called.append(call.args["item"])
        sim.pass_time(61)
        advance(sim.rt)
        return None

    sim = Simulation(text, {"http": act})
    run = sim.start()
    sim.settle()
    assert called == [1]
    send_signal(sim.rt, run, SignalRequest("swept"))
    sim.settle()
    assert sim.report(run).row.status == "failed"
    issued = [event.draft.step for event in sim.events(run) if isinstance(event.fact, e.CommandIssued)]
    assert issued == ["start", "swept", "swept"]


def test_a_worker_is_stopped_before_what_it_was_at_is_cleaned_up() -> None:
    """Its command is closed with the run, however long the handler takes."""
    text = playbook(
        "- {step: start, finally: swept, tool: {kind: http, url: http://x, input: {item: 1}}}\n"
        "- {step: swept, tool: {kind: wait, signal: swept}}\n"
    )

    def act() -> None:
        control.cancel_step(sim.rt, run, "start")
        advance(sim.rt)
        with sim.rt.store.read() as tx:
            left.extend(row.step for row in tx.commands.open_of(run))

    left: list[str] = []
    sim = Simulation(text, {"http": During(act, 1)})
    run = sim.start()
    sim.settle()
    assert left == ["swept"]


# --- what is undone ------------------------------------------------------------------------------


@pytest.mark.parametrize(("loop", "spec"), [("", APART), (ENOUGH, "mode: parallel")])
def test_iterations_are_undone_whether_they_ended_before_their_step_or_behind_it(
    loop: str, spec: str
) -> None:
    course = Course(looped(loop, spec, beside="next: bad"))
    course.go(3, 1, 2)
    course.tell("beside")
    assert course.said == ["after", "swept done", "bad", "undo 2 p2", "undo 1 p1", "undo 3 p3"]
    assert course.ended == ("failed", "it is bad")


def test_those_of_a_cancelled_execution_as_well() -> None:
    course = Course(looped())
    course.go(2)
    control.cancel(course.sim.rt, course.run)
    course.sim.settle()
    assert course.said == ["after", "swept cancelled", "undo 2 p2"]
    assert course.ended == ("cancelled", None)


def test_what_iterations_brought_is_undone_with_its_items() -> None:
    grow = "grow: '{{ [n * 10] if n < 10 else none }}',"
    course = Course(looped(grow, "mode: parallel", items="[1]", beside="next: bad"))
    course.go(1, 10)
    assert course.tell("beside")[-2:] == ["undo 10 p10", "undo 1 p1"]


def started(text: str) -> str:
    return text.replace("compensate: undo", "compensate: {step: undo, when: started}")


def test_iterations_that_were_cut_short_may_have_done_something_where_they_had_begun() -> None:
    text = looped("enough: {when: '{{ completed >= 1 }}'},", "mode: parallel, max_in_flight: 2")
    course = Course(started(text).replace("next: then", "next: bad"))
    course.go(1)
    assert course.tell("beside")[-2:] == ["undo 2 ", "undo 1 p1"]


def test_and_so_do_those_that_were_cancelled_one_by_one() -> None:
    course = Course(started(looped(spec="mode: sequential", beside="next: bad")))
    for index in (0, 2):
        control.cancel_step(course.sim.rt, course.run, "apart", index)
    course.sim.settle()
    course.go(2)
    assert course.tell("beside")[-2:] == ["undo 2 p2", "undo 1 "]


# --- regions -------------------------------------------------------------------------------------


def region(**keys: str) -> str:
    more = "".join(f", {key.rstrip('_')}: {value}" for key, value in keys.items())
    return f"regions: {{trip: {{steps: [apart], compensate: true{more}}}}}"


def test_a_region_has_not_ended_while_iterations_run_on_in_it() -> None:
    course = Course(looped(root=region()))
    assert course.go(1, 2) == ["after"]
    assert course.facts(e.RegionEnded) == []
    course.go(3)
    assert [fact.status for fact in course.facts(e.RegionEnded)] == ["completed"]


def test_what_leaves_a_region_with_a_handler_waits_for_them_all_the_same() -> None:
    course = Course(looped(root=region(finally_="closed")))
    assert course.go(1, 2) == []
    assert course.go(3) == ["swept done", "closed completed", "after"]


def cancel_by_request(course: Course) -> None:
    control.cancel_region(course.sim.rt, course.run, "trip", "it is off")


def cancel_by_deadline(course: Course) -> None:
    course.sim.pass_time(61)


@pytest.mark.parametrize("cancel", [cancel_by_request, cancel_by_deadline])
@pytest.mark.parametrize(("loop", "spec"), [("", APART), (ENOUGH, "mode: parallel")])
def test_a_region_that_is_cancelled_ends_and_undoes_them(cancel: Any, loop: str, spec: str) -> None:
    course = Course(looped(loop, spec, root=region(on_cancel="later", finally_="closed", deadline="60")))
    course.go(3, 1)
    cancel(course)
    course.sim.settle()
    assert course.said == [
        "swept cancelled",
        "undo 1 p1",
        "undo 3 p3",
        "later",
        "closed cancelled",
        "after",
    ]
    course.tell("beside")
    assert course.ended == ("completed", None)
    assert course.sim.report(course.run).steps["apart"]["result"]["stats"]["total"] == 3
    assert course.is_replayed()


def test_what_a_worker_reports_of_them_then_does_not_count() -> None:
    text = playbook(
        "- {step: start, next: apart}\n"
        "- step: apart\n"
        "  loop: {in: [1, 2], iterator: item, spec: {sync: false}}\n"
        "  tool: {kind: http, url: http://x, input: {item: '{{ item }}'}}\n",
        "regions: {trip: {steps: [apart]}}",
    )

    def act() -> None:
        control.cancel_region(sim.rt, run, "trip", "it is off")
        advance(sim.rt)

    sim = Simulation(text, {"http": During(act, 1)})
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert not any(isinstance(event.fact, e.IterationDone) for event in sim.events(run))


@pytest.mark.parametrize("sync", ["true", "false"])
def test_an_undoing_whose_iterations_fail_does_not_end_the_others(sync: str) -> None:
    text = playbook(
        "- {step: start, next: [book, stay]}\n"
        "- {step: book, compensate: undo, tool: {kind: noop}}\n"
        "- {step: stay, tool: {kind: wait, signal: go}}\n"
        "- step: undo\n"
        f"  loop: {{in: [1], iterator: n, spec: {{sync: {sync}}}}}\n"
        "  tool:\n"
        "    kind: http\n"
        "    url: http://x\n"
        "    input: {say: bad}\n"
        "    spec: {policy: {rules: [{else: {then: {do: fail}}}]}}\n" + say("later"),
        "regions: {trip: {steps: [book, stay], compensate: true, on_cancel: later}}",
    )
    course = Course(text)
    control.cancel_region(course.sim.rt, course.run, "trip", "it is off")
    course.sim.settle()
    assert course.said == ["bad", "later"]
    assert course.ended == ("partial", "it is bad")
    assert course.is_replayed()


# --- ended by other steps ------------------------------------------------------------------------


def test_a_step_that_completes_it_ends_the_iterations_alone() -> None:
    course = Course(looped(beside="spec: {completes: [apart]}, next: then"))
    course.go(1)
    course.tell("beside")
    assert sorted(course.said) == ["after", "swept done", "then"]
    assert course.ended == ("completed", None)
    done = course.facts(e.LoopDone)[0]
    assert (done.completed, done.cancelled, done.cut, done.failure) == (1, 2, True, None)
    assert {fact.forced_by for fact in course.facts(e.StepDone)} == {None}
    assert course.sim.report(course.run).steps["apart"]["result"] == {"results": None, "stats": {"total": 3}}
    assert course.is_replayed()


def test_a_loop_that_its_step_waits_for_is_cut_short_and_its_step_is_done() -> None:
    course = Course(looped(spec="mode: parallel", beside="spec: {completes: [apart]}, next: then"))
    course.go(1)
    course.tell("beside")
    assert course.ended == ("completed", None)
    assert course.sim.report(course.run).steps["apart"]["result"]["stats"] == {
        "total": 3,
        "completed": 1,
        "failed": 0,
        "cancelled": 2,
    }
    assert len(course.facts(e.IterationCancelled)) == 2
    assert [fact.forced_by for fact in course.facts(e.StepDone)].count("beside#1") == 1
    assert course.is_replayed()


def test_it_completes_others_when_its_step_is_done() -> None:
    text = looped(step="spec: {completes: [beside]}").replace(
        "next: [apart, beside]", "next: [beside, apart]"
    )
    first, second = text.index("  - step: apart"), text.index("  - {step: beside")
    beside = text[second : text.index("\n", second) + 1]
    course = Course(text[:first] + beside + text[first:second] + text[second + len(beside) :])
    assert sorted(course.said) == ["after", "then"]
    course.go(1, 2, 3)
    assert [fact.forced_by for fact in course.facts(e.StepDone)].count("apart#1") == 1
    assert course.ended == ("completed", None)


@pytest.mark.parametrize(
    ("status", "undone"), [("completed", []), ("failed", ["undo 1 p1"]), ("cancelled", ["undo 1 p1"])]
)
def test_a_step_that_ends_the_execution_ends_them(status: str, undone: list[str]) -> None:
    course = Course(looped(beside=f"terminate: {status}"))
    course.go(1)
    assert course.tell("beside") == ["after", "swept cancelled", *undone]
    assert course.ended[0] == status
    assert course.is_replayed()


def test_a_step_that_waits_for_nothing_ends_the_execution_before_its_own_iterations() -> None:
    course = Course(looped(step="terminate: completed", after=""))
    assert course.said == ["swept cancelled"]
    assert course.ended == ("completed", None)
    assert course.is_replayed()


# --- again ---------------------------------------------------------------------------------------


def test_a_retry_makes_again_what_was_undone() -> None:
    course = Course(looped(beside="next: bad"))
    course.go(2)
    course.tell("beside")
    course.log.fails.clear()
    course.run = retry(course.sim.rt, RetryRequest(course.run)).execution_id
    course.sim.settle()
    assert course.sim.report(course.run).row.waiting_for == "signal 'go1'; signal 'go2'; signal 'go3'"


def moments(course: Course) -> list[int]:
    """The versions at which its log can be cut, from the beginning of the loop on."""
    events = course.sim.events(course.run)
    first = next(event.version for event in events if isinstance(event.fact, e.LoopStarted))
    return sorted({moment_at(events, version) for version in range(first, len(events) - 1)})


@pytest.mark.parametrize(
    ("loop", "spec", "root"), [("", APART, ""), (ENOUGH, "mode: parallel", region(finally_="closed"))]
)
def test_a_fork_of_any_moment_cleans_up_once(loop: str, spec: str, root: str) -> None:
    course = Course(looped(loop, spec, items="[1, 2]", root=root))
    course.go(2, 1)
    course.tell("beside")
    assert course.ended == ("completed", None)
    first = course.run
    for at in some(moments(course)):
        course.run = fork.fork(course.sim.rt, ForkRequest(first, at=at)).execution_id
        course.sim.settle()
        for name in ("go1", "go2", "beside"):
            if course.ended[0] != "completed":
                course.tell(name)
        assert course.ended == ("completed", None), at
        assert course.sim.report(course.run).steps["swept"]["runs"] == 1, at
        assert course.is_replayed()
