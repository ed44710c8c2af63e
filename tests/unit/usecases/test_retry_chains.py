"""Retries of retries: what was done stands, however early those between had ended, and no row that
was claimed is forgotten."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from noetl.facts.events import CommandLost, LoopClaimed, SignalReceived, StepScheduled
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, failed
from noetl.pipeline.model import Call
from noetl.usecases import catalog, control, history, retry
from noetl.usecases.ports import ENDED
from noetl.usecases.retry import RetryRequest
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.turn.advance import take_turns

from .test_retry import CHAIN, CURSOR, Again, Died, Ledger

# --- what stands ----------------------------------------------------------------------------------


def begin(again: Again, execution_id: str, **how: Any) -> str:
    """A retry that has not come to anything yet."""
    return retry.retry(again.sim.rt, RetryRequest(execution_id, confirmed=True, **how)).execution_id


def cancelled(again: Again, execution_id: str) -> str:
    """The execution, which has been cancelled, with whatever was on its way."""
    control.cancel(again.sim.rt, execution_id, grace_s=0)
    again.sim.pass_time(60)
    again.sim.settle()
    assert again.report(execution_id).row.status == "cancelled"
    return execution_id


def test_one_that_never_began_has_not_cut_off_what_was_done_before() -> None:
    again = Again(CHAIN)
    again.broken = {"c": "server_error"}
    last = again.run()
    for _ in range(3):
        last = cancelled(again, begin(again, last))
    again.broken = {}
    assert again.words(last) == {"start": "reuse", "second": "reuse", "third": "rerun"}
    third = again.retry(last)
    assert again.calls == {"c": 1}
    assert again.report(third).result == {"url": "c", "args": {"x": "b"}}


def test_one_that_failed_early_has_not_cut_off_what_comes_behind() -> None:
    """Its first step was changed, and broken; mended, it yields what it did before."""
    again = Again(CHAIN)
    again.broken = {"c": "server_error"}
    first = again.run()
    again.register(CHAIN.replace("url: a}", "url: a2}"))
    again.broken = {"a2": "server_error"}
    second = again.retry(first, version=2)
    assert again.calls == {"a2": 1}
    again.broken, again.answers = {}, {"a2": {"url": "a", "args": {}}}
    third = again.retry(second)
    assert again.calls == {"a2": 1, "c": 1}
    assert again.report(third).row.status == "completed"
    scheduled = [one.fact for one in again.sim.events(third) if isinstance(one.fact, StepScheduled)]
    reuses = [fact.reuse for fact in scheduled if fact.reuse is not None]
    assert [(one.how, one.execution_id) for one in reuses] == [
        ("part", ""),
        ("whole", first),
        ("part", first),
    ]
    (account,) = history.explain(again.sim.rt, third, "second").steps
    assert f"reused from run second#1 of execution {first}" in account.runs[0].reuse


def test_what_was_run_anew_is_not_undone_by_what_had_been_recorded_before() -> None:
    """The later one counts, where it came to the step, and whatever it was asked to run again."""
    again = Again(CHAIN)
    again.broken = {"c": "server_error"}
    first = again.run()
    again.register(CHAIN.replace("url: a}", "url: a2}"))
    second = again.retry(first, version=2)
    assert again.calls == {"a2": 1, "b": 1, "c": 1}
    third = again.retry(second, version=1)
    assert again.calls == {"a": 1, "b": 1, "c": 1}

    fourth = cancelled(again, begin(again, third, from_step="second"))
    again.broken = {}
    assert again.words(fourth) == {"start": "reuse", "second": "new", "third": "new"}
    again.retry(fourth)
    assert again.calls == {"b": 1, "c": 1}


def test_a_step_that_only_an_earlier_one_came_to_may_be_run_again_with_all_behind_it() -> None:
    again = Again(CHAIN)
    first = again.run()
    last = cancelled(again, begin(again, first))
    assert again.words(last, from_step="second") == {"start": "reuse", "second": "rerun", "third": "rerun"}
    again.retry(last, from_step="second")
    assert again.calls == {"b": 1, "c": 1}


def test_behind_one_that_completed_nothing_counts() -> None:
    routed = """
- step: start
  tool: {kind: noop, input: {n: "{{ workload.n }}"}}
  next: [{step: one, when: "{{ workload.n == 1 }}"}, {step: two, when: "{{ workload.n == 2 }}"}]
