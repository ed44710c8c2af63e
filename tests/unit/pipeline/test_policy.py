"""What policies decide: continue, retry, jump, break, fail, and the order in which rules are
asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scripted_pipeline import err, ok, otherwise, play, task, when

from noetl.facts.events import AttemptFailed, PolicyEvaluated, TaskDone, TaskFailed
from noetl.facts.outcome import ErrorInfo, failed
from noetl.net.attempts import grow_delay
from noetl.net.model import Directive, Rule
from noetl.pipeline.model import Completed, Failed, Finished, Names, PipelineProgress, Suspend

TYPES = ["task.done", "policy.task.evaluated"]


class TestWithoutRules:
    def test_a_success_continues(self) -> None:
        story = play(task("a"), task("b"), scripts={"b": [ok(2)]})
        assert story.ending == Completed("b")
        assert story.types == ["task.done", "task.done"]

    def test_an_error_fails_the_pipeline_and_nothing_runs_after_it(self) -> None:
        story = play(task("a"), task("b"), scripts={"a": [err("no route")]})
        assert story.tool.order() == ["a"]
        assert story.error.message == "no route"
        assert story.facts_of(TaskFailed)[0].fatal


class TestWithRules:
    def test_the_first_rule_that_matches_decides(self) -> None:
        story = play(task("a", when("1 == 2", "fail"), when("1 == 1", "continue"), otherwise("fail")))
        assert story.facts_of(PolicyEvaluated) == [PolicyEvaluated("a", 1, "1 == 1", {}, "continue")]

    def test_else_matches_when_nothing_before_it_did(self) -> None:
        story = play(task("a", when("false", "continue"), otherwise("break")), task("b"))
        assert story.ending == Completed("a")
        assert story.facts_of(PolicyEvaluated)[0].when is None

    @pytest.mark.parametrize(("literal", "order"), [(True, ["a"]), (False, ["a", "b"])])
    def test_a_boolean_guard_is_itself(self, literal: bool, order: list[str]) -> None:
        assert play(task("a", when(literal, "break")), task("b")).tool.order() == order

    @pytest.mark.parametrize("rules", [(), (when("false", "continue"),)])
    def test_an_error_that_no_rule_takes_fails_the_task(self, rules: tuple[Rule, ...]) -> None:
        fails = task("a", rules=rules, unmatched="fail")
        story = play(fails, task("b"), scripts={"a": [err("no route")]})
        assert (story.tool.order(), story.types) == (["a"], ["task.failed"])
        assert story.error.message == "no route"
        assert story.facts_of(TaskFailed)[0].fatal

    def test_a_success_that_no_rule_takes_goes_on(self) -> None:
        story = play(task("a", when("error", "break"), unmatched="fail"), task("b"))
        assert story.ending == Completed("b")

    @pytest.mark.parametrize("rules", [(), (when("false", "fail"),)])
    def test_in_a_net_that_does_not_say_so_the_pipeline_goes_on_even_after_an_error(
        self, rules: tuple[Rule, ...]
    ) -> None:
        story = play(task("a", rules=rules), task("b"), scripts={"a": [err()]})
        assert story.tool.order() == ["a", "b"]
        assert story.types == ["task.failed", "task.done"]
        assert story.ending == Completed("b")

    def test_a_pipeline_whose_last_task_failed_and_continued_has_no_result(self) -> None:
        story = play(task("a"), task("b", otherwise("continue")), scripts={"b": [err()]})
        assert story.ending == Completed(None)

    def test_break_ends_the_pipeline_well_with_this_tasks_result(self) -> None:
        story = play(task("a", otherwise("break")), task("b"), scripts={"a": [ok(5)]})
        assert story.ending == Completed("a")
        fact = story.facts[0]
        assert isinstance(fact, TaskDone)
        assert replace(fact, call="", key="") == TaskDone("a", 5, {"attempt": 1})

    def test_break_after_an_error_ends_well_without_a_result(self) -> None:
        assert play(task("a", otherwise("break")), scripts={"a": [err()]}).ending == Completed(None)

    def test_fail_keeps_the_error_of_the_outcome(self) -> None:
        story = play(task("a", otherwise("fail")), scripts={"a": [err("503", "server_error")]})
        assert (story.error.kind, story.error.message) == ("server_error", "503")
        assert story.types == ["task.failed", "policy.task.evaluated"]

    def test_fail_after_a_success_says_which_guard_wanted_it(self) -> None:
        story = play(task("a", when("{{ result.n < 3 }}", "fail"), line=12), scripts={"a": [ok({"n": 1})]})
        assert story.error.message == "The policy of task 'a' said fail because {{ result.n < 3 }}."
        assert (story.error.kind, story.error.task, story.error.line) == ("client_error", "a", 12)

    def test_the_decision_keeps_the_values_that_it_read_but_none_of_the_keychain(self) -> None:
        rule = when("workload.limit > 1 and keychain.token == 's3cret'", "continue")
        names = Names(workload={"limit": 7}, builtins={"keychain": {"token": "s3cret"}})
        (decision,) = play(task("a", rule), names=names).facts_of(PolicyEvaluated)
        assert "7" in str(decision.names)
        assert "s3cret" not in str(decision.names)


class TestRetry:
    def test_an_attempt_that_failed_is_followed_by_the_next(self) -> None:
        rule = when("error", "retry", attempts=3)
        story = play(task("a", rule), scripts={"a": [err("one"), err("two"), ok(3)]})
        assert story.types == ["task.attempt.failed", "policy.task.evaluated"] * 2 + ["task.done"]
        assert [call.attempt for call in story.tool.calls] == [1, 2, 3]
        assert [fact.error.attempt for fact in story.facts_of(AttemptFailed)] == [1, 2]
        assert [draft.attempt for draft in story.drafts] == [1, 1, 2, 2, 3]

    def test_attempts_count_all_tries_and_used_up_the_task_fails_with_its_last_error(self) -> None:
        errors = [err("one"), err("two"), err("three")]
        story = play(task("a", otherwise("retry")), task("b"), scripts={"a": errors})
        assert story.tool.order() == ["a", "a", "a"]
        assert story.error.message == "three"
        assert story.facts_of(PolicyEvaluated)[-1].do == "fail"

    def test_a_poll_repeats_after_success_while_its_guard_holds(self) -> None:
        rule = when("{{ result.state != 'ready' }}", "retry", attempts=5)
        answers = [ok({"state": "busy"}), ok({"state": "busy"}), ok({"state": "ready"})]
        story = play(task("poll", rule), scripts={"poll": answers})
        assert story.ending == Completed("poll")
        assert story.types == ["policy.task.evaluated", "policy.task.evaluated", "task.done"]
        assert [call.attempt for call in story.tool.calls] == [1, 2, 3]

    def test_a_poll_that_is_never_satisfied_fails_with_kind_limit(self) -> None:
        story = play(
            task("poll", when("result.busy", "retry", attempts=2)), scripts={"poll": [ok({"busy": 1})]}
        )
        assert (story.error.kind, story.error.message) == (
            "limit",
            "Task 'poll' is still not satisfied after 2 attempts.",
        )

    def test_attempts_may_be_a_template(self) -> None:
        names = Names(workload={"tries": "4"})
        story = play(
            task("a", otherwise("retry", attempts="{{ tries }}")), scripts={"a": [err()]}, names=names
        )
        assert len(story.tool.calls) == 4

    @pytest.mark.parametrize("attempts", [0, -1, "many", True, None, 2.5, "{{ nowhere }}"])
    def test_attempts_that_are_no_count_fail_the_task_with_the_reason(self, attempts: object) -> None:
        story = play(task("a", otherwise("retry", attempts=attempts)), scripts={"a": [err()]})
        assert story.error.message.startswith("Rule 1 of the policy of task 'a': 'attempts' must be a whole")

    def test_retries_after_errors_share_an_idempotency_key(self) -> None:
        story = play(task("a", when("error", "retry")), scripts={"a": [err(), ok()]})
        first, second = story.tool.calls
        assert first.idempotency_key == second.idempotency_key

    def test_a_call_repeated_after_success_or_reached_by_a_jump_is_meant_to_act_again(self) -> None:
        again = when("result == 'again'", "retry", attempts=9)
        back = when("result == 'back'", "jump", to="a")
        script = [ok("again"), err(), ok("back"), ok("on")]
        story = play(task("a", when("error", "retry", attempts=9), again, back), scripts={"a": script})
        first, repeated, retried, jumped = (call.idempotency_key for call in story.tool.calls)
        assert repeated == retried
        assert len({first, repeated, jumped}) == 3

    def test_a_task_behind_a_poll_has_the_key_that_it_would_have_without_it(self) -> None:
        poll = task("poll", when("result == 'busy'", "retry"))
        polled = play(poll, task("send"), scripts={"poll": [ok("busy"), ok("ready")]})
        straight = play(task("poll"), task("send"))
        assert polled.tool.of("send")[0].idempotency_key == straight.tool.of("send")[0].idempotency_key


class TestDelays:
    @pytest.mark.parametrize(
        ("kind", "waits"),
        [
            ("none", [0.0, 0.0, 0.0, 0.0]),
            ("fixed", [2.0, 2.0, 2.0, 2.0]),
            ("linear", [2.0, 4.0, 6.0, 8.0]),
            ("exponential", [2.0, 4.0, 8.0, 16.0]),
        ],
    )
    def test_backoff_grows_as_it_says(self, kind: str, waits: list[float]) -> None:
        directive = Directive("retry", backoff=kind)  # type: ignore[arg-type]
        assert [grow_delay(directive.backoff, 2.0, attempt) for attempt in (1, 2, 3, 4)] == waits

    @pytest.mark.parametrize("kind", ["linear", "exponential"])
    def test_delays_grow_to_an_hour_and_no_further(self, kind: str) -> None:
        directive = Directive("retry", backoff=kind)  # type: ignore[arg-type]
        assert grow_delay(directive.backoff, 2.0, 100_000) == 3600.0
        assert grow_delay(directive.backoff, 7200.0, 5) == 7200.0

    @pytest.mark.parametrize(
        ("delay", "slept"), [(0.5, 0.5), ("500ms", 0.5), ("PT1S", 1.0), ("{{ d }}", 0.25)]
    )
    def test_up_to_a_second_is_slept_in_the_worker_after_the_commit(
        self, delay: object, slept: float
    ) -> None:
        rule = when("error", "retry", backoff="fixed", delay=delay)
        story = play(task("a", rule), scripts={"a": [err(), ok()]}, names=Names(workload={"d": "250ms"}))
        assert story.sleeps == [slept]
        assert [type(move).__name__ for move in story.moves] == ["Recorded", "Sleep", "Finished"]

    def test_jitter_adds_a_part_of_itself(self) -> None:
        rule = when("error", "retry", backoff="fixed", delay=0.1, jitter=0.8)
        assert play(task("a", rule), scripts={"a": [err(), ok()]}, random=0.5).sleeps == [pytest.approx(0.5)]

    def test_no_delay_means_no_sleep(self) -> None:
        assert play(task("a", otherwise("retry")), scripts={"a": [err()]}).sleeps == []

    def test_retry_after_is_the_least_that_is_waited(self) -> None:
        rule = when("error", "retry", backoff="fixed", delay=0.1)
        answers = [err(http={"retry_after": 0.75}), err(http={"retry_after": 0.01}), ok()]
        assert play(task("a", rule), scripts={"a": answers}).sleeps == [0.75, 0.1]

    @pytest.mark.parametrize("asked", ["5", -3, True, None, float("nan")])
    def test_a_retry_after_that_is_not_a_number_of_seconds_is_passed_over(self, asked: object) -> None:
        answers = [err(http={"retry_after": asked}), ok()]
        assert play(task("a", otherwise("retry")), scripts={"a": answers}).sleeps == []

    def test_no_server_can_ask_for_more_than_a_day(self) -> None:
        story = play(task("a", otherwise("retry")), scripts={"a": [err(http={"retry_after": 1e300})]})
        assert isinstance(story.moves[-1], Suspend)
        assert story.moves[-1].seconds == 86_400.0

    def test_more_than_a_second_leaves_the_worker_and_goes_on_at_the_right_attempt(self) -> None:
        tasks = task("first"), task("a", when("error", "retry", backoff="fixed", delay="1s", jitter=1))
        story = play(*tasks, scripts={"a": [err("slow")]}, random=0.5)
        suspend = story.moves[-1]
        assert isinstance(suspend, Suspend)
        assert (suspend.task, suspend.reason, suspend.seconds) == ("a", "retry", 1.5)
        assert [draft.fact.type for draft in suspend.drafts] == [
            "task.attempt.failed",
            "policy.task.evaluated",
        ]

        resumed = play(*tasks, scripts={"a": [ok(1)]}, progress=suspend.progress)
        assert [(call.task, call.attempt) for call in resumed.tool.calls] == [("a", 2)]
        assert resumed.ending == Completed("a")
        assert resumed.sleeps == []
        assert resumed.progress.wait_s == 0.0

    def test_a_delay_that_is_not_one_fails_the_task_with_the_forms_that_are(self) -> None:
        story = play(task("a", otherwise("retry", backoff="fixed", delay="soon")), scripts={"a": [err()]})
        assert "'delay': 'soon' is not a duration; write" in story.error.message


class TestJump:
    def test_a_jump_forward_leaves_out_what_lies_between(self) -> None:
        story = play(task("a", otherwise("jump", to="c")), task("b"), task("c"))
        assert story.tool.order() == ["a", "c"]
        assert story.types == [*TYPES, "task.done"]

    def test_a_jump_back_runs_what_lies_between_again(self) -> None:
        rule = when("{{ result < 2 }}", "jump", to="a")
        story = play(task("a"), task("b"), task("c", rule), scripts={"c": [ok(1), ok(2)]})
        assert story.tool.order() == ["a", "b", "c", "a", "b", "c"]
        assert story.progress.visits == {"a": 2, "b": 2, "c": 2}

    def test_a_jump_resets_the_counters_of_the_task_it_returns_to(self) -> None:
        flaky = task("a", when("error", "retry", attempts=2))
        story = play(
            flaky,
            task("b", when("result == 'again'", "jump", to="a")),
            scripts={"a": [err(), ok(), err(), ok()], "b": [ok("again"), ok("done")]},
        )
        assert [(call.task, call.attempt) for call in story.tool.calls] == [
            ("a", 1), ("a", 2), ("b", 1), ("a", 1), ("a", 2), ("b", 1),
        ]  # fmt: skip
        assert story.ending == Completed("b")

    def test_a_task_may_jump_to_itself_and_the_last_one_back(self) -> None:
        story = play(task("a", when("result < 3", "jump", to="a")), scripts={"a": [ok(1), ok(2), ok(3)]})
        assert len({call.idempotency_key for call in story.tool.calls}) == 3
        assert story.ending == Completed("a")

    def test_a_jump_after_an_error_goes_on_elsewhere(self) -> None:
        story = play(task("a", when("error", "jump", to="c")), task("b"), task("c"), scripts={"a": [err()]})
        assert story.tool.order() == ["a", "c"]
        assert not story.facts_of(TaskFailed)[0].fatal

    def test_a_jump_to_no_task_fails_and_names_it(self) -> None:
        story = play(task("a", otherwise("jump", to="nowhere")))
        assert "jumps to 'nowhere', which is no task of this step" in story.error.message

    @pytest.mark.full("3 s: as many as are allowed")
    def test_jumps_that_never_end_are_ended(self) -> None:
        story = play(task("a", otherwise("jump", to="a")))
        assert len(story.tool.calls) == 10_000
        assert (story.error.kind, story.error.type) == ("limit", "EndlessPipeline")
        assert "'a' jumps back for ever" in story.error.message

    def test_every_fact_of_a_long_story_has_a_key_of_its_own(self) -> None:
        rule = when("result < 2", "jump", to="a", set={"ctx.n": 1, "n": 1})
        retried = task("a", when("error", "retry", set={"ctx.n": 2, "n": 2}))
        scripts = {"a": [err(), ok(), err(), ok()], "b": [ok(1), ok(2)]}
        story = play(retried, task("b", rule), scripts=scripts)
        keys = [draft.dedup_key for draft in story.drafts]
        assert len(set(keys)) == len(keys) == 15
        assert keys[0] == "load#1/-/a/1/1/task.attempt.failed"


class TestTheEnd:
    def test_the_last_drafts_come_with_the_end_and_not_before(self) -> None:
        story = play(task("a"), task("b"))
        assert [type(move).__name__ for move in story.moves] == ["Recorded", "Finished"]
        assert [[d.fact.task for d in move.drafts] for move in story.moves] == [["a"], ["b"]]

    def test_a_pipeline_without_tasks_is_done_at_once(self) -> None:
        story = play()
        assert story.moves == [Finished((), PipelineProgress(ending=Completed(None)), Completed(None))]

    def test_a_pipeline_that_has_ended_says_so_again_and_runs_nothing(self) -> None:
        ended = Failed(ErrorInfo("python", "no"))
        story = play(task("a"), progress=PipelineProgress(ending=ended))
        assert story.moves == [Finished((), PipelineProgress(ending=ended), ended)]
        assert story.tool.calls == []

    def test_an_outcome_that_failed_without_rules_keeps_what_the_tool_said_of_itself(self) -> None:
        outcome = failed(ErrorInfo("server_error", "no"), {"duration_ms": 12.5}, http={"status": 503})
        story = play(task("a"), scripts={"a": [outcome]})
        (fact,) = story.facts_of(TaskFailed)
        assert fact.extras == {"http": {"status": 503}}
        assert fact.meta == {"duration_ms": 12.5, "attempt": 1}
        assert story.drafts[0].duration_ms == 12.5
