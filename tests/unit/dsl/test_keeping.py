"""`spec.result`: what is compiled of it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled
from noetl.net.codec import from_json, to_json
from noetl.net.model import Net, ResultPolicy, Selected, Task

Compile = Callable[..., Compiled]


def net(compiled: Compiled) -> Net:
    assert compiled.net is not None, compiled.problems
    return compiled.net


def task(compiled: Compiled) -> Task:
    return net(compiled).transitions[0].tasks[0]


def step(tool: str, more: str = "") -> str:
    return f"workflow:\n- step: a\n  tool: {tool}\n{more}"


def test_all_of_it(body: Compile) -> None:
    spec = "{inline_bytes: 10, scope: permanent, ttl: 2h, select: ['$.a[0]', {path: b.c, as: d}]}"
    found = task(body(step(f"{{kind: noop, spec: {{result: {spec}}}}}")))
    selected = (Selected("a[0]", "a[0]"), Selected("b.c", "d"))
    assert found.result == ResultPolicy(10, selected, "permanent", 7200.0)
    assert "result" not in found.spec


def test_output_select_wins_over_the_spec(body: Compile) -> None:
    tool = "{kind: noop, output_select: [x], spec: {result: {select: [y], ttl: 5}}}"
    assert task(body(step(tool))).result == ResultPolicy(select=(Selected("x", "x"),), ttl_s=5.0)


def test_specs_around_a_task_count_key_by_key_and_lists_replace(body: Compile) -> None:
    text = """
executor: {spec: {result: {scope: step, select: [a, b], inline: 1}}}
workflow:
- step: a
  spec: {result: {select: [c]}}
  loop: {in: [1], iterator: i, spec: {result: {inline: 2}}}
  tool: {kind: noop, spec: {result: {ttl: 1}}}
"""
    assert task(body(text)).result == ResultPolicy(2, (Selected("c", "c"),), "step", 1.0)


def test_a_workbook_task_brings_its_own(body: Compile) -> None:
    text = """
