"""Regions: what belongs together is cancelled, undone and left together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from families import CALLS, STAYS, Family
from playbooks import playbook

from noetl.dsl.compiler import compile_playbook
from noetl.errors import Conflict, NotFound, ToolError
from noetl.facts.events import RegionEnded
from noetl.facts.json import Json
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.signals import SignalRequest, send_signal

KINDS = {"http": KindInfo("http", "http")}


class Log:
    """Notes what its tasks are called (`say`), and with which status; fails for what is in
    `fails`."""

    def __init__(self, *fails: str) -> None:
        self.fails = list(fails)
        self.said: list[str] = []

    def __call__(self, call: Call) -> Json:
        name = str(call.args["say"])
        self.said.append(name)
        if name in self.fails:
            raise ToolError("client_error", f"no {name}")
        return name


def say(step: str, *, also: str = "", word: str = "") -> str:
    return f"- {{step: {step}, tool: {{kind: http, url: http://x, input: {{say: {word or step}}}}}{also}}}\n"


#: Two branches that belong together: one waits, the other books.
REGION = playbook(
    say("start", also=", next: [wait, book]")
    + "- {step: wait, tool: {kind: wait, signal: go}, next: both}\n"
    + say("book", also=", compensate: unbook, next: both")
    + say("both", also=", spec: {join: all}, next: out")
    + say("out")
    + say("unbook", word="'{{ \"un\" ~ result }}'")
    + say("later", also=", next: out")
    + say("clear", word="'{{ \"clear \" ~ status }}'")
    + say("spoil"),
    "regions: {trip: {steps: [wait, book, both], deadline: 1h, compensate: true, on_cancel: later, "
    "finally: clear}}",
)


def begun(text: str, log: Log) -> tuple[Simulation, str]:
    sim = Simulation(text, {"http": log})
    run = sim.start()
    sim.settle()
    return sim, run


def tell(sim: Simulation, run: str, name: str) -> None:
    send_signal(sim.rt, run, SignalRequest(name))
    sim.settle()


def ended(sim: Simulation, run: str) -> tuple[str, Any]:
    report = sim.report(run)
    return report.row.status, report.error and report.error["message"]


def test_what_leaves_a_region_waits_until_it_is_cleared() -> None:
    log = Log()
    sim, run = begun(REGION, log)
    tell(sim, run, "go")
    assert log.said == ["start", "book", "both", "clear completed", "out"]
    assert ended(sim, run) == ("completed", None)
    assert sim.types(run).count("region.ended") == 1


def test_a_region_that_is_not_in_time_is_cancelled_undone_and_left_by_another_way() -> None:
    log = Log()
    sim, run = begun(REGION, log)
    sim.pass_time(3_600)
    sim.settle()
    assert log.said == ["start", "book", "unbook", "later", "clear cancelled", "out"]
    assert ended(sim, run) == ("completed", None)


def test_without_another_way_its_branch_has_failed() -> None:
    log = Log()
    sim, run = begun(
        REGION.replace("on_cancel: later, ", "").replace(
            ", next: out}\n  - {step: clear", "}\n  - {step: clear"
        ),
        log,
    )
    sim.pass_time(3_600)
    sim.settle()
    assert log.said == ["start", "book", "unbook", "clear cancelled"]
    status, error = ended(sim, run)
    assert (status, error) == (
        "failed",
        "Region 'trip' did not end within its deadline of 1h, which counts from its first run.",
    )


def test_a_deadline_waits_while_the_execution_is_paused() -> None:
    log = Log()
    sim, run = begun(REGION, log)
    control.pause(sim.rt, run)
    sim.settle()
    sim.pass_time(7_200)
    control.resume(sim.rt, run)
    sim.settle()
    assert log.said == ["start", "book"]
    sim.pass_time(3_599)
    sim.settle()
    assert log.said == ["start", "book"]
    sim.pass_time(1)
    sim.settle()
    assert log.said[2:4] == ["unbook", "later"]


def test_somebody_cancels_a_region_and_the_execution_goes_on() -> None:
    log = Log()
    sim, run = begun(REGION, log)
    control.cancel_region(sim.rt, run, "trip", "not wanted")
    control.cancel_region(sim.rt, run, "trip", "not wanted")
    sim.settle()
    assert log.said == ["start", "book", "unbook", "later", "clear cancelled", "out"]
    assert sim.types(run).count("region.cancel.requested") == 1
    with pytest.raises(Conflict, match="has ended"):
        control.cancel_region(sim.rt, run, "trip")


#: A region of which nothing is left while its `finally` waits.
CLOSING = playbook(
    say("start", also=", compensate: unbook, next: [pay, wait]")
    + "- {step: wait, tool: {kind: wait, signal: again}, next: start}\n"
    + say("pay")
    + say("unbook")
    + say("tell")
    + say("stop")
    + """
