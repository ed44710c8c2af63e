"""Simulators of the worker: Cirq's three, and qsim.

Each sample is drawn from a generator that its order's seed makes, and from no other: Cirq falls
back to the generator of the whole process where it is handed none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Final

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.errors import ToolError
from noetl.facts.distribution import install_line
from noetl.facts.nearest import did_you_mean
from noetl.quantum.circuits.figures import is_count, reason, show
from noetl.quantum.circuits.measurements import unroll, without_terminal_measurements
from noetl.quantum.config.task import Backend
from noetl.quantum.model import Capabilities, CircuitRun, Samples
from noetl.quantum.simulation.channels import Misreading, with_ready_channels
from noetl.quantum.simulation.means import stabilizer_means
from noetl.quantum.simulation.sampling import random_state, samples_of, seed_of

if TYPE_CHECKING:
    from noetl.quantum.circuits.observables import Observable

#: Places below an order's seed: what the simulator draws, and what its readout errors draw.
_STATE, _READOUT = 0, 1
#: The largest value of options of qsim.
_MOST: Final = {"cpu_threads": 256, "max_fused_gate_size": 6}
#: What to do where a state is not pure.
_MIXED: Final = "use the provider density_matrix, or `estimator: sampled`."


class Simulator(ABC):
    """What the simulators share. `options` are checked against what the provider knows. One
    instance is of one call; nothing in it is shared among threads."""

    provider: ClassVar[str]
    known_options: ClassVar[tuple[str, ...]] = ()
    #: The type of errors of circuits that it does not run.
    refusal: ClassVar[str] = "NotSupported"

    def __init__(self, backend: Backend) -> None:
        self._dtype = np.complex64 if backend.precision == "single" else np.complex128
        self._options = backend.options
        for name in backend.options:
            if name not in self.known_options:
                have = f"it knows {', '.join(self.known_options)}" if self.known_options else "it has none"
                raise _refusal(
                    f"backend.options.{name}: {self.provider} knows no such option; {have}."
                    f"{did_you_mean(name, self.known_options)}",
                    "BackendOption",
                )

    def capabilities(self) -> Capabilities:
        return Capabilities(
            self.provider,
            local=True,
            exact=True,
            noise=True,
            bytes_per_amplitude=np.dtype(self._dtype).itemsize,
            versions=self._versions(),
        )

    def sample(self, order: CircuitRun) -> Samples:
        """The same order, seed included, yields the same bits wherever it runs. Raises
        ToolError."""
        misreading = Misreading.of(unroll(order.circuit))
        circuit = with_ready_channels(_without_products(misreading.circuit))
        simulator = self._simulator(seed_of(order.seed, _STATE))
        with self._refusals():
            records = simulator.run(circuit, repetitions=order.repetitions).records
        if lost := sorted(cirq.measurement_key_names(circuit) - records.keys()):
            # Channels may have keys too, and some simulators pass over them.
            raise _refusal(
                f"{self.provider} does not tell what was measured as {', '.join(lost)}; use the "
                "provider simulator.",
                self.refusal,
            )
        misread = misreading.apply(records, random_state(seed_of(order.seed, _READOUT)))
        return samples_of(order.circuit, misread)

    def expect(
        self,
        circuit: cirq.Circuit,
        observables: Sequence[Observable],
        qubits: Sequence[cirq.Qid] | None = None,
    ) -> Sequence[float]:
        """Exact expectation values in the state of a resolved circuit before its last measurements.
        `qubits` are those that the observables number, where they are not the circuit's own in
        their order. Raises ToolError."""
        order = self._order(circuit, qubits)
        state = self.state(circuit, order)
        numbers = {qubit: place for place, qubit in enumerate(order)}
        return [self._expectation(one.pauli_sum(order), state, numbers) for one in observables]

    def state(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid] | None = None) -> NDArray[Any]:
        """The state of a resolved circuit before its last measurements, in the order of `qubits`:
        shape (2^n,), or (2^n, 2^n) where `mixed`. Raises ToolError."""
        whole = without_terminal_measurements(circuit)
        for moment, op in whole.findall_operations(lambda op: not cirq.has_unitary(op)):
            raise _refusal(
                f"{op} in moment {moment + 1} is not unitary, so {self.provider} has no single "
                f"final state; {_MIXED}",
                "NotPure",
            )
        return self._final(whole, self._order(circuit, qubits))

    def _order(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid] | None) -> Sequence[cirq.Qid]:
        return sorted(circuit.all_qubits()) if qubits is None else qubits

    def _expectation(
        self, observable: cirq.PauliSum, state: NDArray[Any], numbers: Mapping[cirq.Qid, int]
    ) -> float:
        # Norms of states in single precision miss the tolerance of the check.
        return observable.expectation_from_state_vector(state, numbers, check_preconditions=False).real

    def _versions(self) -> dict[str, str]:
        return {"cirq": cirq.__version__, "numpy": np.__version__}

    @abstractmethod
    def _simulator(self, seed: int) -> Any:
        """A simulator of Cirq's kind that draws from `seed` alone."""

    def _final(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid]) -> NDArray[Any]:
        """The final state of a circuit in which nothing is random."""
        with self._refusals():
            final: NDArray[Any] = self._simulator(0).simulate(circuit, qubit_order=qubits).final_state_vector
        return final

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """What simulators raise of circuits that they do not take."""
        try:
            yield
        except MemoryError:
            raise ToolError(
                "limit",
                f"The state does not fit into the memory of the worker ({self.provider}).",
                type="TooMuchMemory",
            ) from None
        except (ValueError, TypeError, NotImplementedError) as error:
            raise _refusal(
                f"{self.provider} cannot run the circuit: {reason(error)}.", self.refusal
            ) from error