- step: one
  tool: {kind: http, url: one}
- step: two
  tool: {kind: http, url: two}
"""
    again = Again(routed, "workload: {n: 1}")
    first = again.run()
    second = again.retry(first, payload={"n": 2})
    assert again.calls == {"two": 1}
    again.retry(second, payload={"n": 1})
    assert again.calls == {"one": 1}


PARALLEL = """
- step: start
  loop: {in: "{{ workload.items }}", iterator: x, spec: {mode: parallel}}
  tool: {kind: http, url: "u{{ x }}"}
  next: last
- step: last
  tool: {kind: http, url: last}
"""


@pytest.mark.parametrize("before", [control.cancel, control.pause])
def test_what_stands_is_taken_over_whole_before_it_ends(before: Callable[..., None]) -> None:
    """However little a turn copies, and whether it is cancelled or paused in the middle."""
    limits = RuntimeLimits(turn_copies=3)
    again = Again(PARALLEL, "workload: {items: [1, 2, 3, 4, 5, 6, 7, 8]}", limits=limits)
    again.broken = {"last": "server_error"}
    first = again.run()
    second = begin(again, first)
    take_turns(again.sim.rt)
    assert 0 < again.sim.types(second).count("loop.iteration.done") < 8
    before(again.sim.rt, second)
    again.sim.settle()
    assert again.sim.types(second).count("loop.iteration.done") == 8
    again.broken = {}
    again.retry(cancelled(again, second) if before is control.pause else second)
    assert again.calls == {"last": 1}


def test_so_it_is_where_another_branch_fails() -> None:
    fails = """
- step: start
  tool: {kind: http, url: a}
  next: [{step: loop}, {step: other}]
- step: loop
  loop: {in: "{{ workload.items }}", iterator: x, spec: {mode: parallel}}
  tool: {kind: http, url: "u{{ x }}"}
- step: other
  tool: {kind: http, url: b}
"""
    again = Again(
        fails,
        "workload: {items: [1, 2, 3, 4, 5, 6, 7, 8]}",
        limits=RuntimeLimits(turn_copies=3, slice_s=3600.0),
    )
    again.broken = {"b": "server_error", "u8": "server_error"}
    first = again.run()
    done = again.sim.types(first).count("loop.iteration.done")
    assert done > 3
    second = begin(again, first)
    while again.sim.mailbox.messages:
        take_turns(again.sim.rt)
        messages = again.sim.mailbox.messages
        work = next((at for at, one in enumerate(messages) if one.command is not None), None)
        if work is None:
            break
        again.sim.deliver(work)
    again.sim.settle()
    assert again.report(second).row.status == "failed"
    assert again.sim.types(second).count("loop.iteration.done") == done


def test_what_a_called_playbook_did_stands_though_it_was_not_called_in_between() -> None:
    child = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: tests/child}\nworkflow:\n- step: start\n  tool: {kind: http, url: x}\n  next: more\n- step: more\n  tool: {kind: http, url: y}\n"
    again = Again("- step: start\n  tool: {kind: playbook, path: tests/child}\n")
    catalog.register(again.sim.rt, child, "child.yaml")
    again.broken = {"y": "server_error"}
    last = again.run()
    for delivered in (0, 1, 2, 3):
        last = begin(again, last)
        for _ in range(delivered):
            again.sim.deliver()
        again.sim.mailbox.messages.clear()
        last = cancelled(again, last)
    again.broken = {}
    again.retry(last)
    assert again.calls == {"y": 1}


@pytest.mark.parametrize("loop", ["", "  loop: {in: [1], iterator: item, mode: parallel}\n"])
def test_what_was_done_under_a_key_that_was_kept_stands_in_the_next_one(loop: str) -> None:
    """The event that keeps the key stands before all that was done with it."""
    tasks = "  tool: [{one: {kind: http, url: a, effects: external}}, {two: {kind: http, url: b}}]\n"
    again = Again(f"- step: start\n{loop}{tasks}")
    alive, dies = again.answering["http"], True

    def call(call: Call) -> Json:
        result = alive(call)
        if dies:
            raise Died
        return result

    again.answering["http"] = call
    first = again.sim.start()
    with pytest.raises(Died):
        again.sim.settle()
    again.sim.mailbox.messages.clear()
    cancelled(again, first)
    dies, again.broken = False, {"b": "server_error"}
    second = again.retry(first, confirmed=True)
    assert again.calls == {"a": 1, "b": 1}
    again.broken = {}
    third = again.retry(second)
    assert again.report(third).row.status == "completed"
    assert again.calls == {"b": 1}
    assert len({key for url, key in again.keys if url == "a"}) == 1


WAITS = """
- step: start
  tool: {kind: http, url: a}
  next: second
