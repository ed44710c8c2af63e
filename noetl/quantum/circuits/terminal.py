"""Measurements at the end of a circuit: after them nothing happens to their qubits, and nothing depends on them."""

from __future__ import annotations

import cirq

from noetl.quantum.simulation.sampling import unrolled


def keys_that_control(circuit: cirq.Circuit) -> frozenset[cirq.MeasurementKey]:
    """The keys that conditions of gates name, those that are measured in the circuit itself included."""
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
    """`circuit` without its measurements at the end. A qubit that was only measured is no longer in it."""
    whole = unrolled(circuit)
    copy = whole.copy()
    copy.batch_remove(terminal_measurements(whole))
    return copy
