"""What a person would write: a loop over the points, in plain Cirq."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import cirq
import sympy

QUBITS, LAYERS, REPETITIONS = 6, 5, 1_000


def circuit() -> cirq.Circuit:
    """Layers of turns by the symbol `t` and of CZ along a line, measured at the end."""
    qubits, turn = cirq.LineQubit.range(QUBITS), cirq.rx(sympy.Symbol("t"))
    layer = [turn.on_each(*qubits), [cirq.CZ(*pair) for pair in pairwise(qubits)]]
    return cirq.Circuit(layer for _ in range(LAYERS)) + cirq.Circuit(cirq.measure(*qubits, key="m"))


def angles(points: int) -> list[float]:
    return [number / points for number in range(points)]


def main(points: int) -> None:
    whole, simulator, started = circuit(), cirq.Simulator(seed=1), time.perf_counter()
    histograms = []
    for angle in angles(points):
        result = simulator.run(cirq.resolve_parameters(whole, {"t": angle}), repetitions=REPETITIONS)
        counts = result.multi_measurement_histogram(keys=["m"])
        histograms.append({f"{state:0{QUBITS}b}": count for (state,), count in counts.items()})
    print(json.dumps({"points": len(histograms), "loop_s": time.perf_counter() - started}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
