"""Tasks that wait for time, signals and conditions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from families import Family
from playbooks import lone, playbook

from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.callers import Caller
from noetl.facts.json import Json, JsonMap
from noetl.testing import START, Simulation
from noetl.usecases import control
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.ports import CorrelatedWait, Correlation, KeptSignal
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.signals import SentSignal, SignalRequest, hand_on, send_about, send_signal
from noetl.usecases.turn.advance import advance


def waiting(wait: str, payload: JsonMap | None = None, **more: str) -> tuple[Simulation, str]:
    """An execution whose only step waits."""
    spec = f", spec: {{{more['spec']}}}" if "spec" in more else ""
    sim = Simulation(lone(f"tool: {{kind: wait, {wait}{spec}}}", root=more.get("root", "workload: {}")))
    run = sim.start(payload)
    sim.settle()
    return sim, run


def tell(sim: Simulation, run: str, name: str, payload: Json = None, **more: Any) -> SentSignal:
    sent = send_signal(sim.rt, run, SignalRequest(name, payload, **more))
    sim.settle()
    return sent


def ended(sim: Simulation, run: str) -> Any:
    report = sim.report(run)
    assert report.row.status == "completed", report.row.status
    return report.result


# --- one thing -----------------------------------------------------------------------------------


def test_a_time_passes_without_a_worker() -> None:
    sim, run = waiting("timer: 10m")
    with sim.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []
    assert sim.report(run).row.status == "running"
    sim.pass_time(599)
    sim.settle()
    assert sim.report(run).row.status == "running"
    sim.pass_time(1)
    sim.settle()
    assert ended(sim, run) == {"at": "2026-01-01T00:10:00+00:00"}


def test_an_instant_that_has_passed_is_no_wait() -> None:
    sim, run = waiting("until: 2025-12-31T00:00:00Z")
    assert ended(sim, run) == {"at": "2025-12-31T00:00:00+00:00"}


def test_a_time_that_was_missed_counts_at_once() -> None:
    sim, run = waiting("timer: 1h")
    sim.pass_time(86_400)
    sim.settle()
    assert ended(sim, run) == {"at": "2026-01-01T01:00:00+00:00"}


def test_a_signal_brings_its_payload_and_who_sent_it() -> None:
    sim, run = waiting("signal: paid")
    assert sim.report(run).row.status == "waiting"
    sim.rt = sim.rt.acting_for(Caller("alice", "r1"))
    tell(sim, run, "paid", {"amount": 7}, id="s1")
    found = ended(sim, run)
    assert found == {
        "signal": "paid",
        "payload": {"amount": 7},
        "by": "alice",
        "at": START.isoformat(),
        "id": "s1",
    }


def test_a_signal_that_comes_early_is_kept() -> None:
    sim = Simulation(lone("tool: {kind: wait, signal: paid}"))
    run = sim.start()
    tell(sim, run, "paid", 1)
    assert ended(sim, run)["payload"] == 1


def test_a_signal_is_taken_once_and_the_oldest_waits_first() -> None:
    sim = Simulation(
        playbook("""
            - {step: start, next: [a, b]}
            - {step: a, tool: {kind: wait, signal: go}}
            - {step: b, tool: {kind: wait, signal: go}}
        """)
    )
    run = sim.start()
    sim.settle()
    tell(sim, run, "go", "first")
    steps = sim.report(run).steps
    assert (steps["a"]["status"], steps["b"]["status"]) == ("done", "waiting")
    tell(sim, run, "go", "second")
    assert sim.report(run).steps["b"]["result"]["payload"] == "second"


def test_a_signal_for_everyone_is_taken_by_all_that_wait() -> None:
    sim = Simulation(
        lone("loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}\ntool: {kind: wait, signal: go}")
    )
    run = sim.start()
    sim.settle()
    tell(sim, run, "go", "all", everyone=True)
    assert [one["payload"] for one in ended(sim, run)["results"]] == ["all"] * 3


def test_the_same_signal_twice_is_one() -> None:
    sim, run = waiting("all: [{signal: go}, {signal: go}]")
    first = tell(sim, run, "go", 1, id="x")
    again = tell(sim, run, "go", 2, id="x")
    assert (again.version, again.existing) == (first.version, True)
    assert sim.report(run).row.status == "waiting"


def test_a_filter_sees_the_signal_ctx_and_the_iteration() -> None:
    sim = Simulation(
        playbook(
            """
            - step: start
              set: {ctx.least: 5}
              next: wait
            - step: wait
              loop: {in: [a, b], iterator: order, spec: {mode: parallel}}
              tool:
                kind: wait
                signal: {name: paid, when: "{{ signal.payload.order == order and signal.payload.amount >= ctx.least }}"}
            """
        )
    )
    run = sim.start()
    sim.settle()
    tell(sim, run, "paid", {"order": "b", "amount": 4})
    assert sim.report(run).row.status == "waiting"
    tell(sim, run, "paid", {"order": "b", "amount": 6})
    tell(sim, run, "paid", {"order": "a", "amount": 5})
    found = [one["payload"] for one in ended(sim, run)["results"]]
    assert found == [{"order": "a", "amount": 5}, {"order": "b", "amount": 6}]


def test_a_payload_is_matched_by_value() -> None:
    sim, run = waiting(
        'signal: {name: paid, match: {order.id: "{{ workload.order }}"}}', root="workload: {order: 7}"
    )
    tell(sim, run, "paid", {"order": {"id": 8}})
    tell(sim, run, "paid", {"order": {"id": 7}, "n": 1})
    assert ended(sim, run)["payload"]["n"] == 1


def test_a_condition_is_asked_at_once_and_whenever_ctx_changes() -> None:
    sim, run = waiting('condition: "{{ ctx.n > workload.least }}"', root="workload: {least: 2}")
    assert sim.report(run).row.status == "waiting"
    control.patch_ctx(sim.rt, run, {"n": 2})
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    control.patch_ctx(sim.rt, run, {"n": 3})
    sim.settle()
    assert ended(sim, run) == {}


def test_a_condition_that_holds_already_is_no_wait() -> None:
    sim, run = waiting("condition: true")
    assert ended(sim, run) == {}


def test_a_guard_that_cannot_be_evaluated_fails_the_task() -> None:
    sim, run = waiting('condition: "{{ 1 / ctx.n > 2 if ctx.n is defined else false }}"')
    control.patch_ctx(sim.rt, run, {"n": 0})
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "failed"
    assert report.row.error is not None
    assert report.row.error["kind"] == "template"


# --- several -------------------------------------------------------------------------------------

RACE = "any: {paid: {signal: paid}, late: {timer: 1h}}"


def test_of_several_the_first_one_counts() -> None:
    sim, run = waiting(RACE)
    tell(sim, run, "paid", 1)
    assert ended(sim, run)["name"] == "paid"
    sim, run = waiting(RACE)
    sim.pass_time(3600)
    sim.settle()
    assert ended(sim, run) == {"name": "late", "at": "2026-01-01T01:00:00+00:00"}


@pytest.mark.parametrize(("seconds", "winner"), [(3599, "paid"), (3600, "paid"), (3601, "late")])
def test_behind_an_outage_the_earlier_instant_counts(seconds: int, winner: str) -> None:
    sim, run = waiting(RACE)
    sim.now += timedelta(seconds=seconds)
    send_signal(sim.rt, run, SignalRequest("paid"))
    sim.mailbox.messages.clear()
    sim.now += timedelta(seconds=7200)
    advance(sim.rt)
    sim.settle()
    assert ended(sim, run)["name"] == winner
    assert sim.types(run).count("wait.matched") == 1


def test_all_are_waited_for() -> None:
    sim, run = waiting('all: {a: {signal: a}, b: {condition: "{{ ctx.b }}"}, c: {timer: 5}}')
    tell(sim, run, "a", 1)
    sim.pass_time(5)
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    control.patch_ctx(sim.rt, run, {"b": True})
    sim.settle()
    found = ended(sim, run)["results"]
    assert list(found) == ["a", "b", "c"]
    assert (found["a"]["payload"], found["b"], found["c"]["name"]) == (1, {"name": "b"}, "c")


def test_things_of_a_list_are_called_by_what_they_are() -> None:
    sim, run = waiting("any: [{signal: yes}, {signal: {name: no}}, {timer: 5}, {timer: 6}]")
    sim.pass_time(5)
    sim.settle()
    assert ended(sim, run)["name"] == "timer"


# --- in time -------------------------------------------------------------------------------------


def test_the_timeout_of_the_task_ends_the_wait() -> None:
    sim, run = waiting("signal: paid", spec="timeout: 30")
    sim.pass_time(30)
    sim.settle()
    error = sim.report(run).row.error
    assert error is not None
    assert (error["kind"], error["type"]) == ("timeout", "WaitTimeout")


def test_a_retry_waits_again() -> None:
    sim, run = waiting(
        "signal: paid",
        spec="timeout: 30, policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 3}}]}",
    )
    sim.pass_time(30)
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    tell(sim, run, "paid", "late")
    assert ended(sim, run)["payload"] == "late"


def test_while_paused_no_timer_fires_and_no_signal_is_taken() -> None:
    sim, run = waiting("any: [{signal: paid}, {timer: 10}]", spec="timeout: 20")
    control.pause(sim.rt, run)
    sim.settle()
    sim.pass_time(100)
    sim.settle()
    assert sim.report(run).row.status == "paused"
    control.resume(sim.rt, run)
    sim.settle()
    assert ended(sim, run)["name"] == "timer"


def test_a_signal_expires_where_nothing_takes_it() -> None:
    sim, run = waiting("all: [{signal: a}, {signal: b}]")
    tell(sim, run, "b", 1, lifetime_s=10)
    sim, run = waiting("signal: {name: a, match: {n: 1}}")
    tell(sim, run, "a", {"n": 2}, lifetime_s=10)
    sim.pass_time(10)
    sim.settle()
    assert sim.types(run)[-1] == "signal.expired"


# --- elsewhere -----------------------------------------------------------------------------------


def test_a_wait_inside_of_a_pipeline_goes_on_behind_it() -> None:
    sim = Simulation(
        lone("""
            tool:
              - first: {kind: noop, input: {n: 1}}
              - wait: {kind: wait, signal: go}
              - last: {kind: noop, input: {n: "{{ first.n + wait.payload }}"}}
        """)
    )
    run = sim.start()
    sim.settle()
    tell(sim, run, "go", 41)
    assert ended(sim, run) == {"n": 42}


def test_iterations_that_wait_keep_their_places_and_no_worker() -> None:
    sim = Simulation(
        lone("""
            loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
            tool: {kind: wait, signal: {name: go, match: {n: "{{ n }}"}}}
        """)
    )
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    tell(sim, run, "go", {"n": 3})
    assert sim.report(run).row.status == "waiting"
    tell(sim, run, "go", {"n": 2})
    tell(sim, run, "go", {"n": 1})
    assert [one["payload"]["n"] for one in ended(sim, run)["results"]] == [1, 2, 3]


def test_whoever_calls_a_playbook_that_waits_waits_itself() -> None:
    family = Family(child="- step: start\n  tool: {kind: wait, signal: go}")
    run = family.start()
    (child,) = family.children(run)
    assert (family.status(run), family.status(child)) == ("waiting", "waiting")
    tell(family.sim, child, "go", 5)
    assert family.result(run)["payload"] == 5


def test_a_fork_waits_anew_and_hears_no_signal_of_the_other() -> None:
    sim, run = waiting("all: {a: {signal: a}, b: {timer: 100}}")
    sim.pass_time(60)
    made = fork(sim.rt, ForkRequest(run, at=sim.report(run).row.head_version)).execution_id
    sim.settle()
    tell(sim, run, "a")
    sim.pass_time(50)
    sim.settle()
    assert (sim.report(run).row.status, sim.report(made).row.status) == ("completed", "waiting")
    tell(sim, made, "a")
    assert sim.report(made).row.status == "running"
    sim.pass_time(50)
    sim.settle()
    assert sim.report(made).row.status == "completed"


def test_a_retry_is_handed_the_signals_that_nothing_took() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: wait, signal: go}
              next: both
            - step: both
              tool: {kind: wait, all: {a: {signal: a}, b: {signal: b}}}
              spec: {deadline: 1m}
        """)
    )
    run = sim.start()
    sim.settle()
    tell(sim, run, "b", "early")
    tell(sim, run, "go", "taken")
    tell(sim, run, "go", "left over", lifetime_s=10)
    sim.pass_time(60)
    sim.settle()
    assert sim.report(run).row.status == "failed"
    made = retry(sim.rt, RetryRequest(run)).execution_id
    sim.settle()
    report = sim.report(made)
    assert report.steps["start"]["result"]["payload"] == "taken", "a wait that ended stands"
    assert report.row.status == "waiting"
    tell(sim, made, "a", "now")
    results = ended(sim, made)["results"]
    assert [results[name]["payload"] for name in ("a", "b")] == ["now", "early"]
    assert sim.types(made).count("signal.received") == 2, "what expired is not handed on"


