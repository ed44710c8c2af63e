"""What follows from what has happened: the engine's promises, one decision at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from nets import arc, plan, step

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import (
    Admission,
    AdmitRule,
    Arc,
    Assignment,
    Failure,
    Join,
    Loop,
    Reducer,
    Task,
    Transition,
)
from noetl.testing import START, Given, When, given

ERROR = ErrorInfo("python", "it broke", type="ValueError")


class Play:
    """An execution that is played by hand: steps end when the test says so."""

    def __init__(self, on: Plan, **inputs: Any) -> None:
        self.plan = on
        self.inputs = Inputs(now=START, **inputs)
        self.drafts: list[Draft] = []
        requested = e.Requested("tests/test", 1, "digest")
        self._decide(given(on, requested, inputs=self.inputs).when())

    def _decide(self, when: When) -> None:
        self.drafts += when.drafts
        self.state: State = when.state
        issued = {fact.command_id: False for fact in when.facts if isinstance(fact, e.CommandIssued)}
        self.inputs = replace(self.inputs, commands={**self.inputs.commands, **issued})

    def happens(self, *drafts: Draft | e.Fact) -> list[str]:
        """Folds `drafts`, decides, and returns the types of what was decided."""
        when = Given(self.plan, self.state, self.inputs).when(*drafts)
        self._decide(when)
        return when.types

    def run_of(self, name: str) -> str:
        return next(run.id for run in self.state.runs.values() if run.step == name)

    def done(self, name: str, result: Any = None, run: str | None = None) -> list[str]:
        run_id = run or self.run_of(name)
        return self.happens(
            Draft(e.TaskDone("task_0", result), step=name, run_id=run_id),
            Draft(e.StepDone("task_0"), step=name, run_id=run_id),
        )

    def fails(self, name: str, error: ErrorInfo = ERROR) -> list[str]:
        return self.happens(Draft(e.StepFailed(error), step=name, run_id=self.run_of(name)))

    @property
    def running(self) -> list[str]:
        return sorted(run.step for run in self.state.runs.values())

    @property
    def status(self) -> str:
        return self.state.status

    def facts(self, kind: type[e.Fact]) -> Iterator[Any]:
        return (draft.fact for draft in self.drafts if isinstance(draft.fact, kind))


# --- beginning and end ---------------------------------------------------------------------------


def test_a_request_puts_the_first_token_before_the_entry_and_fires_it() -> None:
    play = Play(plan(step("start", "end"), step("end", tool=False)))
    types = [draft.fact.type for draft in play.drafts]
    assert types == [
        "playbook.request.evaluated",
        "workflow.started",
        "step.scheduled",
        "command.issued",
    ]


def test_a_lone_step_ends_the_execution_when_it_ends() -> None:
    play = Play(plan(step("start")))
    assert play.done("start", 7) == ["next.evaluated", "workflow.finished", "playbook.processed"]
    assert (play.status, play.state.result_step) == ("completed", "start")


def test_steps_without_tools_run_in_the_turn_that_reaches_them() -> None:
    play = Play(
        plan(step("start", "mid", tool=False), step("mid", "end", tool=False), step("end", tool=False))
    )
    assert play.status == "completed"
    assert play.state.result_step == "end"


def test_steps_that_go_round_without_a_task_end_the_execution_and_hold_nobody_up() -> None:
    play = Play(plan(step("start", "mid", tool=False), step("mid", "start", tool=False)))
    assert play.status == "failed"
    (ended,) = play.facts(e.Processed)
    assert ended.error.type == "EndlessCycle"
    assert "'start', 'mid'" in ended.error.message
    assert len(play.drafts) < 5, "nothing of the cycle is kept"


def test_the_same_decision_is_not_made_twice() -> None:
    play = Play(plan(step("start", "end"), step("end")))
    assert play.happens() == []


def test_ctx_begins_with_what_the_net_says_rendered_with_the_workload() -> None:
    play = Play(
        plan(step("start"), workload={"n": 2}, ctx={"a": "{{ n + 1 }}", "b": {"c": "{{ workload.n }}"}})
    )
    assert play.state.ctx == {"a": 3, "b": {"c": 2}}
    assert next(play.facts(e.Evaluated)).ctx == play.state.ctx


def test_a_patch_from_outside_that_was_there_first_wins_over_what_ctx_begins_with() -> None:
    on = plan(step("start"), ctx={"a": 1, "b": {"c": 1, "d": 1}})
    requested = e.Requested("tests/test", 1, "digest")
    when = given(on, requested, e.CtxPatched({"b.c": 2}, "client"), inputs=Inputs(now=START)).when()
    assert when.state.ctx == {"a": 1, "b": {"c": 2, "d": 1}}


def test_a_template_of_ctx_that_fails_ends_the_execution_with_its_reason() -> None:
    play = Play(plan(step("start"), ctx={"n": "{{ 1 / 0 }}"}))
    assert play.status == "failed"
    assert play.state.error is not None
    assert play.state.error.message.startswith("ctx:")


def test_a_workload_template_that_fails_ends_the_execution_with_its_reason() -> None:
    play = Play(plan(step("start"), workload={"n": "{{ 1 / 0 }}"}))
    assert play.status == "failed"
    assert play.state.error is not None
    assert "workload" in play.state.error.message


# --- routing -------------------------------------------------------------------------------------


def test_an_exclusive_router_follows_the_first_arc_that_matches() -> None:
    play = Play(
        plan(
            step("start", arc("start", "a", "{{ result > 3 }}"), arc("start", "b"), inclusive=False),
            step("a"),
            step("b"),
        )
    )
    play.done("start", 5)
    assert play.running == ["a"]


def test_an_inclusive_router_follows_every_arc_that_matches() -> None:
    play = Play(
        plan(step("start", "a", arc("start", "b", "{{ false }}"), "c"), step("a"), step("b"), step("c"))
    )
    play.done("start")
    assert play.running == ["a", "c"]


def test_an_arc_hands_over_its_args_after_its_set() -> None:
    hand = arc(
        "start",
        "a",
        args={"n": "{{ ctx.total + 1 }}"},
        set=(Assignment("ctx", "total", "{{ result * 2 }}"),),
    )
    play = Play(plan(step("start", hand), step("a")))
    play.done("start", 4)
    assert play.state.ctx == {"total": 8}
    assert next(iter(play.state.runs.values())).args == {"n": 9}


def test_step_set_is_applied_on_success_only() -> None:
    assign = (Assignment("ctx", "seen", True),)
    arcs = (arc("start", "a", "{{ event.name == 'step.exit' }}", boundary=True),)
    for end, ctx in (("done", {"seen": True}), ("fails", {})):
        play = Play(plan(step("start", *arcs, set=assign), step("a")))
        getattr(play, end)("start")
        assert play.running == ["a"]
        assert play.state.ctx == ctx


@pytest.mark.parametrize("end", ["done", "fails"])
@pytest.mark.parametrize("name", ["step.finished", "tool.finished", "step.exit"])
def test_names_of_both_ends_hold_however_the_step_ended(end: str, name: str) -> None:
    play = Play(
        plan(step("start", arc("start", "a", f"{{{{ event.name == '{name}' }}}}", boundary=True)), step("a"))
    )
    getattr(play, end)("start")
    assert play.running == ["a"]


@pytest.mark.parametrize("name", ["step.done", "call.done", "step.exit"])
def test_guards_know_the_end_of_a_step_under_all_its_names(name: str) -> None:
    play = Play(
        plan(step("start", arc("start", "a", f"{{{{ event.name == '{name}' }}}}", boundary=True)), step("a"))
    )
    play.done("start")
    assert play.running == ["a"]


def test_a_failed_step_is_offered_only_to_arcs_that_mention_the_boundary() -> None:
    arcs = ("a", arc("start", "b", "{{ outcome.status == 'error' }}", boundary=True))
    play = Play(plan(step("start", *arcs), step("a"), step("b")))
    play.fails("start")
    assert play.running == ["b"]
    play.done("b")
    assert play.status == "completed", "a handled failure does not fail the execution"


def test_an_unhandled_failure_fails_the_execution_with_its_error() -> None:
    play = Play(plan(step("start", "a"), step("a")))
    play.fails("start")
    assert play.status == "failed"
    assert play.state.error == ERROR


def test_a_template_error_in_a_guard_fails_the_step() -> None:
    play = Play(plan(step("start", arc("start", "a", "{{ 1 / 0 }}")), step("a")))
    play.done("start")
    assert play.status == "failed"
    assert play.state.error is not None
    assert (play.state.error.kind, play.state.error.step) == ("template", "start")


def test_a_router_without_a_match_ends_the_branch_or_fails_it_when_told() -> None:
    def play(strict: bool) -> Play:
        on = plan(step("start", arc("start", "a", "{{ false }}")), step("a"), no_next_is_error=strict)
        one = Play(on)
        one.done("start")
        return one

    assert play(strict=False).status == "completed"
    failed = play(strict=True)
    assert failed.status == "failed"
    assert failed.state.error is not None
    assert failed.state.error.kind == "router"


def test_decisions_carry_the_expression_and_the_values_it_read() -> None:
    play = Play(plan(step("start", arc("start", "a", "{{ result > 3 }}")), step("a")))
    play.done("start", 5)
    decision = next(play.facts(e.NextEvaluated)).arcs[0]
    assert (decision.when, decision.names, decision.chosen) == ("{{ result > 3 }}", {"result": 5}, True)


def assigns(name: str, when: Any = None, also: bool = False, **values: Any) -> Arc:
    """An arc that leads nowhere."""
    return Arc(f"start->{name}", "start", "", when, set=sets(**values), also=also)


def sets(**values: Any) -> tuple[Assignment, ...]:
    return tuple(Assignment("ctx", name, value) for name, value in values.items())


def routed(*arcs: Arc, router: Any = "exclusive", fails: bool = False, **more: Any) -> Play:
    """An execution whose first step has ended; its arcs may lead to a, b and c."""
    start = replace(step("start", *arcs, **more), router=router)
    play = Play(plan(start, step("a"), step("b"), step("c")))
    if fails:
        play.fails("start")
    else:
        play.done("start", 5)
    return play


def chosen(play: Play) -> list[tuple[str, bool, bool]]:
    evaluated = next(play.facts(e.NextEvaluated))
    return [(one.step, one.value, one.chosen) for one in evaluated.arcs]


def test_every_arc_of_the_first_choice_that_fires_routes_and_no_other_is_asked() -> None:
    play = routed(
        arc("start", "a", "{{ false }}"),
        Arc("start->b", "start", "b", "{{ result == 5 }}"),
        Arc("start->c", "start", "c", "{{ false }}", also=True),
        Arc("start->a#2", "start", "a", also=True),
        Arc("start->c#2", "start", "c"),
    )
    assert play.running == ["a", "b"]
    assert chosen(play) == [("a", False, False), ("b", True, True), ("c", False, False), ("a", True, True)]


def test_an_arc_without_a_step_assigns_for_those_behind_it_and_is_no_choice() -> None:
    play = routed(
        assigns("1", "{{ result == 5 }}", n="{{ result + 1 }}"),
        assigns("2", "{{ false }}", n=0),
        Arc("start->a", "start", "a", "{{ ctx.n == 6 }}"),
        assigns("3", n=7),
    )
    assert (play.running, play.state.ctx) == (["a"], {"n": 6})
    assert chosen(play) == [("", True, True), ("", False, False), ("a", True, True)]


def test_arcs_that_only_assign_are_no_router_that_misses_and_take_no_failure() -> None:
    assert routed(assigns("1", n=1), no_next_is_error=True).status == "completed"
    seen = Arc("start->1", "start", "", "{{ error }}", boundary=True, set=sets(why="{{ error.message }}"))
    failed = routed(seen, assigns("2", never=1), fails=True)
    assert (failed.status, failed.state.ctx) == ("failed", {"why": "it broke"})


def test_a_router_of_mode_first_lets_all_assign_and_follows_the_first_choice() -> None:
    play = routed(
        assigns("1", n=1),
        Arc("start->a", "start", "a", "{{ ctx.n == 2 }}"),
        Arc("start->b", "start", "b", "{{ ctx.n == 1 }}", set=sets(n=2)),
        Arc("start->a#2", "start", "a", "{{ ctx.n == 2 }}", set=sets(n=3)),
        assigns("2", "{{ ctx.n == 3 }}", m=4),
        router="first",
    )
    assert (play.running, play.state.ctx) == (["b"], {"n": 3, "m": 4})
    assert chosen(play) == [
        ("", True, True), ("a", False, False), ("b", True, True), ("a", True, False), ("", True, True),
    ]  # fmt: skip


def test_a_join_behind_arcs_that_only_assign_counts_those_that_lead_to_it() -> None:
    play = Play(plan(step("start", "j", assigns("1", n=1)), step("j", join=Join("all"))))
    play.done("start")
    assert play.running == ["j"]


def test_a_cycle_runs_round_after_round() -> None:
    back = arc("b", "a", "{{ ctx.n < 3 }}")
    count = (Assignment("ctx", "n", "{{ ctx.n | default(0) + 1 }}"),)
    play = Play(plan(step("start", "a"), step("a", "b"), step("b", back, set=count)))
    play.done("start")
    for _ in range(3):
        play.done("a")
        play.done("b")
    assert play.status == "completed"
    assert play.state.steps["a"].runs == 3


# --- tasks behind the end of a pipeline ----------------------------------------------------------


def ended(*facts: e.Fact, iteration: int | None = None) -> list[Draft]:
    return [Draft(fact, step="start", run_id="start#1", iteration=iteration) for fact in facts]


def guarded(when: str) -> Play:
    return Play(plan(step("start", arc("start", "a", when, boundary=True), inclusive=False), step("a")))


def test_the_outcome_of_a_step_is_that_of_its_pipeline_and_not_of_what_ran_behind_it() -> None:
    play = guarded("{{ outcome.http.status == 201 and result == 1 and start.results.z == 2 }}")
    play.happens(
        *ended(
            e.TaskDone("a", 1, extras={"http": {"status": 201}}),
            e.TaskDone("z", 2, extras={"http": {"status": 500}}, after=True),
            e.StepDone("a"),
        )
    )
    assert play.running == ["a"]


def test_a_failure_behind_the_end_of_a_pipeline_brings_nothing_of_its_last_task() -> None:
    play = guarded("{{ outcome.status == 'error' and outcome.http is not defined }}")
    done = e.TaskDone("a", 1, extras={"http": {"status": 201}})
    play.happens(*ended(done, e.TaskFailed("z", ERROR, fatal=True, after=True), e.StepFailed(ERROR)))
    assert play.running == ["a"]


def test_a_loop_keeps_what_the_task_said_that_failed_it_first() -> None:
    on = step(
        "start", arc("start", "a", "{{ outcome.http.status == 503 }}", boundary=True), loop=Loop([1], "i")
    )
    play = Play(plan(on, step("a")))
    failed = e.TaskFailed("t", ERROR, extras={"http": {"status": 503}}, fatal=True)
    behind = e.TaskFailed("z", ERROR, extras={"http": {"status": 200}}, fatal=True, after=True)
    play.inputs = replace(play.inputs, commands={})
    play.happens(*ended(failed, behind, e.IterationFailed(ERROR), iteration=0))
    assert play.running == ["a"]


def test_guards_of_such_tasks_are_among_the_names_that_a_command_carries() -> None:
    tidy = Task("z", "noop", after="{{ other.n > workload.limit }}")
    one = replace(step("start"), tasks=(Task("a", "noop"), tidy))
    assert {("other", "n"), ("workload", "limit")} <= plan(one, step("other")).needs("start").chains


# --- joins ---------------------------------------------------------------------------------------


def fork(join: Join) -> Play:
    play = Play(
        plan(
            step("start", "a", "b", "c"),
            step("a", "j"),
            step("b", "j"),
            step("c", "j"),
            step("j", "end", join=join),
            step("end"),
        )
    )
    play.done("start")
    return play


def test_an_auto_join_fires_once_when_no_other_token_can_come() -> None:
    play = fork(Join())
    for name in ("a", "b"):
        play.done(name)
        assert "j" not in play.running
    play.done("c")
    assert play.running == ["j"]


def test_an_auto_join_does_not_wait_for_branches_that_were_not_taken() -> None:
    play = Play(
        plan(step("start", "a", arc("start", "b", "{{ false }}")), step("a", "j"), step("b", "j"), step("j"))
    )
    play.done("start")
    play.done("a")
    assert play.running == ["j"]


def test_an_auto_join_does_not_wait_for_a_branch_that_failed() -> None:
    play = Play(
        plan(
            step("start", "a", "b"), step("a", "j"), step("b", "j"), step("j"), failure=Failure("best_effort")
        )
    )
    play.done("start")
    play.done("a")
    play.fails("b")
    assert play.running == ["j"]
    play.done("j")
    assert play.status == "partial"


def test_a_join_inside_of_a_cycle_does_not_wait_for_itself() -> None:
    back = arc("j", "fork", "{{ ctx.n < 2 }}")
    count = (Assignment("ctx", "n", "{{ ctx.n | default(0) + 1 }}"),)
    play = Play(
        plan(
            step("start", "fork"),
            step("fork", "a", "b"),
            step("a", "j"),
            step("b", "j"),
            step("j", back, set=count),
        )
    )
    play.done("start")
    for _ in range(2):
        play.done("fork")
        play.done("a")
        assert play.running == ["b"]
        play.done("b")
        play.done("j")
    assert play.status == "completed"
    assert play.state.steps["j"].runs == 2


def test_a_loop_head_does_not_wait_for_a_join_behind_it() -> None:
    # start → a, start → c; a → j, c → j; j → a: `a` has two arcs, and c reaches it only through j.
    play = Play(
        plan(step("start", "a", "c"), step("a", "j"), step("c", "j"), step("j", arc("j", "a", "{{ false }}")))
    )
    play.done("start")
    assert play.running == ["a", "c"]


def test_joins_in_a_cycle_wait_for_joins_before_them_in_the_same_round() -> None:
    # The round: fork → a → (x, y) → inner, fork → gate, inner → gate (never), gate → back → fork.
    never = arc("inner", "gate", "{{ false }}")
    play = Play(
        plan(
            step("start", "fork"),
            step("fork", "a", "gate"),
            step("a", "x", "y"),
            step("x", "inner"),
            step("y", "inner"),
            step("inner", never),
            step("gate", arc("gate", "fork", "{{ ctx.again is defined }}")),
        )
    )
    for name in ("start", "fork", "a", "x"):
        play.done(name)
        assert "gate" not in play.running
    play.done("y")
    assert play.running == ["inner"]
    play.done("inner")
    assert play.running == ["gate"]


def _two_entries(*steps: Transition) -> Play:
    # start → p → a → j, start → c → j, j → a: the cycle of `a` and `j` is entered at both, so none
    # dominates the other.
    play = Play(plan(step("start", "p", "c"), *steps))
    play.done("start")
    return play


def test_of_two_joins_that_lead_to_each_other_the_later_one_in_the_document_waits_for_the_earlier_one() -> (
    None
):
    again = arc("j", "a", "{{ ctx.again is defined }}")
    play = _two_entries(step("p", "a"), step("a", "j"), step("c", "j"), step("j", again))
    play.done("c")
    assert play.running == ["p"]
    play.done("p")
    assert play.running == ["a"]
    play.done("a")
    assert play.running == ["j"]
    play.done("j")
    assert play.status == "completed"


def test_of_two_joins_that_lead_to_each_other_the_earlier_one_in_the_document_waits_for_neither() -> None:
    again = arc("j", "a", "{{ j.again }}")
    play = _two_entries(step("p", "a"), step("a", "j"), step("c", "j"), step("j", again))
    play.done("p")
    assert play.running == ["a", "c"]
    play.done("a")
    assert play.running == ["c"]
    play.done("c")
    assert play.running == ["j"]
    play.done("j", {"again": True})
    assert play.running == ["a"]
    play.done("a")
    assert play.running == ["j"]


def test_a_join_that_an_all_join_needs_does_not_wait_for_it() -> None:
    play = _two_entries(step("p", "a"), step("a", "j", join=Join("all")), step("c", "j"), step("j", "a"))
    play.done("p")
    play.done("c")
    assert play.running == ["j"]
    play.done("j")
    assert play.running == ["a"]


def test_an_all_join_waits_for_every_arc() -> None:
    play = fork(Join("all"))
    for name in ("a", "b"):
        play.done(name)
    assert "j" not in play.running
    play.done("c")
    assert play.running == ["j"]


def test_an_all_join_that_cannot_fill_fails_its_branch_at_quiescence() -> None:
    play = Play(
        plan(
            step("start", "a", arc("start", "b", "{{ false }}")),
            step("a", "j"),
            step("b", "j"),
            step("j", join=Join("all")),
        )
    )
    play.done("start")
    play.done("a")
    assert play.status == "failed"
    assert play.state.error is not None
    assert play.state.error.kind == "join"


def test_an_any_join_fires_for_each_token() -> None:
    play = fork(Join("any"))
    for name in ("a", "b", "c"):
        play.done(name)
    assert play.running == ["j", "j", "j"]


def test_a_first_join_fires_once_and_absorbs_the_rest_of_its_round() -> None:
    play = fork(Join("first"))
    play.done("b")
    assert play.running.count("j") == 1
    play.done("j")
    play.done("end")
    play.done("a")
    play.done("c")
    assert play.status == "completed"
    assert play.state.steps["j"].runs == 1


def test_a_first_join_rearms_when_its_round_is_over() -> None:
    back = arc("j", "fork", "{{ ctx.n < 3 }}")
    count = (Assignment("ctx", "n", "{{ ctx.n | default(0) + 1 }}"),)
    play = Play(
        plan(
            step("start", "fork"),
            step("fork", arc("fork", "a", "{{ ctx.n | default(0) != 1 }}"), "b"),
            step("a", "j"),
            step("b", "j"),
            step("j", back, join=Join("first"), set=count),
        )
    )
    play.done("start")
    play.done("fork")
    play.done("a")
    play.done("b")
    play.done("j")
    play.done("fork")
    assert play.running == ["b"], "the second round does not take a"
    play.done("b")
    assert play.running == ["j"], "b counts in the new round although a never comes"


def test_a_count_join_fires_at_the_nth_arc() -> None:
    play = fork(Join("count", count=2))
    play.done("a")
    assert "j" not in play.running
    play.done("c")
    assert play.running == ["b", "j"]
    play.done("b")
    play.done("j")
    play.done("end")
    assert (play.status, play.state.steps["j"].runs) == ("completed", 1)


def test_cancel_rest_withdraws_what_still_runs() -> None:
    play = fork(Join("first", cancel_rest=True))
    play.done("b")
    assert play.running == ["j"]
    assert {draft.step for draft in play.drafts if isinstance(draft.fact, e.StepCancelled)} == {"a", "c"}


def test_a_joins_token_carries_the_args_of_its_tokens_merged() -> None:
    play = Play(
        plan(
            step("start", "a", "b"),
            step("a", arc("a", "j", args={"x": 1, "deep": {"a": 1}})),
            step("b", arc("b", "j", args={"y": 2, "deep": {"b": 2}})),
            step("j"),
        )
    )
    play.done("start")
    play.done("a")
    play.done("b")
    assert next(iter(play.state.runs.values())).args == {"x": 1, "y": 2, "deep": {"a": 1, "b": 2}}


# --- failure rules -------------------------------------------------------------------------------


def test_fail_fast_lets_running_work_end_and_starts_nothing_new() -> None:
    play = Play(plan(step("start", "a", "b"), step("a", "x"), step("b"), step("x")))
    play.done("start")
    play.inputs = replace(play.inputs, commands={f"1/{play.run_of('a')}/-/1": True})
    play.fails("b")
    assert play.running == ["a"]
    play.done("a")
    assert play.status == "failed"
    assert "x" not in play.state.steps


def test_fail_fast_withdraws_what_no_worker_holds() -> None:
    play = Play(plan(step("start", "a", "b"), step("a"), step("b")))
    play.done("start")
    play.fails("b")
    assert play.status == "failed"
    assert any(isinstance(draft.fact, e.StepCancelled) and draft.step == "a" for draft in play.drafts)


def test_best_effort_lets_other_branches_finish_and_ends_partial() -> None:
    play = Play(
        plan(step("start", "a", "b"), step("a", "x"), step("b"), step("x"), failure=Failure("best_effort"))
    )
    play.done("start")
    play.fails("b")
    play.done("a")
    play.done("x")
    assert play.status == "partial"


def test_the_final_step_runs_once_after_everything_else_also_after_a_failure() -> None:
    play = Play(plan(step("start"), step("last"), final_step="last"))
    play.fails("start")
    assert play.running == ["last"]
    args = next(iter(play.state.runs.values())).args
    assert (args["status"], args["steps"]["failed"], args["errors"][0]["message"]) == (
        "failed",
        1,
        "it broke",
    )
    play.done("last", "bye")
    assert (play.status, play.state.result_step) == ("failed", "last")


# --- admission -----------------------------------------------------------------------------------


def gate(on_deny: Any) -> Play:
    admit = Admission((AdmitRule("{{ ctx.open }}", allow=True), AdmitRule(None, allow=False)), on_deny)
    return Play(plan(step("start", admit=admit)))


def test_a_denied_token_stays_pending_until_ctx_changes() -> None:
    play = gate("pending")
    assert (play.running, play.status) == ([], "running")
    assert play.happens(e.CtxPatched({"other": 1}, "client")) == ["policy.admit.evaluated"]
    assert play.happens() == []
    assert "step.scheduled" in play.happens(e.CtxPatched({"open": True}, "client"))


def test_a_denied_token_is_dropped_or_fails_when_told() -> None:
    assert gate("skip").status == "completed"
    failed = gate("fail")
    assert failed.status == "failed"


def passed_over(*more: Transition, **of_step: Any) -> Play:
    admit = Admission((AdmitRule(None, allow=False),), "pass")
    return Play(plan(step("start", "end", admit=admit, set=sets(never=1), **of_step), step("end"), *more))


def test_a_denied_token_goes_on_behind_its_step_when_told() -> None:
    play = passed_over()
    types = [draft.fact.type for draft in play.drafts]
    assert types[2:6] == ["policy.admit.evaluated", "step.scheduled", "step.skipped", "next.evaluated"]
    assert (play.running, play.state.ctx) == (["end"], {})
    assert play.state.steps["start"].counts == {"skipped": 1}
    assert play.done("end", 1)[-1] == "playbook.processed"
    assert play.status == "completed"


def test_a_step_that_was_passed_over_keeps_the_result_that_it_had() -> None:
    once = Admission((AdmitRule("{{ ctx.n is not defined }}", True), AdmitRule(None, False)), "pass")
    back = arc("start", "start", "{{ ctx.n == 1 }}", set=sets(n=2))
    play = Play(
        plan(
            step("start", back, arc("start", "end"), admit=once, set=sets(n=1), inclusive=False), step("end")
        )
    )
    play.done("start", 7)
    assert play.running == ["end"]
    record = play.state.steps["start"]
    assert (record.status, record.result, record.runs) == ("skipped", 7, 2)


def test_a_loop_that_is_passed_over_is_done_to_its_guards() -> None:
    loop = Loop([1], "item")
    play = passed_over(loop=loop)
    assert next(play.facts(e.NextEvaluated)).boundary == "loop.done"


# --- loops ---------------------------------------------------------------------------------------


def looped(items: Any, **more: Any) -> Play:
    loop = Loop(items, "item", mode=more.pop("mode", "parallel"), **more)
    return Play(plan(step("each", "end", loop=loop), step("end")))


def iteration(index: int, result: Any = None, error: ErrorInfo | None = None) -> Iterable[Draft]:
    place: dict[str, Any] = {"step": "each", "run_id": "each#1", "iteration": index}
    if error:
        return (Draft(e.IterationFailed(error), **place),)
    return Draft(e.TaskDone("task_0", result), **place), Draft(e.IterationDone("task_0"), **place)


def test_a_parallel_loop_issues_as_many_lanes_as_may_be_in_flight() -> None:
    play = looped([1, 2, 3, 4, 5], max_in_flight=3)
    assert [fact.part for fact in play.facts(e.CommandIssued)] == ["l0", "l1", "l2"]


def test_a_parallel_loop_is_sixteen_wide_unless_it_says_otherwise() -> None:
    play = looped(list(range(20)))
    assert len(list(play.facts(e.CommandIssued))) == 16


@pytest.mark.parametrize(("items", "lanes"), [([], 0), (None, 0), ("text", 1), ({"a": 1}, 1), ([1], 1)])
def test_a_collection_is_a_list_nothing_or_one_element(items: Any, lanes: int) -> None:
    assert len(list(looped(items).facts(e.CommandIssued))) == (lanes or 1), "an empty loop goes on to `end`"


def test_a_loop_yields_its_results_in_item_order() -> None:
    play = looped([1, 2, 3])
    for index in (2, 0, 1):
        play.happens(*iteration(index, index * 10))
    assert play.state.steps["each"].result == {
        "results": [0, 10, 20],
        "stats": {"total": 3, "completed": 3, "failed": 0},
    }
    assert play.running == ["end"]


def test_a_failed_iteration_fails_the_loop_once_its_lanes_have_ended() -> None:
    play = looped([1, 2, 3], max_in_flight=2)
    play.inputs = replace(play.inputs, commands={"1/each#1/l1/1": True})
    assert play.happens(*iteration(0, error=ERROR)) == []
    play.happens(*iteration(1, 5))
    play.inputs = replace(play.inputs, commands={})
    assert play.happens()[:2] == ["loop.done", "step.failed"]
    assert play.state.error is not None
    assert play.state.error.stats == {"total": 3, "completed": 1, "failed": 1}


def test_best_effort_runs_all_iterations_and_keeps_errors_beside_results() -> None:
    play = looped([1, 2], failure=Failure("best_effort"))
    play.happens(*iteration(0, error=ERROR))
    play.happens(*iteration(1, "ok"))
    result = play.state.steps["each"].result
    assert result["results"] == [None, "ok"]
    assert result["errors"][0]["message"] == "it broke"
    assert result["errors"][1] is None


def test_more_failures_than_are_tolerated_fail_the_loop() -> None:
    play = looped([1, 2, 3], failure=Failure("best_effort", tolerate_count=1))
    play.happens(*iteration(0, error=ERROR))
    assert play.running == ["each"]
    play.inputs = replace(play.inputs, commands={})
    play.happens(*iteration(1, error=ERROR))
    assert play.status == "failed"


def test_nothing_is_issued_again_while_a_lane_is_open() -> None:
    play = looped([1, 2, 3], max_in_flight=2)
    assert play.happens(*iteration(1, 5)) == []


def test_lanes_that_are_gone_leave_a_new_generation_for_what_is_missing() -> None:
    on = plan(step("each", loop=Loop([1, 2, 3], "item", mode="parallel", max_in_flight=2)))
    play = Play(on)
    play.happens(*iteration(1, 5))
    fresh = Given(on, play.state, Inputs(now=START, commands={}))
    issued = [fact for fact in fresh.when().facts if isinstance(fact, e.CommandIssued)]
    assert [(fact.part, fact.generation) for fact in issued] == [("l0", 2), ("l1", 2)]


def test_reducers_fold_what_iterations_wrote_in_item_order() -> None:
    loop = Loop([1, 2, 3], "item", mode="parallel", reduce={"all": "append", "total": "sum"})
    play = Play(plan(step("each", loop=loop)))
    for index in (2, 0, 1):
        place: dict[str, Any] = {"step": "each", "run_id": "each#1", "iteration": index}
        play.happens(Draft(e.IterationDone(None, (("all", index), ("total", index))), **place))
    assert play.state.ctx == {"all": [0, 1, 2], "total": 3}


def test_reducers_over_nothing_leave_their_neutral_value_where_ctx_has_none() -> None:
    reducers: dict[str, Reducer] = {
        "all": "append",
        "total": "sum",
        "by": "merge",
        "least": "min",
        "end": "last",
    }
    loop = Loop([], "item", mode="parallel", reduce=reducers)
    before = {"total": 7, "end": "x"}

    fresh = Play(plan(step("each", loop=loop)))
    kept = Play(plan(step("each", loop=loop), ctx=before))

    assert fresh.state.ctx == {"all": [], "total": 0, "by": {}, "least": None, "end": None}
    assert kept.state.ctx == {"all": [], "total": 7, "by": {}, "least": None, "end": "x"}


def test_a_sum_of_nulls_is_that_of_nothing() -> None:
    play = Play(plan(step("each", loop=Loop([1], "item", mode="parallel", reduce={"total": "sum"}))))
    place: dict[str, Any] = {"step": "each", "run_id": "each#1", "iteration": 0}
    play.happens(Draft(e.IterationDone(None, (("total", None),)), **place))
    assert play.state.ctx == {"total": 0}


def test_a_late_report_of_an_iteration_that_ended_does_not_count() -> None:
    play = looped([1, 2])
    play.happens(*iteration(0, "first"))
    play.happens(*iteration(0, "second"))
    play.happens(*iteration(1, "other"))
    assert play.state.steps["each"].result["results"] == ["first", "other"]


def test_too_many_items_fail_before_the_fan_out() -> None:
    play = Play(plan(step("each", loop=Loop([1] * 11, "item"))), max_items=10)
    assert play.status == "failed"
    assert play.state.error is not None
    assert play.state.error.kind == "limit"


# --- suspension, pause, cancel -------------------------------------------------------------------


def test_a_suspended_step_is_ordered_again_for_when_it_is_due() -> None:
    play = Play(plan(step("start")))
    due = (START + timedelta(seconds=5)).isoformat()
    draft = Draft(e.StepSuspended("task_0", "retry", due), step="start", run_id="start#1")
    assert play.happens(draft) == ["command.issued"]
    issued = list(play.facts(e.CommandIssued))[-1]
    assert (issued.issue, issued.due_at) == (2, due)


def test_a_pause_starts_nothing_and_resume_goes_on() -> None:
    play = Play(plan(step("start", "a"), step("a")))
    play.inputs = replace(play.inputs, commands={"1/start#1/-/1": True})
    assert play.happens(e.PauseRequested()) == []
    play.inputs = replace(play.inputs, commands={})
    assert play.done("start") == ["next.evaluated", "playbook.paused"]
    assert "step.scheduled" in play.happens(e.Resumed())


def test_cancel_waits_for_running_work_and_withdraws_the_rest() -> None:
    play = Play(plan(step("start", "a", "b"), step("a"), step("b")))
    play.done("start")
    play.inputs = replace(play.inputs, commands={"1/a#1/-/1": True})
    deadline = (START + timedelta(seconds=10)).isoformat()
    assert play.happens(e.CancelRequested(deadline)) == ["step.cancelled"]
    assert play.running == ["a"]
    play.inputs = replace(play.inputs, now=START + timedelta(seconds=11))
    assert play.happens() == ["step.cancelled", "playbook.cancelled"]
    assert play.status == "cancelled"


def test_nothing_is_folded_after_the_end() -> None:
    play = Play(plan(step("start")))
    play.done("start")
    before = replace(play.state, version=0)
    play.happens(e.CtxPatched({"late": 1}, "client"))
    assert replace(play.state, version=0) == before
