"""How much work each workload is, and what must come out of it."""

from __future__ import annotations

#: W1, W1p: so many steps (tasks of one pipeline), each `fib(FIB)`.
STEPS, FIB = 40, 10
#: W3: so many items are squared and added up.
ITEMS = 1000
#: W4: so many executions of so many steps.
FLOWS, FLOW_STEPS = 200, 3
#: W5: one step, so many times in turn.
TURNS = 50


def fib_of(n: int) -> int:
    """The work of a step: slow on purpose."""
    return n if n < 2 else fib_of(n - 1) + fib_of(n - 2)