def test_a_cancelled_wait_is_over() -> None:
    sim, run = waiting(RACE)
    control.cancel_step(sim.rt, run, "start")
    sim.settle()
    assert sim.report(run).row.status == "completed"
    sim.pass_time(4000)
    sim.settle()
    assert "timer.fired" not in sim.types(run)


# --- what is refused -----------------------------------------------------------------------------


def test_a_name_that_nothing_waits_for_is_not_found() -> None:
    sim, run = waiting("any: [{signal: paid}, {signal: {name: cancelled}}]")
    with pytest.raises(NotFound, match=r"waits for a signal 'payd'\. Did you mean 'paid'\?"):
        tell(sim, run, "payd")
    sim, run = waiting('signal: "{{ workload.name }}"', root="workload: {name: paid}")
    tell(sim, run, "anything")
    assert sim.report(run).row.status == "waiting"


def test_what_cannot_be_sent_is_said() -> None:
    sim, run = waiting("signal: paid")
    for bad in (SignalRequest(""), SignalRequest("paid", id="a\nb"), SignalRequest("paid", lifetime_s=0)):
        with pytest.raises(BadRequest):
            send_signal(sim.rt, run, bad)
    tell(sim, run, "paid")
    with pytest.raises(Conflict, match="has ended"):
        tell(sim, run, "paid")
    with pytest.raises(NotFound):
        tell(sim, "99", "paid")


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        ("timer: soon", "is not a duration"),
        ('until: "{{ workload.when }}"', "is no instant"),
        ("timer: -1", "is not a duration"),
    ],
)
def test_what_is_no_time_fails_the_task(wait: str, said: str) -> None:
    sim, run = waiting(wait, root="workload: {when: tomorrow}")
    error = sim.report(run).row.error
    assert error is not None
    assert said in error["message"]


