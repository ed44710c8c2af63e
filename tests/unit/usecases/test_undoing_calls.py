"""Playbooks that were called, and had completed, undo themselves what they have done when the scope
of their caller fails or is cancelled: each in an execution of its own, which its caller waits
for."""

from __future__ import annotations

from typing import Any

import pytest
from families import Family

from noetl.cli.progress import StepsProgress
from noetl.errors import Conflict, ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.facts.secret import describe_secret
from noetl.pipeline.model import Call
from noetl.usecases import control, history, inspect
from noetl.usecases.awaited import awaited
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.ports import credential_key
from noetl.usecases.retry import RetryRequest, retry

HOTEL = """
- step: start
  compensate: undo
  tool: {kind: http, url: http://x, input: {do: "{{ workload.n }}"}}
  next: garage
- step: garage
  compensate: undo
  tool: {kind: http, url: http://x, input: {do: "{{ workload.n }} garage"}}
- step: undo
  tool: {kind: http, url: http://x, input: {undo: "{{ result }}"}}
- step: told
  tool: {kind: http, url: http://x, input: {told: "{{ workload.n }}"}}
- step: cleared
  tool: {kind: http, url: http://x, input: {cleared: "{{ status }}"}}
"""
HOTEL_ROOT = "workload: {n: rome}\nexecutor: {spec: {finally: cleared, on_cancel: told}}"
TRIP = """
- step: start
  compensate: undo
  tool: {kind: http, url: http://x, input: {do: flight}}
  next: hotel
- step: hotel
  tool: {kind: playbook, path: tests/child, input: {n: oslo}}
  next: pay
- step: pay
  tool: {kind: http, url: http://x, input: {do: pay}}
- step: undo
  tool: {kind: http, url: http://x, input: {undo: "{{ result }}"}}
"""
WORDS = ("do", "undo", "told", "cleared")
WAITS = "tool: {kind: wait, signal: paid}"
PAYS = "tool: {kind: http, url: http://x, input: {do: pay}}"


class Agency:
    """Books what it is asked for, but what is in `fails`; notes all that it was asked."""

    def __init__(self, *fails: str) -> None:
        self.fails = list(fails)
        self.asked: list[str] = []

    def __call__(self, call: Call) -> Json:
        word = next(word for word in WORDS if word in call.args)
        value = call.args[word]
        self.asked.append(f"{word} {value}")
        if value in self.fails:
            raise ToolError("client_error", f"{value} is not to be had")
        return f"{value}!" if word == "do" else None

    @property
    def undone(self) -> list[str]:
        return [one.removeprefix("undo ") for one in self.asked if one.startswith("undo ")]


def family(agency: Agency, trip: str = TRIP, **more: Any) -> Family:
    return Family(trip, more.pop("child", HOTEL), {"http": agency}, child_root=HOTEL_ROOT, **more)


def undos(one: Family, run: str) -> list[str]:
    """The executions that undo what `run` has called."""
    return [fact.child_id for fact in one.facts(run, e.ChildUndoRequested)]


def test_what_completed_undoes_itself_where_its_caller_fails() -> None:
    agency = Agency("pay")
    trip = family(agency)
    run = trip.start()
    assert agency.asked == [
        "do flight",
        "do oslo",
        "do oslo garage",
        "cleared completed",
        "do pay",
        "undo oslo garage!",
        "undo oslo!",
        "undo flight!",
    ]
    (hotel,), (undo,) = trip.children(run), undos(trip, run)
    assert [trip.status(one) for one in (run, hotel, undo)] == ["failed", "completed", "completed"]
    assert trip.facts(run, e.ChildUndone) == [e.ChildUndone("task_0", undo, hotel)]
    row = trip.sim.report(undo).row
    assert (row.source_id, row.descent, row.parent_id) == (hotel, "undo", run)
    assert trip.result(undo) is None
    for one in (run, hotel, undo):
        trip.check_log(one)


def test_so_it_does_where_its_caller_is_cancelled() -> None:
    agency = Agency()
    trip = family(agency, TRIP.replace(PAYS, WAITS))
    run = trip.start()
    control.cancel(trip.sim.rt, run, "too dear")
    trip.sim.settle()
    assert trip.status(run) == "cancelled"
    assert agency.undone == ["oslo garage!", "oslo!", "flight!"]
    assert "told oslo" not in agency.asked


def test_each_of_a_loop_is_undone_in_the_reverse_order_of_their_ends() -> None:
    agency = Agency("pay")
    loop = "- step: hotel\n  loop: {in: [oslo, bern], iterator: city}"
    trip = family(agency, TRIP.replace("- step: hotel", loop).replace("n: oslo", 'n: "{{ city }}"'))
    trip.start()
    assert agency.undone == ["bern garage!", "bern!", "oslo garage!", "oslo!", "flight!"]


