"""Noise as simulators apply it: channels whose operators are computed once, and readout errors.

Cirq computes a channel's operators anew at every application, which takes longer than to apply
them, and its Clifford simulator knows Pauli noise of one qubit only.

Readout errors change bits after the run, all repetitions at once. Cirq changes them bit by bit,
before the inversion of a measurement where all measurements are at the end, else after it, and qsim
not at all. Here an error is always one of the bit as it was read, before it is inverted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, TypeAlias

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.quantum.circuits.measurements import keys_that_control

Matrix: TypeAlias = NDArray[np.complex128]

_LETTERS: Final[Mapping[str, cirq.Gate]] = {"I": cirq.I, "X": cirq.X, "Y": cirq.Y, "Z": cirq.Z}
#: Qubits of a channel whose operators are applied at once: it takes a matrix of 16^n entries.
_MOST_AT_ONCE: Final = 3
#: States on which one Pauli string, drawn by its chance, is the channel.
_DRAWN: Final = (cirq.StateVectorSimulationState, cirq.StabilizerSimulationState)


def with_ready_channels(circuit: cirq.Circuit) -> cirq.Circuit:
    """`circuit`, unrolled, with its channels as `KrausChannel` gates, as far as they are known
    here; itself where it has none."""
    gates = {id(gate): gate for op in circuit.all_operations() if (gate := _gate(op)) is not None}
    made = {key: ready for key, gate in gates.items() if (ready := _ready(gate)) is not None}
    if not made:
        return circuit

    def replace_channel(op: cirq.Operation) -> cirq.Operation:
        ready = made.get(id(_gate(op)))
        return op if ready is None else ready.on(*op.qubits).with_classical_controls(*op.classical_controls)

    return cirq.Circuit(cirq.Moment(map(replace_channel, moment)) for moment in circuit)


def _gate(op: cirq.Operation) -> cirq.Gate | None:
    return op.without_classical_controls().gate


class KrausChannel(cirq.Gate):
    """A channel of Cirq that makes its Kraus operators once. A density matrix takes all of them in
    one multiplication."""

    def __init__(self, channel: cirq.Gate) -> None:
        self._channel = channel
        self._qubits = cirq.num_qubits(channel)

    def __repr__(self) -> str:
        # Simulators name the gates that they refuse by it.
        return repr(self._channel)

    def _num_qubits_(self) -> int:
        return self._qubits

    def _has_unitary_(self) -> bool:
        return False

    def _kraus_(self) -> tuple[Matrix, ...]:
        return self._operators

    def _apply_channel_(self, args: cirq.ApplyChannelArgs) -> NDArray[Any] | None:
        if self._qubits > _MOST_AT_ONCE:
            return None
        axes = (*args.left_axes, *args.right_axes)
        whole = self._superoperator.astype(args.target_tensor.dtype)
        return cirq.targeted_left_multiply(whole, args.target_tensor, axes, out=args.out_buffer)

    @cached_property
    def _operators(self) -> tuple[Matrix, ...]:
        return self._make()

    def _make(self) -> tuple[Matrix, ...]:
        return tuple(cirq.kraus(self._channel))

    @cached_property
    def _superoperator(self) -> NDArray[np.complex128]:
        """The sum of K ⊗ K* over the operators, an axis for each bit: of the row and the column
        that come out, then of those that go in."""
        stacked = np.array(self._operators)
        whole: NDArray[np.complex128] = np.einsum("kij,kab->iajb", stacked, stacked.conj())
        return whole.reshape((2,) * (4 * self._qubits))


class PauliChannel(KrausChannel):
    """Pauli noise: one of some Pauli strings, each with its chance."""

    def __init__(self, channel: cirq.Gate, chances: Mapping[str, float]) -> None:
        super().__init__(channel)
        self._strings = tuple(string for string in chances if chances[string] > 0)
        weights = np.array([chances[string] for string in self._strings])
        self._chances = weights / weights.sum()
        self._bounds = np.cumsum(self._chances)[:-1]

    def _mixture_(self) -> tuple[tuple[float, Matrix], ...]:
        return tuple(zip(self._chances.tolist(), map(_unitary, self._strings), strict=True))

    def _has_mixture_(self) -> bool:
        return True

    def _make(self) -> tuple[Matrix, ...]:
        return tuple(math.sqrt(chance) * unitary for chance, unitary in self._mixture_())

    def _act_on_(self, state: cirq.SimulationStateBase[Any], qubits: Sequence[cirq.Qid]) -> Any:
        if not isinstance(state, _DRAWN):
            return NotImplemented
        drawn = int(np.searchsorted(self._bounds, state.prng.random_sample(), side="right"))
        for letter, qubit in zip(self._strings[drawn], qubits, strict=True):
            if letter != "I":
                cirq.act_on(_LETTERS[letter], state, [qubit])
        return True


@cache
def _unitary(string: str) -> Matrix:
    return cirq.kron(*(cirq.unitary(_LETTERS[letter]) for letter in string))


def _ready(gate: cirq.Gate) -> KrausChannel | None:
    """The same channel with its operators ready; None where it is none, or one that is left to
    Cirq."""
    match gate:
        case cirq.DepolarizingChannel():
            return PauliChannel(gate, _depolarizing(gate.p, gate.n_qubits))
        case cirq.AsymmetricDepolarizingChannel():
            return PauliChannel(gate, gate.error_probabilities)
        case cirq.BitFlipChannel():
            return PauliChannel(gate, {"I": 1 - gate.p, "X": gate.p})
        case cirq.PhaseFlipChannel():
            return PauliChannel(gate, {"I": 1 - gate.p, "Z": gate.p})
        case cirq.KrausChannel() if cirq.is_measurement(gate):
            return None
        case (
            cirq.AmplitudeDampingChannel()
            | cirq.GeneralizedAmplitudeDampingChannel()
            | cirq.PhaseDampingChannel()
            | cirq.KrausChannel()
        ):
            return KrausChannel(gate)
        case _:
            return None


def _depolarizing(p: float, qubits: int) -> dict[str, float]:
    strings = ["".join(letters) for letters in itertools.product("IXYZ", repeat=qubits)]
    each = p / (len(strings) - 1)
    return {**dict.fromkeys(strings, each), strings[0]: 1 - p}


Records = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Misreading:
    """A circuit without its readout errors, and the measurements that have them, by key and
    instance. Measurements that gates depend on keep theirs: what follows has to see them."""

    circuit: cirq.Circuit
    gates: Mapping[tuple[str, int], cirq.MeasurementGate]

    @classmethod
    def of(cls, circuit: cirq.Circuit) -> Misreading:
        """Of an unrolled circuit."""
        measurements = (
            op.gate for op in circuit.all_operations() if isinstance(op.gate, cirq.MeasurementGate)
        )
        if not any(gate.confusion_map for gate in measurements):
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

    def apply(self, records: Records, random: np.random.RandomState) -> Records:
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


def _misread(
    bits: NDArray[np.uint8], matrix: NDArray[np.float64], random: np.random.RandomState
) -> NDArray[np.uint8]:
    """`matrix[i, j]` is the probability that i is read as j, both of all columns of `bits`,
    big-endian."""
    weights = np.array([1 << place for place in reversed(range(bits.shape[1]))], dtype=np.int64)
    rows = bits @ weights
    chances = np.cumsum(matrix, axis=1)[rows]
    drawn = (random.random_sample(len(bits))[:, None] >= chances[:, :-1]).sum(axis=1)
    misread: NDArray[np.uint8] = (drawn[:, None] // weights % 2).astype(np.uint8)
    return misread
