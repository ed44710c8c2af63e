"""Runs in an environment with DBOS, outside of ours: `dbos_program.py URL STEPS FIB`; see
`benchmarks.dbos`."""

from __future__ import annotations

import sys
import time

from dbos import DBOS  # type: ignore[import-not-found]

URL, STEPS, FIB = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "WARNING", "run_admin_server": False})


def fib_of(n: int) -> int:
    return n if n < 2 else fib_of(n - 1) + fib_of(n - 2)


@DBOS.step()  # type: ignore[untyped-decorator]
def step(n: int) -> int:
    return fib_of(n)


@DBOS.workflow()  # type: ignore[untyped-decorator]
def sequence(n: int, steps: int) -> int:
    return [step(n) for _ in range(steps)][-1]


def main() -> None:
    DBOS.launch()
    for _ in sys.stdin:
        started = time.perf_counter()
        assert DBOS.start_workflow(sequence, FIB, STEPS).get_result() == fib_of(FIB)
        print(time.perf_counter() - started, flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main()
