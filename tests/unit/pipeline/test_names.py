"""What templates of a pipeline see, who wins, and how far each target of `set` reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from scripted_pipeline import WHERE, ScriptedTool, err, no_references, ok, otherwise, play, task, when

from noetl.facts.events import CtxPatched, TaskFailed, VariablesSet
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import Completed, Names, PipelinePorts, PipelineProgress, PipelineSpec, Where

ITERATION = Where("77", "load#1", "load", 3)


def seen(expression: str, *before: Any, scripts: Any = None, **given: Any) -> Any:
    """The value of `expression` in a task's inputs, behind the tasks `before`."""
    fields = {key: given.pop(key) for key in ("where", "parallel_loop", "reducers") if key in given}
    probe = task("probe", args={"value": "{{ " + expression + " }}"})
    story = play(*before, probe, scripts=scripts, names=Names(**given), **fields)
    assert story.ending == Completed("probe"), story.ending
    return story.tool.calls[-1].args["value"]


class TestPrecedence:
    LAYERS: Mapping[str, Mapping[str, Any]] = {
        "builtins": {"x": "builtin"},
        "iter": {"x": "iterator", "index": 0},
        "steps": {"x": "step"},
        "args": {"x": "arg"},
        "ctx": {"x": "ctx"},
        "workload": {"x": "workload"},
    }

    @pytest.mark.parametrize(
        ("winner", "order"),
        [
            ("builtin", ["builtins", "iter", "steps", "args", "ctx", "workload"]),
            ("iterator", ["iter", "steps", "args", "ctx", "workload"]),
            ("step", ["steps", "args", "ctx", "workload"]),
            ("arg", ["args", "ctx", "workload"]),
            ("ctx", ["ctx", "workload"]),
            ("workload", ["workload"]),
        ],
    )
    def test_the_nearer_name_wins(self, winner: str, order: list[str]) -> None:
        assert seen("x", **{layer: self.LAYERS[layer] for layer in order}) == winner

    def test_plain_names_that_set_assigned_win_over_tasks_and_those_over_steps(self) -> None:
        earlier = task("x"), task("y")
        scripts = {"x": [ok("task")], "y": [ok()]}
        assert seen("x", *earlier, scripts=scripts, steps={"x": "step"}) == "task"
        setter = task("y", set={"x": "local"})
        assert seen("x", task("x"), setter, scripts=scripts, steps={"x": "step"}) == "local"

    def test_an_iterator_wins_over_plain_names(self) -> None:
        assert seen("x", task("a", set={"x": "local"}), iter={"x": "item", "index": 0}) == "item"

    def test_no_name_of_a_playbook_can_take_a_builtins_place(self) -> None:
        shadows = {"workload": 1, "ctx": 1, "args": 1, "_task": 1, "execution_id": 1}
        assert seen("_task", steps=shadows) == "probe"
        assert seen("execution_id", steps=shadows, workload=shadows) == "77"
        assert seen("workload.a", steps=shadows, workload={"a": 2}) == 2

    def test_the_stores_are_also_read_by_their_own_names(self) -> None:
        given = {"workload": {"w": 1}, "ctx": {"c": 2}, "args": {"a": 3}}
        names = "workload.w, ctx.c, vars.c, args.a, input.a, job.uuid, job.execution_id"
        assert seen(f"[{names}]", **given) == [1, 2, 2, 3, 3, "77", "77"]


