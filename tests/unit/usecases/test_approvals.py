"""Approvals: who is asked, who may answer, and what answers come to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from families import Family
from playbooks import lone, playbook

from noetl.errors import BadRequest, Conflict, Forbidden, InputsInvalid, NotFound
from noetl.facts.callers import Caller
from noetl.facts.json import JsonMap
from noetl.testing import Simulation
from noetl.usecases import catalog, control
from noetl.usecases.access import ANONYMOUS, ANYBODY, Grant, Principal
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.approvals import AnsweredApproval, answer
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.migrate import MigrateRequest, migrate
from noetl.usecases.open_approvals import open_in, pending, show_open
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.turn.advance import advance


def person(name: str, *groups: str, grant: str = "approve") -> Principal:
    return Principal(name, (Grant.parse(grant),), groups)


ALICE, BOB, CAROL = person("alice"), person("bob", "ops"), person("carol", "ops")


def asking(approval: str, root: str = "workload: {}", started_by: str = "alice") -> tuple[Simulation, str]:
    """An execution whose only step asks for an approval."""
    sim = Simulation(lone(f"tool: {{kind: wait, approval: {approval}}}", root=root))
    return sim, begin(sim, started_by)


def begin(sim: Simulation, started_by: str = "alice", **overrides: Any) -> str:
    rt, sim.rt = sim.rt, sim.rt.acting_for(Caller(started_by, "r"))
    run = sim.start(**overrides)
    sim.rt = rt
    sim.settle()
    return run


def say(sim: Simulation, run: str, who: Principal, verdict: Any = "approve", **more: Any) -> AnsweredApproval:
    given = answer(sim.rt.acting_for(Caller(who.name, "r")), who, run, ApprovalRequest(verdict, **more))
    sim.settle()
    return given


def status(sim: Simulation, run: str) -> str:
    return sim.report(run).row.status


def result(sim: Simulation, run: str) -> Any:
    report = sim.report(run)
    assert report.row.status == "completed", report.row.error
    return report.result


def error(sim: Simulation, run: str) -> JsonMap:
    found = sim.report(run).row.error
    assert found is not None
    return found


# --- one answer -----------------------------------------------------------------------------------


def test_an_approval_ends_the_wait_with_who_gave_it() -> None:
    sim, run = asking("{message: Pay?}")
    assert status(sim, run) == "waiting"
    given = say(sim, run, BOB, reason="it is due")
    found = result(sim, run)
    assert (found["by"], found["at"]) == (["bob"], sim.now.isoformat())
    assert found["answers"][0]["reason"] == "it is due"
    assert (given.step, given.name, given.existing) == ("start", "approval", False)


def test_a_rejection_is_a_failure_that_says_who_and_why() -> None:
    sim, run = asking("{message: Pay?}")
    say(sim, run, BOB, "reject", reason="too much")
    assert error(sim, run)["type"] == "Rejected"
    assert error(sim, run)["message"] == "bob rejected what task 'task_0' asks for: too much"


def test_as_many_people_as_are_needed_approve_and_each_counts_once() -> None:
    sim, run = asking("{count: 2}")
    first = say(sim, run, BOB)
    again = say(sim, run, BOB)
    assert (again.version, again.existing) == (first.version, True)
    assert status(sim, run) == "waiting"
    say(sim, run, CAROL)
    assert result(sim, run)["by"] == ["bob", "carol"]
    assert sim.types(run).count("approval.answered") == 2


def test_who_has_answered_cannot_change_it() -> None:
    sim, run = asking("{count: 2}")
    say(sim, run, BOB, reason="fine")
    for other in ({"verdict": "reject"}, {"reason": "another reason"}):
        with pytest.raises(Conflict, match=r"bob has answered step 'start' already: approve \(fine\)"):
            say(sim, run, BOB, **other)
    say(sim, run, CAROL, "reject")
    assert error(sim, run)["type"] == "Rejected"


def test_the_same_answer_sent_again_after_the_end_is_the_first_one() -> None:
    sim, run = asking("{form: {n: integer}}")
    one = open_in(sim.rt, BOB, run)[0].id
    first = say(sim, run, BOB, id=one, values={"n": "7"})
    for named in ({"id": one}, {"step": "start"}, {}):
        again = say(sim, run, BOB, values={"n": "7"}, **named)
        assert (again.version, again.existing) == (first.version, True)
    for other in ({"values": {"n": 8}}, {"verdict": "reject"}, {"values": {"n": 7}, "reason": "so"}):
        with pytest.raises(Conflict, match="has ended"):
            say(sim, run, BOB, **other)
    with pytest.raises(Conflict, match="has ended"):
        say(sim, run, CAROL, values={"n": 7})


def test_an_answer_that_came_before_the_turn_counts_and_a_second_one_does_not() -> None:
    sim, run = asking("{message: Pay?}")
    answer(sim.rt, BOB, run, ApprovalRequest("approve"))
    with pytest.raises(Conflict, match="has been answered already"):
        answer(sim.rt, CAROL, run, ApprovalRequest("reject"))
    sim.settle()
    assert result(sim, run)["by"] == ["bob"]


# --- who ------------------------------------------------------------------------------------------


def test_only_who_is_asked_may_answer() -> None:
    sim, run = asking("{by: [alice, anonymous, 'group:ops']}")
    with pytest.raises(
        Forbidden, match=r"Step 'start' asks alice or anonymous or group:ops, and dave is not among them\."
    ):
        say(sim, run, person("dave", "dev"))
    with pytest.raises(Forbidden, match="nobody knows who asks without a token"):
        say(sim, run, ANYBODY)
    say(sim, run, CAROL)
    assert result(sim, run)["by"] == ["carol"]


def test_a_group_is_no_name_and_a_name_no_group() -> None:
    sim, run = asking("{by: ops}")
    with pytest.raises(Forbidden):
        say(sim, run, CAROL)
    say(sim, run, person("ops"))
    assert result(sim, run)["by"] == ["ops"]


def test_the_scope_is_needed_for_the_playbook() -> None:
    sim, run = asking("{message: Pay?}")
    for grant in ("read", "operate", "approve:other/*"):
        with pytest.raises(Forbidden, match="has no scope `approve` for playbook 'tests/test'"):
            say(sim, run, person("dave", grant=grant))
    say(sim, run, person("dave", grant="approve:tests/*"))
    assert result(sim, run)["by"] == ["dave"]


def test_four_eyes_are_not_those_of_who_started_it() -> None:
    sim, run = asking("{four_eyes: true}")
    with pytest.raises(Forbidden, match=r"asks others than who started it, and that was alice\."):
        say(sim, run, ALICE)
    say(sim, run, BOB)
    assert result(sim, run)["by"] == ["bob"]


def test_four_eyes_look_up_the_chain_of_retries_and_calls() -> None:
    family = Family(child="- step: start\n  tool: {kind: wait, approval: {four_eyes: true}}")
    sim = family.sim
    run = begin(sim, "alice")
    (child,) = family.children(run)
    with pytest.raises(Forbidden, match="that was alice"):
        say(sim, child, ALICE)
    say(sim, child, CAROL, "reject")
    again = retry(sim.rt.acting_for(Caller("bob", "r")), RetryRequest(run)).execution_id
    sim.settle()
    (child,) = family.children(again)
    for asker in (ALICE, BOB):
        with pytest.raises(Forbidden, match=f"that was {asker.name}"):
            say(sim, child, asker)
    say(sim, child, CAROL)
    assert status(sim, again) == "completed"


def test_four_eyes_need_to_know_whose_they_are() -> None:
    for started, answers in (("alice", ANYBODY), (ANONYMOUS, BOB)):
        sim, run = asking("{four_eyes: true}", started_by=started)
        with pytest.raises(Forbidden, match="nobody knows who that is without tokens"):
            say(sim, run, answers)


# --- what is filled in ----------------------------------------------------------------------------

FORM = "{form: {amount: {type: integer, min: 1, default: '{{ workload.n }}'}, note: string, kind: {enum: [a, b]}}}"


def test_a_form_is_filled_in_over_its_defaults() -> None:
    sim, run = asking(FORM, root="workload: {n: 3}")
    (one,) = open_in(sim.rt, BOB, run)
    assert one.as_json()["form"]["properties"]["amount"] == {"type": "integer", "minimum": 1, "default": 3}
    say(sim, run, BOB, values={"kind": "a"})
    assert result(sim, run)["values"] == {"amount": 3, "note": None, "kind": "a"}


def test_all_that_is_wrong_with_the_values_is_said_and_nothing_is_lost() -> None:
    sim, run = asking(FORM, root="workload: {n: 3}")
    with pytest.raises(InputsInvalid) as found:
        say(sim, run, BOB, values={"amount": 0, "note": 7, "kind": "c", "nott": 1})
    assert [one["path"] for one in found.value.faults] == ["amount", "note", "kind", "nott"]
    assert (
        "The form of step 'start' cannot be filled in so: amount: must be at least 1" in found.value.message
    )
    say(sim, run, BOB, values={"amount": "12"})
    assert result(sim, run)["values"]["amount"] == 12


def test_values_that_cannot_be_are_refused() -> None:
    sim, run = asking("{form: {note: any}}")
    reference = {"kind": "result_ref", "ref": "noetl://results/1"}
    for bad in (
        {"values": {"note": [reference]}},
        {"values": {"note": 1}, "verdict": "reject"},
        {"values": {"note": "x" * 2_000_000}},
        {"values": {"note": float("nan")}},
    ):
        with pytest.raises(BadRequest):
            say(sim, run, BOB, **bad)
    assert status(sim, run) == "waiting"


def test_of_two_that_fill_it_in_the_later_one_counts() -> None:
    sim, run = asking("{count: 2, form: {n: integer}}")
    say(sim, run, BOB, values={"n": 1})
    say(sim, run, CAROL, values={"n": 2})
    found = result(sim, run)
    assert (found["values"], [one["values"] for one in found["answers"]]) == ({"n": 2}, [{"n": 1}, {"n": 2}])


def test_data_that_is_shown_is_no_guard_whatever_its_keys_are() -> None:
    sim, run = asking("{show: {when: 'in {{ workload.n }} days', condition: x}}", root="workload: {n: 3}")
    (one,) = open_in(sim.rt, BOB, run)
    assert one.asked.show == {"when": "in 3 days", "condition": "x"}


@pytest.mark.parametrize(
    ("approval", "said"),
    [
        ("{count: '{{ workload.n }}'}", "`count` is '0'"),
        ("{by: [bob], count: 2}", "it could never be approved"),
        ("{by: '{{ workload.nobody }}'}", "`by` names nobody"),
        ("{by: '{{ workload.empty }}'}", "`by` names nobody"),
        ("{expires: '{{ workload.n }}'}", "too short a time"),
        ("{remind: '{{ workload.word }}'}", "is not a duration"),
        ("{four_eyes: '{{ workload.word }}'}", "write true or false"),
        ("{form: {n: {type: integer, default: '{{ workload.word }}'}}}", "the default of `n`"),
    ],
)
def test_what_nobody_could_approve_fails_the_task_in_one_sentence(approval: str, said: str) -> None:
    sim, run = asking(approval, root="workload: {n: 0, word: soon, empty: [], nobody: null}")
    assert said in error(sim, run)["message"]
    assert error(sim, run)["kind"] == "client_error"


def test_what_is_large_is_kept_by_reference_and_shown_in_full() -> None:
    approval = "{count: 2, show: '{{ workload.rows }}', form: {rows: list}}"
    sim = Simulation(
        lone(f"tool: {{kind: wait, approval: {approval}}}", "workload: {rows: []}"),
        limits=RuntimeLimits(inline_bytes=100, slice_s=3600.0),
    )
    rows = list(range(200))
    run = begin(sim, rows=rows)
    found = open_in(sim.rt, BOB, run)
    assert found[0].asked.show["kind"] == "result_ref"
    assert show_open(sim.rt, found)[0]["show"] == rows
    first = say(sim, run, BOB, values={"rows": rows})
    assert say(sim, run, BOB, values={"rows": rows}).version == first.version
    with pytest.raises(Conflict, match="has answered"):
        say(sim, run, BOB, values={"rows": rows[1:]})
    say(sim, run, CAROL)
    assert result(sim, run)["by"] == ["bob", "carol"]


# --- which one ------------------------------------------------------------------------------------

TWO = """
- {step: start, next: [legal, money]}
- {step: legal, tool: {kind: wait, approval: {message: Legal?}}}
- {step: money, tool: {kind: wait, all: {cfo: {approval: {by: bob}}, cto: {approval: {by: carol}}}}}
"""


def test_of_several_one_has_to_be_named() -> None:
    sim = Simulation(playbook(TWO))
    run = begin(sim)
    with pytest.raises(BadRequest, match=r"open: step 'legal', step 'money' \(cfo\), step 'money' \(cto\)"):
        say(sim, run, BOB)
    with pytest.raises(NotFound, match=r"no step 'mony'\. Did you mean 'money'\?"):
        say(sim, run, BOB, step="mony")
    with pytest.raises(NotFound, match=r"no approval 'cfi'\. Did you mean 'cfo'\?"):
        say(sim, run, BOB, step="money", name="cfi")
    with pytest.raises(Conflict, match="open are"):
        say(sim, run, BOB, step="start")
    with pytest.raises(Conflict, match="open are"):
        say(sim, run, BOB, id="legal#7/1/approval")
    say(sim, run, BOB, name="cfo")
    say(sim, run, BOB, step="legal")
    say(sim, run, CAROL)
    assert sim.report(run).steps["money"]["result"]["results"]["cfo"]["by"] == ["bob"]


def test_what_is_waited_for_instead_is_said() -> None:
    sim = Simulation(lone("tool: {kind: wait, signal: paid}"))
    run = begin(sim)
    with pytest.raises(Conflict, match=r"waits for no approval; it waits for signal 'paid'\."):
        say(sim, run, BOB)
    with pytest.raises(NotFound, match="There is no execution"):
        say(sim, "7", BOB)


def test_iterations_ask_one_by_one() -> None:
    sim = Simulation(
        lone(
            "loop: {in: [a, b], iterator: x, spec: {mode: parallel}}\ntool: {kind: wait, approval: {message: '{{ x }}?'}}"
        )
    )
    run = begin(sim)
    with pytest.raises(BadRequest, match=r"step 'start' \[0\], step 'start' \[1\]"):
        say(sim, run, BOB)
    say(sim, run, BOB, iteration=1)
    say(sim, run, CAROL, iteration=0)
    assert [one["by"] for one in result(sim, run)["results"]] == [["carol"], ["bob"]]


def test_each_round_of_a_cycle_is_asked_anew() -> None:
    sim = Simulation(
        playbook("""
            - step: start
              tool: {kind: wait, approval: {message: Same?}}
              set: {ctx.rounds: "{{ (ctx.rounds | default(0)) + 1 }}"}
              next: {arcs: [{step: start, when: "{{ ctx.rounds < 2 }}"}, {step: end}]}
            - {step: end, tool: {kind: noop}}
        """)
    )
    run = begin(sim)
    first = open_in(sim.rt, BOB, run)[0].id
    say(sim, run, BOB, id=first)
    assert say(sim, run, BOB, id=first).existing, "the first round, sent again, is not the second one"
    assert status(sim, run) == "waiting"
    say(sim, run, BOB)
    assert status(sim, run) == "completed"


def test_the_caller_of_a_playbook_that_asks_waits_and_says_where() -> None:
    family = Family(child="- step: start\n  tool: {kind: wait, approval: {message: Child?}}")
    run = begin(family.sim)
    (child,) = family.children(run)
    assert (family.status(run), family.status(child)) == ("waiting", "waiting")
    with pytest.raises(Conflict, match=f"waits for no approval; {child}, which it called, does"):
        say(family.sim, run, BOB)
    say(family.sim, child, BOB)
    assert family.status(run) == "completed"


# --- in time --------------------------------------------------------------------------------------


def test_it_expires_and_is_asked_again_and_again_until_then() -> None:
    sim, run = asking("{expires: 10h, remind: 4h}")
    for hours, reminded in ((4, 1), (3, 1), (2, 2)):
        sim.pass_time(hours * 3600)
        sim.settle()
        (one,) = open_in(sim.rt, BOB, run)
        assert one.as_json()["reminded"] == reminded
    sim.pass_time(3600)
    sim.settle()
    assert (error(sim, run)["kind"], error(sim, run)["type"]) == ("timeout", "ApprovalExpired")
    with pytest.raises(Conflict, match="has ended"):
        say(sim, run, BOB)


@pytest.mark.parametrize(("seconds", "is_late"), [(59, False), (60, False), (61, True)])
def test_behind_an_outage_an_answer_in_time_counts_and_a_late_one_is_refused(
    seconds: int, is_late: bool
) -> None:
    sim, run = asking("{expires: 1m}")
    sim.now += timedelta(seconds=seconds)
    if is_late:
        with pytest.raises(Conflict, match="could be answered until"):
            answer(sim.rt, BOB, run, ApprovalRequest("approve"))
    else:
        answer(sim.rt, BOB, run, ApprovalRequest("approve"))
    sim.mailbox.messages.clear()
    sim.now += timedelta(hours=2)
    advance(sim.rt)
    sim.settle()
    assert status(sim, run) == ("failed" if is_late else "completed")


def test_a_clock_that_goes_back_loses_no_answer() -> None:
    sim, run = asking("{count: 2, expires: 1h}")
    say(sim, run, BOB)
    sim.now -= timedelta(days=1)
    say(sim, run, CAROL)
    assert result(sim, run)["by"] == ["bob", "carol"]


def test_paused_time_does_not_count_and_an_answer_meanwhile_is_kept() -> None:
    sim, run = asking("{expires: 1h, remind: 30m}")
    control.pause(sim.rt, run)
    sim.settle()
    sim.pass_time(86_400)
    sim.settle()
    (one,) = open_in(sim.rt, BOB, run)
    assert one.as_json()["reminded"] == 0
    control.resume(sim.rt, run)
    sim.settle()
    sim.pass_time(3599)
    sim.settle()
    assert status(sim, run) == "waiting"
    control.pause(sim.rt, run)
    sim.settle()
    say(sim, run, BOB)
    assert status(sim, run) == "paused"
    control.resume(sim.rt, run)
    sim.settle()
    assert result(sim, run)["by"] == ["bob"]


@pytest.mark.parametrize(("seconds", "winner"), [(10, "ok"), (60, "late")])
def test_of_an_approval_and_a_timer_the_first_counts(seconds: int, winner: str) -> None:
    sim = Simulation(lone("tool: {kind: wait, any: {ok: {approval: {}}, late: {timer: 1m}}}"))
    run = begin(sim)
    sim.pass_time(seconds)
    sim.settle()
    if winner == "ok":
        say(sim, run, BOB)
    assert result(sim, run)["name"] == winner


def test_what_was_answered_before_a_turn_came_is_told_as_that() -> None:
    sim, run = asking("{form: {note: string}}")
    answer(sim.rt, BOB, run, ApprovalRequest("approve", values={"note": "a"}))

    for who, values in ((BOB, {"note": "b"}), (CAROL, {"note": "a"})):
        with pytest.raises(Conflict, match=r"has been answered already \(approve by bob\); it goes on"):
            answer(sim.rt, who, run, ApprovalRequest("approve", values=values))
    (waits,) = sim.report(run).waits
    (awaited,) = waits["for"]
    assert awaited["text"] == "a scheduler, which has not read the answers to its approval yet"
    assert "approval" not in awaited

    sim.settle()
    assert result(sim, run)["values"] == {"note": "a"}


def test_a_cancelled_approval_is_over() -> None:
    sim, run = asking("{remind: 1m}")
    control.cancel(sim.rt, run)
    with pytest.raises(Conflict, match="it is being cancelled"):
        answer(sim.rt, BOB, run, ApprovalRequest("approve"))
    sim.settle()
    with pytest.raises(Conflict, match=r"has ended \(cancelled\)"):
        say(sim, run, BOB)
    assert pending(sim.rt, BOB).found == []
    sim.pass_time(4000)
    assert "timer.fired" not in sim.types(run)


# --- the inbox ------------------------------------------------------------------------------------


def test_all_that_are_open_are_found_the_oldest_first_and_page_by_page() -> None:
    sim = Simulation(
        lone(
            "loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}\ntool: {kind: wait, all: [{approval: {}}, {approval: {by: bob}}]}"
        )
    )
    runs = [begin(sim) for _ in range(3)]
    seen, after = [], None
    while True:
        page = pending(sim.rt, ALICE, after=after, limit=4)
        seen += [(one.row.execution_id, one.id) for one in page.found]
        after = page.next
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 18
    assert list(dict.fromkeys(run for run, _ in seen)) == runs
    mine = pending(sim.rt, ALICE, mine=True).found
    assert {one.awaited.name for one in mine} == {"approval"}
    with pytest.raises(BadRequest, match="no place to page on from"):
        pending(sim.rt, ALICE, after="x")


def test_what_was_answered_is_not_mine_any_more_and_others_are_not_seen() -> None:
    sim, run = asking("{count: 2}")
    say(sim, run, BOB)
    assert pending(sim.rt, BOB, mine=True).found == []
    assert [one.answered for one in pending(sim.rt, BOB).found] == ["approve"]
    assert pending(sim.rt, person("dave", grant="approve:other/*")).found == []
    assert [one.is_mine for one in pending(sim.rt, CAROL).found] == [True]
    say(sim, run, CAROL)
    assert pending(sim.rt, BOB).found == []
    with sim.rt.store.read() as tx:
        assert tx.executions.asking(None, None, 10) == []


# --- again ----------------------------------------------------------------------------------------

THEN_BREAKS = """
- step: start
  tool:
    kind: wait
    approval: {by: ["bob", "{{ workload.who }}"], message: "Pay {{ workload.n }}?", show: {n: "{{ workload.n }}"}}
  next: end
