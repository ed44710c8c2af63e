"""What executions tell one another: answers and cancellations, lost, doubled, late, and across
crashes."""

from __future__ import annotations

import pytest
from families import BROKEN, CALLS, STAYS, TENFOLD, Family, loop_of_calls

from noetl.engine import children as engine_children
from noetl.facts import events as e
from noetl.facts.ids import child_id
from noetl.pipeline.model import Call, Later
from noetl.testing import START
from noetl.usecases import control
from noetl.usecases.turn import advance, writing
from noetl.usecases.turn.writing import Turn
from noetl.usecases.work.leases import End
from noetl.usecases.work.run import run_step


def go(family: Family, child: str) -> None:
    """Lets a child that stays come to its end."""
    control.patch_ctx(family.sim.rt, child, {"go": True})


# --- answers -------------------------------------------------------------------------------------


def test_an_answer_that_comes_twice_is_recorded_once() -> None:
    family = Family()
    run = family.sim.start()
    family.settle_but("answer")
    (place,) = family.messages("answer")
    family.sim.mailbox.messages += [family.sim.mailbox.messages[place]] * 2
    family.sim.settle()
    assert len(family.facts(run, e.ChildEnded)) == 1
    assert (family.status(run), family.result(run)) == ("completed", 70)


def test_an_answer_of_which_only_the_word_was_kept_is_not_recorded_again() -> None:
    """Whoever told it died before the message was done with: the row says so, or the log does."""
    family = Family()
    run = family.sim.start()
    family.settle_but("answer")
    message = family.sim.mailbox.messages[family.messages("answer")[0]]
    family.sim.settle()
    assert message.command is not None
    with family.sim.rt.store.begin() as tx:
        closed = tx.commands.get(message.command.command_id)
        assert closed is not None
        tx.commands.close([closed.command_id])
    head = len(family.sim.events(run))
    family.sim.mailbox.messages.append(message)
    family.sim.settle()
    assert len(family.sim.events(run)) == head


def test_an_answer_that_is_lost_is_sent_again_by_the_sweeper() -> None:
    family = Family()
    run = family.sim.start()
    family.settle_but("answer")
    family.sim.mailbox.messages.clear()
    assert family.alive([run]) == [run]
    family.later(59)
    assert family.alive([run]) == [run], "it was given time to come"
    family.later(2)
    assert (family.status(run), family.result(run)) == ("completed", 70)
    assert len(family.facts(run, e.ChildEnded)) == 1


def test_an_answer_leaves_when_the_broker_is_back() -> None:
    family = Family(child=STAYS)
    run = family.start()
    go(family, family.children(run)[0])
    family.sim.mailbox.away = True
    family.sim.mailbox.messages.clear()
    advance.advance(family.sim.rt)
    family.sim.mailbox.away = False
    for _ in range(3):
        family.later(1)
    assert family.status(run) == "completed"


def test_a_caller_that_has_ended_hears_nothing_and_the_answer_is_done_with() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    control.cancel(family.sim.rt, run)
    family.settle_but("cancel")
    assert family.status(run) == "cancelled"
    head = len(family.sim.events(run))
    go(family, child)
    family.sim.settle()
    assert family.alive([child]) == []
    assert len(family.sim.events(run)) == head
    with family.sim.rt.store.read() as tx:
        assert tx.commands.open_of(child) == tx.commands.open_of(run) == []


# --- crashes -------------------------------------------------------------------------------------


class Death(BaseException):
    """The process is gone."""


def test_a_worker_that_dies_before_it_reports_the_call_leaves_one_child() -> None:
    deaths = [True]

    def mortal(call: Call) -> object:
        if deaths:
            deaths.pop()
            raise Death
        return family.sim.tools._functions["really"](call)

    family = Family(tools={"playbook": mortal})
    family.sim.tools._functions = {
        **family.sim.tools._functions,
        "really": Family().sim.tools._functions["playbook"],
    }
    run = family.sim.start()
    with pytest.raises(Death):
        family.sim.settle()
    family.later(31)
    assert (family.status(run), family.result(run)) == ("completed", 70)
    assert len(family.children(run)) == 1
    family.check_log(run)


def test_a_worker_that_dies_right_after_it_reported_the_call_leaves_one_child() -> None:
    """Its message comes back, and is refused: the command is closed."""
    family = Family(child=STAYS)
    run = family.sim.start()
    family.sim.deliver()
    (message,) = family.sim.mailbox.messages
    assert message.command is not None
    family.sim.mailbox.messages.clear()
    assert run_step(family.sim.worker, message.command.command_id).end is End.DONE
    family.sim.mailbox.messages.clear()  # neither its wake
    assert run_step(family.sim.worker, message.command.command_id).end is End.REFUSED
    family.later()
    (child,) = family.children(run)
    go(family, child)
    family.sim.settle()
    assert family.status(run) == "completed"
    assert len(family.children(run)) == 1