- step: close
  tool:
    - told: {kind: http, url: http://x, input: {say: "{{ 'close ' ~ status }}"}}
    - wait: {kind: wait, signal: go}
""",
    "regions: {trip: {steps: [start], deadline: 1h, compensate: true, on_cancel: tell, finally: close, "
    'cancel_on: "{{ ctx.off }}"}}',
)


def _ask_to_cancel(sim: Simulation, run: str) -> None:
    with pytest.raises(Conflict, match="Nothing is left to be cancelled of region 'trip'"):
        control.cancel_region(sim.rt, run, "trip")


@pytest.mark.parametrize(
    "come_too_late",
    [
        lambda sim, _run: sim.pass_time(3_600),
        lambda sim, run: control.patch_ctx(sim.rt, run, {"off": True}),
        _ask_to_cancel,
    ],
    ids=["deadline", "cancel_on", "somebody"],
)
def test_what_would_cancel_a_region_comes_too_late_while_its_finally_runs(
    come_too_late: Callable[[Simulation, str], None],
) -> None:
    log = Log()
    sim, run = begun(CLOSING, log)
    come_too_late(sim, run)
    sim.settle()
    tell(sim, run, "go")
    assert log.said == ["start", "close completed", "pay"]
    assert "region.cancelled" not in sim.types(run)


def test_a_deadline_that_has_come_when_nothing_is_left_any_more_is_too_late() -> None:
    log = Log()
    sim = Simulation(CLOSING, {"http": log})
    run = sim.start()
    while not log.said:
        sim.deliver()
    sim.now += timedelta(hours=1)
    sim.settle()
    tell(sim, run, "go")
    assert log.said == ["start", "close completed", "pay"]
    ended = [event.fact for event in sim.events(run) if isinstance(event.fact, RegionEnded)]
    assert [(fact.status, fact.failure) for fact in ended] == [("completed", None)]


def test_what_comes_back_while_a_region_ends_enters_it_again() -> None:
    log = Log()
    sim, run = begun(CLOSING, log)
    tell(sim, run, "again")
    assert log.said == ["start", "close completed"]
    tell(sim, run, "go")
    assert log.said == ["start", "close completed", "pay", "start", "close completed"]
    assert sim.types(run).count("region.entered") == 2


BACK = playbook(
    "- {step: start, next: [stay, back]}\n"
    "- {step: stay, tool: {kind: wait, signal: stay}}\n"
    "- {step: back, tool: {kind: wait, signal: back}, next: inside}\n"
    "- {step: close, tool: {kind: wait, signal: go}}\n" + say("inside"),
    "regions: {trip: {steps: [stay, inside], finally: close}}",
)


def test_what_comes_back_while_a_cancelled_region_ends_enters_it_again() -> None:
    log = Log()
    sim, run = begun(BACK, log)
    control.cancel_region(sim.rt, run, "trip")
    sim.settle()
    tell(sim, run, "back")
    assert log.said == []
    tell(sim, run, "go")
    assert log.said == ["inside"]
    tell(sim, run, "go")
    assert ended(sim, run) == ("completed", None)


def test_a_region_that_there_is_not_or_that_is_not_open() -> None:
    log = Log()
    sim = Simulation(REGION, {"http": log})
    run = sim.start()
    with pytest.raises(NotFound, match=r"has no region 'tripp'\. Did you mean 'trip'"):
        control.cancel_region(sim.rt, run, "tripp")
    with pytest.raises(Conflict, match="Nothing of region 'trip' runs or waits"):
        control.cancel_region(sim.rt, run, "trip")


# --- causes --------------------------------------------------------------------------------------

FREE = playbook(
    say("start", also=", next: [a, b, watch]")
    + "- {step: a, tool: {kind: wait, timer: 1d}, next: c}\n"
    + "- {step: b, tool: {kind: wait, timer: 1d}, next: c}\n"
    + say("c")
    + "- {step: watch, tool: {kind: wait, signal: stop}, next: stop}\n"
    + say("stop", also=", next: behind")
    + say("behind"),
    "regions: {both: {steps: [a, b, c], cancel_on: stop}}",
)


def test_the_end_of_a_step_cancels_a_region() -> None:
    log = Log()
    sim, run = begun(FREE, log)
    tell(sim, run, "stop")
    assert log.said == ["start", "stop", "behind"]
    assert ended(sim, run) == ("completed", None)


def test_without_the_key_nothing_cancels_it() -> None:
    log = Log()
    sim, run = begun(FREE.replace(", cancel_on: stop", ""), log)
    tell(sim, run, "stop")
    assert ended(sim, run) == ("running", None)


def test_the_end_of_a_step_inside_cancels_what_else_is_in_the_region() -> None:
    log = Log()
    sim, run = begun(FREE.replace("steps: [a, b, c]", "steps: [a, b, c, watch, stop]"), log)
    tell(sim, run, "stop")
    assert log.said == ["start", "stop", "behind"]
    assert ended(sim, run) == ("completed", None)


def test_a_change_of_ctx_cancels_a_region() -> None:
    log = Log()
    sim, run = begun(FREE.replace("cancel_on: stop", "cancel_on: '{{ ctx.enough }}'"), log)
    control.patch_ctx(sim.rt, run, {"enough": True})
    tell(sim, run, "stop")
    assert log.said == ["start", "stop", "behind"]


def test_a_guard_that_cannot_be_asked_cancels_it_as_a_failure() -> None:
    log = Log()
    sim, run = begun(FREE.replace("cancel_on: stop", "cancel_on: '{{ ctx.n + 1 > 3 }}'"), log)
    status, error = ended(sim, run)
    assert status == "failed"
    assert error.startswith("cancel_on of region 'both': ")


# --- in and around each other --------------------------------------------------------------------

NESTED = playbook(
    say("start", also=", next: outer")
    + say("outer", also=", compensate: undo_outer, next: inner")
    + say("inner", also=", compensate: undo_inner, next: last")
    + say("last")
    + say("undo_outer")
    + say("undo_inner")
    + say("clear_outer", word="'{{ \"outer \" ~ status }}'")
    + say("clear_inner", word="'{{ \"inner \" ~ status }}'"),
    """
    regions:
      around: {steps: [outer, within], compensate: true, finally: clear_outer}
      within: {steps: [inner, last], compensate: true, finally: clear_inner}
    """,
)


def test_inner_regions_end_before_outer_ones() -> None:
    log = Log()
    begun(NESTED, log)
    assert log.said == ["start", "outer", "inner", "last", "inner completed", "outer completed"]


def test_what_fails_in_an_inner_region_undoes_it_first() -> None:
    log = Log("last")
    sim, run = begun(NESTED, log)
    assert log.said[3:] == ["last", "undo_inner", "inner failed", "undo_outer", "outer failed"]
    assert ended(sim, run) == ("failed", "no last")


def test_a_cancelled_execution_ends_its_regions() -> None:
    log = Log()
    text = NESTED.replace(say("last").strip(), "- {step: last, tool: {kind: wait, signal: go}}")
    sim, run = begun(text, log)
    control.cancel(sim.rt, run)
    sim.settle()
    assert log.said[3:] == ["undo_inner", "inner cancelled", "undo_outer", "outer cancelled"]
    assert ended(sim, run)[0] == "cancelled"


def test_a_region_is_entered_again() -> None:
    log = Log()
    text = playbook(
        say("start", also=", next: work")
        + say("work", also=", set: {ctx.n: '{{ (ctx.n or 0) + 1 }}'}, next: [again]")
        + say("again", also=", next: [{step: work, when: '{{ ctx.n < 3 }}'}]")
        + say("clear"),
        "regions: {once: {steps: [work], finally: clear}}",
    )
    begun(text, log)
    assert log.said == ["start", *["work", "clear", "again"] * 3]


def test_a_join_behind_a_region_waits_for_the_way_that_it_is_left_by() -> None:
    log = Log()
    text = playbook(
        say("start", also=", next: [slow, quick]")
        + "- {step: slow, tool: {kind: wait, timer: 1d}, next: join}\n"
        + say("quick", also=", next: join")
        + say("join")
        + say("later", also=", next: join"),
        "regions: {r: {steps: [slow], on_cancel: later}}",
    )
    sim, run = begun(text, log)
    assert log.said == ["start", "quick"]
    control.cancel_region(sim.rt, run, "r")
    sim.settle()
    assert log.said == ["start", "quick", "later", "join"]


def test_a_retry_makes_again_what_a_region_undid() -> None:
    log = Log("out")
    sim, run = begun(REGION, log)
    control.cancel_region(sim.rt, run, "trip")
    sim.settle()
    assert ended(sim, run)[0] == "failed"
    log.fails.clear()
    log.said.clear()
    again = retry(sim.rt, RetryRequest(run)).execution_id
    sim.settle()
    assert log.said == ["book"]
    tell(sim, again, "go")
    assert log.said == ["book", "both", "clear completed", "out"]
    assert ended(sim, again) == ("completed", None)


def test_a_called_playbook_in_a_region_is_cancelled_with_it() -> None:
    family = Family(CALLS, STAYS, root="regions: {r: {steps: [start], deadline: 10m}}")
    run = family.start()
    (child,) = family.children(run)
    family.sim.pass_time(600)
    family.sim.settle()
    assert (family.status(child), family.status(run)) == ("cancelled", "failed")


# --- limits ---------------------------------------------------------------------------------------

CRITICAL = playbook(
    say("start", also=", next: draw")
    + say("draw", also=", next: hold")
    + "- {step: hold, tool: {kind: wait, signal: go}, next: store}\n"
    + say("store", also=", next: after")
    + say("after")
    + say("other")
    + say("clear"),
    "regions: {account: {steps: [draw, hold, store], concurrency: {key: account, limit: 1}}}",
)


def two(sim: Simulation) -> tuple[str, str]:
    """Two executions, the second one when the first one has come as far as it can."""
    first = sim.start()
    sim.settle()
    second = sim.start()
    sim.settle()
    return first, second


def test_one_execution_at_a_time_is_in_a_region_with_one_slot() -> None:
    log = Log()
    sim = Simulation(CRITICAL, {"http": log})
    first, second = two(sim)
    assert log.said == ["start", "draw", "start"]
    assert "a slot of 'account' (limit 1)" in (sim.report(second).row.waiting_for or "")
    tell(sim, second, "go")
    assert log.said == ["start", "draw", "start"]
    tell(sim, first, "go")
    sim.settle()
    assert log.said == ["start", "draw", "start", "store", "after", "draw", "store", "after"]
    assert ended(sim, first) == ended(sim, second) == ("completed", None)
    with sim.rt.store.read() as tx:
        assert tx.slots.of_key() == []


def test_without_the_slot_both_are_in_it_at_once() -> None:
    log = Log()
    sim = Simulation(CRITICAL.replace(", concurrency: {key: account, limit: 1}", ""), {"http": log})
    two(sim)
    assert log.said == ["start", "draw", "start", "draw"]


def test_a_slot_of_a_region_is_free_once_that_was_cancelled() -> None:
    log = Log()
    sim = Simulation(CRITICAL, {"http": log})
    first, second = two(sim)
    control.cancel_region(sim.rt, first, "account")
    sim.settle()
    assert ended(sim, first) == ("completed", None)
    assert log.said == ["start", "draw", "start", "draw"]
    control.cancel(sim.rt, second)
    sim.settle()
    with sim.rt.store.read() as tx:
        assert tx.slots.of_key() == []


def test_a_step_in_the_region_goes_on_with_the_slot_of_the_same_key() -> None:
    log = Log()
    text = CRITICAL.replace(
        "input: {say: draw}}", "input: {say: draw}}, spec: {concurrency: {key: account, limit: 1}}"
    )
    sim, run = begun(text, log)
    tell(sim, run, "go")
    assert ended(sim, run) == ("completed", None)


def test_a_region_for_which_there_is_no_room_is_left_at_once() -> None:
    log = Log()
    text = CRITICAL.replace("limit: 1}", "limit: 1, on_full: skip}, on_cancel: other")
    sim = Simulation(text, {"http": log})
    _, second = two(sim)
    assert log.said == ["start", "draw", "start", "other"]
    assert ended(sim, second) == ("completed", None)


def test_a_region_for_which_there_is_no_room_fails_where_it_says_so() -> None:
    log = Log()
    text = CRITICAL.replace("limit: 1}", "limit: 1, on_full: fail}, finally: clear")
    sim = Simulation(text, {"http": log})
    _, second = two(sim)
    assert log.said == ["start", "draw", "start", "clear"]
    assert ended(sim, second) == ("failed", "No slot of 'account' was free (limit 1).")


def test_the_region_that_has_had_its_slot_for_longest_is_cancelled_for_another() -> None:
    log = Log()
    text = CRITICAL.replace("limit: 1}", "limit: 1, on_full: cancel_oldest}")
    sim = Simulation(text, {"http": log})
    first, second = two(sim)
    assert log.said == ["start", "draw", "start", "draw"]
    assert ended(sim, first) == ("completed", None)
    assert ended(sim, second)[0] in ("running", "waiting")


# --- what is wrong with them ----------------------------------------------------------------------


def problems(text: str) -> list[tuple[str, str]]:
    return [
        (str(one.code), one.message) for one in compile_playbook(text, file="p.yaml", kinds=KINDS).problems
    ]


@pytest.mark.parametrize(
    ("regions", "code", "message"),
    [
        ("{r: {steps: []}}", "NOETL202", "the region has no steps"),
        ("{r: {steps: [aa]}}", "NOETL301", "there is no step or region 'aa'"),
        ("{r: {steps: [a, b]}, s: {steps: [b, c]}}", "NOETL217", "regions 's' and 'r' share step 'b'"),
        ("{r: {steps: [r]}}", "NOETL217", "region 'r' is inside of itself"),
        ("{a: {steps: [a, b]}}", "NOETL205", "a step is called 'a' as well"),
        ("{r: {steps: [a], deadline: -1}}", "NOETL203", "deadline is -1"),
        ("{r: {steps: [a], finally: b}}", "NOETL218", "step 'b' is the `finally` of region 'r', and runs"),
        ("{r: {steps: [a], on_cancel: a}}", "NOETL203", "step 'a' is a part of the region"),
        ("{r: {steps: [a], cancel_on: aa}}", "NOETL301", "there is no step 'aa'"),
        ("{r: {stepps: [a]}}", "NOETL212", "the key 'stepps' means nothing here"),
    ],
)
def test_a_region_that_cannot_be(regions: str, code: str, message: str) -> None:
    text = playbook(say("a", also=", next: b") + say("b", also=", next: c") + say("c"), f"regions: {regions}")
    found = problems(text)
    assert any(one == code and said.startswith(message) for one, said in found), found


@pytest.mark.parametrize("key", ["finally", "compensate"])
def test_a_handler_that_several_arcs_lead_to_is_told_of_and_nothing_else_is(key: str) -> None:
    text = playbook(
        say("start", also=", next: [a, b]")
        + say("a", also=", next: join")
        + say("b", also=f", next: join, {key}: join")
        + say("join")
    )
    assert [code for code, _ in problems(text)] == ["NOETL218"]


def test_what_a_handler_yields_is_not_the_result_of_the_execution() -> None:
    text = playbook(
        say("start", also=", finally: clear, next: out") + say("out", also=", finally: clear") + say("clear")
    )
    log = Log()
    sim, run = begun(text, log)
    assert log.said == ["start", "clear", "out", "clear"]
    assert sim.report(run).result == "out"
