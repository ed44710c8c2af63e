from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Compiled
from noetl.dsl.problems import Code
from noetl.net.model import Assignment, Directive, Net, Rule

NetOf = Callable[[str], Net]
Body = Callable[[str], Compiled]


def _playbook(rules: str) -> str:
    return (
        "workflow:\n- step: a\n  loop: {in: [1], iterator: i}\n  tool:\n  - {name: first, kind: noop}\n"
        f"  - {{name: second, kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n"
    )


def _rules(net: Net) -> tuple[Rule, ...] | None:
    return net.steps["a"].tasks[1].rules


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("[{when: '{{ error }}', then: {do: fail}}]", (Rule("{{ error }}", Directive("fail")),)),
        ("[{when: true, then: {do: break}}]", (Rule(True, Directive("break")),)),
        (
            "[{when: '{{ error }}', then: {do: fail}, else: {then: {do: break}}}]",
            (Rule("{{ error }}", Directive("fail")), Rule(None, Directive("break"))),
        ),
        ("[{else: {then: {do: fail}}}]", (Rule(None, Directive("fail")),)),
        ("[{else: {do: fail}}]", (Rule(None, Directive("fail")),)),
        ("[{else: null, then: {do: fail}}]", (Rule(None, Directive("fail")),)),
        ("[{else: true, then: {do: fail}}]", (Rule(None, Directive("fail")),)),
        ("[{then: {do: fail}}]", (Rule(None, Directive("fail")),)),
        (
            "[{else: {do: continue, set: {x: 1}, set_ctx: {y: 2}, set_iter: {z: 3}}}]",
            (
                Rule(
                    None,
                    Directive(
                        set=(
                            Assignment("local", "x", 1),
                            Assignment("ctx", "y", 2),
                            Assignment("iter", "z", 3),
                        )
                    ),
                ),
            ),
        ),
        (
            "[{else: {do: retry, attempts: 5, backoff: exponential, delay: 500ms, jitter: 0.1}}]",
            (Rule(None, Directive("retry", 5, "exponential", 0.5, 0.1)),),
        ),
        ("[{else: {do: retry, delay: 2}}]", (Rule(None, Directive("retry", backoff="fixed", delay=2)),)),
        ("[{else: {do: retry}}]", (Rule(None, Directive("retry", 3, "none", 1.0)),)),
        (
            "[{else: {do: retry, attempts: '{{ workload.n }}'}}]",
            (Rule(None, Directive("retry", "{{ workload.n }}")),),
        ),
        ("[{else: {do: jump, to: previous}}]", (Rule(None, Directive("jump", to="first")),)),
        ("[{else: {do: jump, to: second}}]", (Rule(None, Directive("jump", to="second")),)),
    ],
)
def test_all_forms_of_rules(net_of: NetOf, rules: str, expected: tuple[Rule, ...]) -> None:
    assert _rules(net_of(_playbook(rules))) == expected


@pytest.mark.parametrize(
    ("rules", "code", "word"),
    [
        ("[{else: {do: retry, attempts: 0}}]", Code.VALUE, "attempts is 0"),
        ("[{else: {do: retry, attempts: -1}}]", Code.VALUE, "attempts is -1"),
        ("[{else: {do: retry, attempts: true}}]", Code.TYPE, "attempts"),
        ("[{else: {do: retry, delay: soon}}]", Code.VALUE, "'soon'"),
        ("[{else: {do: retry, delay: -1}}]", Code.VALUE, "-1"),
        ("[{else: {do: retri}}]", Code.VALUE, "'retri'"),
        ("[{else: {do: jump}}]", Code.MISSING, "where to"),
        ("[{else: {do: jump, to: secnd}}]", Code.UNKNOWN_TASK, "'secnd'"),
        ("[{when: '{{ error }}'}]", Code.MISSING, "what follows"),
        ("[{when: 5, then: {do: fail}}]", Code.TYPE, "when"),
        ("[{else: {do: fail, set: {workload.x: 1}}}]", Code.SCOPE, "workload.x"),
        ("[{when: '{{ result.x }}', then: {do: break}}]", Code.CHANGED, "no rule takes fails"),
    ],
)
def test_faults_of_rules_are_named_at_their_line(body: Body, rules: str, code: Code, word: str) -> None:
    problems = body(_playbook(rules)).problems
    assert [problem.code for problem in problems] == [code]
    assert word in problems[0].message
    assert problems[0].line == 9


def test_a_jump_to_the_nearest_task_is_suggested(body: Body) -> None:
    [problem] = body(_playbook("[{else: {do: jump, to: secnd}}]")).problems
    assert "'second'" in problem.hint


def test_a_jump_to_previous_from_the_first_task_is_an_error(body: Body) -> None:
    text = (
        "workflow:\n- step: a\n  tool: {kind: noop, spec: {policy: {rules: [{else: {do: jump, to: "
        "previous}}]}}}\n"
    )
    assert [problem.code for problem in body(text).problems] == [Code.NO_PREVIOUS]


_RETRYABLE = "{when: '{{ error.retryable }}', then: {do: retry}}"


@pytest.mark.parametrize(
    "rules",
    [
        "[{else: {do: continue}}]",
        "[{when: '{{ error.kind }}', then: {do: retry}, else: {do: continue}}]",
        f"[{_RETRYABLE}, {{when: '{{{{ error }}}}', then: {{do: fail}}}}]",
        f"[{_RETRYABLE}, {{when: '{{{{ outcome.status == \"error\" }}}}', then: {{do: continue}}}}]",
        f"[{_RETRYABLE}, {{when: '{{{{ not error.retryable }}}}', then: {{do: break}}}}]",
        "[{when: 'error is defined and result is undefined', then: {do: fail}}]",
    ],
)
def test_rules_that_say_what_becomes_of_every_error_mean_what_they_meant(body: Body, rules: str) -> None:
    assert body(_playbook(rules)).problems == ()


@pytest.mark.parametrize(
    "rules",
    [
        "[]",
        f"[{_RETRYABLE}]",
        "[{when: '{{ outcome.http.status != 404 }}', then: {do: fail}}]",
        "[{when: '{{ error and ctx.strict }}', then: {do: fail}}]",
        "[{when: '{{ (error.kind | length) > 0 }}', then: {do: fail}}]",
        "[{when: '{{ result.x }}', then: {do: break}}, {when: false, then: {do: fail}}]",
    ],
)
def test_where_an_error_may_pass_the_rules_a_note_says_that_it_fails_now(body: Body, rules: str) -> None:
    found = body(_playbook(rules))
    assert [(one.code, one.severity) for one in found.problems] == [(Code.CHANGED, "note")]
    assert found.net is not None
    assert [task.unmatched for task in found.net.steps["a"].tasks] == ["continue", "fail"]