def test_a_turn_that_dies_makes_neither_the_child_nor_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family()
    run = family.sim.start()
    original = writing._keep_snapshot

    def dies(rt: object, tx: object, turn: Turn) -> None:
        if turn.decision.children:
            monkeypatch.setattr(writing, "_keep_snapshot", original)
            raise Death

    monkeypatch.setattr(writing, "_keep_snapshot", dies)
    with pytest.raises(Death):
        family.sim.settle()
    assert family.children(run) == []
    with family.sim.rt.store.read() as tx:
        assert [row.execution_id for row in tx.executions.find(limit=10)] == [run]
    family.later()
    assert family.status(run) == "completed"
    assert len(family.children(run)) == 1


def test_children_of_one_turn_have_different_ids() -> None:
    ids = {child_id(START, f"9/{turn}", n) for turn in range(3) for n in range(3000)}
    assert len(ids) == 9000


def test_executions_that_one_turn_serves_cannot_give_two_children_one_id() -> None:
    """By chance they would not either, nearly always: hence the range that they come from."""
    family = Family(loop_of_calls())
    runs = [family.sim.start() for _ in range(12)]
    family.settle_but("answer")
    children = {run: sorted(int(child) for child in family.children(run)) for run in runs}
    everyone = sorted(child for ids in children.values() for child in ids)
    assert len(set(everyone)) == 24
    assert everyone[-1] - everyone[0] < sum(len(family.sim.events(run)) for run in runs)


def test_an_id_that_somebody_else_has_drawn_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family()
    family.start()
    (taken,) = family.children(family.start())
    drawn = iter([taken])
    honest = engine_children.child_id
    monkeypatch.setattr(
        engine_children, "child_id", lambda *place: next(drawn, None) or honest(*place), raising=True
    )
    run = family.start()
    assert family.status(run) == "completed"
    assert family.children(run) != [taken]


# --- cancellation --------------------------------------------------------------------------------

GRANDPARENT = (
    '- step: start\n  tool: {kind: playbook, path: tests/grandchild, input: {n: "{{ workload.n }}"}}\n'
)


def test_cancelling_a_caller_reaches_its_child_and_its_grandchild() -> None:
    family = Family(child=GRANDPARENT, grandchild=STAYS)
    run = family.start()
    three = list(family.everybody(run))
    assert len(three) == 3
    control.cancel(family.sim.rt, run, "enough")
    family.sim.settle()
    assert [family.status(one) for one in three] == ["cancelled"] * 3
    assert run in family.facts(three[1], e.CancelRequested)[0].reason
    family.check_log(run)


def test_a_cancellation_that_is_lost_is_sent_again() -> None:
    family = Family(child=STAYS)
    run = family.start()
    control.cancel(family.sim.rt, run)
    family.settle_but("cancel")
    family.sim.mailbox.messages.clear()
    assert family.alive(family.children(run)) == family.children(run)
    family.later()
    assert family.alive(family.children(run)) == []


def test_a_cancellation_that_comes_twice_or_after_the_end_changes_nothing() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    control.cancel(family.sim.rt, run)
    family.settle_but("cancel")
    message = family.sim.mailbox.messages[family.messages("cancel")[0]]
    go(family, child)
    family.settle_but("cancel")
    assert family.status(child) == "completed"
    family.sim.mailbox.messages += [message, message]
    family.sim.settle()
    assert family.status(child) == "completed"


def test_a_call_is_not_made_after_its_caller_was_cancelled() -> None:
    family = Family()
    run = family.sim.start()
    family.sim.deliver()
    message = family.sim.mailbox.messages.pop()
    assert message.command is not None
    run_step(family.sim.worker, message.command.command_id)
    control.cancel(family.sim.rt, run)
    family.sim.settle()
    assert (family.status(run), family.children(run)) == ("cancelled", [])


def test_a_detached_child_outlives_the_cancellation_of_its_caller() -> None:
    caller = CALLS.replace("input:", "detached: true, input:") + "  next: end\n" + STAYS[1:].split("\n", 2)[2]
    family = Family(caller, STAYS)
    run = family.start()
    control.cancel(family.sim.rt, run)
    family.sim.settle()
    assert family.status(run) == "cancelled"
    assert family.alive(family.children(run)) == family.children(run)


