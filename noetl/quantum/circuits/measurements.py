"""What a circuit measures, in the order of the bits, and which of it at its end: after that nothing
happens to the qubits, and nothing depends on what was measured."""

from __future__ import annotations

import re
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
