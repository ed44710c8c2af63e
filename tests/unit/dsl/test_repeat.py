"""What is wrong with a repeat, or with the loop of a task, is said with its place."""

from __future__ import annotations

import pytest

from noetl.dsl import compile_playbook
from noetl.tools.kit.registry import kinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\nworkflow:\n"


def problems(keys: str, kind: str = "http") -> list[tuple[int, str, str]]:
    own = {"http": "url: u", "python": "code: result = 1", "postgres": "command: select 1"}[kind]
    text = f"{HEAD}  - step: start\n    tool:\n      kind: {kind}\n      {own}\n      {keys}\n"
    found = compile_playbook(text, file="x.yaml", kinds=kinds()).problems
    return [(one.line, one.message, one.hint) for one in found]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{}", "does not say which call is next"),
        ("{next: []}", "does not say which call is next"),
        ("{next: {parms: {a: 1}}}", "'parms' means nothing to the next call of http"),
        ("{next: {when: '{{ }', params: {}}}", "template"),
        ("{next: {when: '{{ nobody }}'}}", "nothing defines 'nobody'"),
        ("{next: {}, max: 0}", "max is 0"),
        ("{next: {}, max: 'a{{ env }}'}", "max is"),
        ("{next: {}, delay: soon}", "is not a duration"),
        ("{next: {}, backoff: slow}", "slow"),
        ("{next: {}, collect: {strategy: some}}", "some"),
        ("{next: {}, collect: {paht: a}}", "'paht'"),
        ("{next: {}, nxt: {}}", "'nxt'"),
        ("{next: {}, each: {kind: nop}}", "no tool of kind 'nop'"),
        ("{next: {}, each: {kind: http, url: u, repeat: {next: {}}}}", "cannot be repeated itself"),
        (
            "{next: {}, each: {kind: noop, name: task_0, spec: {policy: {rules: [{else: {do: jump, to: "
            "up}}]}}}}",
            "no task 'up'",
        ),
    ],
)
def test_a_repeat_that_cannot_be_used_says_why(given: str, said: str) -> None:
    ((line, message, _),) = problems(f"repeat: {given}")
    assert (line, said in message) == (9, True), message


def test_a_part_of_the_request_that_the_tool_does_not_have_is_a_problem_that_knows_better() -> None:
    ((line, message, hint),) = problems("repeat: {next: {arg: {a: 1}}}", "python")
    assert (line, message) == (9, "the key 'arg' means nothing to the next call of python")
    assert "args" in hint
    ((_, message, _),) = problems("repeat: {next: {params: {a: 1}}}", "python")
    assert message == "the key 'params' means nothing to the next call of python"
    assert problems("repeat: {next: {params: {a: 1}}}", "postgres") == []


@pytest.mark.parametrize(
    "two",
    [
        "pagination: {type: page}\n      repeat: {next: {}}",
        "loop: {in: [], iterator: i}\n      repeat: {next: {}}",
        "loop: {in: [], iterator: i}\n      pagination: {type: page}",
    ],
)
def test_a_task_has_one_of_loop_repeat_and_pagination(two: str) -> None:
    ((_, message, _),) = problems(two)
    assert message == "task 'task_0' has two of `loop`, `repeat` and `pagination`"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{in: []}", "the loop has no iterator"),
        ("{iterator: i}", "does not say what to loop over"),
        ("{in: [], iterator: index}", "no iterator can be called index"),
        ("{in: [], iterator: i, spec: {mode: parallel}}", "runs one item after another"),
        ("{in: [], iterator: i, spec: {max_in_flight: 3}}", "one item in flight"),
        ("{in: [], iterator: i, cursor: {}}", "`cursor`"),
        ("{in: [], iterator: i, spec: {timeout: 5}}", "`timeout` means nothing to the loop of a task"),
        ("{in: [], iterator: i, spec: {policy: {rules: []}}}", "only `failure`"),
        ("{in: [], iterator: i, iterater: x}", "'iterater'"),
        ("{in: '{{ nobody }}', iterator: i}", "nothing defines 'nobody'"),
    ],
)
def test_a_loop_of_a_task_that_cannot_be_used_says_why(given: str, said: str) -> None:
    ((line, message, _),) = problems(f"loop: {given}")
    assert (line, said in message) == (9, True), message


def test_rules_of_a_task_that_loops_may_write_to_the_scope_of_the_item() -> None:
    rules = "spec: {policy: {rules: [{else: {do: continue, set: {iter.x: 1}}}]}}"
    assert problems(f"loop: {{in: [], iterator: i}}\n      {rules}") == []
    assert len(problems(rules)) == 1