workbook: {get: {kind: noop, output_select: [a]}}
workflow:
- {step: a, tool: {kind: workbook, name: get, spec: {result: {scope: step}}}}
"""
    assert task(body(text)).result == ResultPolicy(select=(Selected("a", "a"),), scope="step")


@pytest.mark.parametrize(
    ("result", "code", "word"),
    [
        ("{inline_byte: 1}", Code.MISSPELT_KEY, "'inline_bytes'"),
        ("{inline_bytes: -1}", Code.VALUE, "inline_bytes is -1"),
        ("{inline: 2000000}", Code.VALUE, "1,048,576"),
        ("{inline_bytes: lots}", Code.TYPE, "whole number"),
        ("{scope: forever}", Code.VALUE, "permanent"),
        ("{ttl: soon}", Code.VALUE, "ttl is 'soon'"),
        ("{ttl: 0}", Code.VALUE, "above zero"),
        ("{ttl: '{{ x }}'}", Code.VALUE, "ttl is"),
        ("{select: a.b}", Code.TYPE, "a list"),
        ("{select: ['a..b']}", Code.VALUE, "'a..b' is no path"),
        ("{select: [7]}", Code.TYPE, "a path or {path, as}"),
        ("{select: [{as: x}]}", Code.MISSING, "what to select"),
        ("{select: [{path: a, alias: b}]}", Code.UNKNOWN_KEY, "known here: path, as"),
        ("{select: [{path: a, as: b.c}]}", Code.NAME, "a part called 'b.c'"),
        ("{select: [a, $.a]}", Code.DUPLICATE_NAME, "twice"),
        ("{select: [" + ", ".join(f"a{n}" for n in range(33)) + "]}", Code.VALUE, "33 parts"),
        ("text", Code.TYPE, "a mapping"),
    ],
)
@pytest.mark.parametrize("level", ["task", "executor"])
def test_what_is_wrong_is_found_where_it_stands(
    body: Compile, result: str, code: Code, word: str, level: str
) -> None:
    spec = f"spec: {{result: {result}}}"
    if level == "task":
        text, line = step(f"{{kind: noop,\n   {spec}}}"), 7
    else:
        text, line = f"executor:\n  {spec}\n" + step("{kind: noop}") + "- {step: b, tool: {kind: noop}}", 5
    problems = [one for one in body(text).problems if one.code is not Code.UNREACHABLE]
    assert [(one.code, one.line) for one in problems] == [(code, line)]
    assert word in problems[0].message + problems[0].hint


def test_a_net_of_before_is_read_as_it_was_meant(body: Compile) -> None:
    stored = to_json(net(body(step("{kind: python, code: 'result = a'}"))))
    for key in ("by_reference", "reads", "result"):
        del stored["transitions"][0]["tasks"][0][key]
    found = from_json(stored).transitions[0].tasks[0]
    assert (found.by_reference, found.reads, found.result) == ((), None, ResultPolicy())


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("result = a + b", ("a", "b", "result")),
        ("def main(a, *, b):\n    return c", ("a", "b", "c", "main", "result")),
        ("del a", ("a", "result")),
        ("a += 1", ("a", "result")),
        ("result = [f'{a!r:{b}}' for c in d]", ("a", "b", "c", "d", "result")),
        ("result = args['a']", None),
        ("result = eval('a')", None),
        ("def main(**rest): return rest", None),
        ("from m import main", None),
        ("import m as main", None),
        ("class main: pass", None),
        ("@wrapped\ndef main(a): return a", None),
        ("import sys\nresult = sys.modules['__main__'].a", None),
        ("import __main__", None),
        ("result = (lambda: 0).__globals__['a']", None),
    ],
)
def test_what_code_may_read_is_found_in_its_syntax(
    body: Compile, code: str, reads: tuple[str, ...] | None
) -> None:
    indented = code.replace("\n", "\n      ")
    assert task(body(step(f"\n    kind: python\n    code: |\n      {indented}"))).reads == reads


def test_code_that_is_a_template_may_read_everything(body: Compile) -> None:
    tool = "{kind: python, code: 'result = {{ workload.x }}', spec: {render: true}}"
    assert task(body(step(tool, "workload: {x: 1}"))).reads is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            step("{kind: noop, output: {inline_bytes: 3, select: [a]}}"),
            ResultPolicy(3, (Selected("a", "a"),)),
        ),
        (step("{kind: noop}", "  output: {scope: step, ttl: 1m}\n"), ResultPolicy(scope="step", ttl_s=60.0)),
        (
            step("[{t: {kind: noop, output: {ttl: 5}}}]", "  output: {ttl: 1m, inline: 2}\n"),
            ResultPolicy(2, ttl_s=5.0),
        ),
        (
            step("{kind: noop, output: {ttl: 1, inline: 1}, spec: {result: {ttl: 2}}}"),
            ResultPolicy(1, ttl_s=2.0),
        ),
        (step("{kind: noop}", "  output: {ttl: 1}\n  spec: {result: {ttl: 2}}\n"), ResultPolicy(ttl_s=2.0)),
        (
            step("{kind: noop, output_select: [x], output: {select: [y]}}"),
            ResultPolicy(select=(Selected("x", "x"),)),
        ),
        (
            "workbook: {get: {kind: noop, output: {ttl: 1, inline: 1}}}\n"
            + step("{kind: workbook, name: get, output: {ttl: 2}}"),
            ResultPolicy(1, ttl_s=2.0),
        ),
        (
            "executor: {spec: {result: {ttl: 1, inline: 1}}}\n"
            + step("{kind: noop}", "  output: {ttl: 3}\n"),
            ResultPolicy(1, ttl_s=3.0),
        ),
    ],
)
def test_output_with_keys_of_spec_result_is_the_same_there(
    body: Compile, text: str, found: ResultPolicy
) -> None:
    compiled = body(text)
    assert compiled.problems == ()
    assert task(compiled).result == found


@pytest.mark.parametrize("output", ["{x: '{{ result }}'}", "name", "null", "[a]", "{}"])
@pytest.mark.parametrize("place", ["step", "task"])
def test_any_other_output_is_a_warning_that_says_what_to_write(
    body: Compile, place: str, output: str
) -> None:
    given = f"output: {output}"
    text = step(f"{{kind: noop, {given}}}") if place == "task" else step("{kind: noop}", f"  {given}\n")
    compiled = body(text)
    [problem] = compiled.problems
    assert (problem.code, problem.message) == (
        Code.IGNORED,
        f"`output` of a {place} has an effect only with keys of spec.result",
    )
    assert problem.hint.startswith("assign with set:, or say how results are kept: inline_bytes, ")
    assert task(compiled).result == ResultPolicy()


@pytest.mark.parametrize(
    ("output", "code", "path"),
    [
        ("{ttl: 5, tll: 1}", Code.UNKNOWN_KEY, "workflow[0].output.tll"),
        ("{ttl: soon}", Code.VALUE, "workflow[0].output.ttl"),
        ("{inline_bytes: much}", Code.TYPE, "workflow[0].output.inline_bytes"),
        ("{scope: forever}", Code.VALUE, "workflow[0].output.scope"),
        ("{select: [{as: a}]}", Code.MISSING, "workflow[0].output.select[0]"),
    ],
)
def test_faults_of_output_are_those_of_spec_result(body: Compile, output: str, code: Code, path: str) -> None:
    problems = body(step("{kind: noop}", f"  output: {output}\n")).problems
    assert [(one.code, one.path) for one in problems] == [(code, path)]
