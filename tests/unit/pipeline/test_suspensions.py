"""Tools that yield a wait in the place of an outcome: `Later`, with a checkpoint, and
`ChildCall`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scripted_pipeline import WHERE, ScriptedTool, Story, err, no_references, ok, otherwise, play, task, when

from noetl.facts.events import AttemptFailed, ChildCall, ChildEnded, ChildRequested, Draft, TaskCheckpointed
from noetl.facts.outcome import ErrorInfo
from noetl.pipeline.fold import evolve, initial, replay
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import (
    Call,
    Completed,
    Failed,
    Finished,
    Later,
    Names,
    PipelinePorts,
    PipelineProgress,
    PipelineSpec,
    Recorded,
    Sleep,
    Suspend,
)

RETRY = (when("{{ outcome.status == 'error' }}", "retry", attempts=3), otherwise("continue"))


def again(story: Story, scripts: Any, *more: Draft) -> Story:
    """The same pipeline in another process, from what `story` recorded and what happened since."""
    progress = replay(story.program, [*story.drafts, *more])
    return play(*story.program.tasks, scripts=scripts, progress=progress)


def answered(*facts: ChildEnded | ChildRequested) -> list[Draft]:
    return [Draft(fact, step=WHERE.step, run_id=WHERE.run_id) for fact in facts]


# --- later ---------------------------------------------------------------------------------------


def test_a_long_wait_leaves_the_worker_with_its_checkpoint_in_the_same_commit() -> None:
    story = play(task("poll"), scripts={"poll": [Later(30, {"job": 7})]})
    (move,) = story.moves
    assert isinstance(move, Suspend)
    assert (move.task, move.reason, move.seconds, move.child) == ("poll", "later", 30, None)
    assert [draft.fact for draft in move.drafts] == [TaskCheckpointed("poll", {"job": 7})]


def test_the_tool_is_called_again_with_its_checkpoint_and_as_the_same_call() -> None:
    story = play(task("poll"), scripts={"poll": [Later(30, {"job": 7})]})
    later = again(story, {"poll": [ok("done")]})
    first, second = story.tool.calls[0], later.tool.calls[0]
    assert (first.checkpoint, second.checkpoint) == (None, {"job": 7})
    assert (second.attempt, second.idempotency_key) == (first.attempt, first.idempotency_key)
    assert later.ending == Completed("poll")


@pytest.mark.parametrize("seconds", [0.0, 0.2, 1.0])
def test_a_short_wait_stays_in_the_worker_behind_its_recorded_checkpoint(seconds: float) -> None:
    story = play(task("poll"), scripts={"poll": [Later(seconds, 1), ok()]})
    kinds = [type(move) for move in story.moves]
    assert kinds == ([Recorded, Sleep, Finished] if seconds else [Recorded, Finished])
    assert story.sleeps == ([seconds] if seconds else [])
    assert [call.checkpoint for call in story.tool.calls] == [None, 1]


def test_a_checkpoint_that_did_not_change_is_not_recorded_again() -> None:
    story = play(task("poll"), scripts={"poll": [Later(0.1, 1), Later(0.1, 1), Later(0.1, 2), Later(30, 2)]})
    assert [fact.checkpoint for fact in story.facts_of(TaskCheckpointed)] == [1, 2]
    last = story.moves[-1]
    assert isinstance(last, Suspend)
    assert last.drafts == ()


def test_a_wait_without_a_checkpoint_records_nothing() -> None:
    story = play(task("poll"), scripts={"poll": [Later(30)]})
    assert story.drafts == []
    assert again(story, {"poll": [ok(1)]}).ending == Completed("poll")


def test_a_checkpoint_that_the_tool_changes_in_place_is_recorded() -> None:
    """Tools treat what they are handed as their own."""

    def counts(call: Call) -> Any:
        seen = call.checkpoint or {"pages": []}
        seen["pages"].append(len(seen["pages"]))
        return Later(0.1, seen) if len(seen["pages"]) < 4 else ok(seen)

    story = play(task("poll"), scripts={"poll": counts})
    assert [fact.checkpoint for fact in story.facts_of(TaskCheckpointed)] == [
        {"pages": [0]},
        {"pages": [0, 1]},
        {"pages": [0, 1, 2]},
    ]


def test_every_checkpoint_has_a_key_of_its_own() -> None:
    story = play(
        task("poll", *RETRY), scripts={"poll": [Later(0.1, 1), Later(0.1, 2), err(), Later(0.1, 1), ok()]}
    )
    keys = [draft.dedup_key for draft in story.drafts]
    assert len(set(keys)) == len(keys) == 7


def test_a_checkpoint_is_kept_across_attempts_of_its_task() -> None:
    story = play(task("poll", *RETRY), scripts={"poll": [Later(0.1, 1), err(), ok()]})
    assert [(call.attempt, call.checkpoint) for call in story.tool.calls] == [(1, None), (1, 1), (2, 1)]
    assert len(story.facts_of(AttemptFailed)) == 1


def test_a_checkpoint_is_forgotten_when_its_task_has_ended() -> None:
    back = (when("{{ n is not defined }}", "jump", to="poll", set={"n": 1}), otherwise("continue"))
    scripts = {"poll": [Later(0.1, 1), ok(), Later(0.1, 5), ok()]}
    story = play(task("poll"), task("b", *back), scripts=scripts)
    assert [call.checkpoint for call in story.tool.of("poll")] == [None, 1, None, 5]
    assert [call.checkpoint for call in story.tool.of("b")] == [None, None]


def test_a_checkpoint_is_forgotten_when_its_task_has_failed() -> None:
    scripts = {"poll": [Later(0.1, 1), err()]}
    story = play(task("poll", otherwise("continue")), task("b"), scripts=scripts)
    assert [call.checkpoint for call in story.tool.of("b")] == [None]


def test_a_wait_owes_nothing_to_the_delay_of_the_retry_before_it() -> None:
    slow = when("{{ outcome.status == 'error' }}", "retry", attempts=3, backoff="fixed", delay=0.5)
    story = play(task("poll", slow, otherwise("continue")), scripts={"poll": [err(), Later(0.25, 1), ok()]})
    assert story.sleeps == [0.5, 0.25]


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, 1e300])
def test_a_wait_that_is_not_a_time_fails_the_task(seconds: float) -> None:
    story = play(task("poll"), scripts={"poll": [Later(seconds)]})
    assert isinstance(story.ending, Failed)
    assert (story.ending.error.kind, story.ending.error.type) == ("internal", "BadWait")


def test_without_a_clock_a_deadline_is_that_of_each_call() -> None:
    story = play(task("poll", spec={"timeout": "2s"}), scripts={"poll": [Later(0.1, 1), ok()]})
    assert [call.deadline_s for call in story.tool.calls] == [2.0, 2.0]


class Clock:
    """The instant, moved by the test; it is what pipelines record."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> str:
        return self.at.isoformat()

    def passes(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def polled(clock: Clock, story: Story | None, *script: Any, tasks: Any = None) -> Story:
    """One slice of a task with a timeout of a minute, from what the slices before it recorded."""
    program = story.program if story else PipelineSpec(tasks or (task("poll", spec={"timeout": 60}),), WHERE)
    progress = story.progress if story else initial(program)
    tool = ScriptedTool({"poll": list(script)})
    hands = PipelinePorts(tool, no_references, lambda: 0.5, now=clock)
    return Story(program, list(run(program, Names(), progress, hands)), tool)


def test_a_timeout_bounds_all_polls_and_the_waits_between_them() -> None:
    clock = Clock()
    first = polled(clock, None, Later(40))
    assert first.facts == [TaskCheckpointed("poll", None, "2026-01-01T00:00:00+00:00")]
    clock.passes(40)
    second = polled(clock, first, Later(40))
    last = second.moves[-1]
    assert isinstance(last, Suspend)
    assert (last.seconds, last.drafts) == (20, ())
    assert [call.deadline_s for call in (*first.tool.calls, *second.tool.calls)] == [60, 20]
    clock.passes(20)
    third = polled(clock, second, ok())
    assert third.tool.calls == []
    assert (third.error.kind, third.error.task, third.error.retryable) == ("timeout", "poll", True)
    assert "Task 'poll' did not end within its timeout of 1m" in third.error.message


def test_an_answer_in_time_is_the_outcome_however_many_polls_it_took() -> None:
    clock = Clock()
    story = polled(clock, None, Later(40, 1))
    clock.passes(59)
    assert polled(clock, story, ok("done")).ending == Completed("poll")


def test_each_attempt_has_the_whole_timeout_and_keeps_the_checkpoint() -> None:
    clock = Clock()
    story = polled(clock, None, Later(60, 1), tasks=(task("poll", *RETRY, spec={"timeout": 60}),))
    clock.passes(60)
    again = polled(clock, story, Later(40, 1))
    assert [(call.attempt, call.deadline_s, call.checkpoint) for call in again.tool.calls] == [(2, 60, 1)]
    assert [fact.since for fact in again.facts_of(TaskCheckpointed)] == ["2026-01-01T00:01:00+00:00"]


def test_a_clock_that_was_set_back_gives_no_more_than_the_whole_timeout() -> None:
    clock = Clock()
    story = polled(clock, None, Later(40))
    clock.passes(-3600)
    assert [call.deadline_s for call in polled(clock, story, ok()).tool.calls] == [60]


# --- calls ---------------------------------------------------------------------------------------

CALL = ChildCall("tests/child", payload={"n": 1})


def test_a_call_leaves_the_worker_and_records_nothing_of_the_pipeline() -> None:
    story = play(task("a"), task("call"), scripts={"call": [CALL]})
    assert story.moves[-1] == Suspend((), story.progress, "call", "child", child=CALL)
    assert story.types == ["task.done"]


def test_a_call_that_nobody_has_answered_is_made_again() -> None:
    """Where the worker died before it was heard. The one that was heard is not: nobody is sent for
    it."""
    story = play(task("call"), scripts={"call": [CALL]})
    assert again(story, {"call": [CALL]}).moves[-1] == story.moves[-1]


def test_an_answer_is_the_outcome_of_the_task_and_the_tool_is_not_called_again() -> None:
    story = play(task("call"), task("after", args={"seen": "{{ call.x }}"}), scripts={"call": [CALL]})
    later = again(story, {}, *answered(ChildEnded("call", "9", "completed", {"x": 5})))
    assert later.tool.order() == ["after"]
    assert later.tool.calls[0].args == {"seen": 5}
    assert later.progress.results["call"] == {"x": 5}
    assert later.facts[0].meta["execution_id"] == "9"  # type: ignore[union-attr]


def test_a_detached_child_answers_with_its_place() -> None:
    story = play(task("call"), scripts={"call": [CALL]})
    later = again(story, {}, *answered(ChildRequested("call", "9", "tests/child", 3, "d", detached=True)))
    assert later.progress.results["call"] == {"execution_id": "9", "path": "tests/child", "version": 3}


def test_a_child_that_is_only_requested_answers_nothing() -> None:
    program = PipelineSpec((task("call"),), WHERE)
    (draft,) = answered(ChildRequested("call", "9", "tests/child", 3, "d"))
    assert evolve(program, initial(program), draft).answer is None


@pytest.mark.parametrize("status", ["failed", "partial", "cancelled"])
def test_a_child_that_did_not_end_well_is_an_error_of_the_task(status: Any) -> None:
    story = play(task("call"), scripts={"call": [CALL]})
    later = again(story, {}, *answered(ChildEnded("call", "9", status, None, ErrorInfo("child", "no luck"))))
    assert (later.error.kind, later.error.message, later.error.task) == ("child", "no luck", "call")


def test_an_attempt_after_a_failed_child_calls_again() -> None:
    story = play(task("call", *RETRY), scripts={"call": [CALL]})
    later = again(
        story, {"call": [CALL]}, *answered(ChildEnded("call", "9", "failed", None, ErrorInfo("child", "x")))
    )
    assert [call.attempt for call in later.tool.calls] == [2]
    assert isinstance(later.moves[-1], Suspend)
    assert later.moves[-1].child == CALL


def test_a_call_asked_again_after_a_success_calls_again() -> None:
    policy = (when("{{ result < 3 }}", "retry", attempts=5), otherwise("continue"))
    story = play(task("call", *policy), scripts={"call": [CALL]})
    once = again(story, {"call": [CALL]}, *answered(ChildEnded("call", "8", "completed", 1)))
    assert [call.attempt for call in once.tool.calls] == [2]


def test_an_answer_counts_though_the_step_s_input_is_gone() -> None:
    """References among the arguments may be out of reach by now."""
    reference = {"kind": "result_ref", "ref": "noetl://blob/1", "meta": {}}
    program = PipelineSpec((task("call"),), WHERE)
    tool = ScriptedTool()
    progress = PipelineProgress(answer=ok(5))
    hands = PipelinePorts(tool, no_references, lambda: 0.0)
    (move,) = run(program, Names(args={"big": reference}), progress, hands)
    assert isinstance(move, Finished)
    assert move.ending == Completed("call")
    assert tool.calls == []
