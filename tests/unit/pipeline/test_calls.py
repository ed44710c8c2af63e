"""What a tool is handed, and how what went wrong is put in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from scripted_pipeline import WHERE, err, ok, otherwise, play, task, when

from noetl.errors import Unavailable
from noetl.facts.events import PolicyEvaluated, TaskDone, TaskFailed
from noetl.pipeline.calls import with_warnings
from noetl.pipeline.model import Completed, Names, Where
from noetl.pipeline.templates import has_template

REFERENCE = {"kind": "result_ref", "ref": "noetl://blob/1", "meta": {}, "preview": "…"}


class Shelf:
    """Results by reference, and how often each was fetched."""

    def __init__(self, **values: Any) -> None:
        self.values = values
        self.fetched: list[str] = []

    def __call__(self, reference: Mapping[str, Any], /) -> Any:
        key = reference["ref"].rpartition("/")[2]
        self.fetched.append(key)
        return self.values[f"n{key}"]


class TestTheCall:
    def test_a_call_is_rendered_and_knows_its_place(self) -> None:
        fetch = task(
            "fetch", kind="http", args={"q": "{{ n + 1 }}"}, config={"url": "http://h/{{ n }}", "method": "GET"},
            spec={"timeout": "5s"},
        )  # fmt: skip
        (call,) = play(fetch, names=Names(workload={"n": 1}, args={"from": "step"})).tool.calls
        assert (call.kind, call.task, call.attempt, call.where) == ("http", "fetch", 1, WHERE)
        assert call.config == {"url": "http://h/1", "method": "GET"}
        assert call.args == {"from": "step", "q": 2}
        assert (call.spec, call.deadline_s) == ({"timeout": "5s"}, 5.0)

    def test_verbatim_keys_are_handed_over_as_written(self) -> None:
        code = "print('{{ n }}')"
        (call,) = play(task("a", config={"code": code, "x": "{{ 1 + 1 }}"}, verbatim=("code",))).tool.calls
        assert call.config == {"code": code, "x": 2}

    def test_templates_deep_inside_keep_the_types_of_their_values(self) -> None:
        config = {"json": {"list": ["{{ items }}", {"n": "{{ 1 }}"}], "text": "n={{ 1 }}"}}
        (call,) = play(task("a", config=config), names=Names(workload={"items": [1, None]})).tool.calls
        assert call.config == {"json": {"list": [[1, None], {"n": 1}], "text": "n=1"}}

    def test_rows_of_a_sql_result_come_with_their_types_where_the_kind_takes_rows(self) -> None:
        rows = [{"n": 1}]
        read = {"rows": rows, "columns": ["n"], "types": ["BIGINT"], "row_count": 1}
        config = {
            "tables": {
                "a": "{{ read.rows }}",
                "b": "{{ read.rows | list }}",
                "c": "{{ old.rows }}",
                "d": [1],
            },
            "data": "{{ read.rows }}",
        }
        names = Names(workload={"read": read, "old": {"rows": rows, "columns": ["n"]}})
        (call,) = play(task("a", config=config, takes_rows=("tables",)), names=names).tool.calls
        typed = {"rows": rows, "columns": ["n"], "types": ["BIGINT"]}
        assert call.config == {"tables": {"a": typed, "b": rows, "c": rows, "d": [1]}, "data": rows}

    def test_what_a_tool_returned_is_never_rendered_again(self) -> None:
        story = play(task("a"), task("b", args={"v": "{{ a }}"}), scripts={"a": [ok("{{ 1 + 1 }}")]})
        assert story.tool.calls[-1].args == {"v": "{{ 1 + 1 }}"}

    @pytest.mark.parametrize(
        ("timeout", "deadline"), [(None, None), (3, 3.0), ("PT2S", 2.0), ("{{ t }}", 60.0)]
    )
    def test_the_deadline_is_the_timeout_of_the_spec_in_seconds(self, timeout: Any, deadline: Any) -> None:
        spec = {} if timeout is None else {"timeout": timeout}
        (call,) = play(task("a", spec=spec), names=Names(workload={"t": "1m"})).tool.calls
        assert call.deadline_s == deadline

    def test_a_timeout_that_is_not_a_duration_is_an_error_naming_the_task(self) -> None:
        story = play(task("a", spec={"timeout": "soon"}))
        assert story.tool.calls == []
        assert story.error.kind == "client_error"
        assert story.error.message.startswith("The timeout of task 'a': 'soon' is not a duration")

    def test_keys_differ_by_execution_run_iteration_and_task(self) -> None:
        places = [
            WHERE,
            Where("78", "load#1", "load"),
            Where("77", "load#2", "load"),
            Where("77", "load#1", "load", 0),
        ]
        keys = {
            play(task(name), where=where).tool.calls[0].idempotency_key for where in places for name in "ab"
        }
        assert len(keys) == 8


class TestReferences:
    def test_no_reference_is_left_in_a_call(self) -> None:
        shelf = Shelf(n1={"rows": [{"inner": {**REFERENCE, "ref": "noetl://blob/2"}}]}, n2="two")
        probe = task("a", args={"own": "{{ big }}"}, config={"body": {"in": ["{{ big }}"]}})
        (call,) = play(
            probe, names=Names(args={"step": [REFERENCE]}, steps={"big": REFERENCE}), load=shelf
        ).tool.calls
        whole = {"rows": [{"inner": "two"}]}
        assert call.args == {"step": [whole], "own": whole}
        assert call.config == {"body": {"in": [whole]}}

    def test_the_inputs_of_the_step_are_fetched_once_for_all_its_tasks(self) -> None:
        shelf = Shelf(n1="one")
        story = play(task("a"), task("b"), names=Names(args={"x": REFERENCE}), load=shelf)
        assert [call.args for call in story.tool.calls] == [{"x": "one"}, {"x": "one"}]
        assert shelf.fetched == ["1"]

    def test_values_without_references_are_not_copied(self) -> None:
        rows = [{"n": 1}]
        (call,) = play(task("a"), names=Names(args={"rows": rows})).tool.calls
        assert call.args["rows"] is rows

    def test_values_as_deep_as_they_like_do_not_end_the_worker(self) -> None:
        deep: Any = "bottom"
        for _ in range(20_000):
            deep = [deep]
        assert play(task("a"), names=Names(args={"deep": deep})).ending == Completed("a")

    def test_a_reference_that_is_gone_is_an_error_of_the_task(self) -> None:
        story = play(task("a"), names=Names(args={"x": REFERENCE}))
        assert story.error.message == "The input of step 'load': noetl://blob/1 is gone."
        assert (story.error.kind, story.error.task) == ("internal", "a")

    def test_a_result_store_that_is_down_is_worth_a_retry(self) -> None:
        answers = iter([Unavailable("The result store does not answer."), "one"])

        def load(reference: Mapping[str, Any], /) -> Any:
            answer = next(answers)
            if isinstance(answer, Unavailable):
                raise answer
            return answer

        probe = task("a", when("error.retryable", "retry"))
        story = play(probe, names=Names(args={"x": REFERENCE}), load=load)
        assert story.types[0] == "task.attempt.failed"
        assert story.tool.calls[0].args == {"x": "one"}


class TestTemplateErrors:
    BROKEN = "{{ 1 / 0 }}"

    def test_a_template_that_fails_is_an_outcome_that_goes_through_the_policy(self) -> None:
        story = play(
            task("a", when("error.kind == 'template'", "continue"), args={"v": self.BROKEN}), task("b")
        )
        assert story.tool.order() == ["b"]
        (fact,) = story.facts_of(TaskFailed)
        assert (fact.error.kind, fact.error.retryable, fact.fatal) == ("template", False, False)

    def test_it_names_the_key_the_task_and_the_line_of_the_file(self) -> None:
        broken = task(
            "a", config={"method": "{{ 1 }}", "command": f"select 1,\n{self.BROKEN}"},
            line=7, lines={"method": 8, "command": 10},
        )  # fmt: skip
        error = play(broken).error
        assert error.message.startswith("The 'command' of task 'a': ")
        assert (error.step, error.task, error.attempt) == ("load", "a", 1)
        assert error.line is not None
        assert error.line >= 10

    def test_a_value_inside_a_mapping_is_placed_at_its_key(self) -> None:
        error = play(task("a", config={"json": {"x": self.BROKEN}}, line=7, lines={"json": 9})).error
        assert error.line == 9

    def test_a_guard_that_fails_fails_the_task_and_names_the_rule(self) -> None:
        rules = when("false", "continue"), when(self.BROKEN, "continue"), otherwise("continue")
        story = play(task("a", *rules, line=4), task("b"))
        assert story.tool.order() == ["a"]
        assert story.error.message.startswith("Rule 2 of the policy of task 'a': ")
        assert (story.error.kind, story.error.line) == ("template", 4)
        (decision,) = story.facts_of(PolicyEvaluated)
        assert (decision.rule, decision.do) == (1, "fail")

    def test_a_set_that_fails_fails_the_task_and_assigns_nothing(self) -> None:
        story = play(task("a", set={"ctx.x": 1, "y": self.BROKEN}), task("b"))
        assert story.tool.order() == ["a"]
        assert story.error.message.startswith("The `set` of task 'a': ")
        assert story.types == ["task.failed"]
        assert story.progress.ctx == {}

    @pytest.mark.parametrize("do", ["retry", "jump", "break"])
    def test_a_rules_set_that_fails_ends_it_whatever_the_rule_wanted(self, do: str) -> None:
        story = play(task("a", otherwise(do, to="a", set={"y": self.BROKEN})), task("b"))
        assert story.tool.order() == ["a"]
        assert story.error.message.startswith("Rule 1 of the policy of task 'a': ")

    def test_a_failing_set_does_not_hide_the_error_that_came_first(self) -> None:
        story = play(task("a", otherwise("fail", set={"y": self.BROKEN})), scripts={"a": [err("first")]})
        assert story.error.message == "first"


class TestPlaces:
    @pytest.mark.parametrize(
        ("lines", "verbatim", "line", "reported"),
        [
            ({"code": 20}, ("code",), 3, 22),
            ({"query": 30}, ("query",), 1, 30),
            ({"command": 40}, (), 2, 41),
            ({}, ("code",), 3, 5),
            ({"code": 20}, ("code",), None, 5),
        ],
    )
    def test_a_line_of_code_is_reported_as_a_line_of_the_playbook(
        self, lines: dict[str, int], verbatim: tuple[str, ...], line: int | None, reported: int
    ) -> None:
        broken = task("a", lines=lines, verbatim=verbatim, line=5)
        assert play(broken, scripts={"a": [err(line=line)]}).error.line == reported

    def test_an_error_names_step_task_iteration_and_attempt(self) -> None:
        story = play(
            task("a", otherwise("retry", attempts=2)), scripts={"a": [err()]}, where=Where("1", "s#2", "s", 4)
        )
        error = story.error
        assert (error.step, error.task, error.iteration, error.attempt) == ("s", "a", 4, 2)

    def test_every_draft_says_where_it_belongs(self) -> None:
        (draft,) = play(task("a")).drafts
        assert (draft.source, draft.step, draft.run_id, draft.iteration) == ("worker", "load", "load#1", None)
        assert isinstance(draft.fact, TaskDone)
        assert replace(draft.fact, call="", key="") == TaskDone("a", {}, {"attempt": 1})


def test_warnings_of_inputs_and_of_set_stand_beside_those_of_the_tool() -> None:
    outcome = with_warnings(with_warnings(ok(1), ["slow"]), ["n is undefined", "m is undefined"])
    assert outcome.meta == {"warnings": ["slow", "n is undefined", "m is undefined"]}
    assert with_warnings(outcome, []) is outcome


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("plain", False),
        ("{{ x }}", True),
        ({"a": [1, {"b": "{% if x %}"}]}, True),
        ({"{{ k }}": 1}, True),
        (3, False),
    ],
)
def test_templates_are_found_wherever_they_stand(value: Any, holds: bool) -> None:
    assert has_template(value) is holds
