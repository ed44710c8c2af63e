"""How work flows through real workers: bounds on what runs at once, order, memory, size,
fairness."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.budget import budget
from tests.gates import Gate
from tests.waiting import until

from .playbooks import BATCHED_LOOP, LOOP, THREADED_LOOP, TWO_STEPS, counted, head, overlap, squares
from .stack import Stack, family, is_worker

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: Iterations of the long loop.
MANY = budget("NOETL_TEST_LONG_LOOP", quick=500, full=1500, long=10_000)

#: What a worker may grow by during the long loop; in a long run a leak of 10 kB an iteration would
#: be 100 MB.
MAX_GROWTH_MB = 32


@pytest.mark.parametrize(
    ("playbook", "width", "reached"), [(LOOP, 1, 1), (LOOP, 5, 2), (THREADED_LOOP, 3, 3)]
)
def test_no_more_iterations_than_max_in_flight_are_at_work_and_results_keep_the_order_of_the_items(
    stack: Stack, effects: Path, tmp_path: Path, playbook: str, width: int, reached: int
) -> None:
    """Two children work on the one queue, and eight threads on the other: where one is left by an
    execution, it is the next one's."""
    gate = Gate(tmp_path / "gate")
    payload = {"items": 8, "width": width, "effects": str(effects), "gate": str(tmp_path / "gate")}
    executions: list[str] = []
    for at_work in (reached, min(2 * reached, 8 if playbook == THREADED_LOOP else 2)):
        executions.append(stack.begin(playbook, payload))
        until(lambda wanted=at_work: gate.arrived() == wanted, "iterations at work")
    gate.open()
    stack.wait(executions)
    for execution in executions:
        report = stack.report(execution)
        assert report.result == squares(8)
        assert report.steps["work"]["result"]["results"] == [n * n for n in range(8)]
        assert overlap(effects, execution) <= width
    assert overlap(effects, executions[0]) >= reached
    assert all(times == 1 for times in counted(effects).values())
    assert len(counted(effects)) == 16


def test_a_slow_first_item_does_not_change_the_order_of_results(stack: Stack, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    waits = "".join(f"          {line}\n" for line in gate.python().splitlines())
    execution = stack.begin(SLOW_FIRST.replace("          WAIT\n", waits))
    until(lambda: stack.ended_iterations(execution) == 7, "the others to end")
    gate.open()
    stack.wait([execution])
    assert stack.report(execution).steps["start"]["result"]["results"] == [0, 1, 2, 3, 4, 5, 6, 7]


SLOW_FIRST = (
    head("slow_first")
    + """
workflow:
  - step: start
    spec: {queue: default}
    loop: {in: "{{ range(8) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
    tool:
      kind: python
      input: {n: "{{ iter.n }}"}
      code: |
        if n == 0:
          WAIT
        result = n
"""
)


# --- the long loop -------------------------------------------------------------------------------


class Memory:
    """The resident memory (MB) of every process of the workers, when it was looked at."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.first: dict[int, float] = {}
        self.most: dict[int, float] = {}

    def look(self) -> None:
        for name in ("scheduler", "code", "io"):
            for process in family(self._stack.running[name].pid):
                try:
                    if not is_worker(process):
                        continue
                    size = process.memory_info().rss / 1e6
                except psutil.NoSuchProcess:
                    continue
                self.first.setdefault(process.pid, size)
                self.most[process.pid] = max(self.most.get(process.pid, 0.0), size)

    def by_role(self) -> str:
        return ", ".join(f"{self.first[pid]:.0f} to {self.most[pid]:.0f}" for pid in self.first)

    def growth(self) -> float:
        return max(self.most[pid] - self.first[pid] for pid in self.first)


@pytest.mark.full("a load")
def test_a_long_loop_leaves_memory_flat_and_short_work_overtakes_it(stack: Stack) -> None:
    assert stack.run(BATCHED_LOOP, {"items": 200, "width": 8}).result == squares(200)
    memory = Memory(stack)
    memory.look()
    execution = stack.begin(BATCHED_LOOP, {"items": MANY, "width": 8})
    until(lambda: stack.ended_iterations(execution) > 100, "the loop to be under way")
    assert stack.run(TWO_STEPS).result == 2
    during = stack.ended_iterations(execution)
    memory.look()
    stack.wait([execution])
    memory.look()
    print(f"memory in MB: {memory.by_role()}; {during} had ended when the two-step run had")
    report = stack.report(execution)
    assert report.result == squares(MANY)
    assert report.steps["work"]["result"]["stats"] == {"total": MANY, "completed": MANY, "failed": 0}
    assert during < MANY, "the loop was over before what was begun beside it"
    assert memory.growth() < MAX_GROWTH_MB


# --- large results -------------------------------------------------------------------------------

LARGE = (
    head("large")
    + """
workflow:
  - step: start
    tool:
      kind: python
      code: |
        result = {"text": "x" * 5_000_000, "kept": 42}
    next: measure
  - step: measure
    tool:
      kind: python
      input: {text: "{{ start.text }}", kept: "{{ start.kept }}"}
      code: |
        result = {"length": len(text), "kept": kept}
    next: end
  - step: end
    tool:
      kind: noop
      input: {length: "{{ measure.length }}", kept: "{{ measure.kept }}"}
"""
)


def test_a_result_of_5_mb_stays_out_of_the_log_and_the_next_step_reads_it(stack: Stack) -> None:
    report = stack.run(LARGE)
    assert report.result == {"length": 5_000_000, "kept": 42}
    number = int(report.row.execution_id)
    largest = "SELECT max(length(payload)) FROM event WHERE execution_id = :id"
    assert stack.sql(largest, id=number)[0][0] < 20_000
    largest = "SELECT max(length(context)) FROM command WHERE execution_id = :id"
    assert stack.sql(largest, id=number)[0][0] < 20_000
