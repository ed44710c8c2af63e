"""`assert`: what the compiler makes of it, and calls that leave out what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from noetl.dsl import Code, Compiled
from noetl.net.model import Demand, Net

Compile: TypeAlias = Callable[[str], Compiled]

BOOK = "workbook: {greet: {kind: noop, input: {who: null, how: Hi}, assert: {expects: %s}}}\nworkflow:\n"


def missing(result: Compiled) -> list[tuple[str, str, str]]:
    return [(one.path, one.message, one.hint) for one in result.problems if one.code == Code.MISSING]


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        ("[who, user.id]", (Demand("who", of="greet"), Demand("user.id", of="greet"))),
        ("{who: string, n: integer}", (Demand("who", "string", "greet"), Demand("n", "integer", "greet"))),
    ],
)
@pytest.mark.parametrize(
    "book",
    [
        "{greet: {kind: noop, assert: {expects: DEMANDS, returns: DEMANDS}}}",
        "[{name: greet, kind: noop, assert: {expects: DEMANDS, returns: DEMANDS}}]",
        "[{name: greet, tool: {kind: noop, assert: {expects: DEMANDS, returns: DEMANDS}}}]",
        "[{name: greet, assert: {expects: DEMANDS, returns: DEMANDS}, tool: {kind: noop}}]",
    ],
)
def test_names_and_types_are_taken_from_every_form(
    net_of: Callable[[str], Net], book: str, demands: str, expected: tuple[Demand, ...]
) -> None:
    net = net_of(
        f"workbook: {book.replace('DEMANDS', demands)}\nworkflow:\n"
        "- {step: start, input: {who: a, user: {id: 1}, n: 1}, tool: greet}\n"
    )
    (task,) = net.steps["start"].tasks
    assert task.expects == task.returns == expected


def test_a_call_adds_its_own_demands_to_those_of_the_workbook(net_of: Callable[[str], Net]) -> None:
    net = net_of(
        BOOK
        % "[who]"
        + "- step: start\n  tool: {kind: workbook, name: greet, input: {who: a, b: 1}, assert: {expects: "
        "[b]}}\n"
    )
    assert net.steps["start"].tasks[0].expects == (Demand("who", of="greet"), Demand("b"))


@pytest.mark.parametrize(
    "step",
    [
        "{step: start, tool: {kind: workbook, name: greet, input: {who: a}}}",
        "{step: start, tool: {kind: workbook, task: greet, args: {who: '{{ nothing | default(none) }}'}}}",
        "{step: start, tool: [{hi: {kind: workbook, task: greet, with: {who: a}}}]}",
        "{step: start, input: {who: a}, tool: greet}",
        "{step: start, args: {who: a}, tool: [greet]}",
        "{step: start, next: {arcs: [{step: b, args: {who: a}}]}}\n- {step: b, tool: greet}",
        "{step: start, next: {arcs: [{step: b, input: {who: a}}]}}\n- {step: b, tool: {kind: workbook, "
        "name: greet}}",
    ],
)
def test_an_input_is_given_by_the_call_its_step_or_an_arc(body: Compile, step: str) -> None:
    assert body(f"{BOOK % '[who, how]'}- {step}\n").errors == ()


@pytest.mark.parametrize(
    ("tool", "path", "hint"),
    [
        ("greet", "workflow[0].tool", "add input: {who: ...}"),
        ("[{kind: noop}, greet]", "workflow[0].tool[1]", "add input: {who: ...}"),
        ("{kind: workbook, name: greet, input: {whom: a}}", "workflow[0].tool", "did you mean 'whom'?"),
        ("{kind: workbook, name: greet, input: {who: null}}", "workflow[0].tool", "add input: {who: ...}"),
    ],
)
def test_a_call_that_leaves_out_what_is_expected_is_reported_there(
    body: Compile, tool: str, path: str, hint: str
) -> None:
    found = missing(body(f"{BOOK % '[who, how]'}- {{step: start, tool: {tool}}}\n"))
    assert found == [(path, "workbook task 'greet' expects the input 'who', and nothing gives it", hint)]


def test_a_null_of_the_call_is_not_made_up_for_by_its_step(body: Compile) -> None:
    step = "{step: start, input: {who: a}, tool: {kind: workbook, name: greet, input: {who: null}}}"
    assert len(missing(body(f"{BOOK % '[who]'}- {step}\n"))) == 1


def test_the_final_step_is_given_what_came_of_the_others(body: Compile) -> None:
    text = (
        "executor: {spec: {final_step: last}}\nworkflow:\n- {step: start, tool: {kind: noop}}\n"
        "- {step: last, tool: {kind: noop, assert: {expects: [status, steps.done]}}}\n"
    )
    assert body(text).problems == ()


@pytest.mark.parametrize(
    ("asserted", "code", "path"),
    [
        ("{expects: [who]}", Code.MISSING, "workflow[0].tool"),
        ("{expects: ['a..b']}", Code.VALUE, "workflow[0].tool.assert.expects[0]"),
        ("{returns: {x: strin}}", Code.VALUE, "workflow[0].tool.assert.returns.x"),
        ("{returns: x}", Code.TYPE, "workflow[0].tool.assert.returns"),
        ("{return: [x]}", Code.MISSPELT_KEY, "workflow[0].tool.assert.return"),
    ],
)
def test_faults_of_assert_are_reported_where_they_stand(
    body: Compile, asserted: str, code: Code, path: str
) -> None:
    problems = body(f"workflow: [{{step: start, tool: {{kind: noop, assert: {asserted}}}}}]\n").problems
    assert [(one.code, one.path) for one in problems] == [(code, path)]


def test_inputs_of_nested_calls_are_rendered_from_the_call_inwards(net_of: Callable[[str], Net]) -> None:
    net = net_of(
        "workload: {w: 1}\nworkbook:\n  inner: {kind: noop, input: {n: null, text: 'n={{ n }}'}}\n"
        "  outer: {kind: workbook, name: inner, input: {m: null, n: '{{ m }}'}}\n"
        "workflow:\n- {step: start, tool: {kind: workbook, name: outer, input: {m: '{{ w }}'}}}\n"
        "- {step: plain, tool: {kind: noop, input: {a: '{{ w }}'}}}\n"
    )
    assert net.steps["start"].tasks[0].stages == (("m",), ("n",), ("text",))
    assert net.steps["plain"].tasks[0].stages == ()
