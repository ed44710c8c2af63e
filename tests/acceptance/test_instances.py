"""Steps that do not wait for all iterations of their loop, with workers that are processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gates import Gate
from tests.waiting import until

from .playbooks import head
from .stack import Stack
from .test_cancelling import begin, ended, marked

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: The first iteration sleeps in a process of its own; the other one ends at a gate.
ENOUGH = """
workload: {mark: x}
workflow:
  - step: start
    loop:
      in: [600, 0, 1]
      iterator: nap
      enough: {when: "{{ completed >= 1 }}"}
      spec: {mode: parallel, max_in_flight: 2}
    tool:
      kind: python
      input: {nap: "{{ iter.nap }}", mark: "{{ workload.mark }}"}
      code: CODE
    next: counted
  - step: counted
    tool: {kind: noop, input: {stats: "{{ start.stats }}", results: "{{ start.results }}"}}
"""
NAPS = """
import subprocess, sys
if nap:
    subprocess.run([sys.executable, "-c", f"import time; time.sleep({nap})", mark])
result = nap
"""

#: The iterations wait for what the step behind them does. One at a time: the pool has two places,
#: and that step needs one.
APART = """
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {sync: false}}
    tool: {kind: python, input: {n: "{{ iter.n }}"}, code: CODE}
    next: behind
  - step: behind
    tool: {kind: python, input: {total: "{{ start.stats.total }}"}, code: OPEN}
"""


def test_what_runs_is_stopped_when_there_is_enough(stack: Stack, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    code = NAPS + gate.python()
    execution, mark = begin(stack, head("enough") + ENOUGH.replace("CODE", json.dumps(code)))
    gate.open()
    report = ended(stack, execution)
    assert (report["status"], report["result"]) == (
        "completed",
        {
            "stats": {"total": 3, "completed": 1, "failed": 0, "cancelled": 2},
            "results": [None, 0, None],
        },
    )
    until(lambda: not marked(mark), "its processes to be gone")


def test_a_step_is_routed_while_its_iterations_run_on(stack: Stack, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    code = gate.python("n") + f"pathlib.Path({str(tmp_path)!r}, f'done-{{n}}').touch()"
    opens = f"import pathlib\npathlib.Path({str(tmp_path / 'gate')!r}, 'open').touch()\nresult = total"
    playbook = APART.replace("CODE", json.dumps(code)).replace("OPEN", json.dumps(opens))
    execution = stack.begin(head("apart") + playbook)
    report = ended(stack, execution)
    assert (report["status"], report["result"]) == ("completed", 3)
    assert {path.name for path in tmp_path.glob("done-*")} == {"done-1", "done-2", "done-3"}, (
        "it did not end before they had"
    )