class TestThePipelinesOwnNames:
    def test_prev_is_the_result_of_the_task_before_and_null_for_the_first(self) -> None:
        assert seen("_prev is none") is True
        assert seen("_prev.n", task("a"), scripts={"a": [ok({"n": 4})]}) == 4

    def test_prev_stays_that_of_the_task_before_while_a_task_retries(self) -> None:
        probe = task("b", when("error", "retry"), args={"p": "{{ _prev }}", "n": "{{ _attempt }}"})
        story = play(task("a"), probe, scripts={"a": [ok("a's")], "b": [err(), ok()]})
        assert [dict(call.args) for call in story.tool.of("b")] == [
            {"p": "a's", "n": 1},
            {"p": "a's", "n": 2},
        ]

    def test_tasks_are_read_by_name_wherever_they_stand_before(self) -> None:
        scripts = {"a": [ok([1])], "b": [ok(2)]}
        assert seen("[a, b, _prev, _task]", task("a"), task("b"), scripts=scripts) == [[1], 2, 2, "probe"]

    def test_after_an_error_that_continued_prev_and_the_task_are_null(self) -> None:
        earlier = task("a", otherwise("continue"))
        given = {"scripts": {"a": [err()]}, "steps": {"a": "the step of that name"}}
        assert seen("[_prev is none, a is none]", earlier, **given) == [True, True]

    def test_a_task_run_again_is_read_by_its_last_result(self) -> None:
        back = task("b", when("result == 1", "jump", to="a"))
        scripts = {"a": [ok("old"), ok("new")], "b": [ok(1), ok(2)]}
        assert seen("a", task("a"), back, scripts=scripts) == "new"

    def test_a_tasks_own_inputs_lie_over_the_steps(self) -> None:
        probe = task(
            "a", args={"x": "{{ args.x + 1 }}"}, config={"url": "{{ x }}/{{ args.x }}/{{ input.y }}"}
        )
        story = play(probe, names=Names(args={"x": 1, "y": 5}))
        (call,) = story.tool.calls
        assert dict(call.args) == {"x": 2, "y": 5}
        assert call.config == {"url": "2/2/5"}


class TestInIterations:
    GIVEN: Mapping[str, Any] = {
        "iter": {"item": {"id": 9}, "index": 3, "parent": {"item": "outer"}},
        "where": ITERATION,
    }

    def test_the_iterator_is_read_bare_and_under_iter(self) -> None:
        expression = "[item.id, iter.item.id, iter.index, loop_index, iter.parent.item]"
        assert seen(expression, **self.GIVEN) == [9, 9, 3, 3, "outer"]

    def test_what_set_assigned_to_iter_is_read_under_iter(self) -> None:
        setter = task("a", set={"iter.seen": "{{ item.id }}", "iter.item.name": "n"})
        assert seen("[iter.seen, iter.item, item]", setter, **self.GIVEN) == [
            9,
            {"id": 9, "name": "n"},
            {"id": 9, "name": "n"},
        ]

    def test_drafts_of_an_iteration_name_it(self) -> None:
        story = play(task("a"), names=Names(iter=self.GIVEN["iter"]), where=ITERATION)
        assert story.drafts[0].iteration == 3
        assert story.drafts[0].dedup_key == "load#1/3/a/1/1/task.done"

    def test_outside_of_loops_there_is_no_iter(self) -> None:
        assert seen("iter is defined or loop_index is defined") is False


class TestInPolicies:
    def guard(self, expression: str, outcome: Any, **names: Any) -> bool:
        story = play(task("a", when(expression, "break"), otherwise("continue")), task("b"),
                     scripts={"a": [outcome]}, names=Names(**names))  # fmt: skip
        return story.tool.order() == ["a"]

    @pytest.mark.parametrize(
        "expression",
        [
            "outcome.status == 'ok'",
            "output.status == 'ok'",
            "output.data.n == 5",
            "outcome.result.n == 5",
            "result.n == 5",
            "response.n == 5",
            "error is not defined",
            "outcome.meta.attempt == 1",
            "output.http.status == 200",
            "{{ result.n > 4 }}",
        ],
    )
    def test_after_a_success(self, expression: str) -> None:
        shadow = {"error": "a step of that name"}
        assert self.guard(expression, ok({"n": 5}, http={"status": 200}), steps=shadow)

    @pytest.mark.parametrize(
        "expression",
        [
            "outcome.status == 'error'",
            "output.error.kind == 'server_error'",
            "error.message == 'boom'",
            "not error.retryable",
            "outcome.http.status == 503",
            "result is not defined",
            "response is not defined",
            "output.data is not defined",
        ],
    )
    def test_after_a_failure(self, expression: str) -> None:
        shadow = {"result": "a step of that name", "response": 1}
        assert self.guard(expression, err(http={"status": 503}), steps=shadow)


