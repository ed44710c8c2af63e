"""`retry` of tasks and steps: what it means, where it stands, and what stands beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Compiled
from noetl.dsl.problems import Code
from noetl.net.model import Directive, Net, Rule

NetOf = Callable[[str], Net]
Body = Callable[[str], Compiled]

FAILED = "{{ outcome.status == 'error' }}"


def _rules(net: Net) -> dict[str, tuple[Rule, ...] | None]:
    return {task.name: task.rules for step in net.transitions for task in step.tasks}


def _task(retry: str) -> str:
    return f"workload: {{n: 4}}\nworkflow:\n- step: a\n  tool: {{name: t, kind: noop, retry: {retry}}}\n"


@pytest.mark.parametrize(
    ("retry", "rule"),
    [
        ("3", Rule(FAILED, Directive("retry", 3, "fixed", 1.0))),
        ("'3'", Rule(FAILED, Directive("retry", 3, "fixed", 1.0))),
        ("'{{ workload.n }}'", Rule(FAILED, Directive("retry", "{{ workload.n }}", "fixed", 1.0))),
        ("{}", Rule(FAILED, Directive("retry", 3, "fixed", 1.0))),
        (
            "{attempts: 5, delay: 500ms, backoff: exponential, jitter: 0.1}",
            Rule(FAILED, Directive("retry", 5, "exponential", 0.5, 0.1)),
        ),
        ("{backoff: none}", Rule(FAILED, Directive("retry", 3, "none", 1.0))),
        ("{when: true}", Rule(FAILED, Directive("retry", 3, "fixed", 1.0))),
        ("{when: false}", Rule(False, Directive("retry", 3, "fixed", 1.0))),
        (
            "{when: '{{ error.retryable }}'}",
            Rule(
                "{{ outcome.status == 'error' and (error.retryable) }}", Directive("retry", 3, "fixed", 1.0)
            ),
        ),
        (
            "{when: outcome.error.kind != 'auth'}",
            Rule(
                "{{ outcome.status == 'error' and (outcome.error.kind != 'auth') }}",
                Directive("retry", 3, "fixed", 1.0),
            ),
        ),
        (
            "{when: \"{{ result.state == 'pending' }}\"}",
            Rule("{{ result.state == 'pending' }}", Directive("retry", 3, "fixed", 1.0)),
        ),
        (
            "{when: '{{ outcome.http.status == 202 }}'}",
            Rule("{{ outcome.http.status == 202 }}", Directive("retry", 3, "fixed", 1.0)),
        ),
    ],
)
def test_every_form_is_a_rule_that_tries_again(net_of: NetOf, retry: str, rule: Rule) -> None:
    net = net_of(_task(retry))
    assert _rules(net) == {"t": (rule,)}
    # What it does not try again fails.
    assert net.steps["a"].tasks[0].unmatched == "fail"


def test_a_guard_that_is_no_expression_is_asked_after_errors_alone(net_of: NetOf) -> None:
    guard = "{% if error.retryable %}true{% endif %}"
    first, second = _rules(net_of(_task(f"{{when: '{guard}'}}")))["t"] or ()
    assert (first.when, first.then.do) == ("{{ outcome.status == 'ok' }}", "continue")
    assert (second.when, second.then.do) == (guard, "retry")


def test_the_innermost_counts_as_a_whole(net_of: NetOf) -> None:
    found = _rules(
        net_of(
            """
executor: {spec: {policy: {rules: [{else: {do: continue}}]}}}
workbook:
  own: {kind: noop, retry: 4}
workflow:
- step: a
  retry: {attempts: 2, delay: 3}
  tool:
  - {name: default, kind: noop}
  - {name: other, kind: noop, retry: {when: "{{ error.retryable }}"}}
  - {name: ruled, kind: noop, spec: {policy: {rules: [{else: {do: break}}]}}}
  - labelled: {kind: noop, retry: 5}
  - own
  - {label: called, kind: workbook, name: own, spec: {policy: {rules: [{else: {do: fail}}]}}}
  - {label: again, kind: workbook, name: own, retry: 6}
  next: b
- {step: b, tool: {name: around, kind: noop}}
"""
        )
    )
    seen = {
        name: [(rule.then.do, rule.then.attempts) for rule in rules or ()] for name, rules in found.items()
    }
    assert seen == {
        "default": [("retry", 2)],
        "other": [("retry", 3)],
        "ruled": [("break", 3)],
        "labelled": [("retry", 5)],
        "own": [("retry", 4)],
        "called": [("fail", 3)],
        "again": [("retry", 6)],
        "around": [("continue", 3)],
    }


def test_tasks_that_run_after_every_call_and_sinks_have_their_own(net_of: NetOf) -> None:
    found = _rules(
        net_of(
            """
workflow:
- step: a
  sink: {tool: {kind: noop, name: keep, retry: 5}}
  tool:
    name: fetch
    kind: noop
    repeat: {next: {when: "{{ output.data.more }}"}, each: [{name: save, kind: noop, retry: 4}]}
