"""Problems of the rules dialect point at what was written, and every key of it is told with its
canonical spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.dsl import Code, Compiled
from tests.effort import calls

Body = Callable[[str], Compiled]

#: (text, code, line, column, path, a word of the message or the hint)
FAULTS = [
    (
        "workflow:\n- step: a\n  rules:\n  - when: '{{ 1 | nope }}'\n    run: [{kind: noop}]\n  - run: "
        "[{kind: noop}]",
        *(Code.TEMPLATE, 7, 19, "workflow[0].rules[0].when", "nope"),
    ),
    (
        "tasks:\n  t:\n  - {kind: noop, input: {x: '{{ 1 | nope }}'}}\nworkflow:\n- {step: a, run: t}",
        *(Code.TEMPLATE, 6, 37, "tasks.t[0].input.x", "nope"),
    ),
    (
        "tasks:\n- name: t\n  actions:\n  - action: pyton\nworkflow:\n- {step: a, run: t}",
        *(Code.UNKNOWN_KIND, 7, 13, "tasks[0].actions[0].action", "'python'"),
    ),
    (
        "workflow:\n- step: a\n  next:\n  - {when: x == 1, then: [b, {step: bb}]}\n- {step: b, tool: "
        "{kind: noop}}",
        *(Code.UNKNOWN_STEP, 7, 37, "workflow[0].next[0].then[1].step", "'b'"),
    ),
    (
        "workflow:\n- step: a\n  next:\n  - {when: x == 1, then: [b], set: {y: 1}}\n- {step: b, tool: "
        "{kind: noop}}",
        *(Code.UNKNOWN_KEY, 7, 31, "workflow[0].next[0].set", "target"),
    ),
    (
        "workflow:\n- step: a\n  run: [b, c]\n- {step: b, tool: {kind: noop}}\n- {step: c, tool: {kind: "
        "noop, input: '{{'}}",
        *(Code.TYPE, 8, 39, "workflow[2].tool.input", "mapping"),
    ),
    (
        "workflow:\n- step: a\n  run: nothing",
        *(Code.UNKNOWN_STEP, 6, 8, "workflow[0].run", "no task"),
    ),
    (
        "workflow:\n- step: a\n  pass: '{{ a b }}'\n  tool: {kind: noop}",
        *(Code.TEMPLATE, 6, 10, "workflow[0].pass", "syntax"),
    ),
    (
        "workflow:\n- step: a\n  pass: true\n  spec: {policy: {admit: {rules: []}}}\n  tool: {kind: noop}",
        *(Code.MISPLACED, 6, 3, "workflow[0].pass", "admit"),
    ),
    (
        "workflow:\n- step: a\n  rules: [{run: []}]\n  run: []\n  tool: {kind: noop}",
        *(Code.MISPLACED, 7, 3, "workflow[0].run", "one of them"),
    ),
    (
        "workflow:\n- step: a\n  rules:\n  - {wen: x, run: []}\n  tool: {kind: noop}",
        *(Code.MISSPELT_KEY, 7, 6, "workflow[0].rules[0].wen", "'when'"),
    ),
    (
        "workflow:\n- step: a\n  rules:\n  - {when: x is defined}\n  tool: {kind: noop}",
        *(Code.MISSING, 7, 5, "workflow[0].rules[0]", "run:"),
    ),
    (
        "workflow:\n- step: a\n  rules:\n  - {when: event.name == 'step.done', run: [{kind: noop}], next: a}",
        *(Code.VALUE, 7, 12, "workflow[0].rules[0].when", "has not ended"),
    ),
    (
        "tasks: {a: {kind: noop}}\nworkflow: [{step: a, tool: {kind: noop}}]",
        *(Code.DUPLICATE_NAME, 4, 9, "tasks.a", "rename"),
    ),
    (
        "tasks: [{name: t, paralel: true, actions: [{kind: noop}]}]\nworkflow: [{step: a, run: t}]",
        *(Code.MISSPELT_KEY, 4, 19, "tasks[0].paralel", "'parallel'"),
    ),
    (
        "tasks: [{name: t}, {name: u, actions: [{kind: noop}]}]\nworkflow: [{step: a, run: t, tool: "
        "{kind: noop}}]",
        *(Code.MISSING, 4, 9, "tasks[0]", "actions"),
    ),
    (
        "workflow:\n- {step: a, loop: {in: [], iterator: x}, next: b}\n- {step: b, tool: {kind: noop}}",
        *(Code.MISSING, 5, 13, "workflow[0].loop", "end_loop: a"),
    ),
    (
        "workflow:\n- {step: a, next: {arcs: [[{step: b, then: c}, {step: c}]]}}\n- {step: b}\n- {step: c}",
        *(Code.MISPLACED, 5, 38, "workflow[0].next.arcs[0][0].then", "one choice"),
    ),
    (
        "workflow:\n- {step: a, loop: {in: [], iterator: x}, rules: [], next: b}\n- {step: b, tool: "
        "{kind: noop}}",
        *(Code.MISSING, 5, 13, "workflow[0].loop", "end_loop: a"),
    ),
    (
        "workflow:\n- {step: a, loop: {in: [], iterator: x}, run: b}\n- {step: b, tool: {kind: noop}}",
        *(Code.MISSING, 5, 13, "workflow[0].loop", "end_loop: a"),
    ),
    (
        "workflow:\n- {step: a, loop: {in: [], iterator: x}, rules: [{when: '{{ 1 }}', next: b}]}\n"
        "- {step: b, tool: {kind: noop}}",
        *(Code.MISSING, 5, 13, "workflow[0].loop", "end_loop: a"),
    ),
    (
        "workflow:\n- {step: a, loop: {in: '{{ 1 | nope }}', iterator: x}, next: b}\n- {step: b, "
        "end_loop: a}",
        *(Code.TEMPLATE, 5, 32, "workflow[0].loop.in", "nope"),
    ),
    (
        "workflow:\n- {step: a, loop: {in: [1], iterator: x}, next: b}\n"
        "- {step: b, end_loop: a, result: {n: '{{ 1 | nope }}'}}",
        *(Code.TEMPLATE, 6, 46, "workflow[1].result.n", "nope"),
    ),
    (
        "workflow:\n- {step: b, end_loop: a}\n- {step: a, loop: {in: [1], iterator: x}, next: b}",
        *(Code.MISPLACED, 5, 23, "workflow[0].end_loop", "further down"),
    ),
    (
        "workflow:\n- {step: a, result: {x: 1}, tool: {kind: noop}}",
        *(Code.IGNORED, 5, 13, "workflow[0].result", "ends no loop"),
    ),
]


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "path", "word"),
    FAULTS,
    ids=[f"{f[1]}-{f[4]}-{n}" for n, f in enumerate(FAULTS)],
)
def test_a_fault_is_reported_where_it_was_written(
    body: Body, text: str, code: Code, line: int, column: int, path: str, word: str
) -> None:
    found = [problem for problem in body(text).problems if problem.code == code]
    assert [(one.line, one.column, one.path) for one in found] == [(line, column, path)]
    assert word in f"{found[0].message} {found[0].hint}"


KEYS = {
    "environment": ("environment: {x: 1}\nworkflow: [{step: a}]", "workload:"),
    "variables": ("variables: {x: 1}\nworkflow: [{step: a}]", "ctx:"),
    "tasks": ("tasks: {t: {kind: noop}}\nworkflow: [{step: a}]", "tool:"),
    "rules": ("workflow: [{step: a, rules: [{run: {kind: noop}}]}]", "next:"),
    "cases": ("workflow: [{step: a, cases: [{run: {kind: noop}}]}]", "next:"),
    "rule": ("workflow: [{step: a, rule: [{run: {kind: noop}}]}]", "next:"),
    "case": ("workflow: [{step: a, rules: [{case: true, run: {kind: noop}}]}]", "write when:"),
    "run": ("workflow: [{step: a, run: {kind: noop}}]", "tool:"),
    "parallel": ("workflow: [{step: a, parallel: true, run: {kind: noop}}]", "next:"),
    "pass": ("workflow: [{step: a, pass: true, tool: {kind: noop}}]", "on_deny: pass"),
    "action": ("workflow: [{step: a, run: {action: noop}}]", "kind:"),
    "type": ("workflow: [{step: a, run: {type: noop}}]", "kind:"),
    "then": (
        "workflow: [{step: a, next: {when: x is defined, then: b}}, {step: b, tool: {kind: noop}}]",
        "next.arcs",
    ),
    "else": (
        "workflow: [{step: a, next: {when: x is defined, else: b}}, {step: b, tool: {kind: noop}}]",
        "next.arcs",
    ),
}


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_reported_with_its_canonical_spelling(body: Body, key: str) -> None:
    text, word = KEYS[key]
    told = {one.message: one.hint for one in body(text).problems if one.code == Code.DEPRECATED}
    assert word in told[f"`{key}` is of the rules dialect"]


def test_a_kind_that_has_a_key_called_type_keeps_it(net_of: Callable[[str], Any]) -> None:
    net = net_of("workflow: [{step: a, run: [{kind: noop, type: x, action: y}]}]")
    (task,) = net.steps["a"].tasks
    assert (task.kind, task.config) == ("noop", {"type": "x", "action": "y"})


def test_the_steps_of_a_loop_around_steps_name_the_scope_of_its_iteration(
    net_of: Callable[[str], Any],
) -> None:
    net = net_of(
        "workflow: [{step: a-b, loop: {in: [1], iterator: x}, next: c}, {step: c, tool: {kind: noop}, "
        "next: d}, "
        "{step: d, end_loop: a-b, next: a_b}, {step: a_b, loop: {in: [1], iterator: x}, next: e}, "
        "{step: e, tool: {kind: noop}, next: f}, {step: f, end_loop: a_b}]"
    )
    named = {name: step.iteration for name, step in net.steps.items() if step.iteration}
    assert named == {"a-b.each": "a_b_2_iter", "c": "a_b_2_iter", "a_b.each": "a_b_iter", "e": "a_b_iter"}


@pytest.mark.parametrize("name", ["{{ x }}", "ctx.a.b", "a b"])
def test_an_iteration_that_is_not_a_variable_of_ctx_is_refused(body: Body, name: str) -> None:
    found = body(f"workflow: [{{step: a, iteration: '{name}', tool: {{kind: noop}}}}]").errors
    assert [(one.code, one.path) for one in found] == [(Code.VALUE, "workflow[0].iteration")]


def test_a_document_without_the_dialect_is_left_as_it_is(body: Body) -> None:
    found = body(
        "workflow: [{step: a, next: [{step: b, when: x is defined}]}, {step: b, tool: {kind: noop}}]"
    )
    assert found.source.origins == ()


def _named_steps(number: int) -> str:
    names = [f"s{index}" for index in range(number)]
    steps = "".join(f"- {{step: {name}, tool: {{kind: noop}}}}\n" for name in names)
    return f"workflow:\n- {{step: a, run: [{', '.join(names)}], next: end}}\n{steps}- {{step: end}}"


def _actions(number: int) -> str:
    items = "".join(f"  - {{kind: noop, name: t{index}}}\n" for index in range(number))
    return f"workflow:\n- step: a\n  run:\n{items}"


def _rules(number: int) -> str:
    items = "".join(
        f"  - {{when: '{{{{ workload.x == {index} }}}}', run: {{kind: noop, name: t{index}}}}}\n"
        for index in range(number)
    )
    return f"workload: {{x: 1}}\nworkflow:\n- step: a\n  rules:\n{items}"


def _chain(number: int) -> str:
    steps = "".join(
        f"- {{step: s{index}, tool: {{kind: noop}}, run: s{index + 1}}}\n" for index in range(number)
    )
    return f"workflow:\n{steps}- {{step: s{number}, tool: {{kind: noop}}}}"


@pytest.mark.full("3 s: long playbooks")
@pytest.mark.parametrize("shape", [_named_steps, _actions, _rules, _chain], ids=lambda shape: shape.__name__)
def test_given_four_times_as_much_to_run_then_compiling_costs_about_four_times_as_much(
    body: Body, shape: Callable[[int], str]
) -> None:
    few, many = (shape(number) for number in (25, 100))
    # From the second time on templates are parsed already.
    assert body(few).errors + body(many).errors == ()
    assert calls(lambda: body(many)) < 4.4 * calls(lambda: body(few))