def test_the_handler_of_the_calling_step_runs_before() -> None:
    agency = Agency("pay")
    own = "- step: hotel\n  compensate: voucher"
    voucher = '- step: voucher\n  tool: {kind: http, url: http://x, input: {undo: "{{ args.of }}"}}\n'
    trip = family(agency, TRIP.replace("- step: hotel", own) + voucher)
    trip.start()
    assert agency.undone == ["hotel", "oslo garage!", "oslo!", "flight!"]


def test_what_a_handler_has_called_is_not_undone() -> None:
    agency = Agency("pay")
    handler = 'tool: {kind: http, url: http://x, input: {undo: "{{ result }}"}}'
    text = TRIP.replace(handler, "tool: {kind: playbook, path: tests/child, input: {n: refund}}")
    trip = family(agency, text)
    run = trip.start()
    assert trip.status(run) == "failed"
    assert "do refund" in agency.asked
    assert agency.undone == ["oslo garage!", "oslo!"]


def test_what_a_called_playbook_had_called_is_undone_with_it() -> None:
    agency = Agency("pay")
    chain = HOTEL.replace(
        'tool: {kind: http, url: http://x, input: {do: "{{ workload.n }} garage"}}',
        "tool: {kind: playbook, path: tests/garage, input: {n: garage}}",
    ).replace("- step: garage\n  compensate: undo", "- step: garage")
    trip = family(agency, child=chain, garage=HOTEL)
    run = trip.start()
    assert agency.undone == ["garage garage!", "garage!", "oslo!", "flight!"]
    (undo,) = undos(trip, run)
    assert [trip.status(one) for one in undos(trip, undo)] == ["completed"]


def test_what_has_nothing_to_be_undone_is_left_alone() -> None:
    agency = Agency("pay")
    trip = family(agency, child=HOTEL.replace("  compensate: undo\n", ""))
    run = trip.start()
    assert undos(trip, run) == []
    assert agency.undone == ["flight!"]


def test_a_call_that_goes_well_is_not_undone() -> None:
    agency = Agency()
    trip = family(agency)
    run = trip.start()
    assert (trip.status(run), agency.undone, undos(trip, run)) == ("completed", [], [])


def test_an_undoing_that_fails_is_recorded_and_the_others_go_on() -> None:
    agency = Agency("pay", "oslo garage!")
    trip = family(agency)
    run = trip.start()
    for _ in range(3):
        trip.later(10)
    assert agency.undone == ["oslo garage!"] * 3 + ["oslo!", "flight!"]
    (undo,) = undos(trip, run)
    assert trip.status(undo) == "partial"
    (done,) = trip.facts(run, e.ChildUndone)
    assert done.error is not None
    assert "oslo garage! is not to be had" in done.error.message
    error = trip.sim.report(run).error
    assert error is not None
    assert "pay is not to be had" in error["message"]


def test_what_cannot_be_undone_is_named() -> None:
    agency = Agency()
    desk = "keychain: [{name: desk, kind: oauth2, endpoint: http://x, data: {client_id: i, client_secret: '{{ 1 // env.PIN }}'}}]"
    trip = Family(TRIP.replace(PAYS, WAITS), HOTEL, {"http": agency}, child_root=f"{HOTEL_ROOT}\n{desk}")
    trip.sim.rt.env["PIN"] = 1
    run = trip.start()
    (hotel,) = trip.children(run)
    trip.sim.rt.env["PIN"] = 0
    control.cancel(trip.sim.rt, run)
    trip.sim.settle()
    (done,) = trip.facts(run, e.ChildUndone)
    assert done.error is not None
    assert done.error.message.startswith(
        f"Execution {hotel}, which task 'task_0' had called, was not undone: keychain"
    )
    assert (trip.status(run), agency.undone) == ("cancelled", ["flight!"])


def test_a_region_goes_on_when_what_it_had_called_is_undone() -> None:
    agency = Agency()
    text = TRIP.replace(PAYS, WAITS) + (
        '- step: stay\n  tool: {kind: http, url: http://x, input: {do: "stay"}}\n'
    )
    regions = "regions: {away: {steps: [hotel, pay], compensate: true, on_cancel: stay}}"
    trip = family(agency, text, root=regions)
    run = trip.start()
    control.cancel_region(trip.sim.rt, run, "away")
    trip.sim.settle()
    assert trip.status(run) == "completed"
    assert agency.asked[-3:] == ["undo oslo garage!", "undo oslo!", "do stay"]


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        ("", "its end as cancelled: execution {} undoes {}"),
        ("regions: {away: {steps: [hotel, pay], compensate: true}}", "execution {} undoes {}"),
    ],
)
def test_it_is_said_who_undoes_what(regions: str, words: str) -> None:
    handler = '{kind: http, url: http://x, input: {undo: "{{ result }}"}}'
    hotel = HOTEL.replace(handler, "{kind: wait, signal: undone}")
    trip = family(Agency(), TRIP.replace(PAYS, WAITS), child=hotel, root=regions)
    run = trip.start()
    if regions:
        control.cancel_region(trip.sim.rt, run, "away")
    else:
        control.cancel(trip.sim.rt, run)
    trip.sim.settle()
    (hotel_id,), (undo,) = trip.children(run), undos(trip, run)
    (found,) = awaited(trip.sim.rt, run)
    assert [one["text"] for one in found["for"]] == [words.format(undo, hotel_id)]


