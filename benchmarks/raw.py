"""The yardstick: the same work with nothing but Celery on Redis. It is lost when Redis goes.

The worker is `celery -A benchmarks.raw worker -P prefork -c 2`.
"""

from __future__ import annotations

import os

from celery import Celery, chain, chord
from celery.canvas import Signature

from benchmarks.sizes import FIB, FLOW_STEPS, FLOWS, ITEMS, STEPS, fib_of

#: Redis databases of broker and results; NoETL has those below.
URL = os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379")
#: Celery loses a message now and then; a sample without an end is repeated.
PATIENCE = 60

app = Celery("raw", broker=f"{URL}/2", backend=f"{URL}/3", set_as_current=False)
app.conf.update(task_acks_late=True, task_default_queue="raw", broker_connection_retry_on_startup=True)


@app.task
def fib(n: int) -> int:
    return fib_of(n)


@app.task
def square(x: int) -> int:
    return x * x


@app.task
def total(xs: list[int]) -> int:
    return sum(xs)


@app.task
def noop() -> int:
    return 1


def _sequence(n: int, steps: int) -> Signature:
    return chain(*[fib.si(n) for _ in range(steps)])


def w1() -> None:
    assert _sequence(FIB, STEPS).apply_async().get(timeout=PATIENCE) == fib_of(FIB)


def w3() -> None:
    # The default `get()` looks at every header result again with each message: quadratic.
    answer = chord((square.s(i) for i in range(ITEMS)), total.s()).apply_async()
    assert answer.get(timeout=PATIENCE, follow_parents=False) == sum(i * i for i in range(ITEMS))


def w4() -> None:
    for answer in [_sequence(1, FLOW_STEPS).apply_async() for _ in range(FLOWS)]:
        assert answer.get(timeout=PATIENCE) == 1


def w5() -> None:
    assert noop.apply_async().get(timeout=PATIENCE) == 1