# --- about a value -------------------------------------------------------------------------------

ABOUT = lone(
    'tool: {kind: wait, signal: {name: paid, correlate: "{{ workload.order }}"}}', root="workload: {order: 1}"
)


def started(sim: Simulation, order: Json) -> str:
    run = sim.start({"order": order})
    sim.settle()
    return run


def about(sim: Simulation, value: str, payload: Json = None, **more: Any) -> list[str]:
    _, sent = send_about(sim.rt, value, SignalRequest("paid", payload, **more))
    sim.settle()
    return [one.execution_id for one in sent]


def test_a_signal_finds_the_execution_that_waits_for_its_value() -> None:
    sim = Simulation(ABOUT)
    one, two = started(sim, 1), started(sim, 2)
    assert about(sim, "2", "money") == [two]
    assert (sim.report(one).row.status, ended(sim, two)["payload"]) == ("waiting", "money")


def test_the_oldest_gets_it_and_everyone_where_it_is_for_everyone() -> None:
    sim = Simulation(ABOUT)
    runs = [started(sim, 1) for _ in range(3)]
    assert about(sim, "1") == runs[:1]
    assert about(sim, "1", everyone=True) == runs[1:]
    assert about(sim, "1") == []


def test_one_that_nobody_waits_for_is_kept_for_the_first_that_will() -> None:
    sim = Simulation(ABOUT)
    assert about(sim, "7", "early", id="x") == []
    run = started(sim, 7)
    assert ended(sim, run)["payload"] == "early"
    assert sim.report(started(sim, 7)).row.status == "waiting"