FORKED = (
    "- step: start\n  next: [calls, breaks]\n"
    + CALLS.replace("start", "calls")[1:]
    + "- step: breaks\n  next: later\n"
    + "- step: later\n  spec: {policy: {admit: {rules: [{when: '{{ ctx.go }}', then: {allow: true}},"
    + " {else: {then: {allow: false}}}]}}}\n"
    + "  tool: {kind: python, code: \"raise ValueError('no')\"}\n"
)


def test_a_branch_that_fails_cancels_the_child_of_another() -> None:
    family = Family(FORKED, STAYS)
    run = family.start()
    (child,) = family.children(run)
    go(family, run)
    family.sim.settle()
    assert [family.status(one) for one in (run, child)] == ["failed", "cancelled"]


def test_in_best_effort_the_child_of_another_branch_goes_on() -> None:
    family = Family(
        FORKED, STAYS, root="executor: {spec: {policy: {failure: {mode: best_effort}}}}\nworkload: {}"
    )
    run = family.start()
    (child,) = family.children(run)
    go(family, run)
    family.sim.settle()
    assert family.alive([run, child]) == [run, child]
    go(family, child)
    family.sim.settle()
    assert [family.status(one) for one in (run, child)] == ["partial", "completed"]


def test_a_child_that_its_caller_gives_up_in_the_very_turn_that_makes_it_is_cancelled() -> None:
    """The call and the branch that needs no more of it are read in one turn."""
    caller = """
    - step: start
      next: [calls, quick]
    - step: calls
      tool: {kind: playbook, path: tests/child, input: {n: 7}}
      next: end
    - step: quick
      tool: {kind: python, code: "result = 1"}
      next: end
    - step: end
      spec: {join: {mode: first, cancel_rest: true}}
      tool: {kind: noop}
    """
    family = Family(caller, STAYS)
    run = family.sim.start()
    family.sim.deliver()
    for message in [message for message in family.sim.mailbox.messages if message.command is not None]:
        assert message.command is not None
        run_step(family.sim.worker, message.command.command_id)
    family.sim.settle()
    assert family.status(run) == "completed"
    assert family.alive(family.children(run)) == []


def test_a_caller_s_final_step_may_call_though_the_caller_has_failed() -> None:
    caller = BROKEN + "- step: last\n  tool: {kind: playbook, path: tests/child, input: {n: 3}}\n"
    family = Family(caller, root="executor: {spec: {final_step: last}}\nworkload: {}")
    run = family.start()
    assert [family.status(one) for one in family.everybody(run)] == ["failed", "completed"]
    assert family.result(run) == 30


# --- pauses --------------------------------------------------------------------------------------


def test_a_child_that_ends_while_its_caller_is_paused_is_heard_when_that_goes_on() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    control.pause(family.sim.rt, run)
    family.sim.settle()
    assert family.status(run) == "paused"
    go(family, child)
    family.sim.settle()
    family.later()
    assert [family.status(one) for one in (run, child)] == ["paused", "completed"]
    assert len(family.facts(run, e.ChildEnded)) == 1
    control.resume(family.sim.rt, run)
    family.sim.settle()
    assert (family.status(run), family.result(run)) == ("completed", {"n": 7})
    family.check_log(run)


def test_a_pause_and_its_end_do_not_disturb_the_child() -> None:
    family = Family(child=STAYS)
    run = family.start()
    control.pause(family.sim.rt, run)
    family.sim.settle()
    control.resume(family.sim.rt, run)
    family.sim.settle()
    family.later()
    (child,) = family.children(run)
    go(family, child)
    family.sim.settle()
    assert family.status(run) == "completed"


def test_a_paused_caller_calls_nobody_until_it_goes_on() -> None:
    family = Family()
    run = family.sim.start()
    family.sim.deliver()
    message = family.sim.mailbox.messages.pop()
    assert message.command is not None
    run_step(family.sim.worker, message.command.command_id)
    control.pause(family.sim.rt, run)
    family.sim.settle()
    assert (family.status(run), family.children(run)) == ("paused", [])
    control.resume(family.sim.rt, run)
    family.sim.settle()
    assert (family.status(run), family.result(run)) == ("completed", 70)


def test_a_paused_child_is_cancelled_with_its_caller() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    control.pause(family.sim.rt, child)
    family.sim.settle()
    control.cancel(family.sim.rt, run)
    family.sim.settle()
    assert [family.status(one) for one in (run, child)] == ["cancelled", "cancelled"]