def test_who_has_undone_what_is_in_reports_progress_and_explanations() -> None:
    trip = family(Agency("pay"))
    run = trip.start()
    (hotel,), (undo,) = trip.children(run), undos(trip, run)
    called = trip.sim.report(run).children
    assert {one["execution_id"]: one["undoes"] for one in called} == {undo: hotel, hotel: None}
    account = history.explain(trip.sim.rt, run, "hotel")
    assert account.steps[0].runs[0].undone == (f"execution {undo} undid what execution {hotel} had done",)
    progress = StepsProgress()
    lines = [line for event in trip.sim.events(run) if (line := progress.on(event))]
    assert [line for line in lines if hotel in line][-2:] == [
        f"hotel: execution {undo} undoes what {hotel} has done",
        f"hotel: what {hotel} had done is undone",
    ]


def test_a_cancel_does_not_interrupt_it() -> None:
    agency = Agency("pay")
    trip = family(agency)
    run = trip.sim.start()
    while not agency.undone:
        trip.sim.deliver()
    control.cancel(trip.sim.rt, run)
    trip.sim.settle()
    assert agency.undone == ["oslo garage!", "oslo!", "flight!"]
    assert len(undos(trip, run)) == 1


def test_what_completed_before_it_heard_of_the_cancel_is_undone_as_well() -> None:
    agency = Agency()
    trip = family(agency)
    run = trip.sim.start()
    trip.settle_but("answer")
    (hotel,) = trip.children(run)
    assert trip.status(hotel) == "completed"
    control.cancel(trip.sim.rt, run)
    trip.settle_but("answer")
    trip.sim.settle()
    assert trip.status(run) == "cancelled"
    assert trip.facts(run, e.ChildEnded) == []
    assert sorted(agency.undone) == ["flight!", "oslo garage!", "oslo!"]
    (undo,) = (row.execution_id for row in inspect.executions(trip.sim.rt, source=hotel))
    assert trip.status(undo) == "completed"
    again = retry(trip.sim.rt, RetryRequest(run, confirmed=True)).execution_id
    trip.sim.settle()
    assert trip.status(again) == "completed"
    assert agency.asked.count("do oslo") == 2


def test_its_handlers_have_what_its_keychain_had_brought() -> None:
    agency = Agency("pay")
    desk = 'keychain: [{name: desk, kind: oauth2, endpoint: http://x, data: {client_id: i, client_secret: "{{ workload.n }}"}}]'
    hotel = HOTEL.replace(
        '{kind: http, url: http://x, input: {undo: "{{ result }}"}}', "{kind: wait, signal: undone}"
    )
    trip = Family(TRIP, hotel, {"http": agency}, child_root=f"{HOTEL_ROOT}\n{desk}")
    run = trip.start()
    trip.later()
    (undo,) = undos(trip, run)
    key = credential_key(describe_secret({"keychain": "desk"}), "execution", undo)
    with trip.sim.rt.store.read() as tx:
        assert tx.credentials.get(key) is not None
        assert tx.credentials.execution_ids() == [undo]


def test_a_retry_calls_again_what_was_undone() -> None:
    agency = Agency("pay")
    trip = family(agency)
    run = trip.start()
    agency.fails.clear()
    agency.asked.clear()
    again = retry(trip.sim.rt, RetryRequest(run, confirmed=True)).execution_id
    trip.sim.settle()
    assert trip.status(again) == "completed"
    assert agency.asked == ["do flight", "do oslo", "do oslo garage", "cleared completed", "do pay"]


def test_what_was_undone_is_neither_retried_nor_what_undid_it_forked() -> None:
    agency = Agency("pay")
    trip = family(agency)
    run = trip.start()
    (hotel,), (undo,) = trip.children(run), undos(trip, run)
    with pytest.raises(Conflict, match=f"Execution {hotel} was undone by {undo}: retry {run}, which called"):
        retry(trip.sim.rt, RetryRequest(hotel))
    with pytest.raises(Conflict, match=f"Execution {undo} undid {hotel}: retry {run}, which called"):
        retry(trip.sim.rt, RetryRequest(undo))
    with pytest.raises(Conflict, match=f"Execution {undo} undid {hotel}"):
        fork(trip.sim.rt, ForkRequest(undo, at=3))


def test_a_fork_from_before_the_undoing_undoes_by_itself() -> None:
    agency = Agency("pay")
    trip = family(agency)
    run = trip.start()
    at = next(one.version for one in trip.sim.events(run) if isinstance(one.fact, e.ChildUndoRequested))
    agency.asked.clear()
    fork(trip.sim.rt, ForkRequest(run, at=at))
    trip.sim.settle()
    assert agency.undone == ["oslo garage!", "oslo!", "flight!"]
