"""Pauli noise of several qubits, for the Clifford simulator: Cirq's own acts on one qubit only there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

import cirq

_GATES: Final[Mapping[str, cirq.Gate]] = {"X": cirq.X, "Y": cirq.Y, "Z": cirq.Z}


class Paulis(cirq.Gate):
    """Applies one of some Pauli strings, drawn by its probability."""

    def __init__(self, chances: Mapping[str, float]) -> None:
        self._strings = tuple(chances)
        self._chances = tuple(chances.values())

    def _num_qubits_(self) -> int:
        return len(self._strings[0])

    def _act_on_(
        self, state: cirq.SimulationState[cirq.QuantumStateRepresentation], qubits: Sequence[cirq.Qid]
    ) -> bool:
        drawn = self._strings[state.prng.choice(len(self._strings), p=self._chances)]
        for letter, qubit in zip(drawn, qubits, strict=True):
            if letter != "I":
                cirq.act_on(_GATES[letter], state, [qubit])
        return True


def with_paulis(op: cirq.Operation, _: int) -> cirq.Operation:
    """`op`, or where it is Pauli noise of several qubits the same as `Paulis`."""
    chances = _chances(op.without_classical_controls().gate)
    if len(op.qubits) < 2 or not chances:
        return op
    drawn = Paulis(chances).on(*op.qubits)
    return drawn.with_classical_controls(*op.classical_controls) if op.classical_controls else drawn


def _chances(gate: cirq.Gate | None) -> Mapping[str, float]:
    match gate:
        case cirq.AsymmetricDepolarizingChannel():
            return gate.error_probabilities
        case cirq.DepolarizingChannel():
            strings = ["".join(letters) for letters in itertools.product("IXYZ", repeat=gate.n_qubits)]
            each = gate.p / (len(strings) - 1)
            return {**dict.fromkeys(strings, each), strings[0]: 1 - gate.p}
        case _:
            return {}
