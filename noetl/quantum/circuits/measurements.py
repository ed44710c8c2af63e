"""Measurements of circuits: the order of their bits, which of them are at the end, and how machines
report them. A measurement is at the end where nothing follows it on its qubits, and nothing depends
on its result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.quantum.model import Measurement

#: Where the digits of a key are.
_DIGITS: Final = re.compile(r"(\d+)")


def natural(text: str) -> tuple[str | int, ...]:
    """Orders texts with numbers in them by the numbers: `c_2` before `c_10`."""
    return tuple(int(part) if place % 2 else part for place, part in enumerate(_DIGITS.split(text)))


def unroll(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """`circuit` with its subcircuits written out. Raises ToolError (`UnboundedLoop`) of one that
    runs until a condition holds: repetitions would have different numbers of bits."""
    if not any(isinstance(op.untagged, cirq.CircuitOperation) for op in circuit.all_operations()):
        return circuit.unfreeze(copy=False)
    try:
        return cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None).unfreeze()
    except ValueError as error:
        raise ToolError(
            "client_error",
            f"The circuit has a subcircuit whose repetitions are not known before it runs: {error}.",
            type="UnboundedLoop",
        ) from error


def measurements_of(circuit: cirq.AbstractCircuit) -> tuple[Measurement, ...]:
    """The measurements of a circuit in the order of their bits. A key that is measured more than
    once is `key[0]`, `key[1]`, ...; a measurement of a Pauli product has one bit, and its qubits as
    one name."""
    found: dict[str, list[tuple[str, ...]]] = {}
    # Moments know whether they measure; asking every gate takes long enough to be seen in a sweep.
    moments = (moment for moment in unroll(circuit) if cirq.measurement_key_objs(moment))
    for op in (op for moment in moments for op in moment):
        for key in sorted(cirq.measurement_key_names(op)):
            found.setdefault(key, []).append(_names(op))
    return tuple(
        Measurement(key if len(found[key]) == 1 else f"{key}[{place}]", names)
        for key in sorted(found, key=natural)
        for place, names in enumerate(found[key])
    )


def _names(op: cirq.Operation) -> tuple[str, ...]:
    names = tuple(str(qubit) for qubit in op.qubits)
    return ("*".join(names),) if isinstance(op.gate, cirq.PauliMeasurementGate) else names


def keys_that_control(circuit: cirq.Circuit) -> frozenset[cirq.MeasurementKey]:
    """The keys that conditions of gates name, those that are measured in the circuit itself
    included."""
    return frozenset(key for op in circuit.all_operations() for key in cirq.control_keys(op))


def terminal_measurements(circuit: cirq.Circuit) -> list[tuple[int, cirq.Operation]]:
    """Moment and operation of each measurement at the end of an unrolled circuit."""
    controls = keys_that_control(circuit)
    return [
        (moment, op)
        for moment, op in circuit.findall_operations(cirq.is_measurement)
        if circuit.next_moment_operating_on(op.qubits, moment + 1) is None
        and controls.isdisjoint(cirq.measurement_key_objs(op))
    ]


def without_terminal_measurements(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """`circuit` without its measurements at the end. A qubit that was only measured is no longer in
    it."""
    whole = unroll(circuit)
    copy = whole.copy()
    copy.batch_remove(terminal_measurements(whole))
    return copy


@dataclass(frozen=True, slots=True)
class MeasurementLayout:
    """What a circuit measures at its end. `places` are the numbers of the measured qubits, one for
    each bit, on the line that the circuit was sent on; `flips` says of each bit whether it is
    inverted (`invert_mask`)."""

    measured: tuple[Measurement, ...]
    places: tuple[int, ...]
    flips: tuple[bool, ...]

    def bits(self, shown: Callable[[int], int]) -> str:
        """The bitstring of one repetition; `shown` is what each qubit of the line showed, by its
        number."""
        return "".join(str(shown(place) ^ flip) for place, flip in zip(self.places, self.flips, strict=True))


def on_line(circuit: cirq.Circuit) -> cirq.Circuit:
    """The circuit on `cirq.LineQubit`s from 0 on, in the order of its qubits; itself where it is on
    such a line."""
    qubits = sorted(circuit.all_qubits())
    if all(isinstance(one, cirq.LineQubit) and one.x >= 0 for one in qubits):
        return circuit
    return circuit.transform_qubits(dict(zip(qubits, cirq.LineQubit.range(len(qubits)), strict=True)))


def width(circuit: cirq.Circuit) -> int:
    """Qubits of the line that a circuit is sent on, those among them that it leaves alone."""
    return max(_number(qubit) for qubit in on_line(circuit).all_qubits()) + 1


def readout(circuit: cirq.Circuit) -> MeasurementLayout:
    """The measurements of a circuit in the order that `measurements_of` gives them. Raises
    ToolError(client_error) where a key comes twice, or a measurement is not at the end."""
    whole = unroll(circuit)
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
    read = measurements_of(whole)
    places, flips = list[int](), list[bool]()
    for one in read:
        gate, line = gates[one.key]
        places += [_number(qubit) for qubit in line]
        flips += gate.full_invert_mask()
    return MeasurementLayout(read, tuple(places), tuple(flips))


def _measurements(circuit: cirq.Circuit) -> list[tuple[cirq.MeasurementGate, tuple[cirq.Qid, ...]]]:
    return [
        (op.gate, op.qubits) for op in circuit.all_operations() if isinstance(op.gate, cirq.MeasurementGate)
    ]


def _number(qubit: cirq.Qid) -> int:
    assert isinstance(qubit, cirq.LineQubit), "the circuit was put on a line"
    return qubit.x


def counts_of(weights: Iterable[tuple[str, float]], repetitions: int) -> dict[str, int]:
    """Whole numbers in the proportion of `weights`, that sum to `repetitions`: the largest
    remainders are rounded up (Hamilton's method), equal ones in the order of their bitstrings. The
    same weights give the same counts."""
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