- {step: end, tool: {kind: python, code: "raise ValueError(1)"}}
"""
ROOT = "workload: {n: 1, who: carol, other: 1}"


@pytest.mark.parametrize(
    ("overrides", "stands"), [({}, True), ({"other": 2}, True), ({"n": 2}, False), ({"who": "dave"}, False)]
)
def test_a_retry_asks_again_only_where_what_is_shown_has_changed(overrides: JsonMap, stands: bool) -> None:
    sim = Simulation(playbook(THEN_BREAKS, ROOT))
    run = begin(sim)
    say(sim, run, BOB)
    assert status(sim, run) == "failed"
    made = retry(sim.rt, RetryRequest(run, overrides=overrides)).execution_id
    sim.settle()
    assert status(sim, made) == ("failed" if stands else "waiting")
    if not stands:
        say(sim, made, BOB)
        assert status(sim, made) == "failed"


HALF = """
- step: start
  tool: {kind: wait, approval: {count: 2, message: "Pay {{ workload.n }}?"}}
  spec: {deadline: 1h}
"""


@pytest.mark.parametrize(("overrides", "kept"), [({}, 1), ({"n": 2}, 0)])
def test_answers_that_decided_nothing_are_handed_on_where_the_same_is_shown(
    overrides: JsonMap, kept: int
) -> None:
    sim = Simulation(playbook(HALF, "workload: {n: 1}"))
    run = begin(sim)
    say(sim, run, BOB)
    sim.pass_time(3600)
    sim.settle()
    assert error(sim, run)["type"] == "StepDeadline"
    made = retry(sim.rt, RetryRequest(run, overrides=overrides)).execution_id
    sim.settle()
    (one,) = open_in(sim.rt, BOB, made)
    assert len(one.as_json()["answers"]) == kept
    assert say(sim, made, BOB).existing is bool(kept)
    assert status(sim, made) == "waiting"
    say(sim, made, CAROL)
    assert result(sim, made)["by"] == ["bob", "carol"]


def test_a_rejection_is_asked_again_by_a_retry() -> None:
    sim, run = asking("{message: Pay?}")
    say(sim, run, BOB, "reject")
    made = retry(sim.rt, RetryRequest(run)).execution_id
    sim.settle()
    assert status(sim, made) == "waiting"
    say(sim, made, BOB)
    assert result(sim, made)["by"] == ["bob"]


ONE_MORE = """
- step: start
  tool: {kind: wait, approval: {count: 2, message: Pay?}}
  next: end
- {step: end, tool: {kind: noop}}
"""


def test_what_is_migrated_keeps_its_answers() -> None:
    sim, run = asking("{count: 2, message: Pay?}")
    say(sim, run, BOB)
    newest = catalog.register(sim.rt, playbook(ONE_MORE), "x.yaml").version
    made = migrate(sim.rt, MigrateRequest(run, newest)).execution_id
    sim.settle()
    say(sim, made, CAROL)
    assert sim.report(made).steps["start"]["result"]["by"] == ["bob", "carol"]


def test_a_fork_takes_no_answers() -> None:
    sim, run = asking("{count: 2}")
    say(sim, run, BOB)
    made = fork(sim.rt, ForkRequest(run, at=sim.report(run).row.head_version)).execution_id
    sim.settle()
    (one,) = open_in(sim.rt, BOB, made)
    assert one.as_json()["answers"] == []
    say(sim, made, CAROL)
    say(sim, made, BOB)
    assert result(sim, made)["by"] == ["carol", "bob"]
    assert status(sim, run) == "waiting"