def _without_products(circuit: cirq.Circuit) -> cirq.Circuit:
    """Measurements of Pauli products as gates and a measurement of one qubit: Cirq's density
    matrices know them only so."""
    if not any(isinstance(op.gate, cirq.PauliMeasurementGate) for op in circuit.all_operations()):
        return circuit
    return cirq.expand_composite(
        circuit, no_decomp=lambda op: not isinstance(op.gate, cirq.PauliMeasurementGate)
    )


def _refusal(message: str, kind: str) -> ToolError:
    return ToolError("client_error", message, type=kind)


class StateVector(Simulator):
    """`cirq.Simulator`: noise and measurements before the end are sampled by trajectories, one run
    per repetition."""

    provider = "simulator"

    def _simulator(self, seed: int) -> Any:
        return cirq.Simulator(dtype=self._dtype, seed=random_state(seed))


class DensityMatrix(Simulator):
    """`cirq.DensityMatrixSimulator`: noise is exact. In exact expectation values a measurement
    before the end is a complete dephasing of its qubits, which is what it is where its result is
    not read."""

    provider = "density_matrix"

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), mixed=True)

    def state(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid] | None = None) -> NDArray[Any]:
        whole = without_terminal_measurements(circuit)
        for moment, op in whole.findall_operations(lambda op: bool(cirq.control_keys(op))):
            raise _refusal(
                f"{op} in moment {moment + 1} depends on a measurement, so there is no single final state;"
                " use `estimator: sampled`.",
                "NotPure",
            )
        dephased = with_ready_channels(cirq.map_operations(whole, _dephase))
        return self._final(dephased, self._order(circuit, qubits))

    def _simulator(self, seed: int) -> Any:
        return cirq.DensityMatrixSimulator(dtype=self._dtype, seed=random_state(seed))

    def _final(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid]) -> NDArray[Any]:
        with self._refusals():
            final: NDArray[Any] = (
                self._simulator(0).simulate(circuit, qubit_order=qubits).final_density_matrix
            )
        return final

    def _expectation(
        self, observable: cirq.PauliSum, state: NDArray[Any], numbers: Mapping[cirq.Qid, int]
    ) -> float:
        return observable.expectation_from_density_matrix(state, numbers, check_preconditions=False).real