def test_of_two_with_one_id_the_second_is_the_first_even_when_that_was_taken() -> None:
    sim = Simulation(ABOUT)
    one = started(sim, 1)
    assert about(sim, "1", id="x") == [one]
    two = started(sim, 1)
    assert about(sim, "1", id="x") == []
    assert sim.report(two).row.status == "waiting"


def test_what_was_not_handed_on_before_a_crash_a_sweep_hands_on() -> None:
    sim = Simulation(ABOUT)
    run = started(sim, 1)
    about_1 = Correlation("paid", "1")
    with sim.rt.store.begin() as tx:
        tx.correlations.keep(KeptSignal("x", about_1, "money", sim.now))
    sim.pass_time(1)
    sim.settle()
    assert ended(sim, run)["payload"] == "money"


def test_a_kept_one_expires_and_its_id_is_forgotten_after_a_day() -> None:
    sim = Simulation(ABOUT)
    about(sim, "1", id="x", lifetime_s=10)
    sim.pass_time(11)
    assert sim.report(started(sim, 1)).row.status == "waiting"
    assert len(about(sim, "1", id="x")) == 1
    sim.pass_time(90_000)
    assert about(sim, "1", id="x") == []
    with sim.rt.store.read() as tx:
        assert tx.correlations.get("x") is not None


