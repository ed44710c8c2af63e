"""The workloads: what is run on NoETL, what is run on raw Celery, and what there is to reach.

A measurement returns its durations in seconds and checks what came out after the clock has stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks import raw
from benchmarks.sizes import FIB, FLOW_STEPS, FLOWS, ITEMS, STEPS, TURNS, fib_of
from benchmarks.stack import Stack

#: Median seconds of raw Celery, and of DBOS for W1p, on a quiet machine of two cores.
REFERENCE = {"W1": 0.075, "W1p": 0.083, "W3": 1.6, "W3e": 1.6, "W4": 0.86, "W5": 0.0019}


@dataclass(frozen=True)
class Target:
    """`of` says what is compared with `limit`: the ratio to raw Celery, seconds, or steps per
    second."""

    of: Literal["ratio", "seconds", "steps/s"]
    limit: float

    def met(self, value: float) -> bool:
        return value >= self.limit if self.of == "steps/s" else value <= self.limit


@dataclass(frozen=True)
class Workload:
    """`raw` is None where Celery has nothing of the kind. `steps` are those of one sample."""

    name: str
    about: str
    noetl: Callable[[Stack], list[float]]
    raw: Callable[[], list[float]] | None
    steps: int
    target: Target | None = None


def _one(path: str, expected: object) -> Callable[[Stack], list[float]]:
    """One execution, from its start until its row says that it has ended."""

    def run(stack: Stack) -> list[float]:
        started = time.perf_counter()
        execution_id = stack.start(path)
        stack.wait(execution_id)
        spent = time.perf_counter() - started
        _check(path, stack.result(execution_id), expected)
        return [spent]

    return run


def _check(path: str, result: object, expected: object) -> None:
    if result != expected:
        raise RuntimeError(f"{path} yields {result!r}, not {expected!r}.")


def _together(path: str, count: int, expected: object) -> Callable[[Stack], list[float]]:
    """Many executions: from the start of the first until the last has ended."""

    def run(stack: Stack) -> list[float]:
        started = time.perf_counter()
        ids = [stack.start(path) for _ in range(count)]
        for execution_id in ids:
            stack.wait(execution_id)
        spent = time.perf_counter() - started
        for execution_id in ids:
            _check(path, stack.result(execution_id), expected)
        return [spent]

    return run


def _in_turn(path: str, count: int, expected: object) -> Callable[[Stack], list[float]]:
    once = _one(path, expected)
    return lambda stack: [spent for _ in range(count) for spent in once(stack)]


def _timed(work: Callable[[], None], count: int = 1) -> Callable[[], list[float]]:
    def run() -> list[float]:
        spent = []
        for _ in range(count):
            started = time.perf_counter()
            work()
            spent.append(time.perf_counter() - started)
        return spent

    return run


_SQUARES = sum(i * i for i in range(ITEMS))

WORKLOADS = (
    Workload(
        "W1",
        f"one execution of {STEPS} sequential python steps, each fib({FIB}); raw: a chain",
        _one("benchmarks/w1", fib_of(FIB)),
        _timed(raw.w1),
        STEPS,
        Target("ratio", 6.0),
    ),
    Workload(
        "W1p",
        f"the same {STEPS} calls as tasks of one pipeline; raw: the chain of W1",
        _one("benchmarks/w1p", fib_of(FIB)),
        _timed(raw.w1),
        STEPS,
        Target("seconds", 0.125),
    ),
    Workload(
        "W3",
        f"a parallel loop over {ITEMS:,} items (`commit: batch`) and a sum; raw: a chord",
        _one("benchmarks/w3", _SQUARES),
        _timed(raw.w3),
        ITEMS + 1,
        Target("ratio", 0.6),
    ),
    Workload(
        "W3e",
        "W3 with a durable commit for each iteration (the default for python); raw: a chord",
        _one("benchmarks/w3e", _SQUARES),
        _timed(raw.w3),
        ITEMS + 1,
    ),
    Workload(
        "W4",
        f"{FLOWS} executions of {FLOW_STEPS} python steps, started together; raw: {FLOWS} chains",
        _together("benchmarks/w4", FLOWS, 1),
        _timed(raw.w4),
        FLOWS * FLOW_STEPS,
        Target("steps/s", 250.0),
    ),
    Workload(
        "W4n",
        "W4 with steps that run no user code (`kind: noop`)",
        _together("benchmarks/w4n", FLOWS, {"n": 1}),
        _timed(raw.w4),
        FLOWS * FLOW_STEPS,
    ),
    Workload(
        "W5",
        f"one execution of one python step, {TURNS} times in turn; raw: one task",
        _in_turn("benchmarks/w5", TURNS, 1),
        _timed(raw.w5, TURNS),
        1,
        Target("seconds", 0.012),
    ),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