def _dephase(op: cirq.Operation, _: int) -> cirq.OP_TREE:
    """What measures, as it is where its result is not read."""
    match op.gate:
        case cirq.MeasurementGate():
            return [cirq.phase_damp(1).on(qubit) for qubit in op.qubits]
        case cirq.PauliMeasurementGate() as gate:
            letters = "".join("IXYZ"[letter] for letter in gate.observable().pauli_mask)
            half = {"I" * len(letters): 0.5, letters: 0.5}
            return cirq.asymmetric_depolarize(error_probabilities=half).on(*op.qubits)
        case cirq.KrausChannel() | cirq.MixedUnitaryChannel() as gate:
            return cirq.KrausChannel(cirq.kraus(gate)).on(*op.qubits)
        case _:
            return op


class Clifford(Simulator):
    """`cirq.CliffordSimulator`: circuits of Clifford gates of any size. Its noise is Pauli
    noise."""

    provider = "clifford"
    refusal = "NotClifford"

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), clifford_only=True, bytes_per_amplitude=None)

    def expect(
        self,
        circuit: cirq.Circuit,
        observables: Sequence[Observable],
        qubits: Sequence[cirq.Qid] | None = None,
    ) -> Sequence[float]:
        whole = without_terminal_measurements(circuit)
        for moment, op in whole.findall_operations(
            lambda op: not (cirq.has_unitary(op) and cirq.has_stabilizer_effect(op))
        ):
            raise _refusal(
                f"{op} in moment {moment + 1} is no Clifford gate, so clifford has no exact "
                "expectation values;"
                " use another provider, or `estimator: sampled` for Pauli noise.",
                "NotClifford",
            )
        with self._refusals():
            return stabilizer_means(whole, observables, self._order(circuit, qubits))

    def _simulator(self, seed: int) -> Any:
        return cirq.CliffordSimulator(seed=random_state(seed))

    def _final(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid]) -> NDArray[Any]:
        with self._refusals():
            final: NDArray[Any] = (
                self._simulator(0).simulate(circuit, qubit_order=qubits).final_state.state_vector()
            )
        return final


class Qsim(Simulator):
    """`qsimcirq.QSimSimulator`, in single precision. Its bits may depend on `cpu_threads`, which is
    1 unless given."""

    provider = "qsim"
    known_options = ("cpu_threads", "max_fused_gate_size", "denormals_are_zeros")

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if backend.precision == "double":
            raise _refusal(
                "backend.precision: qsim has single precision only; use simulator.", "BackendOption"
            )
        try:
            from qsimcirq import qsim_simulator  # an extra, and it loads a library
        except ImportError:
            raise _refusal(f"qsim is not installed here: {install_line('qsim')}.", "NotInstalled") from None
        self._make = qsim_simulator.QSimSimulator
        self._qsim_options = qsim_simulator.QSimOptions(
            cpu_threads=self._count("cpu_threads", 1),
            max_fused_gate_size=self._count("max_fused_gate_size", 2),
            denormals_are_zeros=self._options.get("denormals_are_zeros") is True,
        )
        self._version = version("qsimcirq")

    def sample(self, order: CircuitRun) -> Samples:
        for moment, op in unroll(order.circuit).findall_operations(lambda op: bool(cirq.control_keys(op))):
            raise _refusal(
                f"{op} in moment {moment + 1} depends on a measurement, which qsim cannot do; use simulator.",
                self.refusal,
            )
        return super().sample(order)

    def _count(self, name: str, otherwise: int) -> int:
        value = self._options.get(name, otherwise)
        if not is_count(value) or value > _MOST[name]:
            raise _refusal(
                f"backend.options.{name} is a whole number from 1 to {_MOST[name]}, not {show(value)}.",
                "BackendOption",
            )
        return value

    def _versions(self) -> dict[str, str]:
        return {**super()._versions(), "qsim": self._version}

    def _simulator(self, seed: int) -> Any:
        return self._make(self._qsim_options, seed=random_state(seed))


PROVIDERS: Final[Mapping[str, type[Simulator]]] = {
    one.provider: one for one in (StateVector, DensityMatrix, Clifford, Qsim)
}


def simulator(backend: Backend) -> Simulator | None:
    """The simulator that `backend` names; None where its provider is no simulator. Raises
    ToolError."""
    found = PROVIDERS.get(backend.provider)
    return None if found is None else found(backend)
