"""`callback.<task>.url`: where the name is there, and what is said of one that leads nowhere."""

from __future__ import annotations

import pytest

from noetl.dsl import Code, compile_playbook
from noetl.dsl.problems import Problem
from noetl.net.callbacks import tasks_with_address
from noetl.tools.kit.registry import kinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: asks, path: asks}\n"
STEP = """workflow:
  - step: start
    tool:
      - post: {kind: http, url: "http://there", json: {to: "{{ callback.answer.url }}"}}
      - answer: {kind: wait, WAIT}
"""


def problems(text: str, wait: str = "callback: {}") -> list[Problem]:
    return list(compile_playbook(HEAD + text.replace("WAIT", wait), file="a.yaml", kinds=kinds()).problems)


@pytest.mark.parametrize(
    "wait",
    [
        "callback: {}",
        "any: {called: {callback: {}}, late: {timer: 1h}}",
        "all: [{signal: paid}, {callback: {}}]",
    ],
)
def test_a_task_that_waits_for_a_call_has_an_address(wait: str) -> None:
    compiled = compile_playbook(HEAD + STEP.replace("WAIT", wait), file="a.yaml", kinds=kinds())
    assert list(compiled.problems) == []
    assert compiled.net is not None
    assert tasks_with_address(compiled.net.steps["start"]) == ("answer",)


@pytest.mark.parametrize(
    ("written", "code", "said"),
    [
        ("callback.anser.url", Code.UNKNOWN_TASK, "did you mean 'answer'?"),
        ("callback.post.url", Code.UNKNOWN_TASK, "no task 'post' of this step waits for a call"),
        ("callback.answer.uri", Code.UNDEFINED, "write callback.answer.url"),
    ],
)
def test_an_address_that_there_is_not_is_reported_where_it_stands(
    written: str, code: Code, said: str
) -> None:
    found = next(one for one in problems(STEP.replace("callback.answer.url", written)) if one.code == code)
    assert said in f"{found.message} {found.hint}"
    assert (found.line, found.column) == (7, STEP.splitlines()[3].index("callback") + 1)


def test_an_address_that_nobody_is_handed_is_reported() -> None:
    (found,) = problems(STEP.replace("{{ callback.answer.url }}", "me"))
    assert (found.code, found.line) == (Code.IGNORED, 8)
    assert "nobody can call the address of task 'answer'" in found.message
    assert '"{{ callback.answer.url }}"' in found.hint


@pytest.mark.parametrize(
    "reads", ["{{ callback.answer }}", "{{ callback | tojson }}", "{{ callback[args.x].url }}"]
)
def test_it_may_be_handed_over_in_any_way(reads: str) -> None:
    assert problems(STEP.replace("{{ callback.answer.url }}", reads)) == []


def test_a_task_that_hands_it_over_is_not_cached() -> None:
    (found,) = problems(STEP.replace("kind: http,", "kind: http, effects: none, cache: {ttl: 1h},"))
    assert (found.code, found.line) == (Code.MISPLACED, 7)


@pytest.mark.parametrize(
    "around",
    ['input: {to: "{{ callback.answer.url }}"}', 'set: {ctx.to: "{{ callback.answer.url }}"}'],
)
def test_what_no_task_renders_does_not_know_it(around: str) -> None:
    found = problems(STEP.replace("    tool:", f"    {around}\n    tool:"))
    assert [(one.code, "tasks read it" in one.hint) for one in found] == [(Code.UNDEFINED, True)]


def test_elsewhere_other_things_may_be_called_so() -> None:
    text = """workload: {callback: {answer: {url: here}}}
workflow:
  - step: start
    tool: {kind: noop, input: {to: "{{ callback.answer.url }}", other: "{{ callback.other }}"}}
    next: {arcs: [{step: callback, args: {callback: 7}}]}
  - step: callback
    tool: {kind: noop, input: {n: "{{ callback }}"}}
"""
    assert [one for one in problems(text) if "address" in one.message or one.code == Code.UNKNOWN_TASK] == []


def test_without_such_a_task_the_name_is_nothing() -> None:
    (found,) = problems(STEP, "timer: 1")
    assert (found.code, "of a step in which one waits for a call" in found.hint) == (Code.UNDEFINED, True)


def test_an_empty_mapping_is_something_to_wait_for_and_elsewhere_still_nothing() -> None:
    found = problems("workflow: [{step: start, tool: {kind: python, script: {}}}]")
    assert Code.MISSING in [one.code for one in found]
