"""The measurements of a circuit, and counts out of what a machine says of its qubits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor

import cirq

from noetl.errors import ToolError
from noetl.quantum.model import Measured
from noetl.quantum.simulation.sampling import measured, unrolled


@dataclass(frozen=True, slots=True)
class Readout:
    """What a circuit measures at its end. `places` are the numbers of the measured qubits, one for each bit, on the line
    that the circuit was sent on; `flips` says of each bit whether it is inverted (`invert_mask`)."""

    measured: tuple[Measured, ...]
    places: tuple[int, ...]
    flips: tuple[bool, ...]

    def bits(self, shown: Callable[[int], int]) -> str:
        """The bitstring of one repetition; `shown` is what each qubit of the line showed, by its number."""
        return "".join(str(shown(place) ^ flip) for place, flip in zip(self.places, self.flips, strict=True))


def on_line(circuit: cirq.Circuit) -> cirq.Circuit:
    """The circuit on `cirq.LineQubit`s from 0 on, in the order of its qubits; itself where it is on such a line."""
    qubits = sorted(circuit.all_qubits())
    if all(isinstance(one, cirq.LineQubit) and one.x >= 0 for one in qubits):
        return circuit
    return circuit.transform_qubits(dict(zip(qubits, cirq.LineQubit.range(len(qubits)), strict=True)))


def width(circuit: cirq.Circuit) -> int:
    """Qubits of the line that a circuit is sent on, those among them that it leaves alone."""
    return max(_number(qubit) for qubit in on_line(circuit).all_qubits()) + 1


def readout(circuit: cirq.Circuit) -> Readout:
    """The measurements of a circuit in the order that `sampling.measured` gives them. Raises ToolError(client_error) where
    a key comes twice, or a measurement is not at the end."""
    whole = unrolled(circuit)
    if not whole.are_all_measurements_terminal():
        raise ToolError(
            "client_error",
            "The circuit measures before its end, which this machine cannot do; measure at the end only.",
            type="MidCircuitMeasurement",
        )
    keys = [cirq.measurement_key_name(gate) for gate, _ in _measurements(whole)]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ToolError(
            "client_error",
            f"The key '{twice}' is measured twice; give each measurement its own.",
            type="KeyTwice",
        )
    gates = dict(zip(keys, _measurements(on_line(whole)), strict=True))
    read = measured(whole)
    places, flips = list[int](), list[bool]()
    for one in read:
        gate, line = gates[one.key]
        places += [_number(qubit) for qubit in line]
        flips += gate.full_invert_mask()
    return Readout(read, tuple(places), tuple(flips))


def _measurements(circuit: cirq.Circuit) -> list[tuple[cirq.MeasurementGate, tuple[cirq.Qid, ...]]]:
    return [
        (op.gate, op.qubits) for op in circuit.all_operations() if isinstance(op.gate, cirq.MeasurementGate)
    ]


def _number(qubit: cirq.Qid) -> int:
    assert isinstance(qubit, cirq.LineQubit), "the circuit was put on a line"
    return qubit.x


def counts_of(weights: Iterable[tuple[str, float]], repetitions: int) -> dict[str, int]:
    """Whole numbers in the proportion of `weights`, that sum to `repetitions`: the largest remainders are rounded up
    (Hamilton's method), equal ones in the order of their bitstrings. The same weights give the same counts."""
    sums: dict[str, float] = {}
    for bits, weight in weights:
        sums[bits] = sums.get(bits, 0.0) + weight
    total = sum(sums.values())
    shares = {bits: weight * repetitions / total for bits, weight in sums.items()}
    # A share of 510 that comes out as 509.9999999 is 510.
    floors = {bits: floor(share + 1e-6) for bits, share in shares.items()}
    left = repetitions - sum(floors.values())
    by_rest = sorted(shares, key=lambda bits: (floors[bits] - shares[bits], bits))
    for bits in by_rest[:left]:
        floors[bits] += 1
    return {bits: floors[bits] for bits in sorted(floors) if floors[bits]}
