"""How work flows through real workers: bounds on what runs at once, order, memory, size,
fairness."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from .playbooks import BATCHED_LOOP, LOOP, THREADED_LOOP, TWO_STEPS, counted, head, overlap, squares
from .stack import Stack, eventually, family, is_worker

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: Iterations of the long loop.
MANY = 10_000

#: What a worker may grow by during the long loop; a leak of 10 kB an iteration would be 100 MB.
MAX_GROWTH_MB = 32


@pytest.mark.parametrize(
    ("playbook", "width", "reached"), [(LOOP, 1, 1), (LOOP, 5, 2), (THREADED_LOOP, 3, 3)]
)
def test_no_more_iterations_than_max_in_flight_are_at_work_and_results_keep_the_order_of_the_items(
    stack: Stack, effects: Path, playbook: str, width: int, reached: int
) -> None:
    payload = {"items": 24, "width": width, "nap": 0.1, "effects": str(effects)}
    executions = [stack.begin(playbook, payload) for _ in range(2)]
    stack.wait(executions)
    for execution in executions:
        report = stack.report(execution)
        assert report.result == squares(24)
        assert report.steps["work"]["result"]["results"] == [n * n for n in range(24)]
    # Two executions share two children: at times both belong to one of them, and never more than
    # its width.
    assert max(overlap(effects, execution) for execution in executions) == reached
    assert all(times == 1 for times in counted(effects).values())
    assert len(counted(effects)) == 48


def test_a_slow_first_item_does_not_change_the_order_of_results(stack: Stack) -> None:
    report = stack.run(SLOW_FIRST)
    assert report.steps["start"]["result"]["results"] == [0, 1, 2, 3, 4, 5, 6, 7]


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
        import time
        time.sleep(0.3 if n == 0 else 0.01)
        result = n
"""
)


# --- the long loop -------------------------------------------------------------------------------


class Memory(threading.Thread):
    """Watches the resident memory (MB) of every process of the workers."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(daemon=True)
        self._stack = stack
        self.first: dict[int, float] = {}
        self.most: dict[int, float] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.25):
            self.look()

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


@contextmanager
def watched(stack: Stack) -> Iterator[Memory]:
    memory = Memory(stack)
    memory.look()
    memory.start()
    yield memory
    memory.over.set()
    memory.join()


def p50_of_two_steps(stack: Stack, times: int, go_on: threading.Event | None = None) -> float:
    """Seconds from the start to the end of a two-step execution, by the database's clock."""
    spent = []
    for _ in range(times):
        if go_on is not None and not go_on.is_set():
            break
        report = stack.run(TWO_STEPS)
        assert report.result == 2
        spent.append(report.duration_ms / 1000)
    assert len(spent) >= 5, "the loop was over before enough executions were measured"
    return statistics.median(spent)


@pytest.mark.full("a load of minutes")
def test_ten_thousand_iterations_leave_memory_flat_and_short_work_overtakes_them(
    stack: Stack,
) -> None:
    warm = stack.run(BATCHED_LOOP, {"items": 500, "width": 8})
    assert warm.result == squares(500)
    alone = p50_of_two_steps(stack, 7)
    with watched(stack) as memory:
        begun = time.monotonic()
        execution = stack.begin(BATCHED_LOOP, {"items": MANY, "width": 8})
        eventually(lambda: stack.ended_iterations(execution) > 100, "the loop to be under way")
        beside = p50_of_two_steps(stack, 9)
        during = stack.ended_iterations(execution)
        stack.wait([execution], 90)
        spent = time.monotonic() - begun
    print(
        f"{MANY} iterations in {spent:.1f} s; two steps: {alone:.3f} s alone, {beside:.3f} s beside the loop;"
    )
    print(f"memory in MB: {memory.by_role()}; {during} had ended when the last two-step run had")
    report = stack.report(execution)
    assert report.result == squares(MANY)
    assert report.steps["work"]["result"]["stats"] == {"total": MANY, "completed": MANY, "failed": 0}
    assert during < MANY, "the loop was over before the executions beside it were measured"
    assert memory.growth() < MAX_GROWTH_MB
    assert beside <= 3 * alone


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