@pytest.mark.parametrize("text", [CALLS, loop_of_calls()])
def test_an_execution_that_is_read_anew_from_its_log_goes_on_as_if_it_had_not(text: str) -> None:
    """A scheduler that has just begun knows nothing but the log and its snapshots."""
    family = Family(text, TENFOLD)
    run = family.sim.start()
    while family.sim.mailbox.messages:
        family.sim.deliver()
        family.sim.rt.states.clear()
    assert family.status(run) == "completed"
    assert family.result(run) in (
        70,
        {"results": [10, 20, 30, 40], "stats": {"total": 4, "completed": 4, "failed": 0}},
    )


# --- waiting for somebody outside ----------------------------------------------------------------


def test_a_caller_waits_with_its_child_and_goes_on_with_it() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    assert [family.status(one) for one in (run, child)] == ["waiting", "waiting"]
    go(family, child)
    family.sim.settle()
    assert [family.status(one) for one in (run, child)] == ["completed", "completed"]
    assert [fact.waiting for fact in family.facts(run, e.ChildWaiting)] == [True, False]
    family.check_log(run)


def test_a_wait_is_reported_to_everybody_above() -> None:
    family = Family(GRANDPARENT.replace("grandchild", "child"), GRANDPARENT, grandchild=STAYS)
    run = family.start()
    everybody = list(family.everybody(run))
    assert [family.status(one) for one in everybody] == ["waiting"] * 3
    control.pause(family.sim.rt, everybody[1])
    control.resume(family.sim.rt, everybody[1])
    go(family, everybody[2])
    family.sim.settle()
    assert [family.status(one) for one in everybody] == ["completed"] * 3


def test_a_paused_child_is_waited_for_like_one_that_waits() -> None:
    family = Family(child=STAYS)
    run = family.sim.start()
    family.sim.deliver()
    family.settle_but("pipeline")
    family.sim.settle()
    (child,) = family.children(run)
    control.pause(family.sim.rt, child)
    family.sim.settle()
    assert [family.status(one) for one in (run, child)] == ["waiting", "paused"]
    control.patch_ctx(family.sim.rt, child, {"go": True})
    control.resume(family.sim.rt, child)
    family.sim.settle()
    assert family.status(run) == "completed"


def test_a_caller_with_other_work_or_with_time_that_passes_is_running() -> None:
    timed = Family(CALLS.replace("input:", "spec: {timeout: 60}, input:"), STAYS)
    assert timed.status(timed.start()) == "running"
    polls = "- step: other\n  tool: {kind: python, name: poll}\n"
    branches = "- step: fork\n  next: [start, other]\n" + CALLS + polls
    family = Family(
        branches, STAYS, {"python": lambda _: Later(30)}, root="executor: {spec: {entry_step: fork}}"
    )
    assert family.status(family.start()) == "running"


def test_a_loop_waits_when_its_slots_are_full_of_children_that_wait_or_nothing_else_is_left() -> None:
    family = Family(loop_of_calls("[1, 2, 3]", "mode: parallel, max_in_flight: 2"), STAYS)
    run = family.start()
    first, second = family.children(run)
    assert family.status(run) == "waiting"
    go(family, first)
    family.sim.settle()
    assert (family.status(run), len(family.children(run))) == ("waiting", 3)
    go(family, second)
    family.sim.settle()
    assert family.status(run) == "waiting"
    go(family, family.children(run)[2])
    family.sim.settle()
    assert family.status(run) == "completed"
    family.check_log(run)


def test_what_is_heard_late_and_is_older_does_not_count() -> None:
    then_polls = STAYS.replace("{kind: noop,", "{kind: python,")
    family = Family(child=then_polls, tools={"python": lambda _: Later(30)})
    run = family.sim.start()
    family.settle_but("waits")
    go(family, family.children(run)[0])
    family.settle_but("waits")
    earlier, later = family.messages("waits")
    family.sim.deliver(later)
    family.sim.deliver(earlier)
    family.sim.settle()
    assert [fact.waiting for fact in family.facts(run, e.ChildWaiting)] == [False, True]
    assert family.status(run) == "running"


def test_a_wait_that_is_lost_is_reported_again_and_counts_once() -> None:
    family = Family(child=STAYS)
    run = family.sim.start()
    family.settle_but("waits")
    family.sim.mailbox.messages.clear()
    assert family.status(run) == "running"
    family.later()
    family.later()
    assert family.status(run) == "waiting"
    assert len(family.facts(run, e.ChildWaiting)) == 1
