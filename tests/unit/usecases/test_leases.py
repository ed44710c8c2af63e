"""Who may report, and what happens where a store or a result is out of reach for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from playbooks import lone

from noetl.errors import Unavailable
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.store.sql import SqlStore
from noetl.testing import START, Simulation, StillLeases
from noetl.usecases import control
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.turn.advance import take_turns
from noetl.usecases.work.lanes import run_lane
from noetl.usecases.work.leases import End, HeldCommand, Leases, Worker, claim
from noetl.usecases.work.run import run_step
from tests.waiting import until

ONE = lone("tool: {kind: http, url: http://x}")


def claimed(sim: Simulation, owner: str) -> CommandRow:
    """The only command, claimed by `owner`."""
    with sim.rt.store.begin() as tx:
        row = claim(sim.rt, tx, owner, "1/start#1/-/1")
    assert row is not None
    return row


def test_a_late_delivery_does_not_end_the_heartbeats_of_a_newer_one() -> None:
    sim = Simulation(ONE)
    sim.start()
    sim.deliver()
    leases, lost = StillLeases(sim.rt), []
    first = claimed(sim, "w")
    with leases.hold(HeldCommand(first, lambda _: lost.append("first"), lambda: None)):
        sim.now += timedelta(seconds=31)
        second = claimed(sim, "w")
        late = leases.hold(HeldCommand(second, lambda _: lost.append("second"), lambda: None))
        late.__enter__()
    sim.now += timedelta(seconds=20)
    leases.beat()
    with sim.rt.store.read() as tx:
        row = tx.commands.get(second.command_id)
    assert row is not None
    assert row.lease_until == START + timedelta(seconds=31 + 20 + 30)
    assert lost == []
    late.__exit__(None, None, None)


def test_work_that_no_longer_counts_is_told_so_until_it_has_ended() -> None:
    """A call that was just beginning when it was told first had nobody to hear it."""
    sim = Simulation(ONE)
    run = sim.start()
    sim.deliver()
    leases, lost = StillLeases(sim.rt), list[bool]()
    with leases.hold(HeldCommand(claimed(sim, "w"), lost.append, lambda: None)):
        control.cancel(sim.rt, run)
        leases.beat()
        leases.beat()
        assert lost == [True, True]
    leases.beat()
    assert lost == [True, True]


class Slow(SqlStore):
    """Transactions that may commit asynchronously are waited for."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__("memory://")
        self._wait = wait

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        self._wait()
        return super().begin_async_commit()


def test_a_heartbeat_that_waits_for_the_store_gives_a_whole_lease() -> None:
    def wait() -> None:
        sim.now += timedelta(seconds=29)

    sim = Simulation(ONE, store=Slow(wait))
    sim.start()
    sim.deliver()
    command = claimed(sim, "w")
    leases = StillLeases(sim.rt)
    with leases.hold(HeldCommand(command, lambda _: None, lambda: None)):
        leases.beat()
    with sim.rt.store.read() as tx:
        row = tx.commands.get(command.command_id)
    assert row is not None
    assert row.lease_until == START + timedelta(seconds=29 + 30)


def test_a_heartbeat_that_failed_for_whatever_reason_is_followed_by_others() -> None:
    beats = list[int]()

    def wait() -> None:
        beats.append(len(beats))
        if len(beats) == 2:  # the first one is of the claim
            raise RuntimeError("a defect")

    sim = Simulation(ONE, store=Slow(wait))
    sim.start()
    sim.deliver()
    command = claimed(sim, "w")
    beats[:] = [0]
    leases = Leases(replace(sim.rt, limits=replace(sim.rt.limits, heartbeat_s=0.01)))
    with leases.hold(HeldCommand(command, lambda _: None, lambda: None)):
        leases.start()
        until(lambda: len(beats) > 2, "another heartbeat")
    leases.stop()


class Refusing(SqlStore):
    """Takes no report while `refusals` are left."""

    def __init__(self) -> None:
        super().__init__("memory://")
        self.refusals = 0

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        with super().begin() as tx:
            yield tx
            if self.refusals:
                self.refusals -= 1
                raise Unavailable("The database was held by another process.")


@pytest.mark.parametrize(
    "step",
    [
        "tool: {kind: http, url: http://x}",
        "loop: {in: [1], iterator: n}\ntool: {kind: http, url: http://x}",
        """
        tool:
          - {name: one, kind: http, url: http://x, set: {ctx.seen: "{{ result }}"}}
          - {name: two, kind: noop}
        """,
    ],
    ids=["step", "loop", "pipeline"],
)
def test_what_a_call_came_to_is_reported_until_the_database_takes_it(step: str) -> None:
    def http(_call: Call) -> Json:
        calls.append(1)
        store.refusals = 3
        return 1

    calls, store = list[int](), Refusing()
    sim = Simulation(lone(step), {"http": http}, store=store)
    run = sim.start()
    sim.settle()
    assert (sim.report(run).row.status, calls) == ("completed", [1])
    assert "result.discarded" not in sim.types(run)