class TestSet:
    def test_a_plain_name_is_read_bare_by_later_tasks_and_in_no_other_store(self) -> None:
        setter = task("a", set={"n": "{{ result.n }}"})
        story = play(setter, task("b", args={"v": "{{ n + 1 }}"}), scripts={"a": [ok({"n": 1})]})
        assert story.tool.calls[-1].args == {"v": 2}
        assert story.facts_of(VariablesSet) == [VariablesSet("a", local={"n": 1})]

    def test_step_variables_are_read_as_step_x(self) -> None:
        assert seen("step.n", task("a", set={"step.n": 5})) == 5

    def test_ctx_is_patched_in_the_log_and_read_back_by_the_same_pipeline(self) -> None:
        setter = task("a", set={"ctx.total": "{{ ctx.total + 1 }}", "ctx.deep.x": 1})
        story = play(
            setter,
            task("b", args={"v": "{{ [ctx.total, total, vars.deep] }}"}),
            names=Names(ctx={"total": 4, "deep": {"y": 2}}),
        )
        assert story.tool.calls[-1].args == {"v": [5, 5, {"y": 2, "x": 1}]}
        assert story.facts_of(CtxPatched) == [CtxPatched({"total": 5, "deep.x": 1}, "task")]

    def test_what_ctx_was_given_in_several_tasks_adds_up(self) -> None:
        tasks = task("a", set={"ctx.x": 1, "ctx.d.k": 1}), task("b", set={"ctx.y": 2, "ctx.d.l": 2})
        assert seen("ctx", *tasks) == {"x": 1, "y": 2, "d": {"k": 1, "l": 2}}

    def test_the_tasks_own_set_sees_raw_results_and_the_envelope_as_outcome(self) -> None:
        setter = task("a", set={"o": "{{ output.n }}", "r": "{{ result.n }}", "s": "{{ outcome.status }}"})
        assert seen("[o, r, s]", setter, scripts={"a": [ok({"n": 1})]}) == [1, 1, "ok"]

    def test_a_rules_set_sees_the_envelope_as_output(self) -> None:
        setter = task("a", otherwise("continue", set={"s": "{{ output.status }}", "n": "{{ result.n }}"}))
        assert seen("[s, n]", setter, scripts={"a": [ok({"n": 1})]}) == ["ok", 1]

    def test_the_tasks_own_set_comes_after_its_rules_and_sees_it(self) -> None:
        both = task("a", otherwise("continue", set={"n": 1, "m": 1, "ctx.c": 1}),
                    set={"n": "{{ n + 1 }}", "k": "{{ m + ctx.c }}"})  # fmt: skip
        story = play(both)
        assert story.facts_of(VariablesSet) == [VariablesSet("a", local={"n": 2, "m": 1, "k": 2})]
        assert story.types == [
            "task.done", "policy.task.evaluated", "task.variables.set", "ctx.patched",
        ]  # fmt: skip

    def test_the_values_of_one_set_all_see_the_same_names(self) -> None:
        story = play(task("a", set={"x": 1, "y": 2}), task("b", set={"x": "{{ y }}", "y": "{{ x }}"}))
        assert story.progress.local == {"x": 2, "y": 1}

    def test_a_rules_set_applies_to_every_verdict_and_is_seen_by_the_next_attempt(self) -> None:
        rule = when("error", "retry", set={"n": "{{ (n or 0) + 1 }}", "ctx.n": "{{ _attempt }}"})
        probe = task("a", rule, args={"n": "{{ n }}"})
        story = play(probe, scripts={"a": [err(), err(), ok()]})
        assert [call.args["n"] for call in story.tool.calls] == [None, 1, 2]
        assert story.progress.ctx == {"n": 2}

    def test_a_tasks_own_set_waits_for_the_attempt_that_ends_it(self) -> None:
        poll = task("a", when("result < 2", "retry"), set={"n": "{{ result }}"})
        story = play(poll, scripts={"a": [ok(1), ok(2)]})
        assert story.facts_of(VariablesSet) == [VariablesSet("a", local={"n": 2})]

    @pytest.mark.parametrize("do", ["continue", "break", "fail"])
    def test_a_tasks_own_set_does_not_apply_after_a_failure(self, do: str) -> None:
        story = play(task("a", otherwise(do), set={"ctx.n": "{{ result }}"}), scripts={"a": [err()]})
        assert story.progress.ctx == {}

    def test_a_tasks_own_set_applies_before_its_jump_and_its_break(self) -> None:
        story = play(
            task("a", otherwise("jump", to="b"), set={"n": 1}), task("b", otherwise("break"), set={"m": 2})
        )
        assert story.progress.local == {"n": 1, "m": 2}

    def test_the_log_and_not_the_names_handed_in_is_changed(self) -> None:
        given = Names(ctx={"a": {"b": 1}}, iter={"item": {"c": 1}, "index": 0})
        play(task("a", set={"ctx.a.b": 2, "iter.item.c": 2}), names=given)
        assert given == Names(ctx={"a": {"b": 1}}, iter={"item": {"c": 1}, "index": 0})


