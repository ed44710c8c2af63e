"""Steps that do not wait for all iterations of their loop, with workers that are processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .playbooks import head
from .stack import Stack, eventually
from .test_cancelling import begin, ended, marked

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: The first iteration sleeps in a process of its own; the other one ends once that runs.
ENOUGH = (
    head("enough")
    + """
workload: {mark: x, begun: ""}
workflow:
  - step: start
    loop:
      in: [600, 0, 1]
      iterator: nap
      enough: {when: "{{ completed >= 1 }}"}
      spec: {mode: parallel, max_in_flight: 2}
    tool:
      kind: python
      input: {nap: "{{ iter.nap }}", mark: "{{ workload.mark }}", begun: "{{ workload.begun }}"}
      code: |
        import pathlib, subprocess, sys, time
        if nap:
            script = f"import pathlib, time; pathlib.Path({begun!r}).touch(); time.sleep({nap})"
            subprocess.run([sys.executable, "-c", script, mark])
        while not pathlib.Path(begun).exists():
            time.sleep(0.02)
        result = nap
    next: counted
  - step: counted
    tool: {kind: noop, input: {stats: "{{ start.stats }}", results: "{{ start.results }}"}}
"""
)

#: The iterations wait for what the step behind them does. One at a time: the pool has two places,
#: and that step needs one.
APART = (
    head("apart")
    + """
workload: {sign: ""}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {sync: false}}
    tool:
      kind: python
      input: {n: "{{ iter.n }}", sign: "{{ workload.sign }}"}
      code: |
        import pathlib, time
        while not pathlib.Path(sign).exists():
            time.sleep(0.02)
        pathlib.Path(f"{sign}.{n}").touch()
    next: behind
  - step: behind
    tool:
      kind: python
      input: {sign: "{{ workload.sign }}", total: "{{ start.stats.total }}"}
      code: |
        import pathlib
        pathlib.Path(sign).touch()
        result = total
"""
)


def test_what_runs_is_stopped_when_there_is_enough(stack: Stack, tmp_path: Path) -> None:
    execution, mark = begin(stack, ENOUGH, begun=str(tmp_path / "begun"))
    report = ended(stack, execution)
    assert (report["status"], report["result"]) == (
        "completed",
        {
            "stats": {"total": 3, "completed": 1, "failed": 0, "cancelled": 2},
            "results": [None, 0, None],
        },
    )
    eventually(lambda: not marked(mark), "its processes to be gone")


def test_a_step_is_routed_while_its_iterations_run_on(stack: Stack, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    execution = stack.begin(APART, {"sign": str(sign)})
    report = ended(stack, execution)
    assert (report["status"], report["result"]) == ("completed", 3)
    assert all(sign.with_name(f"sign.{n}").exists() for n in (1, 2, 3)), "it did not end before they had"
