"""What was cancelled stops, as whoever asked for it over HTTP sees it: no process of it is left."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from noetl.usecases.ports import ENDED
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

SLEEPER = (
    head("sleeps")
    + """
workload: {mark: x}
workflow:
  - step: start
    next: [asleep, beside]
  - step: asleep
    spec: {deadline: "{{ workload.deadline | default('1h') }}"}
    tool: {kind: shell, command: "python3 -c 'import time; time.sleep(600)' {{ workload.mark }} & wait"}
    next:
      arcs:
        - {step: told, when: "{{ event.name == 'step.cancelled' }}", args: {how: cancelled}}
        - {step: told, when: "{{ event.name == 'step.timed_out' }}", args: {how: late}}
  - step: told
    tool: {kind: noop, input: {how: "{{ args.how }}"}}
  - step: beside
    tool: {kind: noop}
"""
)

LOOP = (
    head("sleeps_in_a_loop")
    + """
workload: {mark: x}
workflow:
  - step: start
    loop: {in: [600, 0, 0], iterator: nap, spec: {mode: parallel, max_in_flight: 3}}
    tool:
      kind: python
      input: {nap: "{{ iter.nap }}", mark: "{{ workload.mark }}"}
      code: |
        import subprocess, sys
        if nap:
            subprocess.run([sys.executable, "-c", f"import time; time.sleep({nap})", mark])
        result = nap
    next: counted
  - step: counted
    tool: {kind: noop, input: {cancelled: "{{ start.stats.cancelled }}", results: "{{ start.results }}"}}
"""
)


def begin(stack: Stack, playbook: str, **payload: Any) -> tuple[str, str]:
    """An execution, and the mark by which `ps` shows what it runs, once that runs."""
    mark = f"noetl-{uuid.uuid4().hex}"
    execution = stack.begin(playbook, {"mark": mark, **payload})
    until(lambda: marked(mark), "the process to run")
    return execution, mark


def marked(mark: str) -> list[int]:
    """The processes with that mark, wherever they are: one that has escaped is below nobody."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or ())  # as a word of its own: not in a script of a shell
    ]


def cancel(stack: Stack, execution: str, mark: str, **what: Any) -> None:
    """Returns once nothing of it runs. What it runs would go on for longer than anybody waits."""
    stack.post(f"executions/{execution}/cancel", **what)
    until(lambda: not marked(mark), "its processes to be gone")


def ended(stack: Stack, execution: str) -> dict[str, Any]:
    def report() -> dict[str, Any] | None:
        found: dict[str, Any] = stack.get(f"executions/{execution}")
        return found if found["status"] in ENDED else None

    found = until(report, "the end of the execution")
    assert found is not None
    return found


@pytest.mark.parametrize("what", [{}, {"step": "asleep"}], ids=["execution", "step"])
def test_a_command_that_sleeps_dies_with_its_children(stack: Stack, what: dict[str, str]) -> None:
    execution, mark = begin(stack, SLEEPER)
    cancel(stack, execution, mark, **what)
    report = ended(stack, execution)
    if what:
        assert (report["status"], report["result"]) == ("completed", {"how": "cancelled"})
    else:
        assert report["status"] == "cancelled"


TIDY = (
    head("tidies")
    + """
workload: {mark: x, file: x}
workflow:
  - step: start
    tool:
      kind: shell
      env: {FILE: "{{ workload.file }}"}
      command: |
        trap 'echo tidied > "$FILE"; exit' TERM
        python3 -c 'import time; time.sleep(600)' {{ workload.mark }} & wait
"""
)


def test_a_command_may_tidy_up_before_it_ends(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "tidied"
    execution, mark = begin(stack, TIDY, file=str(file))
    cancel(stack, execution, mark)
    assert ended(stack, execution)["status"] == "cancelled"
    until(file.exists, "the file that the command leaves")


def test_an_iteration_is_cancelled_and_the_others_are_not(stack: Stack) -> None:
    execution, mark = begin(stack, LOOP)
    cancel(stack, execution, mark, step="start", iteration=0)
    report = ended(stack, execution)
    assert report["status"] == "completed"
    assert report["result"] == {"cancelled": 1, "results": [None, 0, 0]}


def test_a_step_that_is_late_is_ended_and_its_own_arc_is_taken(stack: Stack) -> None:
    """Its process may be too slow to run before that."""
    mark = f"noetl-{uuid.uuid4().hex}"
    execution = stack.begin(SLEEPER, {"mark": mark, "deadline": "3s"})
    report = ended(stack, execution)
    assert (report["status"], report["result"]) == ("completed", {"how": "late"})
    until(lambda: not marked(mark), "its processes to be gone")


def test_what_has_ended_is_not_cancelled(stack: Stack) -> None:
    execution = stack.begin(head("ends") + "workflow: [{step: start, tool: {kind: noop}}]\n")
    stack.wait([execution])
    answer = requests.post(
        f"{stack.api}/api/executions/{execution}/cancel", json={"step": "start"}, timeout=GUARD_S
    )
    assert answer.status_code == 409, answer.text
    assert "completed" in answer.json()["detail"]
