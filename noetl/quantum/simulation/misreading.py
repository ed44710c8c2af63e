"""Readout errors of simulators: bits are changed after the run, all repetitions at once.

Cirq changes them bit by bit, before the inversion of a measurement where all measurements are at the end, else after it,
and qsim not at all. Here an error is always one of the bit as it was read, before it is inverted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.quantum.circuits.terminal import keys_that_control

Records = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Misreading:
    """A circuit without its readout errors, and the measurements that have them, by key and instance. Measurements that
    gates depend on keep theirs: what follows has to see them."""

    circuit: cirq.Circuit
    gates: Mapping[tuple[str, int], cirq.MeasurementGate]

    @classmethod
    def of(cls, circuit: cirq.Circuit) -> Misreading:
        """Of an unrolled circuit."""
        if not any(_is_misread(op) for op in circuit.all_operations()):
            return cls(circuit, {})
        controls = keys_that_control(circuit)
        found: dict[tuple[str, int], cirq.MeasurementGate] = {}
        seen: dict[str, int] = {}

        def bare(op: cirq.Operation) -> cirq.Operation:
            gate = op.gate
            if not isinstance(gate, cirq.MeasurementGate) or gate.mkey in controls:
                return op
            place = seen.get(gate.key, 0)
            seen[gate.key] = place + 1
            if not gate.confusion_map:
                return op
            found[gate.key, place] = gate
            plain = cirq.MeasurementGate(gate.num_qubits(), key=gate.mkey, invert_mask=gate.invert_mask)
            return plain.on(*op.qubits)

        # In the order of operations: instances of a key are counted.
        moments = [cirq.Moment([bare(op) for op in moment]) for moment in circuit]
        return cls(cirq.Circuit(moments), found)

    def applied(self, records: Records, random: np.random.RandomState) -> Records:
        """The records (see `sampling.samples_of`) with their readout errors."""
        if not self.gates:
            return records
        changed = {key: np.array(record, dtype=np.uint8) for key, record in records.items()}
        for (key, place), gate in self.gates.items():
            bits = changed[key][:, place, :]
            mask = np.array(gate.full_invert_mask(), dtype=np.uint8)
            raw = bits ^ mask
            for columns, matrix in gate.confusion_map.items():
                raw[:, columns] = _misread(raw[:, columns], matrix, random)
            changed[key][:, place, :] = raw ^ mask
        return changed


def _is_misread(op: cirq.Operation) -> bool:
    return isinstance(op.gate, cirq.MeasurementGate) and bool(op.gate.confusion_map)


def _misread(
    bits: NDArray[np.uint8], matrix: NDArray[np.float64], random: np.random.RandomState
) -> NDArray[np.uint8]:
    """`matrix[i, j]` is the probability that i is read as j, both of all columns of `bits`, big-endian."""
    weights = _weights(bits.shape[1])
    rows = bits @ weights
    chances = np.cumsum(matrix, axis=1)[rows]
    drawn = (random.random_sample(len(bits))[:, None] >= chances[:, :-1]).sum(axis=1)
    misread: NDArray[np.uint8] = (drawn[:, None] // weights % 2).astype(np.uint8)
    return misread


def _weights(bits: int) -> NDArray[np.int64]:
    places: Sequence[int] = range(bits - 1, -1, -1)
    return np.array([1 << place for place in places], dtype=np.int64)