def test_a_report_of_which_only_the_commit_was_not_heard_is_not_made_twice() -> None:
    class Deaf(SqlStore):
        @contextmanager
        def begin(self) -> Iterator[Transaction]:
            with super().begin() as tx:
                yield tx
            if deaf:
                deaf.pop()
                raise Unavailable("The database does not answer.")

    deaf = list[int]()
    calls = list[int]()

    def http(_call: Call) -> Json:
        calls.append(1)
        deaf.append(1)
        return 1

    sim = Simulation(ONE, {"http": http}, store=Deaf("memory://"))
    run = sim.start()
    sim.deliver()
    with pytest.raises(Unavailable):
        sim.deliver()
    sim.pass_time(31)
    sim.settle()
    assert (sim.report(run).row.status, calls) == ("completed", [1])


def test_a_claim_that_a_crash_of_the_database_lost_is_worth_nothing() -> None:
    def http(_call: Call) -> Json:
        # The claim was committed asynchronously and is gone; somebody else now holds the same
        # token.
        with sim.rt.store.begin() as tx:
            tx.commands.release("1/start#1/-/1", 1, sim.now)
        claimed(sim, "other")
        return 1

    sim = Simulation(ONE, {"http": http})
    run = sim.start()
    sim.deliver()
    sim.mailbox.messages.clear()
    assert run_step(sim.worker, "1/start#1/-/1").end is End.REFUSED
    assert "step.done" not in sim.types(run)


class TurnBetween(StillLeases):
    """A turn that was owed is taken right behind each claim."""

    def hold(self, held: HeldCommand) -> AbstractContextManager[None]:
        take_turns(self._rt)
        return super().hold(held)


def test_a_lane_whose_loop_is_ended_by_a_turn_while_it_comes_back_shows_its_own_end() -> None:
    sim = Simulation(
        lone("""
            loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
            tool: {kind: python, code: "result = n", input: {n: "{{ n }}"}}
        """),
        limits=RuntimeLimits(slice_s=0.0),
    )
    run = sim.start()
    sim.deliver()
    lanes = [message.command.command_id for message in sim.mailbox.messages if message.command]
    assert [run_lane(sim.worker, lane).end for lane in lanes] == [End.AGAIN, End.AGAIN]
    late = Worker(sim.rt, "late", TurnBetween(sim.rt))
    first, second = (run_lane(late, lane) for lane in lanes)
    assert (first.end, first.is_last) == (End.OVER, True)
    assert (second.end, second.is_last) == (End.OVER, True)
    assert sim.report(run).row.status == "completed"


def test_a_command_that_the_database_does_not_know_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation(ONE)
    assert run_step(sim.worker, "7/start#1/-/1").end is End.CANCELLED
    assert "Command 7/start#1/-/1 is not in this database" in caplog.text


def test_results_that_are_out_of_reach_postpone_the_turn_and_fail_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sim = Simulation(
        lone('tool: {kind: http, url: http://x}\nset: {ctx.all: "{{ result.rows + result.rows }}"}'),
        {"http": lambda call: {"rows": list(range(100))}},
        limits=RuntimeLimits(inline_bytes=100),
    )
    run = sim.start()
    sim.deliver()
    sim.deliver()

    def away(_reference: Json) -> Json:
        raise Unavailable("The result store does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(sim.rt.results, "load", away)
        with pytest.raises(Unavailable):
            sim.deliver()
    sim.pass_time(1)
    sim.settle()
    report = sim.report(run)
    assert (report.row.status, len(report.ctx["all"])) == ("completed", 200)


def test_a_cancellation_behind_a_long_tail_of_events_still_stops_the_workers() -> None:
    sim = Simulation(
        lone("""
            loop: {in: "{{ range(20) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
            tool: {kind: http, url: http://x}
        """),
        {"http": lambda call: 1},
        limits=RuntimeLimits(turn_events=4, slice_s=0.0),
    )
    run = sim.start()
    sim.deliver()
    for _ in range(8):
        sim.deliver()
    control.cancel(sim.rt, run)
    take_turns(sim.rt)
    row = sim.report(run).row
    assert row.decided_version < row.head_version, "the turn has not come to the cancellation yet"
    assert row.halt == "cancel"
    sim.settle()
    assert sim.report(run).row.status == "cancelled"


def test_a_simulation_starts_no_thread() -> None:
    before = threading.enumerate()
    Simulation(ONE, {"http": lambda call: 1}).run()
    assert threading.enumerate() == before