- step: second
  tool: {kind: http, url: b}
  next: wait
- step: wait
  tool: {kind: wait, signal: paid}
"""


def test_signals_that_nobody_took_are_handed_on_through_one_that_never_began() -> None:
    again = Again(WAITS)
    first = again.sim.start()
    control.pause(again.sim.rt, first)
    send_signal(again.sim.rt, first, SignalRequest("paid", {"n": 1}))
    last = cancelled(again, first)
    last = begin(again, last)
    send_signal(again.sim.rt, last, SignalRequest("paid", {"n": 2}))
    third = again.retry(cancelled(again, last))
    assert again.report(third).row.status == "completed"
    received = [one.fact for one in again.sim.events(third) if isinstance(one.fact, SignalReceived)]
    assert [fact.payload for fact in received] == [{"n": 1}, {"n": 2}]


def test_what_one_that_began_has_taken_over_is_not_handed_on_twice() -> None:
    again = Again(WAITS)
    again.broken = {"b": "server_error"}
    first = again.sim.start()
    again.sim.deliver()
    send_signal(again.sim.rt, first, SignalRequest("paid", {"n": 1}))
    again.sim.settle()
    assert again.report(first).row.status == "failed"
    again.register(WAITS.replace("url: a}", "url: a2}"))
    again.broken = {"a2": "server_error"}
    second = again.retry(first, version=2)
    again.broken = {}
    third = again.retry(second)
    assert again.report(third).row.status == "completed"
    assert again.sim.types(third).count("signal.received") == 1


# --- rows of a cursor -----------------------------------------------------------------------------


class Mortal:
    """A worker that dies now and then behind a claim, and hears nothing of it."""

    def __init__(self, again: Again, ledger: Ledger, chance: random.Random) -> None:
        self.again, self.ledger, self.chance = again, ledger, chance
        self.dies = 0.4
        again.answering["postgres"] = self._claim

    def _claim(self, call: Call) -> Json:
        answer = self.ledger(call)
        if self.chance.random() < self.dies:
            raise Died
        return answer

    def settle(self) -> None:
        with contextlib.suppress(Died):
            self.again.sim.settle()

    def cancel(self, execution_id: str) -> None:
        """Ends it, with the messages that were on their way lost, and its workers gone."""
        self.again.sim.mailbox.messages.clear()
        dies, self.dies = self.dies, 0.0
        cancelled(self.again, execution_id)
        self.dies = dies


#: Each row leaves its worker once, and goes on as a lane of its own.
WAITING = CURSOR.replace(
    'tool: {kind: http, url: "u{{ row.id }}"}',
    'tool: [{rest: {kind: wait, timer: 5}}, {work: {kind: http, url: "u{{ row.id }}"}}]',
)


@pytest.mark.full("6 s: chances")
@pytest.mark.parametrize(
    ("workflow", "deliveries"), [(CURSOR, 1), (CURSOR, 2), (CURSOR, 20), (WAITING, 1), (WAITING, 20)]
)
@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=pytest.mark.long("chances that found nothing")) for seed in range(20)),
        *(110, 124, 169, 219, 317, 338, 349),
    ],
)
def test_no_row_is_forgotten_however_often_lanes_die_and_retries_are_cancelled(
    seed: int, workflow: str, deliveries: int
) -> None:
    """Also where a lane is given up, where a retry has fewer lanes, and where one is cancelled
    before it has any."""
    limits = RuntimeLimits(max_deliveries=deliveries, slice_s=3600.0)
    again, ledger = Again(workflow, limits=limits), Ledger(8)
    mortal = Mortal(again, ledger, random.Random(seed))
    last = again.sim.start()
    for _ in range(3):
        for _ in range(mortal.chance.randrange(4)):
            mortal.settle()
            if mortal.chance.random() < 0.5:
                again.sim.pass_time(600)
        if again.report(last).row.status in ENDED:
            break
        mortal.cancel(last)
        last = begin(again, last)
    mortal.dies = 0.0
    while again.report(last).row.status not in ENDED:
        again.sim.settle()
        again.sim.pass_time(60)
    assert again.report(last).row.status == "completed"
    assert again.calls == {f"u{n}": 1 for n in range(8)}


def test_what_lanes_left_that_were_given_up_is_asked_for_by_the_next_generation() -> None:
    again, ledger = Again(CURSOR, limits=RuntimeLimits(max_deliveries=2)), Ledger(4)
    deaths = 0

    def claim(call: Call) -> Json:
        nonlocal deaths
        answer = ledger(call)
        if answer["rows"] == [{"id": 2}] and deaths < 2:
            deaths += 1
            raise Died
        return answer

    again.answering["postgres"] = claim
    run = again.sim.start()
    for _ in range(6):
        try:
            again.sim.settle()
        except Died:
            again.sim.mailbox.messages.clear()
        again.sim.pass_time(600)
    again.sim.settle()
    assert any(isinstance(one.fact, CommandLost) for one in again.sim.events(run))
    assert again.report(run).row.status == "completed"
    assert again.calls == {f"u{n}": 1 for n in range(4)}


def test_what_a_generation_has_asked_for_is_not_asked_for_again_by_a_retry() -> None:
    """Of the lanes of the first generation some left with an iteration that waited, and one was
    given up: the second one has heard of its row."""
    limits = RuntimeLimits(max_deliveries=1, slice_s=3600.0)
    again, ledger, deaths = Again(WAITING, limits=limits), Ledger(3), 0

    def claim(call: Call) -> Json:
        nonlocal deaths
        answer = ledger(call)
        if answer["rows"] == [{"id": 1}] and not deaths:
            deaths = 1
            raise Died
        return answer

    again.answering["postgres"] = claim
    first = again.sim.start()
    with pytest.raises(Died):
        again.sim.settle()
    while not any(items == [{"id": 1}] for items in claimed(again, first)):
        again.sim.settle()
        again.sim.pass_time(600)
    second = again.retry(cancelled(again, first))
    while again.report(second).row.status not in ENDED:
        again.sim.pass_time(60)
        again.sim.settle()
    assert again.report(second).result == {"n": 3}
    assert [items for items in claimed(again, second) if items] == [[{"id": 0}], [{"id": 2}], [{"id": 1}]]


def claimed(again: Again, execution_id: str) -> list[Json]:
    """What its claims yielded, in the order of the log."""
    return [one.fact.items for one in again.sim.events(execution_id) if isinstance(one.fact, LoopClaimed)]


def test_a_claim_that_failed_with_rows_in_hand_is_asked_for_again() -> None:
    """Its answer was lost on the way: nobody knows whether rows were taken."""
    again, ledger = Again(CURSOR), Ledger(3)
    lost = True

    def claim(call: Call) -> Any:
        answer = ledger(call)
        if lost and answer["rows"] == [{"id": 1}]:
            return failed(ErrorInfo("connection", "the answer was lost", retryable=True))
        return answer

    again.answering["postgres"] = claim
    first = again.run()
    assert again.report(first).row.status == "failed"
    lost = False
    once = dict(again.calls)
    again.sim.settle()
    second = again.retry(first)
    assert again.report(second).row.status == "completed"
    assert {url: once.get(url, 0) + again.calls[url] for url in ("u0", "u1", "u2")} == dict.fromkeys(
        ("u0", "u1", "u2"), 1
    )


def test_lanes_that_ended_by_themselves_are_not_asked_for() -> None:
    """Each costs a claim: of those that left in order there is nothing to hear."""
    again, ledger = Again(CURSOR), Ledger(6)
    again.answering["postgres"] = ledger
    again.broken = {"u5": "server_error"}
    first = again.run()
    claims = [one.fact for one in again.sim.events(first) if isinstance(one.fact, LoopClaimed)]
    assert {fact.lane for fact in claims if fact.last} == {fact.lane for fact in claims}
    asked = len(ledger.answers)
    again.broken = {}
    second = again.retry(first)
    assert again.report(second).row.status == "completed"
    assert len(ledger.answers) - asked == 1
