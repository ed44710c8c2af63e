"""`assert`: a task is not called without what it expects, and fails without what it has to
return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from scripted_pipeline import ok, play, task, when

from noetl.facts.events import TaskFailed
from noetl.net.model import Demand
from noetl.pipeline.model import Completed, Failed, Later, Names

REFERENCE = {"kind": "result_ref", "ref": "noetl://blob/1", "meta": {}}
SECRET = {"kind": "secret_ref", "execution": "77", "keychain": "db", "seal": "s"}


def kept(reference: Mapping[str, Any], /) -> Any:
    return {"id": 1, "rows": [1, 2]}


@pytest.mark.parametrize(
    ("demand", "args"),
    [
        (Demand("who"), {"who": "a"}),
        (Demand("who"), {"who": ""}),
        (Demand("user.id"), {"user": {"id": 1}}),
        (Demand("user.id", "integer"), {"user": REFERENCE}),
        (Demand("user", "mapping"), {"user": REFERENCE}),
        (Demand("rows[0].id", "integer"), {"rows": [{"id": 1}]}),
        (Demand("a", "number"), {"a": 1}),
        (Demand("a", "number"), {"a": 1.5}),
        (Demand("a", "boolean"), {"a": False}),
        (Demand("a", "list"), {"a": []}),
        (Demand("a", "string"), {"a": SECRET}),
    ],
)
def test_a_task_that_is_given_what_it_expects_is_called(demand: Demand, args: dict[str, Any]) -> None:
    story = play(task("a", args=args, expects=(demand,)), load=kept)
    assert len(story.tool.calls) == 1
    assert isinstance(story.ending, Completed)


@pytest.mark.parametrize(
    ("demand", "args", "says"),
    [
        (Demand("who"), {}, "expects the input 'who', which is missing or null; give it with `input:`."),
        (Demand("who"), {"who": None}, "which is missing or null"),
        (Demand("who"), {"whom": 1}, "Did you mean 'whom'?"),
        (Demand("user.id"), {"user": {"id": None}}, "'user.id', which is missing"),
        (Demand("user.id"), {"user": 7}, "'user.id', which is missing"),
        (Demand("a", "integer"), {"a": True}, "to be of type integer; it is boolean."),
        (Demand("a", "integer"), {"a": "1"}, "to be of type integer; it is string."),
        (Demand("a", "string"), {"a": REFERENCE}, "to be of type string; it is mapping."),
    ],
)
def test_a_task_without_what_it_expects_fails_and_is_not_called(
    demand: Demand, args: dict[str, Any], says: str
) -> None:
    story = play(task("a", args=args, expects=(demand,)), load=kept)
    assert story.tool.calls == []
    assert (story.error.kind, story.error.type, story.error.retryable) == (
        "client_error",
        "AssertionFailed",
        False,
    )
    assert story.error.message.startswith("Task 'a' of step 'load' ")
    assert says in story.error.message


def test_the_message_names_the_workbook_task_and_its_caller() -> None:
    story = play(task("a", expects=(Demand("who", of="greet"),)))
    assert story.error.message.startswith("Workbook task 'greet', called by task 'a' of step 'load', expects")


def test_the_step_may_give_what_is_expected() -> None:
    story = play(task("a", expects=(Demand("who"),)), names=Names(args={"who": "a"}))
    assert isinstance(story.ending, Completed)


def test_policies_see_the_failure_like_any_other() -> None:
    story = play(task("a", when("error.kind == 'client_error'", "continue"), expects=(Demand("who"),)))
    assert isinstance(story.ending, Completed)
    [failure] = story.facts_of(TaskFailed)
    assert not failure.fatal


@pytest.mark.parametrize(
    ("demand", "result"),
    [
        (Demand("id"), {"id": None}),
        (Demand("id", "integer"), {"id": 1}),
        (Demand("id", "integer"), {"status_code": 200, "data": {"id": 1}}),
        (Demand("url", "integer"), {"status_code": 200, "url": "http://x", "data": {"url": 1}}),
        (Demand("status_code", "integer"), {"status_code": 200, "data": {"id": 1}}),
        (Demand("id"), {"status_code": 200, "data": REFERENCE}),
        (Demand("rows", "list"), REFERENCE),
        (Demand("rows[1]", "integer"), REFERENCE),
        (Demand("[0].id"), [{"id": 1}]),
    ],
)
def test_a_result_with_what_has_to_be_there_is_as_it_was(demand: Demand, result: Any) -> None:
    story = play(task("a", returns=(demand,)), scripts={"a": [ok(result)]}, load=kept)
    assert isinstance(story.ending, Completed)
    assert story.progress.results["a"] == result


@pytest.mark.parametrize(
    ("demand", "result", "says"),
    [
        (Demand("id"), {"idd": 1}, "has to return 'id', and its result has none. Did you mean 'idd'?"),
        (Demand("id"), {"status_code": 200, "data": {"ids": 1}}, "Did you mean 'ids'?"),
        (Demand("id"), None, "has to return 'id'"),
        (Demand("id"), "text", "has to return 'id'"),
        (Demand("data.id"), {"data": []}, "has to return 'data.id'"),
        (Demand("id", "string"), {"id": None}, "has to return 'id' of type string; it is null."),
        (Demand("rows", "mapping"), REFERENCE, "of type mapping; it is list."),
    ],
)
def test_a_result_without_what_has_to_be_there_fails_the_task(demand: Demand, result: Any, says: str) -> None:
    script = {"a": [ok(result, http={"status": 200})]}
    story = play(task("a", returns=(demand,)), scripts=script, load=kept)
    assert isinstance(story.ending, Failed)
    assert (story.error.kind, story.error.type, story.error.retryable) == (
        "client_error",
        "AssertionFailed",
        False,
    )
    assert says in story.error.message
    [failure] = story.facts_of(TaskFailed)
    assert failure.extras == {"http": {"status": 200}}


def test_a_task_that_waits_is_asked_for_its_result_when_it_has_one() -> None:
    story = play(task("a", returns=(Demand("id"),)), scripts={"a": [Later(0.1, {"n": 1}), ok({"id": 1})]})
    assert isinstance(story.ending, Completed)


def test_inputs_are_rendered_group_by_group_and_see_the_ones_before() -> None:
    (call,) = play(
        task("a", args={"x": "{{ x + 1 }}", "y": "{{ x + 1 }}", "z": 1}, stages=(("x",), ("y", "z"))),
        names=Names(args={"x": 1}),
    ).tool.calls
    assert call.args == {"x": 2, "y": 3, "z": 1}