def test_one_that_has_expired_is_handed_to_nobody_though_no_sweep_has_removed_it() -> None:
    sim = Simulation(ABOUT)
    run = started(sim, 1)
    now = sim.rt.clock()
    late = KeptSignal("x", Correlation("paid", "1"), None, now - timedelta(seconds=5), now)
    with sim.rt.store.begin() as tx:
        tx.correlations.keep(late)
    assert hand_on(sim.rt, late) == []
    assert "signal.received" not in sim.types(run)


def test_who_waits_no_more_gets_none() -> None:
    sim = Simulation(ABOUT)
    run = started(sim, 1)
    control.cancel(sim.rt, run)
    sim.settle()
    assert about(sim, "1") == []
    with sim.rt.store.read() as tx:
        assert tx.correlations.waiting(Correlation("paid", "1")) == []


THEN_MORE = playbook(
    """
    - step: start
      tool: {kind: wait, signal: {name: paid, correlate: "{{ workload.order }}"}}
      next: later
    - {step: later, tool: {kind: wait, signal: later}}
    """,
    root="workload: {order: 1}",
)


def waits_about(sim: Simulation, value: str) -> list[str]:
    with sim.rt.store.read() as tx:
        return [one.execution_id for one in tx.correlations.waiting(Correlation("paid", value))]


def test_who_waits_for_something_else_by_now_gets_none_though_its_scheduler_was_started_anew() -> None:
    sim = Simulation(THEN_MORE)
    one = started(sim, 1)
    send_about(sim.rt, "1", SignalRequest("paid"))
    sim.rt.states.clear()
    sim.settle()
    assert waits_about(sim, "1") == []
    two = started(sim, 1)
    assert about(sim, "1", "second") == [two]
    assert sim.report(two).steps["start"]["result"]["payload"] == "second"
    assert sim.report(one).row.status == "waiting"


def test_nothing_waits_any_more_of_what_ends_under_a_scheduler_that_does_not_remember_it() -> None:
    sim = Simulation(THEN_MORE)
    run = started(sim, 1)
    sim.rt.states.clear()
    control.cancel(sim.rt, run)
    sim.settle()
    assert waits_about(sim, "1") == []


def test_what_was_told_and_has_had_no_turn_since_does_not_hear_the_next_one() -> None:
    sim = Simulation(ABOUT)
    one, two = started(sim, 1), started(sim, 1)
    sent = [send_about(sim.rt, "1", SignalRequest("paid"))[1] for _ in range(3)]
    assert [[told.execution_id for told in each] for each in sent] == [[one], [two], []]
    sim.settle()
    three = started(sim, 1)
    assert sim.report(three).row.status == "completed", "the third was kept"


def test_what_its_next_turn_cancels_hears_nothing() -> None:
    sim = Simulation(ABOUT)
    one, two = started(sim, 1), started(sim, 1)
    control.cancel_step(sim.rt, one, "start")
    assert about(sim, "1") == [two]


def test_whose_time_has_come_hears_nothing_before_a_turn_has_looked() -> None:
    sim = Simulation(
        lone(
            'tool: {kind: wait, any: [{signal: {name: paid, correlate: "1"}}, {timer: 10}]}',
            root="workload: {order: 1}",
        )
    )
    one = started(sim, 1)
    sim.now += timedelta(seconds=10)
    signal_id, sent = send_about(sim.rt, "1", SignalRequest("paid"))
    assert sent == []
    advance(sim.rt)
    sim.settle()
    assert ended(sim, one)["name"] == "timer"
    with sim.rt.store.read() as tx:
        assert tx.correlations.get(signal_id) is not None


def test_iterations_hear_what_is_about_their_own_values() -> None:
    sim = Simulation(
        lone("""
            loop: {in: [1, 2, 3], iterator: order, spec: {mode: parallel}}
            tool: {kind: wait, signal: {name: paid, correlate: "{{ order }}"}}
        """)
    )
    run = sim.start()
    sim.settle()
    for value in ("3", "1", "2"):
        assert about(sim, value, value) == [run]
    assert [one["payload"] for one in ended(sim, run)["results"]] == ["1", "2", "3"]


def test_rows_that_nobody_removed_lead_no_signal_astray_and_go() -> None:
    sim = Simulation(THEN_MORE)
    over, other, one = (started(sim, order) for order in (7, 8, 1))
    control.cancel(sim.rt, over)
    sim.settle()
    stale = [CorrelatedWait(Correlation("paid", "1"), run, "start#1/-") for run in (over, other)]
    with sim.rt.store.begin() as tx:
        tx.correlations.wait(stale)
    assert about(sim, "1") == [one]
    assert waits_about(sim, "1") == []