"""
        )
    )
    assert {name: rules and rules[0].then.attempts for name, rules in found.items()} == {
        "fetch": None,
        "save": 4,
        "keep": 5,
    }


@pytest.mark.parametrize(
    ("step", "attempts"),
    [
        # Of a step of the classic dialect it is the last task's.
        ("retry: 2\n  vars: {n: '{{ result }}'}", {"one": None, "two": 2}),
        ("retry: {attempts: 2}\n  sink: {kind: noop, name: keep}", {"one": None, "two": 2, "keep": None}),
        ("retry: [{when: '{{ error }}', then: {max_attempts: 4}}]", {"one": None, "two": 4}),
        ("retry: {max_attempts: 4}", {"one": None, "two": 4}),
        ("retry: {attempts: 4, backoff: 2}", {"one": None, "two": 4}),
        ("retry: 2", {"one": 2, "two": 2}),
    ],
)
def test_whose_the_retry_of_a_step_is(net_of: NetOf, step: str, attempts: dict[str, int | None]) -> None:
    tools = "[{name: one, kind: noop}, {name: two, kind: noop}]"
    found = _rules(net_of(f"workflow:\n- step: a\n  {step}\n  tool: {tools}\n"))
    tries = {
        name: next((rule.then.attempts for rule in rules or () if rule.then.do == "retry"), None)
        for name, rules in found.items()
    }
    assert tries == attempts


@pytest.mark.parametrize(
    ("retry", "attempts"), [("3", 3), ("[{when: '{{ error }}', then: {max_attempts: 4}}]", 4)]
)
def test_a_task_that_steps_of_the_rules_dialect_judge_keeps_its_own(
    net_of: NetOf, retry: str, attempts: int
) -> None:
    net = net_of(
        f"workflow:\n- step: a\n  tool: {{name: t, kind: noop, retry: {retry}}}\n"
        "  rules:\n  - {when: '{{ result }}', run: [{name: u, kind: noop}]}\n"
    )
    [rule] = [rule for rule in _rules(net)["t"] or () if rule.then.do == "retry"]
    assert rule.then.attempts == attempts


@pytest.mark.parametrize(
    ("retry", "code", "word"),
    [
        ("0", Code.VALUE, "retry is 0"),
        ("many", Code.VALUE, "retry is 'many'"),
        ("true", Code.TYPE, "a number of attempts"),
        ("1", Code.RETRY_ONCE, "first try"),
        ("{attempts: 1}", Code.RETRY_ONCE, "first try"),
        ("{attempts: -1}", Code.VALUE, "attempts is -1"),
        ("{delay: soon}", Code.VALUE, "'soon'"),
        ("{backoff: quadratic}", Code.VALUE, "'quadratic'"),
        ("{attemps: 3}", Code.MISSPELT_KEY, "'attemps'"),
        ("{max_atempts: 3}", Code.MISSPELT_KEY, "'max_atempts'"),
        ("{when: '{{ error. }}'}", Code.TEMPLATE, "error."),
        ("{attempts: '{{ missing.n }}'}", Code.UNDEFINED, "missing"),
    ],
)
@pytest.mark.parametrize("place", ["task", "step"])
def test_faults_are_named_where_they_stand(body: Body, place: str, retry: str, code: Code, word: str) -> None:
    at = {"task": f"tool: {{kind: noop, retry: {retry}}}", "step": f"tool: {{kind: noop}}\n  retry: {retry}"}
    [problem] = body(f"workflow:\n- step: a\n  {at[place]}\n").problems
    assert problem.code == code
    assert word in problem.message
    assert problem.path.startswith("workflow[0].tool.retry" if place == "task" else "workflow[0].retry")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("tool: {kind: http, url: u, retries: 3}", "did you mean 'retry'?"),
        ("tool: {kind: http, url: u, spec: {retry: 3}}", "put it beside kind:"),
        ("spec: {retry: 3}\n  tool: {kind: noop}", "put it beside tool:"),
        ("loop: {in: [1], iterator: i, spec: {retry: 3}}\n  tool: {kind: noop}", "put it beside tool:"),
        ("tool: {kind: noop, spec: {policy: {retry: {attempts: 3}}}}", "for its calls beside kind:"),
        ("spec: {policy: {retry: {attempts: 3}}}\n  tool: {kind: noop}", "of a step beside tool:"),
        ("tool: {kind: noop, retry: 3, spec: {policy: {rules: [{else: {do: break}}]}}}", "keep one of them"),
        ("retry: 3\n  spec: {policy: {rules: [{else: {do: break}}]}}\n  tool: {kind: noop}", "keep one"),
        ("retry: 3\n  next: b\n- {step: b, tool: {kind: noop}}", "add tool:"),
    ],
)
def test_other_places_name_the_right_one(body: Body, text: str, word: str) -> None:
    [problem] = body(f"workflow:\n- step: a\n  {text}\n").problems
    assert word in problem.hint


@pytest.mark.parametrize(
    ("step", "column"),
    [
        ("retry: {attempts: 3}\n  tool: [{name: t, kind: noop}, {name: u, kind: noop}]", 3),
        ("tool: {kind: noop, retry: {when: '{{ outcome.http.status != 404 }}'}}", 36),
    ],
)
def test_forms_that_the_classic_dialect_had_are_noted_where_they_mean_something_else(
    body: Body, step: str, column: int
) -> None:
    found = body(f"workflow:\n- step: a\n  {step}\n")
    assert [(one.code, one.line, one.column) for one in found.problems] == [(Code.CHANGED, 6, column)]


@pytest.mark.parametrize(
    "step",
    [
        "retry: 3\n  tool: [{name: t, kind: noop}, {name: u, kind: noop}]",
        "retry: {attempts: 3}\n  tool: {name: t, kind: noop}",
        "retry: {attempts: 3}\n  tool: [{name: t, kind: noop, retry: 2}, {name: u, kind: noop}]",
        "tool: {kind: noop, retry: {when: \"{{ result.state == 'pending' }}\"}}",
        "tool: {kind: noop, retry: {when: \"{{ outcome.status == 'error' and ctx.patient }}\"}}",
    ],
)
def test_what_means_what_it_meant_is_not_noted(body: Body, step: str) -> None:
    found = body(f"ctx: {{patient: true}}\nworkflow:\n- step: a\n  {step}\n")
    assert found.problems == ()
