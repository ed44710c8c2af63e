"""`executor`: what it requires, and that every key of its spec reaches the tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from noetl.dsl import Code, Compiled
from noetl.net.model import Failure, Net, ResultPolicy, Transition

Compile: TypeAlias = Callable[[str], Compiled]
NetOf: TypeAlias = Callable[[str], Net]

STEPS = "workflow: [{step: start, tool: {kind: noop}}]\n"


@pytest.mark.parametrize(
    "requires",
    [
        "[noop, http]",
        "{tools: [noop, workbook]}",
        '{noetl: ">=0.1"}',
        '{noetl: ">= 0.1, < 100, != 0.0.1"}',
        "{tools: [], noetl: '>0'}",
        "null",
        "[]",
        "{}",
    ],
)
def test_what_is_installed_may_be_required(body: Compile, requires: str) -> None:
    assert body(f"executor: {{requires: {requires}}}\n{STEPS}").problems == ()


@pytest.mark.parametrize(
    ("requires", "code", "path", "says"),
    [
        ("[noop, htpp]", Code.UNKNOWN_KIND, "executor.requires[1]", "did you mean 'http'? available: "),
        ("{tools: [quantum]}", Code.UNKNOWN_KIND, "executor.requires.tools[0]", "kind 'quantum', and none"),
        ('{noetl: ">=99"}', Code.UNSUPPORTED, "executor.requires.noetl", "requires noetl >=99, and this is"),
        (
            '{noetl: ">=0.0.1, <0.0.2"}',
            Code.UNSUPPORTED,
            "executor.requires.noetl",
            "noetl <0.0.2, and this is",
        ),
        ("{noetl: newest}", Code.VALUE, "executor.requires.noetl", "'newest' does not say which versions"),
        (
            '{noetl: "0.1"}',
            Code.VALUE,
            "executor.requires.noetl",
            "write versions behind >=, <=, ==, !=, > or <: ",
        ),
        ("{noetl: 0.1}", Code.TYPE, "executor.requires.noetl", 'quote it: "0.1"'),
        ("http", Code.TYPE, "executor.requires", "must be a list of kinds or a mapping"),
        ("{tool: [http]}", Code.MISSPELT_KEY, "executor.requires.tool", "did you mean 'tools'?"),
    ],
)
def test_what_is_not_there_is_reported(
    body: Compile, requires: str, code: Code, path: str, says: str
) -> None:
    [problem] = body(f"executor: {{requires: {requires}}}\n{STEPS}").problems
    assert (problem.code, problem.path) == (code, path)
    assert says in f"{problem.message} {problem.hint}"


def test_versions_compare_by_their_numbers(body: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.dsl.checks.structure.__version__", "1.10.0rc1")
    holds = {
        wanted: not body(f'executor: {{requires: {{noetl: "{wanted}"}}}}\n{STEPS}').problems
        for wanted in (">=1.9", ">=1.10", "==1.10", "==1.10.0", "<=1.10", ">1.10", "<1.9", "!=1.10")
    }
    assert [wanted for wanted, held in holds.items() if not held] == [">1.10", "<1.9", "!=1.10"]


def test_profile_and_version_say_nothing(body: Compile) -> None:
    assert body(f"executor: {{profile: {{a: [1]}}, version: x/1}}\n{STEPS}").problems == ()


def transition(net_of: NetOf, spec: str, step: str) -> Transition:
    net = net_of(f"executor: {{spec: {spec}}}\nworkflow:\n- step: start\n{step}")
    return net.steps["start"]


TASK = "  tool: {kind: shell, command: 'echo {{ 1 }}'}\n"


@pytest.mark.parametrize(
    ("spec", "read", "expected"),
    [
        ("{timeout: 5s}", lambda one: one.tasks[0].spec["timeout"], "5s"),
        ("{isolation: sandbox}", lambda one: one.tasks[0].spec["isolation"], "sandbox"),
        ("{quote: false}", lambda one: one.tasks[0].quoted, ()),
        ("{queue: slow}", lambda one: one.queue, "slow"),
        ("{result: {ttl: 5}}", lambda one: one.tasks[0].result, ResultPolicy(ttl_s=5.0)),
        ("{policy: {failure: {mode: best_effort}}}", lambda one: one.failure, Failure("best_effort")),
        ("{policy: {rules: [{else: {do: break}}]}}", lambda one: one.tasks[0].rules[0].then.do, "break"),
    ],
)
@pytest.mark.parametrize("inner", ["step", "task"])
def test_the_executor_speaks_for_all_tasks_unless_they_speak_themselves(
    net_of: NetOf, spec: str, read: Callable[[Any], Any], expected: Any, inner: str
) -> None:
    assert read(transition(net_of, spec, TASK)) == expected
    others = (
        "{timeout: 1, isolation: inline, quote: true, queue: own, result: {ttl: 1},"
        " policy: {rules: [{else: {do: fail}}]%s}}"
    )
    failure = ", failure: {mode: fail_fast}" if inner == "step" else ""
    if inner == "step":
        found = transition(net_of, spec, f"{TASK}  spec: {others % failure}\n")
    else:
        tool = f"  tool: {{kind: shell, command: 'echo {{{{ 1 }}}}', spec: {others % failure}}}\n"
        found = transition(net_of, spec, tool)
        if "failure" in spec:
            return  # what a failure means is said of steps, loops and executions
    assert read(found) != expected


def test_render_of_the_executor_makes_code_a_template(net_of: NetOf) -> None:
    step = "  tool: {kind: python, code: 'result = {{ 1 }}'%s}\n"
    assert transition(net_of, "{render: true}", step % "").tasks[0].verbatim == ()
    assert transition(net_of, "{render: true}", step % ", spec: {render: false}").tasks[0].verbatim == (
        "code",
    )


def test_entry_final_step_and_strictness_are_the_nets(net_of: NetOf) -> None:
    net = net_of(
        "executor: {spec: {entry_step: b, final_step: c, no_next_is_error: true}}\nworkflow:\n"
        "- {step: start, next: b}\n- {step: b, next: start}\n- {step: c, tool: {kind: noop}}\n"
    )
    assert (net.entry, net.final_step, net.no_next_is_error) == ("b", "c", True)


@pytest.mark.parametrize(
    ("spec", "strict"),
    [
        ("{}", None),
        ("{on_no_match: quiet}", False),
        ("{on_no_match: error}", True),
        ("{no_next_is_error: false}", False),
        ("{no_next_is_error: true}", True),
        ("{no_next_is_error: false, on_no_match: error}", False),
        ("{no_next_is_error: true, on_no_match: quiet}", True),
    ],
)
def test_what_a_router_says_itself_stands_with_the_step(
    net_of: NetOf, spec: str, strict: bool | None
) -> None:
    net = net_of(
        f"workflow:\n- {{step: start, next: {{spec: {spec}, arcs: [{{step: end, when: false}}]}}}}\n- "
        "step: end\n"
    )
    assert net.steps["start"].no_next_is_error is strict
