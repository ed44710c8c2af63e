"""Tasks that run once their pipeline has ended: what they see, what they change, and what of it is
in the log."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_pipeline import WHERE, drafts_of, err, ok, otherwise, play, task, when

from noetl.facts.events import ChildCall, ChildEnded, Draft, PolicyEvaluated, TaskDone, TaskFailed
from noetl.facts.outcome import Outcome
from noetl.net.model import Rule, Task
from noetl.pipeline.fold import initial, replay
from noetl.pipeline.model import Completed, Failed, Later, Names, Recorded, Suspend, Where

SEEN = {"status": "{{ outcome.status }}", "result": "{{ result }}", "why": "{{ error.message }}"}


def after(name: str, guard: str | bool = True, *rules: Rule, **fields: Any) -> Task:
    return task(name, *rules, after=guard, **fields)


class TestWhatTheyChange:
    def test_the_result_of_the_pipeline_is_that_of_its_last_task(self) -> None:
        story = play(task("a"), after("z"), scripts={"a": [ok(1)], "z": [ok(2)]})
        assert story.ending == Completed("a")
        assert story.progress.results == {"a": 1, "z": 2}

    def test_their_events_say_that_they_ran_behind_its_end(self) -> None:
        story = play(task("a"), after("z"), after("y"), scripts={"y": [err()]})
        assert [fact.after for fact in story.facts_of(TaskDone)] == [False, True]
        assert [(fact.after, fact.fatal) for fact in story.facts_of(TaskFailed)] == [(True, True)]

    def test_a_failure_of_one_fails_the_pipeline_and_ends_what_is_behind_it(self) -> None:
        story = play(task("a"), after("z"), after("y"), scripts={"z": [err("full")]})
        assert story.error.message == "full"
        assert story.tool.order() == ["a", "z"]

    def test_the_first_error_stays(self) -> None:
        story = play(task("a"), task("b"), after("z"), scripts={"a": [err("first")], "z": [err("second")]})
        assert story.error.message == "first"
        assert story.tool.order() == ["a", "z"]

    def test_a_policy_may_let_one_go_on(self) -> None:
        story = play(task("a"), after("z", True, otherwise("continue")), after("y"), scripts={"z": [err()]})
        assert story.ending == Completed("a")
        assert story.tool.order() == ["a", "z", "y"]

    def test_a_break_ends_the_pipeline_in_front_of_them_and_one_of_theirs_what_is_left(self) -> None:
        story = play(
            task("a", otherwise("break")), task("b"), after("z", True, otherwise("break")), after("y")
        )
        assert story.tool.order() == ["a", "z"]
        assert story.ending == Completed("a")

    def test_jumps_among_them_leave_the_end_where_it_is(self) -> None:
        back = when("ctx.turned is not defined", "jump", to="z", set={"ctx.turned": 1})
        story = play(task("a"), after("z"), after("y", True, back))
        assert story.tool.order() == ["a", "z", "y", "z", "y"]
        assert story.ending == Completed("a")

    def test_a_jump_back_from_the_last_task_of_the_pipeline_takes_its_end_back(self) -> None:
        back = when("ctx.turned is not defined", "jump", to="a", set={"ctx.turned": 1})
        first = task("a", args={"ended": "{{ outcome is defined or event is defined }}"})
        story = play(first, task("b", back), after("z"))
        assert story.tool.order() == ["a", "b", "a", "b", "z"]
        assert [call.args["ended"] for call in story.tool.of("a")] == [False, False]

    def test_a_pipeline_of_nothing_else_ends_with_null(self) -> None:
        story = play(after("z", args=SEEN))
        assert story.ending == Completed(None)
        assert story.tool.of("z")[0].args == {"status": "ok", "result": None, "why": None}


class TestWhatTheySee:
    def test_the_end_of_the_pipeline_whatever_they_yield_themselves(self) -> None:
        story = play(
            task("a"), after("z", args=SEEN), after("y", args={**SEEN, "prev": "{{ _prev }}", "z": "{{ z }}"}),
            scripts={"a": [ok(1)], "z": [ok(2)]},
        )  # fmt: skip
        seen = {"status": "ok", "result": 1, "why": None}
        assert story.tool.of("z")[0].args == seen
        assert story.tool.of("y")[0].args == {**seen, "prev": 1, "z": 2}

    def test_an_error_without_a_result_though_a_deeper_name_has_one(self) -> None:
        story = play(
            task("a"),
            after("z", args=SEEN),
            scripts={"a": [err("no")]},
            names=Names(ctx={"result": "of ctx"}),
        )
        assert story.tool.of("z")[0].args == {"status": "error", "result": None, "why": "no"}

    def test_what_the_last_task_said_besides_in_the_outcome(self) -> None:
        given = {"n": "{{ outcome.http.status }}", "attempt": "{{ outcome.meta.attempt }}"}
        story = play(task("a"), after("z", args=given), scripts={"a": [ok(1, http={"status": 201})]})
        assert story.tool.of("z")[0].args == {"n": 201, "attempt": 1}

    @pytest.mark.parametrize(
        ("where", "script", "names"),
        [
            (WHERE, ok(), ["step.done", "call.done", "step.exit", "tool.finished"]),
            (WHERE, err(), ["step.failed", "call.error", "step.exit", "tool.finished"]),
            (Where("77", "load#1", "load", 0), ok(), ["call.done", "tool.finished"]),
            (Where("77", "load#1", "load", 0), err(), ["call.error", "tool.finished"]),
        ],
    )
    def test_the_names_of_the_boundary(self, where: Where, script: Outcome, names: list[str]) -> None:
        every = [
            "step.done",
            "step.failed",
            "call.done",
            "call.error",
            "step.exit",
            "loop.done",
            "tool.finished",
        ]
        asked = {name: f"{{{{ event.name == '{name}' }}}}" for name in every}
        story = play(task("a"), after("z", args=asked), scripts={"a": [script]}, where=where)
        assert [name for name, held in story.tool.of("z")[0].args.items() if held] == [
            name for name in every if name in names
        ]

    def test_their_own_outcome_in_their_own_rules_and_set(self) -> None:
        rule = when(
            "result == 2 and outcome.status == 'ok'", "continue", set={"ctx.rule": "{{ output.result }}"}
        )
        story = play(
            task("a"), after("z", True, rule, set={"ctx.own": "{{ result }}"}), scripts={"z": [ok(2)]}
        )
        assert story.progress.ctx == {"rule": 2, "own": 2}


class TestGuards:
    def test_one_that_does_not_hold_skips_its_task_and_both_are_in_the_log_with_what_they_read(self) -> None:
        story = play(
            task("a"),
            after("z", "result.n > 1"),
            after("y", "{{ result.n == 1 }}"),
            scripts={"a": [ok({"n": 1})]},
        )
        assert story.tool.order() == ["a", "y"]
        assert story.facts_of(PolicyEvaluated) == [
            PolicyEvaluated("z", None, "result.n > 1", {"result.n": 1}, "skip"),
            PolicyEvaluated("y", None, "{{ result.n == 1 }}", {"result.n": 1}, "enter"),
        ]

    def test_what_they_said_is_recorded_together_with_what_came_of_it(self) -> None:
        story = play(task("a"), after("z", "false"), after("y", "true"))
        assert [[draft.fact.type for draft in drafts_of(move)] for move in story.moves] == [
            ["task.done"],
            ["policy.task.evaluated", "policy.task.evaluated", "task.done"],
        ]

    def test_one_that_cannot_be_evaluated_fails_its_task_at_its_line(self) -> None:
        story = play(task("a"), after("z", "{{ 1 / 0 }}", line=7), after("y"))
        assert (story.error.kind, story.error.task, story.error.line) == ("template", "z", 7)
        assert "The `after` of task 'z'" in story.error.message
        assert story.tool.order() == ["a"]

    def test_one_is_asked_again_where_a_jump_comes_back_to_its_task_and_that_is_another_fact(self) -> None:
        back = when("ctx.n < 2", "jump", to="z", set={"ctx.n": "{{ ctx.n + 1 }}"})
        story = play(task("a"), after("z", "ctx.n == 2"), after("y", True, back), names=Names(ctx={"n": 0}))
        assert [fact.do for fact in story.facts_of(PolicyEvaluated) if fact.task == "z"] == [
            "skip",
            "skip",
            "enter",
        ]
        keys = [draft.dedup_key for draft in story.drafts]
        assert len(set(keys)) == len(keys)

    def test_attempts_do_not_ask_again(self) -> None:
        again = when("_attempt < 3", "retry", attempts=3, set={"ctx.open": False})
        story = play(task("a"), after("z", "ctx.open", again), names=Names(ctx={"open": True}))
        assert story.tool.order() == ["a", "z", "z", "z"]


class TestCrashesAndWaits:
    def test_behind_the_end_of_the_pipeline_nothing_of_it_runs_again(self) -> None:
        tasks = (task("a"), task("b"), after("z", args=SEEN), after("y", args=SEEN))
        scripts = {"a": [ok(1)], "b": [err("no")]}
        story = play(*tasks, scripts=scripts)
        committed: list[Draft] = []
        for move in story.moves[:-1]:
            assert isinstance(move, Recorded)
            committed += move.drafts
            done = [fact.task for draft in committed if isinstance(fact := draft.fact, TaskDone | TaskFailed)]
            again = play(*tasks, scripts=scripts, progress=replay(story.program, committed))
            assert again.tool.order() == story.tool.order()[len(done) :]
            assert again.ending == story.ending
            for call in again.tool.of("y"):
                assert call.args == {"status": "error", "result": None, "why": "no"}

    def test_one_may_wait_and_its_guard_is_not_asked_when_it_goes_on(self) -> None:
        tasks = (task("a"), after("z", "ctx.open"))
        story = play(*tasks, scripts={"z": [Later(30)]}, names=Names(ctx={"open": True}))
        last = story.moves[-1]
        assert isinstance(last, Suspend)
        assert [draft.fact.type for draft in last.drafts] == ["policy.task.evaluated"]
        on = play(*tasks, progress=replay(story.program, story.drafts), names=Names(ctx={"open": False}))
        assert on.tool.order() == ["z"]
        assert on.ending == Completed("a")

    def test_one_may_call_a_playbook(self) -> None:
        tasks = (task("a"), after("z", "error.message == 'no'"), after("y", args={"z": "{{ z }}", **SEEN}))
        scripts = {"a": [err("no")], "z": [ChildCall("tests/kid")]}
        story = play(*tasks, scripts=scripts)
        last = story.moves[-1]
        assert isinstance(last, Suspend)
        assert [draft.fact.type for draft in last.drafts] == ["policy.task.evaluated"]
        answered = [*story.drafts, Draft(ChildEnded("z", "9", "completed", 5))]
        on = play(*tasks, progress=replay(story.program, answered))
        assert on.tool.order() == ["y"]
        assert on.tool.of("y")[0].args == {"z": 5, "status": "error", "result": None, "why": "no"}
        assert isinstance(on.ending, Failed)

    def test_a_log_without_them_folds_as_it_always_did(self) -> None:
        story = play(task("a"), task("b", otherwise("break")), task("c"))
        progress = replay(story.program, story.drafts)
        assert (progress.proper, progress.ending) == (None, Completed("b"))
        assert initial(story.program).ending is None