class TestParallelLoops:
    LOOP: Mapping[str, Any] = {"where": ITERATION, "parallel_loop": True, "reducers": frozenset({"total"})}

    def test_ctx_writes_wait_for_the_reducers_and_are_not_seen_meanwhile(self) -> None:
        tasks = task("a", set={"ctx.total": 1}), task("b", set={"ctx.total": "{{ ctx.total + 5 }}"})
        story = play(*tasks, names=Names(ctx={"total": 100}), **self.LOOP)
        assert story.progress.writes == (("total", 1), ("total", 105))
        assert story.facts_of(CtxPatched) == []
        assert story.facts_of(VariablesSet)[0] == VariablesSet("a", writes=(("total", 1),))

    def test_a_write_without_a_reducer_fails_the_task_and_says_what_to_add(self) -> None:
        story = play(task("a", otherwise("continue"), set={"ctx.n": 1}), task("b"), **self.LOOP)
        assert story.tool.order() == ["a"]
        assert story.error.kind == "client_error"
        assert "reduce: {ctx.n: append}" in story.error.message
        assert story.facts_of(TaskFailed)[0].fatal

    def test_other_targets_are_as_free_as_anywhere(self) -> None:
        story = play(task("a", set={"iter.x": 1, "step.y": 2, "z": 3}), **self.LOOP)
        assert story.facts_of(VariablesSet) == [VariablesSet("a", {"z": 3}, {"x": 1}, {"y": 2})]


class TestContext:
    def test_code_that_wants_the_context_gets_everything_lazily(self) -> None:
        asked: list[str] = []

        def everything() -> Mapping[str, Any]:
            asked.append("yes")
            return {"far": 1, "near": "hidden"}

        wants = task("a", wants_context=True)
        story = play(wants, names=Names(workload={"near": 2}), context=everything)
        assert asked == []
        context = story.tool.calls[0].context
        assert context is not None
        assert (context()["near"], context()["far"], context()["_task"]) == (2, 1, "a")

    def test_where_names_were_not_narrowed_the_context_is_what_templates_see(self) -> None:
        context = play(task("a", wants_context=True), names=Names(steps={"s": 1})).tool.calls[0].context
        assert context is not None
        assert context()["s"] == 1

    def test_other_tasks_get_none(self) -> None:
        assert play(task("a")).tool.calls[0].context is None


def test_names_may_be_handed_in_lazily() -> None:
    class Steps(Mapping[str, Any]):
        def __init__(self) -> None:
            self.read: list[str] = []

        def __getitem__(self, key: str) -> Any:
            if key not in ("a", "b"):
                raise KeyError(key)
            self.read.append(key)
            return key.upper()

        def __iter__(self) -> Any:
            return iter(("a", "b"))

        def __len__(self) -> int:
            return 2

    steps = Steps()
    program = PipelineSpec((task("t"),), WHERE)
    list(
        run(
            program,
            Names(steps=steps),
            PipelineProgress(),
            PipelinePorts(ScriptedTool(), no_references, lambda: 0.0),
        )
    )
    assert steps.read == []
