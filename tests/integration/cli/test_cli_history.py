"""`noetl execution explain` and `diff`: what a person reads in the night."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from .conftest import Cli

ORDERS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: tests/orders}
workload: {orders: [120, 80, 0], limit: 500, approved: false, mode: skip}
workflow:
  - step: start
    loop: {in: "{{ workload.orders }}", iterator: order, spec: {policy: {failure: {mode: best_effort}}}}
    tool: {kind: python, input: {order: "{{ iter.order }}"}, code: "result = 100 // order"}
    next: check
  - step: check
    tool: {kind: noop, result: {total: 200}}
    next:
      arcs:
        - {step: review, when: "{{ result.total > workload.limit }}"}
        - {step: pay}
  - step: review
    tool: {kind: noop}
    next: report
  - step: report
    tool: {kind: noop}
  - step: pay
    spec:
      policy:
        admit:
          rules: [{when: "{{ workload.approved }}", then: {allow: true}}, {else: {then: {allow: false}}}]
          on_deny: skip
    tool:
      kind: shell
      command: "exit 3"
      spec: {policy: {rules: [{when: "{{ error }}", then: {do: retry, attempts: 2, delay: 0.01}}]}}
    next: done
  - step: done
    tool: {kind: noop}
"""


#: `run("limit=100")`: the id of an execution with that assignment.
Run: TypeAlias = Callable[..., str]


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> Run:
    """Runs the playbook with assignments, and returns the execution's id."""
    (tmp_path / "orders.yaml").write_text(ORDERS)

    def started(*pairs: str) -> str:
        options = [word for pair in pairs for word in ("--set", pair)]
        return str(
            json.loads(cli("run", str(tmp_path / "orders.yaml"), "-q", "--json", *options).out)[
                "execution_id"
            ]
        )

    return started


def test_one_screen_says_why_each_step_did_not_run(cli: Cli, run: Run) -> None:
    lines = cli("execution", "explain", run()).out.splitlines()
    told = "\n".join(line.strip() for line in lines)
    assert len(lines) < 30
    for line in (
        "[2]  0  ZeroDivisionError: integer division or modulo by zero",
        "It did not run: the guard of the arc from step 'check' to 'review' did not hold "
        "({{ result.total > workload.limit }} with result.total = 200, workload.limit = 500).",
        "It did not run: admission was denied.",
        "admission: {{ workload.approved }} with workload.approved = false: did not hold",
        "It did not run: step 'pay' was skipped: admission was denied.",
    ):
        assert line in told, told


def test_one_step_is_explained_from_close_by(cli: Cli, run: Run) -> None:
    told = cli("execution", "explain", run("approved=true"), "pay").out
    for line in (
        "It ran after check, admitted and failed: The command ended with exit status 3.",
        "  fired by check#1",
        "  admission: {{ workload.approved }} with workload.approved = true: admitted",
        "  its task: failed after 2 attempts; last error: ExitStatus: The command ended with exit status 3.",
        ": retry after 10 ms",
        "  → done: the step failed, and this arc is for success only",
    ):
        assert line in told, told
    assert "review" not in told


def test_programs_read_json_and_an_earlier_version(cli: Cli, run: Run) -> None:
    execution_id = run()
    early = json.loads(cli("execution", "explain", execution_id, "check", "--at", "5", "--json").out)
    assert (early["version"], early["execution_id"]) == (5, execution_id)
    assert [(step["step"], step["standing"]) for step in early["steps"]] == [("check", "not_run")]


def test_the_installed_command_explains_what_another_process_ran(
    run: Run, program: Callable[..., subprocess.Popen[str]]
) -> None:
    execution_id = run()
    out, err = program("execution", "explain", execution_id, "done").communicate()
    assert "It did not run: step 'pay' was skipped: admission was denied." in out
    assert err == ""


def test_an_unknown_step_and_a_version_beyond_the_end_are_answered(cli: Cli, run: Run) -> None:
    execution_id = run()
    wrong = cli("execution", "explain", execution_id, "revew")
    assert (wrong.code, "Did you mean 'review'?" in wrong.err) == (2, True)
    beyond = cli("execution", "explain", execution_id, "--at", "999")
    assert (beyond.code, "has versions 0 to" in beyond.err) == (2, True)


def test_two_executions_are_compared(cli: Cli, run: Run) -> None:
    one, other = run(), run("limit=100")
    told = cli("execution", "diff", one, other).out
    for line in (
        "They differ in: inputs, path, guards, status of steps, results.",
        "workload.limit",
        "500 → 100",
        "behind check#1: nothing → review#1",
        "check#1 → review  A  {{ result.total > workload.limit }} with result.total = 200, workload.limit = 500: "
        "did not hold",
        "B  {{ result.total > workload.limit }} with result.total = 200, workload.limit = 100: taken",
        "pay     only in A: skipped",
    ):
        assert line in told, told
    found = json.loads(cli("execution", "diff", one, other, "--json", "--limit", "1").out)
    assert (found["same"], found["results"]["more"]) == (False, 1)
    assert "They went the same way" in cli("execution", "diff", one, one).out


def test_the_versions_of_two_executions_are_told_apart_by_a_few_digits(
    cli: Cli, run: Run, tmp_path: Path
) -> None:
    one = run()
    (tmp_path / "orders.yaml").write_text(ORDERS.replace("total: 200", "total: 201"))
    other = run()
    lines = cli("execution", "diff", one, other).out.splitlines()
    cells = [line.split() for line in lines if line.split()[:1] in (["net"], ["version"])]
    assert [cell[0] for cell in cells] == ["version", "net"]
    assert cells[0][1:] == ["1", "→", "2"]
    assert [len(cell) for cell in cells[1][1::2]] == [12, 12]


def test_of_a_step_that_failed_the_execution_that_it_called_is_named(cli: Cli) -> None:
    caller = "metadata: {name: caller, path: tests/caller}\nworkflow:\n- step: start\n  tool: {kind: playbook, path: tests/failing}\n"
    Path("caller.yaml").write_text(f"apiVersion: noetl.io/v2\nkind: Playbook\n{caller}")
    execution_id = json.loads(cli("run", "caller.yaml", "-q", "--json").out)["execution_id"]
    (child,) = json.loads(cli("execution", "list", "--parent", execution_id, "--json").out)
    told = cli("execution", "explain", execution_id).out
    assert f"called execution {child['execution_id']}" in told
    assert "It ran as the entry and failed: " in told
