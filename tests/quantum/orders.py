"""Orders to try jobs with."""

from __future__ import annotations

import cirq

from noetl.pipeline.model import Call, Where
from noetl.quantum.model import Order


def bell(name: str = "p0", repetitions: int = 100, point: int = 0) -> Order:
    a, b = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(cirq.H(a), cirq.CNOT(a, b), cirq.measure(a, b, key="m"))
    return Order(name, point, circuit, repetitions, seed=7 + point)


def sweep(points: int) -> list[Order]:
    return [bell(f"p{index}", point=index) for index in range(points)]


def call(
    checkpoint: object = None, *, attempt: int = 1, deadline_s: float | None = None, abandoned: bool = False
) -> Call:
    where = Where("900000000000000000", "start#1", "start")
    return Call(
        "quantum",
        {},
        {},
        {},
        where,
        "task_0",
        attempt,
        "key-1",
        deadline_s,
        checkpoint=checkpoint,
        abandoned=abandoned,
    )
